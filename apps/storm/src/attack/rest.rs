//! When a payment is at rest: pure.
//!
//! Invariant: a payment is at rest only if the service and the channel tell the same, to the fen,
//! and the benefits follow the money (`what_is_not_at_rest_names_its_rule`).

use crate::fen::Fen;
use crate::rule::Rule;
use crate::simulator::Trade;
use crate::wire::Payment;

/// What the attack itself knows of a payment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// Refunds that the service accepted.
    pub(crate) refunds: Vec<Fen>,
    pub(crate) notice: Notice,
}

/// Whether the merchant was told of the payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The tenant is sent no notices.
    #[default]
    NotExpected,
    Missing,
    Arrived,
}

/// The rules that a payment breaks if it stays as it is; none if it is at rest.
pub(crate) fn unrest(
    payment: &Payment,
    trade: Option<&Trade>,
    expected: &Expected,
) -> Vec<(Rule, String)> {
    let mut unrest = Vec::new();
    let mut found = |rule, what: String| unrest.push((rule, what));
    let Payment { payment_no, status, .. } = payment;
    if !matches!(status.as_str(), "paid" | "closed" | "failed") {
        found(Rule::Settles, format!("payment {payment_no} is still {status:?}"));
    }
    let amounts = (Fen::parse(&payment.refunded), Fen::parse(&payment.reserved));
    let (Some(refunded), Some(reserved)) = amounts else {
        let (refunded, reserved) = (&payment.refunded, &payment.reserved);
        found(Rule::AnswerFits, format!("refunded {refunded:?}, reserved {reserved:?}"));
        return unrest;
    };
    if reserved != Fen::ZERO {
        found(Rule::Settles, format!("payment {payment_no} still has {reserved} reserved"));
    }
    unrest.extend(money(payment, trade, refunded));
    unrest.extend(refunds(payment, trade, refunded, expected));
    unrest.extend(benefits(payment, refunded));
    if payment.is_paid() && expected.notice == Notice::Missing {
        let what = format!("the merchant was not told that {payment_no} is paid");
        unrest.push((Rule::NoticeArrives, what));
    }
    unrest
}

fn money(payment: &Payment, trade: Option<&Trade>, refunded: Fen) -> Option<(Rule, String)> {
    let Payment { payment_no, status, amount, .. } = payment;
    let there = trade.map_or((0, 0), |trade| (trade.paid_fen, trade.refunded_fen));
    let paid_here = if payment.is_paid() { Fen::parse(amount)? } else { Fen::ZERO };
    let agrees = (paid_here, refunded) == (Fen(there.0), Fen(there.1));
    (!agrees).then(|| {
        let (paid_there, refunded_there) = (Fen(there.0), Fen(there.1));
        let known = trade.map_or("unknown", |trade| trade.status.as_str());
        let what = format!(
            "payment {payment_no} is {status:?} with {paid_here} paid and {refunded} refunded; at \
             the channel it is {known} with {paid_there} paid and {refunded_there} refunded"
        );
        (Rule::MoneyAgrees, what)
    })
}

fn refunds(
    payment: &Payment,
    trade: Option<&Trade>,
    refunded: Fen,
    expected: &Expected,
) -> Option<(Rule, String)> {
    let payment_no = &payment.payment_no;
    let wanted =
        if payment.surplus { vec![Fen::parse(&payment.amount)?] } else { expected.refunds.clone() };
    let sum: Fen = wanted.iter().copied().sum();
    if sum != refunded {
        let what = format!("{refunded} of payment {payment_no} is refunded, {sum} is to be");
        return Some((Rule::MoneyAgrees, what));
    }
    let done: Vec<_> =
        trade.into_iter().flat_map(|t| &t.refunds).filter(|r| r.refunded_fen > 0).collect();
    let once = done.len() == wanted.len() && done.iter().all(|refund| refund.times == 1);
    (!once).then(|| {
        let listed: Vec<String> =
            done.iter().map(|r| format!("{} × {}", r.out_request_no, r.times)).collect();
        let what = format!(
            "{} refunds of {payment_no} were accepted, the channel did {}",
            wanted.len(),
            listed.join(", ")
        );
        (Rule::RefundOnce, what)
    })
}

