//! The thin shell: protocol over gateway.

use futures_util::{FutureExt as _, future::BoxFuture};

use super::{gateway::Gateway, protocol::Protocol};
use crate::{
    beijing::Moment,
    channel::{
        Call, Cause, Channel, Frozen, Notice, PayData, PaymentNo, Purchase, Received, Refund,
        RefundNo, RefundSeen, RefundTaken, Refused, TradeSeen, Unfit,
    },
};

/// Alipay, for one account.
#[derive(Debug)]
pub struct Alipay {
    protocol: Protocol,
    gateway: Gateway,
}

impl Alipay {
    /// Speaks `protocol` over `gateway`.
    pub const fn new(protocol: Protocol, gateway: Gateway) -> Self {
        Self { protocol, gateway }
    }

    /// Sends `frozen` and reads the answer with `read`.
    async fn ask<T>(&self, frozen: &Frozen, read: Reader<T>) -> Call<T> {
        match self.gateway.send(frozen).await {
            Ok(raw) => read(&self.protocol, frozen, &raw),
            Err(cause) => Call::Unknown(cause),
        }
    }

    /// As [`Alipay::ask`], for a question that need not be stored.
    async fn ask_now<T>(&self, frozen: Result<Frozen, Unfit>, read: Reader<T>) -> Call<T> {
        match frozen {
            Ok(frozen) => self.ask(&frozen, read).await,
            Err(_) => Call::Unknown(Cause::Unsendable),
        }
    }
}

type Reader<T> = fn(&Protocol, &Frozen, &[u8]) -> Call<T>;

impl Channel for Alipay {
    fn freeze_purchase(&self, purchase: &Purchase, now: Moment) -> Result<Frozen, Unfit> {
        self.protocol.freeze_purchase(purchase, now)
    }

    fn prepare<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Call<PayData>> {
        async move {
            if Protocol::is_page(frozen) {
                return Call::Done(PayData::Page(self.gateway.page(frozen)));
            }
            self.ask(frozen, Protocol::read_prepare).await
        }
        .boxed()
    }

    fn query<'a>(
        &'a self,
        payment_no: &'a PaymentNo,
        now: Moment,
    ) -> BoxFuture<'a, Call<TradeSeen>> {
        let frozen = self.protocol.freeze_query(payment_no, now);
        self.ask_now(frozen, Protocol::read_query).boxed()
    }

    fn close<'a>(&'a self, payment_no: &'a PaymentNo, now: Moment) -> BoxFuture<'a, Call<()>> {
        let frozen = self.protocol.freeze_close(payment_no, now);
        self.ask_now(frozen, Protocol::read_close).boxed()
    }

    fn freeze_refund(&self, refund: &Refund, now: Moment) -> Result<Frozen, Unfit> {
        self.protocol.freeze_refund(refund, now)
    }

    fn refund<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Call<RefundTaken>> {
        self.ask(frozen, Protocol::read_refund).boxed()
    }

    fn query_refund<'a>(
        &'a self,
        payment_no: &'a PaymentNo,
        refund_no: &'a RefundNo,
        now: Moment,
    ) -> BoxFuture<'a, Call<RefundSeen>> {
        let frozen = self.protocol.freeze_refund_query(payment_no, refund_no, now);
        self.ask_now(frozen, Protocol::read_refund_query).boxed()
    }

    fn verify_notice(&self, received: Received<'_>) -> Result<Notice, Refused> {
        self.protocol.verify_notice(received)
    }
}
