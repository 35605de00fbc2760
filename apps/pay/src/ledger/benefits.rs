//! Benefits: due with the money, gone with the money.
//!
//! Invariant: net money above zero ⇔ the benefit is live or on its way to the buyer
//! (`a_full_refund_takes_the_benefit_back_whoever_comes_first`).

use super::post::{self, BenefitMessage, Errand};
use crate::{
    benefit::{self, Code, Fact, MACHINE, Status},
    db::{
        Tx,
        benefits::{self, Benefit, Effect},
        conn,
        orders::{self, Round},
        payments::Payment,
    },
    error::{Error, Kind},
    order::OrderId,
};
use hapax::Timestamp;

/// What the order promised becomes due, each benefit once.
pub(super) async fn fall_due(tx: &mut Tx, payment: &Payment, now: Timestamp) -> Result<(), Error> {
    let order = orders::find(conn(tx), payment.at()).await?;
    let order = order.ok_or_else(|| Error::corrupt("a payment without its order"))?;
    for code in &order.content.benefits {
        if benefits::insert(conn(tx), payment.at(), code, &payment.payment_no, now).await? {
            post::errand(tx, Errand::Grant, payment.at(), code.as_str()).await?;
        }
    }
    Ok(())
}

/// All of the money went back: what it bought is cancelled or taken away.
pub(super) async fn money_is_gone(
    tx: &mut Tx,
    payment: &Payment,
    now: Timestamp,
) -> Result<(), Error> {
    for benefit in benefits::of_order(conn(tx), payment.at()).await? {
        if benefit.payment_no != payment.payment_no {
            continue;
        }
        let moved = advance(tx, &benefit, Fact::MoneyGone, now).await?;
        if moved == Some(Status::RevokeDue) {
            post::errand(tx, Errand::Revoke, benefit.at(), benefit.code.as_str()).await?;
        }
    }
    Ok(())
}

/// Runs an errand of the consumer, in the transaction that holds its inbox row.
///
/// What was really done is written into the ledger of effects; an errand that came too late
/// changes nothing.
pub(crate) async fn run(
    tx: &mut Tx,
    message: &BenefitMessage,
    message_id: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let tenant = hapax::Tenant::parse(&message.tenant).map_err(Error::corrupt)?;
    let order_id = OrderId::parse(&message.order_id);
    let order_id = order_id.ok_or_else(|| Error::corrupt("an order number in a message"))?;
    let code = Code::parse(&message.benefit);
    let code = code.ok_or_else(|| Error::corrupt("a benefit code in a message"))?;
    let at = Round { tenant: &tenant, order_id: &order_id, round: message.round };
    let benefit = benefits::find(conn(tx), at, &code).await?;
    let benefit = benefit.ok_or_else(|| Error::corrupt("a message about no benefit"))?;
    let (fact, effect, news) = match message.errand {
        Errand::Grant => (Fact::Granted, Effect::Grant, "benefit.granted"),
        Errand::Revoke => (Fact::Revoked, Effect::Revoke, "benefit.revoked"),
    };
    if advance(tx, &benefit, fact, now).await?.is_some() {
        benefits::record_effect(conn(tx), &benefit, effect, message_id, now).await?;
        post::benefit_news(tx, news, &benefit, now).await?;
    }
    Ok(())
}

async fn advance(
    tx: &mut Tx,
    benefit: &Benefit,
    fact: Fact,
    now: Timestamp,
) -> Result<Option<Status>, Error> {
    let Some(status) = benefit::apply(benefit.status, fact) else { return Ok(None) };
    if !benefits::advance(conn(tx), benefit, status, now).await? {
        return Err(Error::new(Kind::Changed, "move a benefit"));
    }
    let Benefit { tenant, order_id, round, code, .. } = benefit;
    let entity = format!("{}/{}/{round}/{}", tenant.as_str(), order_id.as_str(), code.as_str());
    post::journal(tx, &MACHINE, &entity, benefit.version, benefit.status, fact).await?;
    Ok(Some(status))
}
