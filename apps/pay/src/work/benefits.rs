//! The consumer of benefits: our own receiver behind the outbox.
//!
//! Invariant: the inbox row, the benefit and the ledger of effects are one transaction
//! (`a_benefit_message_that_comes_twice_grants_once`).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{
    error::{Error, Kind},
    flow::Desk,
    ledger::{self, BenefitMessage},
};
use hapax::message::{Delivery, Received, SendError, Transport};

/// The name under which the consumer keeps its inbox.
pub(crate) const CONSUMER: &str = "benefits";

pub(super) struct Consumer {
    desk: Arc<Desk>,
}

impl Consumer {
    pub(super) fn new(desk: &Arc<Desk>) -> Self {
        Self { desk: Arc::clone(desk) }
    }

    async fn consume(&self, delivery: &Delivery) -> Result<(), Error> {
        let id = delivery.message.id;
        let message: BenefitMessage =
            serde_json::from_slice(&delivery.message.payload).map_err(Error::corrupt)?;
        let (message, now) = (Arc::new(message), self.desk.now().await?);
        self.desk
            .sql
            .write("benefit.run", async move |mut tx| {
                let sql = tx.sql();
                match sql.once(&mut tx, CONSUMER, id).await? {
                    Received::First => {
                        ledger::benefits::run(&mut tx, &message, &id.to_string(), now).await
                    }
                    Received::Repeat => Ok(()),
                }
            })
            .await
    }
}

impl Transport for Consumer {
    fn send<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(async move {
            self.consume(delivery).await.map_err(|error| match error.kind() {
                Kind::Corrupt => SendError::Malformed { why: error.to_string() },
                Kind::Changed => SendError::Rejected { why: error.to_string() },
                Kind::Config | Kind::Invalid | Kind::Schema | Kind::Store | Kind::System => {
                    SendError::Away { why: error.to_string() }
                }
            })
        })
    }

    fn receiver(&self, _: &Delivery) -> Option<String> {
        None
    }
}
