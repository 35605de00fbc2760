//! Two processes on one database: a verb beside somebody who writes.

use sqlx::{Connection, Executor};

use crate::stage::{Stage, said};

const UNKNOWN: &str = "9226ef2fd48bd402f0bd716b59410f8683e8419f7fefad6022cf55894eadd68b";

#[tokio::test(flavor = "multi_thread")]
async fn a_look_does_not_wait_for_a_writer() {
    let stage = Stage::open().await;
    let mut writer = stage.connect().await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    writer.execute("DELETE FROM pay_payments").await.unwrap();
    for args in [
        &["keys", "list"][..],
        &["keys", "show", UNKNOWN],
        &["outbox", "list"],
        &["payments", "list"],
        &["payments", "show", "P1001"],
        &["migrate", "info"],
        &["verify"],
    ] {
        let said = stage.hapax(args);
        assert_eq!(said.code, 0, "what is not committed is not seen: {said:?}");
        assert!(!said.out.is_empty());
    }
    writer.execute("ROLLBACK").await.unwrap();
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ruling_waits_for_a_writer_and_is_made_then() {
    let stage = Stage::open().await;
    let mut writer = stage.connect().await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let rulings = [
        &["keys", "release", UNKNOWN, "--epoch", "1790812900004"][..],
        &["outbox", "replay", "--all-buried"],
    ];
    let mut waiting = rulings.map(|args| {
        let args = [args, &["--reason", "x", "--yes"]].concat();
        stage.command(&args).spawn().unwrap()
    });
    // As long as others take to look, the rulings have time to reach the writer.
    for _ in 0..3 {
        assert_eq!(stage.hapax(&["keys", "list"]).code, 0);
    }
    for child in &mut waiting {
        assert_eq!(child.try_wait().unwrap(), None, "nothing is ruled while somebody writes");
    }
    writer.execute("COMMIT").await.unwrap();
    writer.close().await.unwrap();
    for child in waiting {
        let said = said(child.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
    }
    let key = stage.hapax(&["keys", "show", UNKNOWN, "--json"]).json();
    assert_eq!(key["status"], "open");
}
