//! Messages that arrive.

use std::time::Duration;

use crate::stage::Stage;
use hapax_core::{
    message::{Horizon, MessageId, Received, Window},
    purge::Purge,
};
use hapax_store::{Error, Sqlite, SqliteStore, Tx};

/// Receives the message and does its work, or fails after it.
async fn receive(sql: &SqliteStore, consumer: &'static str, fails: bool) -> Option<Received> {
    let inbox = sql.clone();
    let received = sql.write("receive", async move |mut tx: Tx<Sqlite>| {
        let received = inbox.once(&mut tx, consumer, MessageId::of(&["paid", "1001"])).await?;
        if received == Received::First {
            sqlx::query("INSERT INTO orders VALUES ('benefit')").execute(&mut **tx).await?;
        }
        if fails {
            sqlx::query("INSERT INTO nowhere VALUES (1)").execute(&mut **tx).await?;
        }
        Ok::<_, Error>(received)
    });
    received.await.ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_first_once_for_each_consumer() {
    let stage = Stage::set().await.with_orders().await;
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::First));
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::Repeat));
    assert_eq!(receive(&stage.other().await, "benefit", false).await, Some(Received::Repeat));
    assert_eq!(receive(&stage.sql, "report", false).await, Some(Received::First));
    assert_eq!(stage.orders().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolled_back_message_is_first_again() {
    let stage = Stage::set().await.with_orders().await;
    assert_eq!(receive(&stage.sql, "benefit", true).await, None);
    assert!(stage.orders().await.is_empty());
    assert_eq!(receive(&stage.sql, "benefit", false).await, Some(Received::First));
    assert_eq!(stage.orders().await, ["benefit"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_forgotten_after_its_window() {
    let stage = Stage::set().await.with_orders().await;
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
