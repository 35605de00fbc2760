//! Each way to break the contract is found out, by the rule that it breaks.

use std::time::Duration;

use crate::toy::{Flaw, Stage};
use hapax_storm::{Report, Rule, Shares, Story, Verdict};

/// Attacks the toy with a flaw, briefly: what hangs is found out at the deadline.
async fn attack(flaw: Flaw) -> Report {
    let stage = Stage::set(flaw).await;
    let mut plan = stage.plan();
    plan.pace.deadline = Duration::from_secs(4);
    stage.attack(plan).await
}

fn told(report: &Report) -> String {
    serde_json::to_string_pretty(&report.findings).unwrap()
}

/// Names of tests are facts; the body of each is this.
async fn is_found_out(flaw: Flaw, rule: Rule) {
    let report = attack(flaw).await;
    assert!(report.broken(rule) > 0, "{flaw:?} breaks {rule:?}: {}", told(&report));
    assert_eq!(report.verdict, Verdict::Broken);
    let finding = report.findings.iter().find(|finding| finding.rule == rule).unwrap();
    assert!(!finding.evidence.is_empty());
}

#[tokio::test]
async fn a_correct_service_passes() {
    let stage = Stage::set(Flaw::None).await;
    let mut plan = stage.plan();
    plan.orders = 60;
    let report = stage.attack(plan).await;
    assert_eq!(report.verdict, Verdict::Held, "{}", told(&report));
    assert_eq!((report.orders, report.orders_ended), (60, 60));
    for rule in Rule::ALL {
        assert!(report.checked(rule) > 0, "{rule:?} was never looked at");
    }
    assert_eq!(report.stories[&Story::CloseRace], 6);
    let counts = &report.counts;
    assert!(counts.submits >= 300 && counts.replays > 0 && counts.tokens > 0 && counts.hooks > 0);
    assert!(counts.paid > 0 && counts.closes > 0 && counts.refunds > 0 && counts.echoes > 0);
    assert!(counts.shadows > 0 && counts.hang_ups > 0);
    let notices = &report.notices;
    assert!(notices.first > 0 && notices.repeats > 0 && notices.refused > 0 && notices.held > 0);
    assert_eq!((notices.forged, notices.overtaking), (0, 0));
    assert!(report.latency["create"].samples > 0 && report.latency["create"].max_ms > 0.0);
}

#[tokio::test]
async fn a_service_that_answers_202_first_passes() {
    let stage = Stage::set(Flaw::Slow).await;
    let report = stage.attack(stage.plan()).await;
    assert_eq!(report.verdict, Verdict::Held, "{}", told(&report));
    assert!(report.counts.by_status[&202] > 0 && report.counts.retries > 0);
}

#[tokio::test]
async fn a_payment_for_each_key_is_found_out() {
    is_found_out(Flaw::PaymentPerKey, Rule::OnePayment).await;
}

#[tokio::test]
async fn a_replay_with_other_bytes_is_found_out() {
    is_found_out(Flaw::OtherBytes, Rule::SameAnswer).await;
}

#[tokio::test]
async fn a_replay_that_is_not_marked_is_found_out() {
    is_found_out(Flaw::UnmarkedReplay, Rule::ReplayMarked).await;
}

#[tokio::test]
async fn an_answer_about_another_order_is_found_out() {
    is_found_out(Flaw::OtherOrder, Rule::AnswerFits).await;
}

#[tokio::test]
async fn a_key_that_serves_any_request_is_found_out() {
    is_found_out(Flaw::IgnoresFingerprint, Rule::KeyBound).await;
}

#[tokio::test]
async fn an_order_that_takes_any_amount_is_found_out() {
    is_found_out(Flaw::IgnoresConflict, Rule::ConflictNamed).await;
}

#[tokio::test]
async fn a_conflict_without_its_fields_is_found_out() {
    is_found_out(Flaw::UnnamedConflict, Rule::ConflictNamed).await;
}

#[tokio::test]
async fn a_key_shared_by_all_tenants_is_found_out() {
    is_found_out(Flaw::KeyOfAnyTenant, Rule::TenantsApart).await;
}

