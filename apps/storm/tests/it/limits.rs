//! What the attacker refuses to do, in one sentence each.

use std::time::Duration;

use crate::toy::{Flaw, Stage};
use hapax_storm::{Control, Error, Kind, Plan};

async fn refusal(change: impl FnOnce(&mut Plan)) -> Error {
    let stage = Stage::set(Flaw::None).await;
    let mut plan = stage.plan();
    change(&mut plan);
    hapax_storm::run(plan, &stage.merchant, &Control::new(), |_| ()).await.unwrap_err()
}

#[tokio::test]
async fn another_machine_is_not_attacked() {
    let error = refusal(|plan| plan.service = "http://192.0.2.1:80".to_owned()).await;
    assert_eq!(error.kind(), Kind::Target);
    assert!(error.to_string().contains("only servers on this machine"), "{error}");
    let error = refusal(|plan| plan.simulator = "http://example.com".to_owned()).await;
    assert_eq!(error.kind(), Kind::Target);
}

#[tokio::test]
async fn a_simulator_that_is_not_there_is_named() {
    let error = refusal(|plan| plan.simulator = "http://127.0.0.1:1".to_owned()).await;
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.to_string().contains("simulator") && error.is_retryable(), "{error}");
}

#[tokio::test]
async fn a_senseless_plan_is_refused_before_anything_is_sent() {
    let error = refusal(|plan| plan.pace.deadline = Duration::ZERO).await;
    assert_eq!(error.kind(), Kind::Plan);
    assert!(error.to_string().contains("pace.deadline"), "{error}");
}
