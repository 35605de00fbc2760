//! Duplicates of one slow key, and everybody else.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Notify, task::JoinSet};

use crate::{
    engine::{Engine, insert, on_each_engine},
    ledger::{order, policy},
    stage::{Stage, hapax, key, tenant},
};
use hapax_core::{Busy, Operation, Ran};
use hapax_store::{End, Error, Sql, Tx};

on_each_engine! {
    duplicates_of_a_slow_key_leave_other_keys_their_rate
}

const DUPLICATES: usize = 500;
/// Connections of each pool.
const POOL: u32 = 5;
/// Others at work: the slow one has a connection too.
const OTHERS: usize = 4;
/// Calls of each in one round.
const CALLS: usize = 25;
/// Rounds of each kind, in turn. The best of each is compared: what a busy machine takes from a
/// round it takes from either kind. A few do on a quiet machine; where duplicates really held what
/// others need, no number of rounds would.
const ROUNDS_MIN: usize = 3;
const ROUNDS_MAX: usize = 15;
/// What the others must keep of their rate.
const KEPT: f64 = 0.8;

/// How long the others take.
#[expect(clippy::disallowed_methods, reason = "measures a rate")]
async fn round<E: Engine>(sql: &Sql<E>, operation: &Operation, first: usize) -> Duration {
    let began = Instant::now();
    let mut others = JoinSet::new();
    for other in 0..OTHERS {
        let (sql, operation) = (sql.clone(), operation.clone());
        others.spawn(async move {
            for call in 0..CALLS {
                let item = first + other * CALLS + call;
                let ran = order(&sql, &operation, item).await.unwrap();
                assert!(matches!(ran, Ran::Fresh(_)), "{ran:?}");
            }
        });
    }
    others.join_all().await;
    began.elapsed()
}

async fn duplicates_of_a_slow_key_leave_other_keys_their_rate<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let opening = E::at(stage.place()).steps(POOL).business(POOL).readers(POOL);
    let sql = E::open(&opening.hold_max(Duration::from_secs(40))).await.unwrap();
    let patient = Busy::Wait(Duration::from_secs(60));
    let policy = policy().lease(Duration::from_secs(60)).busy(patient);
    let operation = hapax(&sql).declare("shop.order", policy).unwrap();
    round(&sql, &operation, 1_000_000).await;
    let (mut alone, mut crowded) = (Vec::new(), Vec::new());
    let best = |rounds: &[Duration]| rounds.iter().min().map_or(f64::NAN, Duration::as_secs_f64);
    let mut kept = 0.0;
    for turn in 0..ROUNDS_MAX {
        let first = turn * 10_000;
        alone.push(round(&sql, &operation, first).await);

        let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut duplicates = JoinSet::new();
        for _ in 0..DUPLICATES {
            let call = operation.business(tenant(), key(&format!("slow/{turn}")));
            let (sql, started, go_on) = (sql.clone(), Arc::clone(&started), Arc::clone(&go_on));
            duplicates.spawn(async move { slow(&sql, call, started, go_on).await });
        }
        started.notified().await;
        // All of them are there, and wait.
        tokio::time::sleep(Duration::from_millis(100)).await;
        crowded.push(round(&sql, &operation, first + 5_000).await);
        go_on.notify_one();
        let fresh = duplicates.join_all().await.into_iter().filter(|is_fresh| *is_fresh).count();
        assert_eq!(fresh, 1);
        kept = best(&alone) / best(&crowded);
        if turn + 1 >= ROUNDS_MIN && kept >= KEPT {
            break;
        }
    }
    println!("others keep {kept:.2} of their rate: {alone:?} alone, {crowded:?} with duplicates");
    assert!(kept >= KEPT, "others keep {kept:.2}: {alone:?} alone, {crowded:?} with duplicates");
}

/// A transaction that lasts as long as the others want; where there is one writer it would have
/// them all wait, so that there the slow part is before it.
async fn slow<E: Engine>(
    sql: &Sql<E>,
    call: hapax_core::Call,
    started: Arc<Notify>,
    go_on: Arc<Notify>,
) -> bool {
    if E::HAS_ONE_WRITER {
        let work = async move |_| {
            started.notify_one();
            go_on.notified().await;
            hapax_core::End::Done("slow".to_owned())
        };
        return matches!(call.run(work).await.unwrap(), Ran::Fresh(_));
    }
    let ran = sql.run_in_tx(call, async move |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "slow").await?;
        started.notify_one();
        go_on.notified().await;
        Ok::<_, Error>(End::Commit("slow".to_owned()))
    });
    matches!(ran.await.unwrap(), Ran::Fresh(_))
}