#[tokio::test]
async fn a_payment_that_others_can_read_is_found_out() {
    is_found_out(Flaw::ReadableByAll, Rule::TenantsApart).await;
}

#[tokio::test]
async fn a_service_that_fails_for_ever_is_found_out() {
    is_found_out(Flaw::AlwaysFails, Rule::AnswersInTheEnd).await;
}

#[tokio::test]
async fn a_refusal_of_what_is_right_is_found_out() {
    is_found_out(Flaw::RefusesOtherKeys, Rule::NoFalseFailure).await;
}

#[tokio::test]
async fn a_payment_that_is_lost_is_found_out() {
    is_found_out(Flaw::ForgetsPayments, Rule::NothingLost).await;
}

#[tokio::test]
async fn a_payment_that_is_paid_no_more_is_found_out() {
    is_found_out(Flaw::Unpays, Rule::PaidStays).await;
}

#[tokio::test]
async fn money_that_is_not_noticed_is_found_out() {
    is_found_out(Flaw::DeafToCallbacks, Rule::MoneyAgrees).await;
}

#[tokio::test]
async fn a_benefit_that_outlives_its_money_is_found_out() {
    is_found_out(Flaw::BenefitStays, Rule::BenefitFollowsMoney).await;
}

#[tokio::test]
async fn a_refund_that_is_done_twice_is_found_out() {
    let report = attack(Flaw::RefundsAgain).await;
    let found = report.broken(Rule::RefundOnce) + report.broken(Rule::MoneyAgrees);
    assert!(found > 0, "{}", told(&report));
}

#[tokio::test]
async fn a_refund_beyond_the_payment_is_found_out() {
    is_found_out(Flaw::RefundsTooMuch, Rule::RefundWithin).await;
}

#[tokio::test]
async fn a_status_by_key_that_lies_is_found_out() {
    is_found_out(Flaw::LiesAboutKeys, Rule::StatusByKey).await;
}

#[tokio::test]
async fn a_202_that_leads_nowhere_is_found_out() {
    let report = attack(Flaw::LeadsNowhere).await;
    let told = |finding: &&hapax_storm::Finding| finding.evidence.contains("a 202 led nowhere");
    let finding = report.findings.iter().find(told).unwrap();
    assert_eq!((finding.rule, report.verdict), (Rule::StatusByKey, Verdict::Broken));
    assert!(finding.evidence.contains("says 404"), "{}", finding.evidence);
}

#[tokio::test]
async fn a_service_that_takes_rubbish_is_found_out() {
    is_found_out(Flaw::TakesRubbish, Rule::BadRequestRefused).await;
}

#[tokio::test]
async fn an_order_that_never_ends_is_found_out() {
    is_found_out(Flaw::NeverCloses, Rule::Settles).await;
}

#[tokio::test]
async fn a_forged_notice_is_found_out() {
    is_found_out(Flaw::ForgedNotices, Rule::NoticeGenuine).await;
}

#[tokio::test]
async fn notices_that_overtake_each_other_are_found_out() {
    is_found_out(Flaw::OvertakingNotices, Rule::NoticeInOrder).await;
}

#[tokio::test]
async fn a_fact_told_by_many_events_is_found_out() {
    is_found_out(Flaw::NewEventPerDelivery, Rule::NoticeOnce).await;
}

#[tokio::test]
async fn a_service_that_does_not_tell_the_merchant_is_found_out() {
    is_found_out(Flaw::SilentToMerchants, Rule::NoticeArrives).await;
}

#[tokio::test]
async fn a_tenant_without_a_secret_expects_no_notices() {
    let stage = Stage::set(Flaw::SilentToMerchants).await;
    let mut plan = stage.plan();
    plan.shares = Shares::none();
    plan.tenants.iter_mut().for_each(|tenant| tenant.notice_secret = None);
    let report = stage.attack(plan).await;
    assert_eq!(report.verdict, Verdict::Held, "{}", told(&report));
    assert_eq!(report.checked(Rule::NoticeArrives), 0);
}
