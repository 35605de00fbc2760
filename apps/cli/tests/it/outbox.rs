//! Messages that were given up leave again.

use serde_json::{Value, json};

use crate::stage::Stage;

const FIRST: &str = "0f0e0d0c0b0a09080706050403020100";
const SECOND: &str = "1f1e1d1c1b1a19181716151413121110";
const WAITING: &str = "2f2e2d2c2b2a29282726252423222120";

fn buried(stage: &Stage) -> Vec<Value> {
    let page = stage.hapax(&["outbox", "list", "--buried", "--json"]).json();
    page["messages"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_message_keeps_its_id_and_its_history() {
    let stage = Stage::open().await;
    let args = ["outbox", "replay", FIRST, "--reason", "endpoint repaired", "--yes", "--json"];
    let said = stage.hapax(&args);
    assert_eq!(said.json(), json!({"replayed": [FIRST]}));
    assert!(said.err.contains("the receiver answered 500"), "it is shown before: {said:?}");
    assert_eq!(buried(&stage).len(), 1);
    let letter = stage.hapax(&["outbox", "show", FIRST, "--json"]).json();
    assert_eq!((&letter["buried"], &letter["attempts"]), (&Value::Null, &json!(0)));
    assert_eq!(letter["payload"], json!({"type": "payment.paid", "payment_no": "P1001"}));
    let last = letter["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["event"], &last["actor"], &last["reason"]),
        (&json!("replayed"), &json!("ann"), &json!("endpoint repaired"))
    );
    stage.hapax(&args).refuses(4, "it is on its way");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_buried_messages_leave_again_and_no_other() {
    let stage = Stage::open().await;
    let waiting = stage.hapax(&["outbox", "show", WAITING, "--json"]).json();
    let args = ["outbox", "replay", "--all-buried", "--reason", "repaired", "--yes"];
    let said = stage.hapax(&args);
    assert_eq!(said.out, format!("{FIRST} leaves again\n{SECOND} leaves again\n"), "{said:?}");
    assert!(buried(&stage).is_empty());
    assert_eq!(stage.hapax(&["outbox", "show", WAITING, "--json"]).json(), waiting);
    let again = stage.hapax(&args);
    assert_eq!((again.code, again.out.as_str()), (0, ""));
    assert_eq!(again.err, "no message is buried\n");
    let again = stage.hapax(&[&args[..], &["--json"]].concat());
    assert_eq!(again.json(), json!({"replayed": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_is_not_sent_again() {
    let stage = Stage::open().await;
    stage
        .hapax(&["outbox", "replay", WAITING, "--reason", "x", "--yes"])
        .refuses(4, "the message was not given up: it is on its way");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_buried_messages_leave_page_by_page() {
    let stage = Stage::empty();
    stage
        .run(
            "WITH RECURSIVE numbers (n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 501
             )
             INSERT INTO hapax_outbox (id, topic, key_text, payload, attempts, why, created_at)
             SELECT randomblob(16), 'merchant.notice', 'k' || n, x'00FF', 12, 'gone', 0
             FROM numbers",
        )
        .await;
    let id = buried(&stage)[0]["id"].as_str().unwrap().to_owned();
    let letter = stage.hapax(&["outbox", "show", &id]);
    assert!(letter.out.contains("payload"), "a payload that is no text is shown: {letter:?}");
    let args = ["outbox", "replay", "--all-buried", "--reason", "x", "--yes", "--json"];
    let replayed = stage.hapax(&args).json();
    assert_eq!(replayed["replayed"].as_array().unwrap().len(), 501);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_receiver_said_cannot_steer_the_terminal() {
    let stage = Stage::open().await;
    stage.run("UPDATE hapax_outbox SET why = 'no' || char(27) || '[2J' || char(10) || 'x'").await;
    for args in [&["outbox", "list"][..], &["outbox", "show", FIRST]] {
        let said = stage.hapax(args);
        assert!(!said.out.contains('\u{1b}'), "{said:?}");
        assert!(said.out.contains("no\\u{1b}[2J\\nx"), "{said:?}");
    }
}
