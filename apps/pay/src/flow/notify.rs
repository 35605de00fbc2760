//! Callbacks of the channel, and notices that came before their payment.

use std::sync::Arc;

use super::{Desk, on};
use crate::{
    channel::{PaymentNo, Received, Refused, Untrusted},
    db::notices::{self, Verdict},
    error::Error,
    ledger::notice::{self, Envelope},
    merchant::Merchant,
    order::ChannelKind,
};
use hapax::Tenant;

/// What a callback came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// In the books: the channel may stop.
    Settled,
    /// Kept, and to be sent again: no payment yet, or it does not fit.
    Kept(Verdict),
    /// Anybody could have sent it: nothing is kept.
    Untrusted(Untrusted),
    /// It names no account of ours.
    Stranger,
}

impl Desk {
    /// Hears a callback of Alipay, byte for byte.
    pub(crate) async fn hear_alipay(
        &self,
        query: Option<&str>,
        body: &[u8],
    ) -> Result<Heard, Error> {
        let Some((app_id, merchant)) = self.addressee(body) else { return Ok(Heard::Stranger) };
        let Some(channel) = merchant.channel(ChannelKind::Alipay) else {
            return Ok(Heard::Stranger);
        };
        let (tenant, now, rules) = (merchant.tenant.clone(), self.now().await?, self.rules());
        let body = body.to_vec();
        let verdict = match channel.verify_notice(Received { query, body: &body }) {
            Ok(notice) => {
                self.sql
                    .write("notice.book", async move |mut tx| {
                        let envelope = envelope(&tenant, &app_id, &body);
                        notice::book(&mut tx, envelope, &notice, &rules, now).await
                    })
                    .await?
            }
            Err(Refused::Untrusted(why)) => return Ok(Heard::Untrusted(why)),
            Err(Refused::Quarantined { notify_id, mismatch }) => {
                tracing::error!(tenant = %tenant, error = %mismatch, "a notice does not fit");
                let reason = mismatch.to_string();
                self.sql
                    .write("notice.quarantine", async move |mut tx| {
                        let envelope = envelope(&tenant, &app_id, &body);
                        notice::quarantine(&mut tx, envelope, &notify_id, &reason, now).await
                    })
                    .await?
            }
        };
        Ok(match verdict {
            Verdict::Settled => Heard::Settled,
            Verdict::Unmatched | Verdict::Quarantined => Heard::Kept(verdict),
        })
    }

    /// The merchant whose app a callback names. The name is believed only once the signature is.
    fn addressee(&self, body: &[u8]) -> Option<(String, Arc<Merchant>)> {
        let app_id = form_urlencoded::parse(body).find(|(name, _)| name == "app_id")?.1;
        let merchant = self.merchants.of_app(&app_id)?;
        Some((app_id.into_owned(), Arc::clone(merchant)))
    }
}

fn envelope<'a>(tenant: &'a Tenant, account: &'a str, body: &'a [u8]) -> Envelope<'a> {
    Envelope { tenant, channel: ChannelKind::Alipay.as_str(), account, body }
}

/// Judges notices again that came before their payment was written down.
pub(crate) async fn judge_again(desk: &Arc<Desk>, no: &PaymentNo) -> Result<(), Error> {
    let waiting = {
        let mut reader = desk.reader().await?;
        notices::waiting_for(on(&mut reader), no.as_str()).await?
    };
    for body in waiting {
        desk.hear_alipay(None, &body).await?;
    }
    Ok(())
}
