//! Messages that arrive.

use std::time::Duration;

use crate::{
    engine::{Engine, blunder, insert, on_each_engine},
    stage::Stage,
};
use hapax_core::{
    message::{Horizon, MessageId, Received, Window},
    purge::Purge,
};
use hapax_store::{Error, Sql, Tx};

on_each_engine! {
    a_message_is_first_once_for_each_consumer
    a_rolled_back_message_is_first_again
    a_message_is_forgotten_after_its_window
}

/// Receives the message and does its work, or fails after it.
async fn receive<E: Engine>(sql: &Sql<E>, consumer: &'static str, fails: bool) -> Option<Received> {
    let inbox = sql.clone();
    let received = sql.write("receive", async move |mut tx: Tx<E>| {
        let received = inbox.once(&mut tx, consumer, MessageId::of(&["paid", "1001"])).await?;
        if received == Received::First {
            insert::<E>(&mut tx, "benefit").await?;
        }
        if fails {
            blunder::<E>(&mut tx).await?;
        }
        Ok::<_, Error>(received)
    });
    received.await.ok()
}

async fn a_message_is_first_once_for_each_consumer<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::First));
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::Repeat));
    assert_eq!(receive(&stage.other().await, "benefit", false).await, Some(Received::Repeat));
    assert_eq!(receive(&stage.sql, "report", false).await, Some(Received::First));
    assert_eq!(stage.orders().await.len(), 2);
}

async fn a_rolled_back_message_is_first_again<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    assert_eq!(receive(&stage.sql, "benefit", true).await, None);
    assert!(stage.orders().await.is_empty());
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::First));
    assert_eq!(stage.orders().await, ["benefit"]);
}

async fn a_message_is_forgotten_after_its_window<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await.with_orders().await;
    let hour = Duration::from_secs(3600);
    let none = Horizon { retries: hour, outage: Duration::ZERO, replay: Duration::ZERO };
    let window = Window::new(hour, none).unwrap();
    receive(&stage.sql, "benefit", false).await.unwrap();
    assert_eq!(stage.sql.old_inbox(window).purge(100).await.unwrap(), 0);
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::Repeat));
    stage.pass(hour).await;
    assert_eq!(stage.sql.old_inbox(window).purge(100).await.unwrap(), 1);
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::First));
}
