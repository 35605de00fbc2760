//! What merchants are told, and what came of telling them.
//!
//! Invariant: a notice keeps its `notify_id` and its content over all its deliveries; each change
//! of a trade is a notice of its own (`one_change_is_one_notice`).

use std::sync::Arc;

use jiff::Timestamp;

use super::{DELIVERIES_KEPT, Record, TradeIx, World, keep};
use crate::charset::Charset;
use crate::clock::beijing;
use crate::faults::{Change, NoticeFault};
use crate::trade::Phase;
use crate::wire;

/// One thing to tell a merchant. Its content is fixed; only `notify_time` and `sign` come later.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) notify_id: String,
    pub(crate) app_id: Arc<str>,
    pub(crate) seller_id: Arc<str>,
    pub(crate) out_trade_no: String,
    pub(crate) trade_status: &'static str,
    pub(crate) return_method: &'static str,
    pub(crate) change: Change,
    pub(crate) url: String,
    pub(crate) charset: Charset,
    pub(crate) fields: Vec<(&'static str, String)>,
    /// Faults of the notice as a whole.
    pub(crate) faults: Vec<NoticeFault>,
    ix: TradeIx,
    /// Which notice of its trade this is, from 0.
    ordinal: usize,
}

/// How far a notice has come.
#[derive(Debug)]
pub(super) struct Letter {
    notice: Arc<Notice>,
    acked: bool,
    /// Deliveries that were sent.
    sent: u32,
    /// Deliveries whose outcome is known, sent or not.
    tried: u32,
    /// Closes that the merchant had been answered when the notice was made.
    closes_before: u32,
}

impl Notice {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }
}

impl World {
    /// Takes the notices that were made since the last call.
    pub(crate) fn take_fresh(&mut self) -> Vec<Arc<Notice>> {
        std::mem::take(&mut self.fresh)
    }

    pub(crate) fn notice(&self, notify_id: &str) -> Option<Arc<Notice>> {
        self.letters.get(notify_id).map(|letter| Arc::clone(&letter.notice))
    }

    /// Answers `notify_verify`: whether the notice is ours and still unanswered.
    pub(crate) fn is_open_notice(&self, notify_id: &str, seller_id: &str) -> bool {
        self.letters
            .get(notify_id)
            .is_some_and(|letter| !letter.acked && &*letter.notice.seller_id == seller_id)
    }

    pub(crate) fn is_acked(&self, notify_id: &str) -> bool {
        self.letters.get(notify_id).is_some_and(|letter| letter.acked)
    }

    /// Whether the first delivery of a notice is over, whatever came of it.
    pub(crate) fn was_tried(&self, notify_id: &str) -> bool {
        self.letters.get(notify_id).is_none_or(|letter| letter.tried > 0)
    }

    /// Whether a later notice of the same trade was sent.
    pub(crate) fn was_overtaken(&self, notice: &Notice) -> bool {
        let later = self.record(notice.ix).and_then(|r| r.letters.get(notice.ordinal + 1..));
        let sent = |id: &String| self.letters.get(id).is_some_and(|letter| letter.sent > 0);
        later.is_some_and(|letters| letters.iter().any(sent))
    }

    /// Whether the merchant was answered a close since the notice was made.
    pub(crate) fn was_closed_since(&self, notice: &Notice) -> bool {
        let before = self.letters.get(&notice.notify_id).map(|letter| letter.closes_before);
        let answered = self.record(notice.ix).map(|record| record.closes_answered);
        before < answered
    }

    /// Draws the faults of one delivery.
    pub(crate) fn plan_delivery(&mut self, notice: &Notice) -> Vec<NoticeFault> {
        let subject = format!("delivery {}", notice.ordinal);
        self.armed.delivery(&notice.out_trade_no, &subject)
    }

    /// Books a notice that will never be sent.
    pub(crate) fn lose(&mut self, notice: &Notice, now: Timestamp) {
        self.totals.notices_lost += 1;
        self.happened("lost");
        self.book(notice, wire::Outcome::NotSent, 0);
        let lost = delivery(notice, now, "lost".to_owned());
        self.keep_delivery(lost);
    }

    /// Books a genuine delivery that a fault kept from being sent.
    pub(crate) fn drop_delivery(&mut self, notice: &Notice, attempt: u32, now: Timestamp) {
        self.totals.deliveries_dropped += 1;
        self.happened("dropped");
        self.book(notice, wire::Outcome::NotSent, 0);
        let mut dropped = delivery(notice, now, "dropped".to_owned());
        dropped.attempt = attempt;
        self.keep_delivery(dropped);
    }

    /// Books the copies of one genuine delivery; tells whether the merchant took one.
    pub(crate) fn book_copies(&mut self, notice: &Notice, copies: Vec<wire::Delivery>) -> bool {
        for copy in copies {
            self.book(notice, copy.outcome, 1);
            self.keep_delivery(copy);
        }
        self.is_acked(&notice.notify_id)
    }

    pub(crate) fn book_hostile(&mut self, delivery: wire::Delivery) {
        self.totals.hostile += 1;
        self.totals.hostile_acked += u64::from(delivery.outcome == wire::Outcome::Success);
        self.happened(&delivery.form);
        self.keep_delivery(delivery);
    }

    pub(crate) fn book_parallel(&mut self) {
        self.totals.parallel_sends += 1;
    }

    pub(crate) fn give_up(&mut self, notify_id: &str) {
        if !self.is_acked(notify_id) {
            self.totals.notices_given_up += 1;
        }
    }

