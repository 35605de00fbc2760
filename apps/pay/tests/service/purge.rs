//! Housekeeping: every table that grows without the books is emptied by the running service.

use crate::{
    clock::soon_is,
    shop::no,
    stage::{Setup, Stage},
};

/// Tables whose rows go with time, and the column that says since when they are there.
const AGING: [(&str, &str); 5] = [
    ("hapax_journal", "at"),
    ("hapax_inbox", "seen_at"),
    ("hapax_outbox", "created_at"),
    ("pay_notices", "settled_at"),
    ("pay_requests", "at"),
];

/// A stage with a paid order and a letter that was given up; nothing is purged yet.
async fn used() -> Stage {
    let stage = Setup::new().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    stage.told("1001", "benefit.granted").await;
    stage.channel.acknowledged(&payment).await;
    stage.is_quiet().await;
    stage
        .books
        .run(
            "INSERT INTO hapax_outbox (id, topic, key_text, payload, attempts, why, created_at) \
             SELECT randomblob(16), 'benefit', '', x'00', 12, 'refused', now FROM hapax_now",
        )
        .await;
    soon_is("the requests are written down", 1, || stage.books.count("pay_requests", "1")).await;
    stage
}

#[tokio::test]
async fn what_is_old_goes_from_every_table_and_what_is_not_stays() {
    let stage = used().await;
    let stage = stage.restart_with(|setup| setup.period("purge", "20ms")).await;
    soon_is("free locks go at once", 0, || stage.books.count("hapax_locks", "1")).await;
    for (table, _) in AGING {
        assert!(stage.books.count(table, "1").await > 0, "{table} is young");
    }
    for (table, since) in AGING {
        stage.books.run(format!("UPDATE {table} SET {since} = 1")).await;
    }
    for (table, _) in AGING {
        soon_is(&format!("{table} is empty"), 0, || stage.books.count(table, "1")).await;
    }
    stage.audit().await;
}
