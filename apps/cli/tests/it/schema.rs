//! The schema: looked at, brought up, refused.

use crate::stage::Stage;

#[test]
fn what_up_would_run_is_printed_and_not_run() {
    let stage = Stage::bare();
    let said = stage.hapax(&["migrate", "dry-run"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for table in ["hapax_records", "hapax_outbox", "hapax_locks", "pay_payments"] {
        assert!(said.out.contains(&format!("CREATE TABLE {table} (")), "{table}");
    }
    assert!(!stage.path("hapax.db").exists());
    let plan = stage.hapax(&["migrate", "dry-run", "--json"]).json();
    let steps: Vec<_> = plan["would_run"].as_array().unwrap().iter().collect();
    assert!(steps.iter().all(|step| step["sql"].as_str().unwrap().contains("CREATE TABLE")));
    assert!(
        stage.hapax(&["migrate", "info", "--json"]).json()["steps"]
            .as_array()
            .unwrap()
            .iter()
            .all(|step| step["applied"] == false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_script_makes_the_same_tables() {
    let (by_hand, by_us) = (Stage::bare(), Stage::empty());
    let script = by_hand.hapax(&["migrate", "dry-run"]).out;
    std::fs::write(by_hand.path("hapax.db"), "").unwrap();
    let mut conn = by_hand.connect().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&mut conn).await.unwrap();
    let tables = "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema \
                  WHERE name NOT LIKE '%migrations%' AND name NOT LIKE 'sqlite_%' ORDER BY 1";
    let made: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut conn).await.unwrap();
    let mut conn = by_us.connect().await;
    let ours: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut conn).await.unwrap();
    assert!(!ours.is_empty());
    assert_eq!(made, ours);
}

#[test]
fn up_runs_once() {
    let stage = Stage::bare();
    let ran = stage.hapax(&["migrate", "up", "--json"]).json();
    let steps = stage.hapax(&["migrate", "info", "--json"]).json();
    assert_eq!(ran["ran"], steps["steps"], "every step ran and is applied");
    let again = stage.hapax(&["migrate", "up"]);
    assert_eq!((again.code, again.out.as_str()), (0, ""));
    assert_eq!(again.err, "the schema is current\n");
    assert_eq!(stage.hapax(&["migrate", "dry-run"]).out, "");
    assert_eq!(stage.hapax(&["migrate", "up", "--json"]).json()["ran"], serde_json::json!([]));
}

#[test]
fn two_that_bring_it_up_at_once_bring_it_up_once() {
    let stage = Stage::bare();
    let both = [(); 2].map(|()| stage.command(&["migrate", "up", "--json"]).spawn().unwrap());
    for child in both {
        let said = crate::stage::said(child.wait_with_output().unwrap());
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(stage.hapax(&["verify"]).code, 0);
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let stage = Stage::bare();
    let mut command = stage.command(&["migrate", "up"]);
    let said =
        crate::stage::said(command.env("HAPAX__DATABASE", "sqlite:no/such/x.db").output().unwrap());
    said.refuses(6, "there is no directory no/such; make it first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verb_refuses_a_database_that_is_not_current() {
    for (sql, word) in [
        (
            "INSERT INTO _hapax_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', TRUE, x'00', 0)",
            "schema version 9999, this build knows versions up to",
        ),
        ("UPDATE _hapax_migrations SET checksum = x'00' WHERE version = 2", "from another script"),
        (
            "INSERT INTO _pay_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', TRUE, x'00', 0)",
            "step pay 9999, which this build does not know: run a newer build",
        ),
        ("UPDATE _pay_migrations SET checksum = x'00'", "by another script than this build has"),
    ] {
        let stage = Stage::empty();
        stage.run(sql).await;
        for args in [
            &["keys", "list"][..],
            &["keys", "purge"],
            &["outbox", "list"],
            &["payments", "list"],
            &["verify"],
            &["migrate", "info"],
            &["migrate", "dry-run"],
            &["migrate", "up"],
        ] {
            stage.hapax(args).refuses(1, word);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_is_brought_up_by_up_alone() {
    let stage = Stage::empty();
    stage
        .run(
            "DROP TABLE hapax_transitions;
             DELETE FROM _hapax_migrations WHERE version = 4",
        )
        .await;
    let word = "lacks step hapax 4 (transitions) of the schema; run `hapax migrate up`";
    for args in [&["verify"][..], &["keys", "purge"], &["payments", "list"]] {
        stage.hapax(args).refuses(1, word);
    }
    let said = stage.hapax(&["migrate", "up"]);
    assert_eq!((said.code, said.out.as_str()), (0, "hapax 4 transitions\n"));
    assert_eq!(stage.hapax(&["verify"]).code, 0);
}
