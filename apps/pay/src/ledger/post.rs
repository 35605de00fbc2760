//! What a transaction leaves for others: a journal line, a message.
//!
//! A message is known by what it is about, so that the same fact is told once however often it
//! is found out.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    db::{Tx, benefits::Benefit, orders::Round, payments::Payment, refunds::Refund},
    error::{Error, Kind},
    utc::rfc3339,
};
use hapax::{
    Actor, Timestamp,
    machine::{Machine, Named},
    message::{Message, MessageId, Topic},
};

/// Topic of notices to merchants.
pub(crate) const MERCHANT_NOTICE: &str = "merchant.notice";
/// Topic of benefits to grant or to take away.
pub(crate) const BENEFIT: &str = "benefit";

/// Who moves entities, in the journal.
const ACTOR: &str = "hapax-pay";

/// Journals the move of an entity that was at `version`; each version has one move.
pub(super) async fn journal<S: Named, E: Named>(
    tx: &mut Tx,
    machine: &Machine<S, E>,
    entity: &str,
    version: i64,
    from: S,
    event: E,
) -> Result<(), Error> {
    let Some(transition) = machine.transition(entity, version, from, event) else {
        return Err(Error::new(Kind::Changed, "journal a move"));
    };
    let actor = Actor::parse(ACTOR).map_err(Error::corrupt)?;
    let sql = tx.sql();
    Ok(sql.transition(tx, &transition, &actor).await?)
}

/// What a merchant is told, as JSON. Members that do not apply are left out.
#[derive(Serialize)]
struct Notice<'a> {
    event_id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    tenant: &'a str,
    order_id: &'a str,
    round: u32,
    payment_no: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_no: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    benefit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'static str>,
    occurred_at: String,
}

/// Tells the merchant something about a payment.
pub(super) async fn payment_news(
    tx: &mut Tx,
    kind: &'static str,
    payment: &Payment,
    now: Timestamp,
) -> Result<(), Error> {
    let id = MessageId::of(&[kind, payment.payment_no.as_str()]);
    let notice = Notice {
        event_id: id.to_string(),
        kind,
        tenant: payment.tenant.as_str(),
        order_id: payment.order_id.as_str(),
        round: payment.round,
        payment_no: payment.payment_no.as_str(),
        refund_no: None,
        benefit: None,
        amount: Some(payment.amount.text(payment.currency)),
        currency: Some(payment.currency.code()),
        occurred_at: rfc3339(now),
    };
    tell(tx, id, payment.at(), &notice).await
}

/// Tells the merchant how a refund ended.
pub(super) async fn refund_news(
    tx: &mut Tx,
    kind: &'static str,
    payment: &Payment,
    refund: &Refund,
    now: Timestamp,
) -> Result<(), Error> {
    let id = MessageId::of(&[kind, refund.tenant.as_str(), refund.refund_no.as_str()]);
    let notice = Notice {
        event_id: id.to_string(),
        kind,
        tenant: payment.tenant.as_str(),
        order_id: payment.order_id.as_str(),
        round: payment.round,
        payment_no: payment.payment_no.as_str(),
        refund_no: Some(refund.refund_no.as_str()),
        benefit: None,
        amount: Some(refund.amount.text(refund.currency)),
        currency: Some(refund.currency.code()),
        occurred_at: rfc3339(now),
    };
    tell(tx, id, payment.at(), &notice).await
}

/// Tells the merchant what a buyer got or lost.
pub(super) async fn benefit_news(
    tx: &mut Tx,
    kind: &'static str,
    benefit: &Benefit,
    now: Timestamp,
) -> Result<(), Error> {
    let id = MessageId::of(&[kind, benefit.payment_no.as_str(), benefit.code.as_str()]);
    let notice = Notice {
        event_id: id.to_string(),
        kind,
        tenant: benefit.tenant.as_str(),
        order_id: benefit.order_id.as_str(),
        round: benefit.round,
        payment_no: benefit.payment_no.as_str(),
        refund_no: None,
        benefit: Some(benefit.code.as_str()),
        amount: None,
        currency: None,
        occurred_at: rfc3339(now),
    };
    tell(tx, id, benefit.at(), &notice).await
}

async fn tell(tx: &mut Tx, id: MessageId, at: Round<'_>, notice: &Notice<'_>) -> Result<(), Error> {
    let payload = serde_json::to_vec(notice).map_err(Error::corrupt)?;
    send(tx, id, MERCHANT_NOTICE, at, payload).await
}

/// What the consumer of benefits is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Errand {
    /// Hand it over.
    Grant,
    /// Take it away.
    Revoke,
}

/// A message about one benefit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BenefitMessage {
    pub(crate) errand: Errand,
    pub(crate) tenant: String,
    pub(crate) order_id: String,
    pub(crate) round: u32,
    pub(crate) benefit: String,
}

/// Sends the consumer of benefits on an errand.
pub(super) async fn errand(
    tx: &mut Tx,
    errand: Errand,
    at: Round<'_>,
    benefit: &str,
) -> Result<(), Error> {
    let word = match errand {
        Errand::Grant => "grant",
        Errand::Revoke => "revoke",
    };
    let round = at.round.to_string();
    let parts = [BENEFIT, word, at.tenant.as_str(), at.order_id.as_str(), &round, benefit];
    let message = BenefitMessage {
        errand,
        tenant: at.tenant.as_str().to_owned(),
        order_id: at.order_id.as_str().to_owned(),
        round: at.round,
        benefit: benefit.to_owned(),
    };
    let payload = serde_json::to_vec(&message).map_err(Error::corrupt)?;
    send(tx, MessageId::of(&parts), BENEFIT, at, payload).await
}

/// Messages about one order leave in the order in which they were written.
async fn send(
    tx: &mut Tx,
    id: MessageId,
    topic: &'static str,
    at: Round<'_>,
    payload: Vec<u8>,
) -> Result<(), Error> {
    let message = Message {
        id,
        topic: Topic::parse(topic).map_err(Error::corrupt)?,
        key: format!("{topic}/{}/{}", at.tenant.as_str(), at.order_id.as_str()),
        payload: Bytes::from(payload),
    };
    let sql = tx.sql();
    Ok(sql.send(tx, &message).await?)
}
