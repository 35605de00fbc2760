//! What auditors and pages are shown.

use jiff::Timestamp;

use super::{Record, TradeIx, World};
use crate::trade::{Ending, Phase};
use crate::wire;

impl World {
    pub(crate) fn truth(&self, filter: &Filter, now: Timestamp) -> wire::Truth {
        let wanted = |number: &str| filter.out_trade_no.as_deref().is_none_or(|n| n == number);
        let trades = self.trades.iter().filter(|record| wanted(&record.out_trade_no));
        let deliveries = if filter.deliveries {
            let listed = self.deliveries.iter().filter(|d| wanted(&d.out_trade_no));
            listed.cloned().collect()
        } else {
            Vec::new()
        };
        wire::Truth {
            now_ms: now.as_millisecond(),
            seed: self.seed,
            totals: self.totals.clone(),
            trades: trades.map(|record| self.view(record)).collect(),
            deliveries,
            deliveries_forgotten: self.deliveries_forgotten,
        }
    }

    pub(crate) fn trade_view(&self, ix: TradeIx) -> Option<wire::Trade> {
        self.record(ix).map(|record| self.view(record))
    }

    /// The deliveries of one trade, oldest first.
    pub(crate) fn deliveries_of(&self, record: &Record) -> Vec<wire::Delivery> {
        let of_trade = |delivery: &&wire::Delivery| {
            delivery.out_trade_no == record.out_trade_no && delivery.app_id == *record.app_id
        };
        self.deliveries.iter().filter(of_trade).cloned().collect()
    }

    pub(crate) fn requests(&self) -> wire::Log {
        wire::Log { requests: self.requests.iter().cloned().collect() }
    }

    /// The address that a code leads to.
    pub(crate) fn page(&self, token: &str) -> String {
        format!("{}/qr/{token}", self.page_base)
    }

    fn view(&self, record: &Record) -> wire::Trade {
        let trade = &record.trade;
        wire::Trade {
            app_id: record.app_id.to_string(),
            out_trade_no: record.out_trade_no.clone(),
            trade_no: record.trade_no.clone(),
            product: record.product.name().to_owned(),
            status: trade.phase.trade_status().to_owned(),
            closed_by: closed_by(trade.phase).map(str::to_owned),
            total_fen: trade.terms.total.as_i64(),
            buyer_id: trade.buyer.clone(),
            expires_at_ms: trade.terms.expires_at.as_millisecond(),
            paid_fen: record.ledger.paid_fen(),
            payments: record.ledger.payments(),
            refunded_fen: record.ledger.refunded_fen(),
            refunds: record.ledger.refunds(),
            paid_late: record.paid_late,
            close_missed: record.close_missed,
            page: self.page(&record.token),
            movements: record.ledger.entries().to_vec(),
        }
    }
}

/// Which part of the truth is wanted.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) out_trade_no: Option<String>,
    pub(crate) deliveries: bool,
}

fn closed_by(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Closed(Ending::Close) => Some("close"),
        Phase::Closed(Ending::Cancel) => Some("cancel"),
        Phase::Closed(Ending::Expiry) => Some("expiry"),
        Phase::Closed(Ending::Refund) => Some("refund"),
        Phase::Intent | Phase::Waiting | Phase::Success | Phase::Finished => None,
    }
}