    /// Makes the notice of a change, if the merchant is told of such.
    pub(super) fn tell(
        &mut self,
        ix: TradeIx,
        change: Change,
        request_no: Option<&str>,
        now: Timestamp,
    ) {
        let Some(record) = self.trades.get_mut(ix.0) else { return };
        let Some(url) = record.notify_url.clone() else { return };
        if !record.product.tells(&self.armed.faults().push, change) {
            return;
        }
        let ordinal = record.letters.len();
        let trade_status = status(change, record.trade.phase);
        let notify_id = self.numbers.notify_id(now);
        record.letters.push(notify_id.clone());
        let subject = format!("notice {ordinal}");
        let notice = Arc::new(Notice {
            fields: fields(record, change, trade_status, request_no, &notify_id, now),
            notify_id: notify_id.clone(),
            app_id: Arc::clone(&record.app_id),
            seller_id: Arc::clone(&record.seller_id),
            out_trade_no: record.out_trade_no.clone(),
            trade_status,
            return_method: record.product.return_method(),
            change,
            url,
            charset: record.charset,
            faults: self.armed.notice(&record.out_trade_no, &subject),
            ix,
            ordinal,
        });
        let letter = Letter {
            notice: Arc::clone(&notice),
            acked: false,
            sent: 0,
            tried: 0,
            closes_before: record.closes_answered,
        };
        self.totals.notices += 1;
        self.letters.insert(notify_id, letter);
        self.fresh.push(notice);
    }

    fn book(&mut self, notice: &Notice, outcome: wire::Outcome, sent: u32) {
        let Some(letter) = self.letters.get_mut(&notice.notify_id) else { return };
        self.totals.deliveries += u64::from(sent);
        if letter.sent > 0 {
            self.totals.duplicate_deliveries += u64::from(sent);
        }
        letter.sent += sent;
        letter.tried += 1;
        if outcome == wire::Outcome::Success && !letter.acked {
            letter.acked = true;
            self.totals.notices_acked += 1;
        }
    }

    fn keep_delivery(&mut self, delivery: wire::Delivery) {
        let forgot = keep(&mut self.deliveries, delivery, DELIVERIES_KEPT);
        self.deliveries_forgotten += u64::from(forgot);
    }
}

/// A delivery that was not sent (yet).
pub(crate) fn delivery(notice: &Notice, now: Timestamp, form: String) -> wire::Delivery {
    wire::Delivery {
        notify_id: notice.notify_id.clone(),
        app_id: notice.app_id.to_string(),
        out_trade_no: notice.out_trade_no.clone(),
        trade_status: notice.trade_status.to_owned(),
        attempt: 0,
        form,
        hostile: false,
        at_ms: now.as_millisecond(),
        took_ms: 0,
        outcome: wire::Outcome::NotSent,
        http_status: None,
        answer: String::new(),
    }
}

fn status(change: Change, phase: Phase) -> &'static str {
    match change {
        Change::Scanned => Phase::Waiting.trade_status(),
        Change::Paid => Phase::Success.trade_status(),
        Change::Finished => Phase::Finished.trade_status(),
        // In part: still TRADE_SUCCESS. In full: TRADE_CLOSED.
        Change::Refunded | Change::Closed => phase.trade_status(),
    }
}

fn fields(
    record: &Record,
    change: Change,
    trade_status: &'static str,
    request_no: Option<&str>,
    notify_id: &str,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let trade = &record.trade;
    let total = trade.terms.total.to_string();
    let buyer = trade.buyer.clone().unwrap_or_default();
    let mut fields = vec![
        ("gmt_create", beijing(trade.scanned_at.unwrap_or(now))),
        ("subject", trade.terms.subject.clone()),
        ("buyer_id", buyer),
        ("version", "1.0".to_owned()),
        ("notify_id", notify_id.to_owned()),
        ("notify_type", "trade_status_sync".to_owned()),
        ("out_trade_no", record.out_trade_no.clone()),
        ("total_amount", total.clone()),
        ("trade_status", trade_status.to_owned()),
        ("trade_no", record.trade_no.clone().unwrap_or_default()),
        ("auth_app_id", record.app_id.to_string()),
        ("app_id", record.app_id.to_string()),
        ("seller_id", record.seller_id.to_string()),
    ];
    fields.extend(trade.terms.body.clone().map(|body| ("body", body)));
    fields.extend(record.passback.clone().map(|text| ("passback_params", text)));
    if let Some(paid_at) = trade.paid_at
        && change != Change::Scanned
    {
        let funds = format!(r#"[{{"amount":"{total}","fundChannel":"ALIPAYACCOUNT"}}]"#);
        fields.extend([
            ("gmt_payment", beijing(paid_at)),
            ("receipt_amount", total.clone()),
            ("invoice_amount", total.clone()),
            ("buyer_pay_amount", total),
            ("point_amount", "0.00".to_owned()),
            ("fund_bill_list", funds),
        ]);
    }
    if let Some(number) = request_no {
        let refund = trade.refund_of(number).map(|refund| refund.amount).unwrap_or_default();
        fields.extend([
            ("refund_fee", trade.refunded().to_string()),
            ("send_back_fee", refund.to_string()),
            // Unlike the other times, this one comes with milliseconds.
            ("gmt_refund", format!("{}.{:03}", beijing(now), now.subsec_millisecond())),
            ("out_biz_no", number.to_owned()),
        ]);
    }
    if let (Some(closed_at), true) = (trade.closed_at, trade_status == "TRADE_CLOSED") {
        fields.push(("gmt_close", beijing(closed_at)));
    }
    fields
}
