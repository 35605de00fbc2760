//! What a start refuses, what a channel that is not configured leaves out, and what readiness says.

use std::{fs, time::Duration};

use http::Method;

use crate::{
    shop::Answer,
    stage::{NORTH_KEY, NORTH_NOTICES, Running, Stage},
};
use hapax_pay::{
    Service,
    config::{Config, Span},
};

/// The configuration of the stage, to be changed and started.
fn config(stage: &Stage) -> Config {
    let mut config = Config::read(&stage.home.path().join("hapax.toml")).unwrap();
    config.listen.set_port(0);
    config
}

/// Why a start is refused, with all causes.
async fn refusal(config: Config) -> String {
    let error = Service::open(config, None).await.expect_err("the start is refused");
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn a_retention_shorter_than_the_longest_repeat_is_refused() {
    let stage = Stage::open().await;
    let mut config = config(&stage);
    config.periods.redelivery = Span(config.periods.keep.0 + Duration::from_millis(1));
    let why = refusal(config.clone()).await;
    assert!(why.contains("keeps outcomes for a shorter time than callers may send again"), "{why}");
    config.periods.redelivery = config.periods.keep;
    Service::open(config, None).await.unwrap();
}

#[tokio::test]
async fn a_key_or_a_notice_secret_that_can_be_guessed_is_refused() {
    let stage = Stage::open().await;
    let repeated = "0123456789".repeat(4);
    for (file, good) in [("north.key", NORTH_KEY), ("north.notices", NORTH_NOTICES)] {
        let path = stage.home.path().join(file);
        for (bad, word) in [
            ("short-0123456789abcdefghijklmno", "shorter than 32 bytes"),
            ("change-me-0123456789abcdefghijklmno", "from an example"),
            ("example-0123456789abcdefghijklmnopq", "from an example"),
            (&repeated, "follows a pattern"),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "follows a pattern"),
        ] {
            fs::write(&path, bad).unwrap();
            let why = refusal(config(&stage)).await;
            assert!(why.contains(word) && why.contains(file), "{bad}: {why}");
            assert!(why.contains("north") && !why.contains(bad), "{why}");
        }
        fs::write(&path, good).unwrap();
    }
    Service::open(config(&stage), None).await.unwrap();
}

#[tokio::test]
async fn a_channel_that_is_not_configured_has_no_route() {
    let stage = Stage::open().await;
    let mut config = config(&stage);
    for tenant in &mut config.tenants {
        tenant.alipay = None;
    }
    let alone = Running::start(config).await;
    let shop = stage.shop_at(alone.address);
    shop.send(Method::POST, "/v1/notify/alipay", &[], "x=1").await.refused(404, "not_found");
    assert_eq!(shop.get("/livez").await.status, 200);
    alone.stop().await;
    assert!(!stage.is_taken("x=1").await, "with the channel there is one");
}

#[tokio::test]
async fn readiness_tells_of_a_store_that_does_not_answer_and_of_another_schema() {
    let stage = Stage::open().await;
    let ready = async || stage.shop().get("/readyz").await;
    let failing = |answer: Answer| answer.is(503)["failing"].clone();
    assert_eq!(ready().await.is(200)["status"], "ready");
    for (change, back) in [
        (
            "INSERT INTO _pay_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'from the future', TRUE, x'00', 0)",
            "DELETE FROM _pay_migrations WHERE version = 9999",
        ),
        (
            "INSERT INTO _hapax_migrations \
             (version, description, success, checksum, execution_time) \
             VALUES (9999, 'from the future', TRUE, x'00', 0)",
            "DELETE FROM _hapax_migrations WHERE version = 9999",
        ),
        (
            "CREATE TABLE kept AS SELECT * FROM _hapax_migrations; \
             DELETE FROM _hapax_migrations WHERE version = 4",
            "INSERT INTO _hapax_migrations SELECT * FROM kept WHERE version = 4",
        ),
    ] {
        stage.books.run(change).await;
        assert_eq!(failing(ready().await), serde_json::json!(["schema"]), "{change}");
        stage.books.run(back).await;
        assert_eq!(ready().await.status, 200, "{back}");
    }
    stage.books.run("DROP VIEW hapax_now").await;
    assert_eq!(failing(ready().await), serde_json::json!(["database"]));
}
