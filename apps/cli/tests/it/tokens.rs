//! Tokens issued by hand, and what one is worth.

use std::{io::Write, process::Stdio};

use serde_json::{Value, json};

use crate::stage::{Said, Stage, said};

const SHOP: [&str; 8] =
    ["--tenant", "shop", "--order", "2001", "--user", "ann", "--session", "cookie-1"];

fn issue(stage: &Stage) -> String {
    let issued = stage.hapax(&[&["tokens", "issue", "--json"], &SHOP[..]].concat()).json();
    assert!(issued["expires_at"].as_str().unwrap().ends_with('Z'));
    issued["token"].as_str().unwrap().to_owned()
}

fn check(stage: &Stage, token: &str, changes: &[(&str, &str)]) -> Said {
    let mut args = [&["tokens", "check", token, "--json"], &SHOP[..]].concat();
    for (flag, value) in changes {
        let at = args.iter().position(|arg| arg == flag).unwrap();
        args[at + 1] = value;
    }
    stage.hapax(&args)
}

fn verdict(said: &Said) -> (i32, String) {
    let document: Value = serde_json::from_str(&said.out).unwrap();
    (said.code, document["verdict"].as_str().unwrap().to_owned())
}

#[test]
fn a_fresh_token_names_its_key() {
    let stage = Stage::empty();
    let token = issue(&stage);
    let checked = check(&stage, &token, &[]).json();
    assert_eq!((&checked["verdict"], &checked["used"]), (&json!("fresh"), &Value::Null));
    assert_eq!(checked["key"].as_str().unwrap().len(), 36, "a UUID");
    assert_eq!(check(&stage, &token, &[]).json(), checked, "looking uses nothing up");
    assert_ne!(issue(&stage), token);
    let text = stage.hapax(&[&["tokens", "check", &token], &SHOP[..]].concat()).out;
    assert!(text.starts_with("token  fresh\nkey    ") && text.ends_with("used   no\n"), "{text}");
}

#[test]
fn a_token_is_worth_nothing_to_others() {
    let stage = Stage::empty();
    let token = issue(&stage);
    for change in [("--order", "2002"), ("--user", "bob"), ("--session", "cookie-2")] {
        let said = check(&stage, &token, &[change]);
        assert_eq!(verdict(&said), (4, "foreign".to_owned()), "{change:?}");
        assert_eq!(said.err, "hapax: the token is foreign\n");
    }
    check(&stage, &token, &[("--tenant", "mall")]).refuses(2, "no tenant \"mall\"");
}

#[test]
fn a_token_that_was_never_issued_is_forged() {
    let stage = Stage::empty();
    let token = issue(&stage);
    let mut flipped = token.clone();
    let last = flipped.pop().unwrap();
    flipped.push(if last == 'A' { 'B' } else { 'A' });
    for text in ["", "hx1", "not a token", &flipped, &"x".repeat(5000)] {
        let said = check(&stage, text, &[]);
        assert_eq!(verdict(&said), (4, "forged".to_owned()), "{text}");
    }
    let other = Stage::empty();
    std::fs::write(
        other.path("tokens.secret"),
        "b7e0c5a91f3d48260e7c9a5b1d3f8e62407a9c5e1b3d7f60a2c4e6081b3d5f79",
    )
    .unwrap();
    assert_eq!(verdict(&check(&other, &token, &[])), (4, "forged".to_owned()));
}

#[test]
fn a_token_can_come_from_standard_input() {
    let stage = Stage::empty();
    let token = issue(&stage);
    let mut command = stage.command(&[&["tokens", "check", "-", "--json"], &SHOP[..]].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{token}\n").as_bytes()).unwrap();
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.json()["verdict"], "fresh");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_expires_by_the_clock_of_the_store() {
    let stage = Stage::empty();
    let token = issue(&stage);
    // The store's clock never goes back: moved ahead, it stays there for everybody.
    let ahead = "UPDATE hapax_clock SET latest = max(
        latest, CAST(unixepoch('subsec') * 1000 AS INTEGER)) + 31 * 60 * 1000";
    stage.run(ahead).await;
    let said = check(&stage, &token, &[]);
    assert_eq!(verdict(&said), (4, "expired".to_owned()), "late, and it has started nothing");
    let key = "UPDATE hapax_clock SET latest = latest + 60 * 60 * 1000";
    stage.run(key).await;
    assert_eq!(verdict(&check(&stage, &token, &[])), (4, "expired".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_issued_over_a_payment_that_is_being_created() {
    let stage = Stage::open().await;
    stage.run("UPDATE pay_payments SET status = 'created' WHERE payment_no = 'P1002'").await;
    let args = ["tokens", "issue", "--tenant", "shop", "--user", "ann", "--session", "s"];
    let over = stage.hapax(&[&args[..], &["--order", "1002"]].concat());
    over.refuses(4, "a payment of this order is being created");
    assert_eq!(stage.hapax(&[&args[..], &["--order", "1001"]].concat()).code, 0);
}

#[test]
fn what_a_token_cannot_be_for_is_said() {
    let stage = Stage::empty();
    for (flag, value, word) in [
        ("--tenant", "mall", "there is no tenant \"mall\" in the configuration"),
        ("--order", "a b", "the order must be 1 to 64 visible ASCII characters"),
        ("--user", "", "principal is empty"),
        ("--session", "", "session is empty"),
    ] {
        let mut args = [&["tokens", "issue"], &SHOP[..]].concat();
        let at = args.iter().position(|arg| *arg == flag).unwrap();
        args[at + 1] = value;
        stage.hapax(&args).refuses(2, word);
    }
}
