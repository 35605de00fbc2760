//! Release, settle, purge: what an operator decides, and what is not decided.

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

const RUNNING: &str = "269050e8e7830ddf9dffb74c2bc9f9fb2b274428e95fc8560c40fb01736b5ab7";
const ABANDONED: &str = "a88615e104c76e406e65802ed84754c2bf294e2cefdb7ad8804a7a482bc23398";
const QUIET: &str = "8db57a0efe65c7d8ba59dd4c0083ed689131a596d1a0d4618276a335705fb10a";
const UNKNOWN: &str = "9226ef2fd48bd402f0bd716b59410f8683e8419f7fefad6022cf55894eadd68b";
const COMPLETED: &str = "1d2d56b77bba71e40060014c9a2ab5ac412fbe2e4ec43b67eb95bdbb85e34cd4";
const OPEN: &str = "ec608b22f1b26b06e39938a22c2f3ea3e390983256d1bfe3ce6d8685a3a03fd4";

fn key(stage: &Stage, id: &str) -> Value {
    stage.hapax(&["keys", "show", id, "--json"]).json()
}

fn epoch(key: &Value) -> i64 {
    key["epoch"].as_i64().unwrap()
}

fn release(stage: &Stage, id: &str, epoch: i64) -> Said {
    let epoch = epoch.to_string();
    stage.hapax(&[
        "keys",
        "release",
        id,
        "--epoch",
        &epoch,
        "--reason",
        "asked the courier",
        "--yes",
        "--json",
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_key_is_free_and_the_journal_says_who_and_why() {
    let stage = Stage::open().await;
    let before = key(&stage, UNKNOWN);
    assert_eq!((&before["status"], &before["class"]), (&json!("unknown"), &json!("opaque")));
    let said = release(&stage, UNKNOWN, epoch(&before));
    assert!(said.err.contains("nobody can tell but you"), "its class is explained: {said:?}");
    assert!(said.err.contains("runs from the start"), "its effect is explained: {said:?}");
    let released = said.json();
    assert_eq!((&released["id"], &released["status"]), (&json!(UNKNOWN), &json!("open")));
    let after = key(&stage, UNKNOWN);
    assert_eq!((&after["status"], &after["epoch"]), (&json!("open"), &released["epoch"]));
    assert!(epoch(&after) > epoch(&before), "whatever the old attempt still writes is refused");
    let line = after["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&line["event"], &line["actor"], &line["note"]),
        (&json!("settled"), &json!("ann"), &json!("asked the courier"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_key_has_its_answer_for_ever() {
    let stage = Stage::open().await;
    let seen = epoch(&key(&stage, ABANDONED)).to_string();
    let said = stage.hapax(&[
        "keys",
        "settle",
        "a886",
        "--epoch",
        &seen,
        "--status",
        "201",
        "--body",
        r#"{"payment_no":"P1002"}"#,
        "--reason",
        "paid, see ticket 7",
        "--by",
        "ben",
        "--yes",
    ]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.starts_with(&format!("{ABANDONED} is completed at epoch ")), "{said:?}");
    assert!(said.err.contains("the receiver dedupes by our key"), "{said:?}");
    let after = key(&stage, ABANDONED);
    assert_eq!((&after["status"], &after["answer_status"]), (&json!("completed"), &json!(201)));
    assert_eq!(after["expires_at"], Value::Null);
    assert_eq!(after["history"].as_array().unwrap().last().unwrap()["actor"], "ben");
    assert_eq!(stage.hapax(&["verify"]).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_about_an_attempt_that_may_yet_finish() {
    let stage = Stage::open().await;
    for (id, word) in [
        (RUNNING, "its holder is alive until 2100-01-01T00:00:00.000Z"),
        (QUIET, "may yet finish; decide from 2100-01-01T"),
        (COMPLETED, "the key is completed: nothing is left to decide"),
    ] {
        let before = key(&stage, id);
        let said = release(&stage, id, epoch(&before));
        assert_eq!((said.code, said.out.as_str()), (4, ""), "{said:?}");
        assert!(said.err.contains(word), "{word:?} is not in {said:?}");
        assert_eq!(key(&stage, id), before);
    }
    let before = key(&stage, ABANDONED);
    let said = release(&stage, ABANDONED, epoch(&before) - 1);
    assert_eq!(said.code, 4);
    assert!(
        said.err.contains("another attempt took over since, at epoch 1790812900002"),
        "{said:?}"
    );
    assert_eq!(key(&stage, ABANDONED), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_rulings_one_holds() {
    let stage = Stage::open().await;
    let seen = epoch(&key(&stage, UNKNOWN)).to_string();
    let start = |verb: &[&str]| {
        let args = ["--epoch", &seen, "--reason", "x", "--yes", "--json"];
        stage.command(&[verb, &args[..]].concat()).spawn().unwrap()
    };
    let rivals = [
        start(&["keys", "release", UNKNOWN]),
        start(&["keys", "settle", UNKNOWN, "--status", "200", "--body", "{}"]),
    ];
    let ends = rivals.map(|child| said(child.wait_with_output().unwrap()));
    let mut codes = [ends[0].code, ends[1].code];
    codes.sort_unstable();
    assert_eq!(codes, [0, 4], "{ends:?}");
    let winner = ends.iter().find(|said| said.code == 0).unwrap().json();
    let after = key(&stage, UNKNOWN);
    assert_eq!((&after["status"], &after["epoch"]), (&winner["status"], &winner["epoch"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_without_a_yes() {
    let stage = Stage::open().await;
    let before = key(&stage, UNKNOWN);
    let seen = epoch(&before).to_string();
    for args in [
        &["keys", "release", UNKNOWN, "--epoch", &seen, "--reason", "x"][..],
        &[
            "keys", "settle", UNKNOWN, "--epoch", &seen, "--reason", "x", "--status", "200",
            "--body", "{}",
        ],
        &["outbox", "replay", "0f0e0d0c0b0a09080706050403020100", "--reason", "x"],
        &["outbox", "replay", "--all-buried", "--reason", "x"],
    ] {
        stage.hapax(args).refuses(2, "nothing was done: without a terminal to ask on, it needs");
    }
    assert_eq!(key(&stage, UNKNOWN), before);
    let buried = stage.hapax(&["outbox", "list", "--buried", "--json"]).json();
    assert_eq!(buried["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_only_a_yes_is_a_yes() {
    let stage = Stage::open().await;
    let before = key(&stage, UNKNOWN);
    let seen = epoch(&before).to_string();
    let args = ["keys", "release", UNKNOWN, "--epoch", &seen, "--reason", "x"];
    for typed in ["no\n", "\n", "yes, but\n"] {
        let said = stage.on_terminal(&args, typed);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.out.contains("nobody can tell but you"), "{said:?}");
        assert!(said.out.contains("Is that so? Type yes to go on."), "{said:?}");
        assert!(said.out.contains("nothing was done"), "{said:?}");
        assert_eq!(key(&stage, UNKNOWN), before);
    }
    let said = stage.on_terminal(&args, "yes\n");
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(key(&stage, UNKNOWN)["status"], "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_found_by_what_its_caller_sent() {
    let stage = Stage::open().await;
    for text in ["order-1001", "\"order-1001\""] {
        let args = ["keys", "show", "--tenant", "shop", "--key", text, "--json"];
        assert_eq!(stage.hapax(&args).json()["id"], COMPLETED);
    }
    let args = ["keys", "show", "--tenant", "shop", "--key", "parcel-7", "--json"];
    stage.hapax(&args).refuses(3, "there is no such key");
    let args = [&args[..], &["--operation", "parcel.send", "--principal", "merchant"]].concat();
    assert_eq!(stage.hapax(&args).json()["id"], UNKNOWN);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_can_be_cut_as_long_as_it_is_unique() {
    let stage = Stage::open().await;
    let almost: String = RUNNING.chars().take(63).collect();
    for digits in ["2690", "269050E8", &almost, RUNNING] {
        assert_eq!(key(&stage, digits)["id"], RUNNING, "{digits}");
    }
    // Ids are digests: this order was searched for, so that two begin alike.
    stage
        .run(
            "UPDATE hapax_records
             SET key_text = 'order-89581',
                 id = x'269069cd331f15c330ea48e357a17f7bf5a6a5f44f083046f39f9ad6ad36c4f2'
             WHERE key_text = 'order-1002'",
        )
        .await;
    stage.hapax(&["keys", "show", "2690"]).refuses(2, "several ids begin with 2690");
    assert_eq!(key(&stage, "26906")["key"], "order-89581");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_what_counts_as_absent_and_nothing_else() {
    let stage = Stage::open().await;
    let listed = |stage: &Stage| stage.hapax(&["keys", "list", "--json"]).json()["keys"].clone();
    let mut left = listed(&stage);
    left.as_array_mut().unwrap().retain(|key| key["id"] != OPEN);
    assert_eq!(stage.hapax(&["keys", "purge", "--rows", "0", "--json"]).json()["purged"], 0);
    assert_eq!(stage.hapax(&["keys", "purge"]).out, "1 records removed\n");
    assert_eq!(listed(&stage), left);
    assert_eq!(stage.hapax(&["keys", "purge", "--json"]).json(), json!({"purged": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_of_many_goes_in_batches_up_to_its_bound() {
    let stage = Stage::empty();
    stage
        .run(
            "WITH RECURSIVE numbers (n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1700
             )
             INSERT INTO hapax_records (id, scope, tenant, subject, operation, key_text, class,
                 state, epoch, nonce, prints, lease_until, reuse_at, attempts, caller, created_at,
                 format)
             SELECT randomblob(32), 'tenant', 'shop', '', 'payment.create', 'k' || n, 2, 4, 1,
                 randomblob(16), x'', 0, 1000, 1, 'process 7', 0, 1
             FROM numbers",
        )
        .await;
    assert_eq!(stage.hapax(&["keys", "purge", "--rows", "1200"]).out, "1200 records removed\n");
    assert_eq!(stage.hapax(&["keys", "purge"]).out, "500 records removed\n");
}
