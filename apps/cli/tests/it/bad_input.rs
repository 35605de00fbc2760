//! Bad input: one clear sentence that says what is wrong, and the right exit code.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::stage::Stage;

const ID: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const MESSAGE: &str = "ffffffffffffffffffffffffffffffff";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found() {
    let stage = Stage::open().await;
    for args in [
        &["keys", "show", ID][..],
        &["keys", "show", "0000"],
        &["keys", "show", "--tenant", "shop", "--key", "nobody"],
        &["keys", "release", ID, "--epoch", "1", "--reason", "x", "--yes"],
        &[
            "keys", "settle", ID, "--epoch", "1", "--status", "201", "--body", "{}", "--reason",
            "x", "--yes",
        ],
        &["outbox", "show", MESSAGE],
        &["outbox", "replay", MESSAGE, "--reason", "x", "--yes"],
        &["payments", "show", "P9"],
        &["payments", "show", "no number at all"],
        &["payments", "check", "P9"],
    ] {
        stage.hapax(args).refuses(3, "there is no such");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_says_what_it_must_be() {
    let stage = Stage::open().await;
    let settle = |status, body| {
        [
            "keys",
            "settle",
            "9226",
            "--epoch",
            "1790812900004",
            "--reason",
            "x",
            "--yes",
            "--status",
            status,
            "--body",
            body,
        ]
    };
    for (args, word) in [
        (&["keys", "list", "--status", "lost"][..], "running, abandoned, unknown, open, completed"),
        (&["keys", "list", "--operation", "Pay Me"], "operation name must be 1 to 64 characters"),
        (&["keys", "list", "--after", "xyz"], "id must be 64 hex digits"),
        (&["keys", "list", "--limit", "0"], "1..=1000"),
        (&["keys", "list", "--limit", "1001"], "1..=1000"),
        (&["keys", "list", "--limit", "many"], "invalid"),
        (&["keys", "show"], "required"),
        (&["keys", "show", "269"], "64 hex digits, or at least its first four"),
        (&["keys", "show", "zzzz"], "64 hex digits, or at least its first four"),
        (&["keys", "show", &format!("{ID}0")], "64 hex digits, or at least its first four"),
        (&["keys", "show", "金金金金"], "64 hex digits, or at least its first four"),
        (&["keys", "show", "--tenant", "shop"], "--key"),
        (&["keys", "show", "--tenant", "", "--key", "k"], "tenant is empty"),
        (&["keys", "show", "--tenant", "shop", "--key", "a b"], "use visible ASCII only"),
        (&["keys", "release", "9226", "--reason", "x", "--yes"], "--epoch"),
        (&["keys", "release", "9226", "--epoch", "1", "--yes"], "--reason"),
        (&["keys", "release", "9226", "--epoch", "1", "--yes", "--reason", " "], "say why"),
        (
            &["keys", "release", "9226", "--epoch", "1", "--yes", "--reason", &"x".repeat(256)],
            "longer than 255 bytes",
        ),
        (
            &["keys", "release", "9226", "--epoch", "1", "--yes", "--reason", "x", "--by", ""],
            "actor is empty",
        ),
        (&settle("201", "{not json"), "the answer must be JSON"),
        (&settle("500", "{}"), "200 to 499"),
        (&settle("204", "{}"), "200 to 499"),
        (&settle("99", "{}"), "200 to 499"),
        (&["outbox", "list", "--after", "first"], "invalid"),
        (&["outbox", "show", "12"], "message id must be 32 hex digits"),
        (&["outbox", "replay", "--reason", "x"], "required"),
        (&["outbox", "replay", MESSAGE, "--all-buried", "--reason", "x"], "cannot be used with"),
        (&["payments", "list", "--status", "late"], "created, waiting, closing, closed, paid"),
        (&["migrate", "down"], "unrecognized subcommand"),
        (&["verify", "everything"], "unexpected argument"),
    ] {
        stage.hapax(args).refuses(2, word);
    }
    assert_eq!(stage.hapax(&["verify"]).code, 0, "and nothing was changed");
}

#[test]
fn a_configuration_that_cannot_be_used_is_named() {
    let stage = Stage::bare();
    stage.hapax(&["verify", "--config", "no.toml"]).refuses(2, "no configuration at no.toml");
    let text = fs::read_to_string(stage.path("hapax.toml")).unwrap();
    fs::write(stage.path("hapax.toml"), format!("databse = 1\n{text}")).unwrap();
    let said = stage.hapax(&["keys", "list"]);
    said.refuses(2, "databse");
    assert!(said.err.contains("hapax.toml"), "{said:?}");
    fs::write(stage.path("hapax.toml"), text.replace("sqlite:", "postgres:")).unwrap();
    stage.hapax(&["migrate", "info"]).refuses(2, "`database` must be `sqlite:FILE`");
}

#[test]
fn the_configuration_can_come_from_the_environment() {
    let stage = Stage::empty();
    fs::rename(stage.path("hapax.toml"), stage.path("other.toml")).unwrap();
    let mut command = stage.command(&["verify"]);
    let said = crate::stage::said(command.env("HAPAX_CONFIG", "other.toml").output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    let mut command = stage.command(&["verify", "--config", "other.toml"]);
    let said =
        crate::stage::said(command.env("HAPAX__DATABASE", "sqlite:elsewhere.db").output().unwrap());
    said.refuses(6, "elsewhere.db");
}

#[test]
fn without_a_database_every_verb_says_how_to_make_one() {
    let stage = Stage::bare();
    for args in [
        &["keys", "list"][..],
        &["keys", "show", ID],
        &["keys", "release", ID, "--epoch", "1", "--reason", "x", "--yes"],
        &["keys", "purge"],
        &["tokens", "issue", "--tenant", "shop", "--order", "1", "--user", "u", "--session", "s"],
        &["outbox", "list"],
        &["outbox", "replay", "--all-buried", "--reason", "x", "--yes"],
        &["payments", "list"],
        &["payments", "check", "P1"],
        &["verify"],
    ] {
        stage.hapax(args).refuses(6, "there is no database at hapax.db; make one with");
        assert!(!stage.path("hapax.db").exists(), "looking makes no file: {args:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_no_database() {
    let stage = Stage::bare();
    fs::write(stage.path("hapax.db"), "this is a letter to my aunt, not a database").unwrap();
    for args in [&["verify"][..], &["migrate", "info"], &["migrate", "up"]] {
        let said = stage.hapax(args);
        said.refuses(1, "not a database");
    }
    let text = fs::read_to_string(stage.path("hapax.db")).unwrap();
    assert!(text.starts_with("this is a letter"), "and it is left alone");
}

#[test]
fn a_secret_that_others_can_read_is_not_used() {
    let stage = Stage::empty();
    fs::set_permissions(stage.path("tokens.secret"), fs::Permissions::from_mode(0o644)).unwrap();
    let args =
        ["tokens", "issue", "--tenant", "shop", "--order", "1", "--user", "u", "--session", "s"];
    stage.hapax(&args).refuses(2, "chmod 600");
    assert_eq!(stage.hapax(&["verify"]).code, 0, "who needs no secret asks for none");
}