fn benefits(payment: &Payment, refunded: Fen) -> Option<(Rule, String)> {
    let keeps_money = Fen::parse(&payment.amount).is_some_and(|amount| amount > refunded);
    let live = payment.is_paid() && !payment.surplus && keeps_money;
    let fits = |status: &str| match (live, payment.is_paid()) {
        (true, _) => status == "granted",
        (false, true) => matches!(status, "revoked" | "cancelled" | "none"),
        (false, false) => matches!(status, "none" | "cancelled"),
    };
    let wrong = payment.benefits.iter().find(|benefit| !fits(&benefit.status))?;
    let what = format!(
        "benefit {} of payment {} is {:?}; the payment is {:?} with {} of {} refunded",
        wrong.benefit,
        payment.payment_no,
        wrong.status,
        payment.status,
        payment.refunded,
        payment.amount
    );
    Some((Rule::BenefitFollowsMoney, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::Refund;
    use crate::wire::Benefit;

    fn payment(status: &str, refunded: &str, benefit: &str) -> Payment {
        let benefit = Benefit { benefit: "vip".to_owned(), status: benefit.to_owned() };
        Payment {
            payment_no: "P1".to_owned(),
            order_id: "1".to_owned(),
            round: 1,
            attempt: 1,
            amount: "8.00".to_owned(),
            currency: "CNY".to_owned(),
            status: status.to_owned(),
            refunded: refunded.to_owned(),
            reserved: "0.00".to_owned(),
            pay: None,
            benefits: vec![benefit],
            surplus: false,
        }
    }

    fn trade(paid_fen: i64, refunds: &[(i64, u64)]) -> Trade {
        let refund = |(n, (fen, times)): (usize, &(i64, u64))| Refund {
            out_request_no: format!("R{n}"),
            refunded_fen: *fen,
            times: *times,
        };
        Trade {
            status: "TRADE_SUCCESS".to_owned(),
            paid_fen,
            refunded_fen: refunds.iter().map(|(fen, _)| fen).sum(),
            refunds: refunds.iter().enumerate().map(refund).collect(),
        }
    }

    fn rules(payment: &Payment, trade: Option<&Trade>, refunds: &[i64]) -> Vec<Rule> {
        let refunds = refunds.iter().copied().map(Fen).collect();
        let expected = Expected { refunds, notice: Notice::NotExpected };
        unrest(payment, trade, &expected).into_iter().map(|(rule, _)| rule).collect()
    }

    #[test]
    fn what_is_at_rest_breaks_nothing() {
        assert_eq!(rules(&payment("closed", "0.00", "none"), None, &[]), []);
        assert_eq!(rules(&payment("closed", "0.00", "cancelled"), Some(&trade(0, &[])), &[]), []);
        assert_eq!(rules(&payment("paid", "0.00", "granted"), Some(&trade(800, &[])), &[]), []);
        let part = trade(800, &[(300, 1)]);
        assert_eq!(rules(&payment("paid", "3.00", "granted"), Some(&part), &[300]), []);
        let whole = trade(800, &[(800, 1)]);
        assert_eq!(rules(&payment("paid", "8.00", "revoked"), Some(&whole), &[800]), []);
        assert_eq!(rules(&payment("paid", "8.00", "cancelled"), Some(&whole), &[800]), []);
        let mut surplus = payment("paid", "8.00", "cancelled");
        surplus.surplus = true;
        assert_eq!(rules(&surplus, Some(&whole), &[]), [], "given back by itself");
    }

    #[test]
    fn what_is_not_at_rest_names_its_rule() {
        let paid = trade(800, &[]);
        let open = payment("closing", "0.00", "none");
        assert_eq!(rules(&open, None, &[]), [Rule::Settles]);
        let unaware = payment("closed", "0.00", "none");
        assert_eq!(rules(&unaware, Some(&paid), &[]), [Rule::MoneyAgrees]);
        let invented = payment("paid", "0.00", "granted");
        assert_eq!(rules(&invented, None, &[]), [Rule::MoneyAgrees]);
        for wrong in ["none", "due", "revoked", "cancelled", "revoking"] {
            let payment = payment("paid", "0.00", wrong);
            assert_eq!(rules(&payment, Some(&paid), &[]), [Rule::BenefitFollowsMoney], "{wrong}");
        }
        let kept = payment("paid", "8.00", "granted");
        let whole = trade(800, &[(800, 1)]);
        assert_eq!(rules(&kept, Some(&whole), &[800]), [Rule::BenefitFollowsMoney]);
        let free = payment("closed", "0.00", "granted");
        assert_eq!(rules(&free, None, &[]), [Rule::BenefitFollowsMoney]);
        let twice = trade(800, &[(300, 2)]);
        let part = payment("paid", "3.00", "granted");
        assert_eq!(rules(&part, Some(&twice), &[300]), [Rule::RefundOnce]);
        assert_eq!(rules(&part, Some(&trade(800, &[(300, 1)])), &[]), [Rule::MoneyAgrees]);
        let mut held = payment("paid", "0.00", "granted");
        held.reserved = "1.00".to_owned();
        assert_eq!(rules(&held, Some(&paid), &[]), [Rule::Settles]);
        held.reserved = "1e2".to_owned();
        assert_eq!(rules(&held, Some(&paid), &[]), [Rule::AnswerFits]);
    }

    #[test]
    fn surplus_money_must_go_back_and_buys_nothing() {
        let mut surplus = payment("paid", "0.00", "none");
        surplus.surplus = true;
        assert_eq!(rules(&surplus, Some(&trade(800, &[])), &[]), [Rule::MoneyAgrees]);
        let mut bought = payment("paid", "8.00", "granted");
        bought.surplus = true;
        let whole = trade(800, &[(800, 1)]);
        assert_eq!(rules(&bought, Some(&whole), &[]), [Rule::BenefitFollowsMoney]);
    }

    #[test]
    fn a_merchant_must_be_told_of_what_is_paid() {
        let expected = Expected { refunds: Vec::new(), notice: Notice::Missing };
        let paid = payment("paid", "0.00", "granted");
        let unrest_of = |payment: &Payment, trade: Option<&Trade>| -> Vec<Rule> {
            unrest(payment, trade, &expected).into_iter().map(|(rule, _)| rule).collect()
        };
        assert_eq!(unrest_of(&paid, Some(&trade(800, &[]))), [Rule::NoticeArrives]);
        assert_eq!(unrest_of(&payment("closed", "0.00", "none"), None), []);
    }
}
