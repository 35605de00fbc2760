//! Every trade of the channel against its payment in the books, both ways.

use std::collections::BTreeMap;

use sqlx::{Row, SqliteConnection};

use super::{
    check::{Check, Findings},
    sql,
};
use hapax_sim::wire::{Trade, Truth};

/// What only the channel tells.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Trades that were paid.
    pub(super) paid: u64,
    /// Refunds that were made.
    pub(super) refunds: u64,
}

/// What is bought: tenant, order, round.
type Purchase = (String, String, i64);

/// A payment as the service's books have it.
struct Booked {
    purchase: Purchase,
    status: String,
    amount_fen: i64,
    refunded_fen: i64,
    refunds: BTreeMap<String, i64>,
}

/// Holds every trade against its payment, both ways.
pub(super) async fn compare(
    books: &mut SqliteConnection,
    truth: &Truth,
    findings: &mut Findings,
) -> anyhow::Result<Compared> {
    let mut booked = booked(books).await?;
    let mut compared = Compared::default();
    let mut kept: BTreeMap<Purchase, usize> = BTreeMap::new();
    for trade in &truth.trades {
        compared.paid += u64::from(trade.paid_fen > 0);
        for refund in &trade.refunds {
            compared.refunds += u64::from(refund.times > 0);
            if refund.times > 1 {
                findings.add(Check::RefundedTwice, &refund.out_request_no);
            }
        }
        let Some(payment) = booked.remove(&trade.out_trade_no) else {
            // A code that was made for an attempt whose transaction did not survive a kill.
            if trade.paid_fen > 0 {
                findings.add(Check::PaidUnbooked, &trade.out_trade_no);
            }
            continue;
        };
        hold(trade, &payment, findings);
        if trade.paid_fen > trade.refunded_fen {
            *kept.entry(payment.purchase).or_default() += 1;
        }
    }
    for (no, payment) in booked {
        if payment.status == "paid" {
            findings.add(Check::BookedUnpaid, no);
        }
    }
    for ((tenant, order, round), trades) in kept {
        for _ in 1..trades {
            findings.add(Check::PurchasePaidTwice, format!("{tenant}/{order}/{round}"));
        }
    }
    Ok(compared)
}

/// Holds one trade against its payment.
fn hold(trade: &Trade, payment: &Booked, findings: &mut Findings) {
    let no = &trade.out_trade_no;
    let is_paid = trade.paid_fen > 0;
    if is_paid != (payment.status == "paid") {
        let sides = format!("{no}, {} here and {} there", payment.status, trade.status);
        findings.add(Check::StatusDiffers, sides);
    }
    if trade.payments > 1 {
        findings.add(Check::TradePaidTwice, no);
    } else if is_paid && trade.paid_fen != payment.amount_fen {
        let sides = format!("{no}, {} fen here and {} there", payment.amount_fen, trade.paid_fen);
        findings.add(Check::AmountDiffers, sides);
    }
    if trade.refunded_fen != payment.refunded_fen {
        let (here, there) = (payment.refunded_fen, trade.refunded_fen);
        findings.add(Check::RefundedDiffers, format!("{no}, {here} fen here and {there} there"));
    }
    for refund in &trade.refunds {
        let number = &refund.out_request_no;
        let here = payment.refunds.get(number).copied().unwrap_or_default();
        let there = refund.refunded_fen;
        if there > 0 && there != here {
            findings
                .add(Check::RefundDiffers, format!("{number}, {here} fen here and {there} there"));
        }
    }
}

async fn booked(books: &mut SqliteConnection) -> anyhow::Result<BTreeMap<String, Booked>> {
    let mut booked = BTreeMap::new();
    for row in sqlx::query(sql::BOOKED).fetch_all(&mut *books).await? {
        let payment = Booked {
            purchase: (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
            status: row.try_get(4)?,
            amount_fen: row.try_get(5)?,
            refunded_fen: row.try_get(6)?,
            refunds: BTreeMap::new(),
        };
        booked.insert(row.try_get::<String, _>(0)?, payment);
    }
    for row in sqlx::query(sql::BOOKED_REFUNDS).fetch_all(&mut *books).await? {
        let no: String = row.try_get(0)?;
        if let Some(payment) = booked.get_mut(&no) {
            payment.refunds.insert(row.try_get(1)?, row.try_get(2)?);
        }
    }
    Ok(booked)
}
