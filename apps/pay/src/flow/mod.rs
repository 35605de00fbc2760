//! What the service does with the world between two transactions: ask the channel, wait, answer.
//!
//! Invariant: no channel is asked inside a transaction, and whatever is asked was written down
//! before (`a_kill_after_the_channel_was_asked_leaves_one_attempt`).

pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod notify;
pub(crate) mod point;
pub(crate) mod refund;
pub(crate) mod token;

use std::{sync::Arc, time::Duration};

use futures_util::future::select;
use tokio_util::sync::CancellationToken;

use crate::{
    channel::Channel,
    config::Config,
    db::{Conn, Sql},
    error::{Error, Kind},
    ledger::Rules,
    merchant::Merchants,
    order::ChannelKind,
    work::Requests,
};
use hapax::{Hapax, Operation, Tenant, Timestamp, lock::Turnstile, token::Tokens};

/// What every request and every worker of the service shares.
pub(crate) struct Desk {
    pub(crate) config: Config,
    pub(crate) sql: Sql,
    pub(crate) hapax: Hapax,
    pub(crate) create: Operation,
    pub(crate) turnstile: Turnstile,
    pub(crate) tokens: Tokens,
    pub(crate) merchants: Merchants,
    pub(crate) requests: Requests,
}

impl Desk {
    /// What the books need to know of the configuration.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            late_money: self.config.late_money,
            first_check: self.config.periods.check_after(0),
        }
    }

    /// The store's time: it decides every expiry.
    pub(crate) async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.sql.now().await?)
    }

    /// The tenant's account at a channel.
    pub(crate) fn channel(
        &self,
        tenant: &Tenant,
        kind: ChannelKind,
    ) -> Result<Arc<dyn Channel>, Error> {
        let merchant = self.merchants.find(tenant);
        let channel = merchant.and_then(|merchant| merchant.channel(kind));
        channel.ok_or_else(|| {
            let why = format!("the tenant has no account at {}; add one", kind.as_str());
            Error::caused(Kind::Config, "ask the channel", why)
        })
    }

    /// A connection that only reads.
    pub(crate) async fn reader(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Sqlite>, Error> {
        Ok(self.sql.readers().acquire().await?)
    }

    /// Waits on the clock of this process, but not longer than until `stop` is cancelled.
    pub(crate) async fn pause_unless(&self, span: Duration, stop: &CancellationToken) {
        let clock = self.hapax.clock();
        // A flag and a timer: dropping either loses nothing.
        drop(select(std::pin::pin!(stop.cancelled()), clock.sleep(span)).await);
    }

    /// Waits on the clock of this process.
    pub(crate) async fn pause(&self, span: Duration) {
        self.hapax.clock().sleep(span).await;
    }
}

/// The connection behind a pooled one.
pub(crate) fn on(pooled: &mut sqlx::pool::PoolConnection<sqlx::Sqlite>) -> &mut Conn {
    pooled
}
