//! The service is killed in the middle and comes back; the attacker does not let go.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::toy::{Flaw, Stage, sleep};
use hapax_storm::{Control, Phase, Progress, Rule, Verdict};

#[tokio::test]
async fn storm_gets_through_a_killed_service() {
    let mut stage = Stage::set(Flaw::None).await;
    let mut plan = stage.plan();
    plan.orders = 80;
    plan.pace.waves = 8;
    plan.marks = vec![0.25, 0.5];
    let (marks, mut reached) = mpsc::unbounded_channel();
    let events = move |event| {
        if let Progress::Mark { fraction } = event {
            marks.send(fraction).unwrap();
        }
    };
    let merchant = std::mem::replace(&mut stage.merchant, spare().await);
    let control = Control::new();
    let attack = hapax_storm::run(plan, &merchant, &control, events);
    let kills = async {
        let mut fractions = Vec::new();
        while let Some(fraction) = reached.recv().await {
            fractions.push(fraction);
            stage.kill();
            sleep(Duration::from_millis(400)).await;
            stage.start();
        }
        fractions
    };
    let (report, fractions) = futures_util::future::join(attack, kills).await;
    let report = report.unwrap();
    let told = serde_json::to_string_pretty(&report.findings).unwrap();
    assert_eq!(report.verdict, Verdict::Held, "{told}");
    assert_eq!(fractions.len(), 2);
    assert_eq!(report.orders_ended, 80);
    assert!(report.counts.unreachable > 0 && report.counts.retries > 0, "{:?}", report.counts);
    // What the attacker saw is what the service did: one payment for each purchase.
    let shop = stage.toy.shop();
    for round in shop.orders.values().flatten() {
        let in_force = |no: &&String| {
            let payment = &shop.payments[*no];
            payment.is_open() || (payment.status == "paid" && !payment.surplus)
        };
        assert!(round.payments.iter().filter(in_force).count() <= 1, "{:?}", round.payments);
    }
    assert_eq!(report.broken(Rule::OnePayment), 0);
}

/// A merchant that nobody sends anything to.
async fn spare() -> hapax_storm::Merchant {
    hapax_storm::Merchant::open(0, hapax_storm::Manner::default()).await.unwrap()
}

#[tokio::test]
async fn progress_counts_every_order_through_every_phase() {
    let stage = Stage::set(Flaw::None).await;
    let mut plan = stage.plan();
    plan.orders = 12;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let events = move |event| sink.lock().unwrap().push(event);
    let control = Control::new();
    hapax_storm::run(plan, &stage.merchant, &control, events).await.unwrap();
    let seen = seen.lock().unwrap();
    for phase in [Phase::Submit, Phase::Act, Phase::Settle, Phase::Repeat] {
        let last = Progress::Moved { phase, done: 12, total: 12 };
        assert!(seen.contains(&last), "{phase:?}");
    }
}

#[tokio::test]
async fn a_stopped_attack_ends_soon_and_accuses_nobody() {
    let stage = Stage::set(Flaw::AlwaysFails).await;
    let mut plan = stage.plan();
    plan.pace.deadline = Duration::from_secs(60);
    let control = Control::new();
    let stop = async {
        sleep(Duration::from_millis(500)).await;
        control.stop();
    };
    let attack = hapax_storm::run(plan, &stage.merchant, &control, |_| ());
    let (report, ()) = futures_util::future::join(attack, stop).await;
    let report = report.unwrap();
    assert_eq!(report.broken(Rule::AnswersInTheEnd), 0);
    assert!(report.took_ms < 10_000, "{}", report.took_ms);
    assert_ne!(report.verdict, Verdict::Held);
}
