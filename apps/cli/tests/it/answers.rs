//! What the verbs that only look answer, to people and to programs.

use std::io::Read;

use crate::stage::Stage;

const LOOKS: &[&str] = &[
    "keys list",
    "keys list --status unknown --operation parcel.send",
    "keys show a886",
    "keys show 1d2d56b77bba71e4",
    "outbox list",
    "outbox list --buried",
    "outbox show 0f0e0d0c0b0a09080706050403020100",
    "payments list",
    "payments show P1003a",
    "payments show P1002",
    "migrate info",
    "verify",
];

fn name(verb: &str, form: &str) -> String {
    let words =
        verb.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    format!("{} {form}", words.collect::<Vec<_>>().join(" ")).replace(' ', "_")
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_aligned_columns() {
    let stage = Stage::open().await;
    for verb in LOOKS {
        let said = stage.hapax(&verb.split(' ').collect::<Vec<_>>());
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{verb}");
        insta::assert_snapshot!(name(verb, "text"), said.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_read_one_document() {
    let stage = Stage::open().await;
    for verb in LOOKS {
        let mut args: Vec<_> = verb.split(' ').collect();
        args.push("--json");
        let said = stage.hapax(&args);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{verb}");
        insta::assert_json_snapshot!(name(verb, "json"), said.json());
    }
}

#[test]
fn an_empty_database_answers_with_nothing() {
    let stage = Stage::empty();
    for (verb, talk, list) in [
        ("keys list", "no such keys", "keys"),
        ("outbox list --buried", "no such messages", "messages"),
        ("payments list", "no such payments", "payments"),
    ] {
        let mut args: Vec<_> = verb.split(' ').collect();
        let said = stage.hapax(&args);
        assert_eq!((said.code, said.out.as_str(), said.err.trim_end()), (0, "", talk), "{verb}");
        args.push("--json");
        let document = stage.hapax(&args).json();
        assert_eq!(document, serde_json::json!({list: [], "next": null}), "{verb}");
    }
    assert_eq!(stage.hapax(&["verify", "--json"]).json()["broken"], serde_json::json!([]));
    assert_eq!(stage.hapax(&["keys", "purge", "--json"]).json()["purged"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_to_the_end() {
    let stage = Stage::open().await;
    for (noun, list, own) in [
        ("keys", "keys", "id"),
        ("outbox", "messages", "id"),
        ("payments", "payments", "payment_no"),
    ] {
        let all = stage.hapax(&[noun, "list", "--json"]).json();
        assert!(all["next"].is_null());
        let (mut after, mut seen) = (None::<String>, Vec::new());
        loop {
            let mut args = vec![noun, "list", "--json", "--limit", "1"];
            if let Some(after) = &after {
                args.extend(["--after", after]);
            }
            let page = stage.hapax(&args).json();
            let rows = page[list].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{noun}: a page is never empty before the end");
            seen.extend(rows.clone());
            match &page["next"] {
                serde_json::Value::Null => break,
                next => after = Some(next.to_string().trim_matches('"').to_owned()),
            }
        }
        assert_eq!(serde_json::Value::from(seen), all[list], "{noun} by {own}");
        let told = stage.hapax(&[noun, "list", "--limit", "1"]);
        assert!(told.err.starts_with("more: --after "), "{noun}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_failure() {
    let stage = Stage::empty();
    stage
        .run(
            "WITH RECURSIVE numbers (n) AS (
                 SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000
             )
             INSERT INTO hapax_records (id, scope, tenant, subject, operation, key_text, class,
                 state, epoch, nonce, prints, lease_until, attempts, caller, created_at, format)
             SELECT randomblob(32), 'tenant', 'shop', '', 'payment.create', 'k' || n, 2, 1, 1,
                 randomblob(16), x'', 0, 1, 'process 7', 0, 1
             FROM numbers",
        )
        .await;
    // Far more than a pipe holds, so that writing meets the closed end.
    let args = ["keys", "list", "--json", "--limit", "1000"];
    assert!(stage.hapax(&args).out.len() > 200_000);
    let mut child = stage.command(&args).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1]).unwrap();
    drop(out);
    let said = crate::stage::said(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}
