//! Locks as rows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinSet;

use crate::{
    engine::{Engine, on_each_engine},
    stage::{Stage, nonce, tenant},
};
use hapax_core::{
    Epoch,
    lock::{Hold, LockName, Locks},
    purge::Purge,
};
use hapax_store::Sql;

on_each_engine! {
    a_lock_has_one_holder
    a_fence_rises_with_every_holder
    a_lock_that_was_given_back_is_not_renewed
    a_lease_that_has_ended_is_over
    whoever_waits_is_told_that_a_lock_is_free
    sixteen_who_meet_have_one_winner
}

const LEASE: Duration = Duration::from_secs(10);

fn name(object: &str) -> LockName {
    LockName::of(&tenant(), "order", object)
}

async fn acquire<E: Engine>(sql: &Sql<E>, owner: u8) -> Hold {
    sql.acquire(name("1001"), nonce(owner), LEASE).await.unwrap()
}

fn fence(hold: Hold) -> Epoch {
    match hold {
        Hold::Mine { fence } => fence,
        Hold::Taken { .. } => panic!("{hold:?}"),
    }
}

async fn a_lock_has_one_holder<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let other = stage.other().await;
    let mine = fence(acquire(&stage.sql, 1).await);
    assert_eq!(fence(acquire(&stage.sql, 1).await), mine, "asking again changes nothing");
    match acquire(&other, 2).await {
        Hold::Taken { until, now } => assert!(until > now && until <= now.plus(LEASE)),
        Hold::Mine { .. } => panic!("it has two holders"),
    }
    let elsewhere = other.acquire(name("1002"), nonce(2), LEASE).await.unwrap();
    assert!(matches!(elsewhere, Hold::Mine { .. }), "another object is another lock");
}

async fn a_fence_rises_with_every_holder<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    stage.pass(Duration::from_secs(100_000)).await;
    let mut last = Epoch::from_stored(0);
    for round in 0..6_u8 {
        let fence = fence(acquire(&stage.sql, round).await);
        assert!(fence > last, "{fence:?} after {last:?}");
        last = fence;
        match round % 3 {
            0 => assert!(stage.sql.release(name("1001"), nonce(round)).await.unwrap()),
            1 => drop(stage.pass(LEASE).await),
            _ => {
                stage.pass(LEASE).await;
                assert_eq!(stage.sql.old_locks().purge(10).await.unwrap(), 1);
            }
        }
    }
}

async fn a_lock_that_was_given_back_is_not_renewed<E: Engine>() {
    let stage = Stage::<E>::set().await;
    acquire(&stage.sql, 1).await;
    assert!(matches!(
        stage.sql.renew(name("1001"), nonce(1), LEASE).await.unwrap(),
        Hold::Mine { .. }
    ));
    assert!(!stage.sql.release(name("1001"), nonce(2)).await.unwrap(), "not the stranger's");
    assert!(stage.sql.release(name("1001"), nonce(1)).await.unwrap());
    assert!(!stage.sql.release(name("1001"), nonce(1)).await.unwrap(), "twice is once");
    let renewed = stage.sql.renew(name("1001"), nonce(1), LEASE).await.unwrap();
    assert!(matches!(renewed, Hold::Taken { until, now } if until <= now), "{renewed:?}");
}

async fn a_lease_that_has_ended_is_over<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await;
    acquire(&stage.sql, 1).await;
    stage.pass(LEASE).await;
    let renewed = stage.sql.renew(name("1001"), nonce(1), LEASE).await.unwrap();
    assert!(matches!(renewed, Hold::Taken { until, now } if until <= now), "{renewed:?}");
    assert!(!stage.sql.release(name("1001"), nonce(1)).await.unwrap());
    fence(acquire(&stage.sql, 2).await);
    let renewed = stage.sql.renew(name("1001"), nonce(1), LEASE).await.unwrap();
    assert!(matches!(renewed, Hold::Taken { until, now } if until > now), "{renewed:?}");
}

async fn whoever_waits_is_told_that_a_lock_is_free<E: Engine>() {
    let stage = Stage::<E>::set().await;
    acquire(&stage.sql, 1).await;
    let freed = stage.sql.freed(name("1001"));
    stage.sql.release(name("1001"), nonce(1)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), freed).await.expect("a hint comes");
}

async fn sixteen_who_meet_have_one_winner<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let stores = [stage.sql.clone(), stage.other().await];
    let winners = Arc::new(AtomicU32::new(0));
    let mut rivals = JoinSet::new();
    for owner in 0..16_u8 {
        let (sql, winners) = (stores[usize::from(owner % 2)].clone(), Arc::clone(&winners));
        rivals.spawn(async move {
            if let Hold::Mine { .. } = acquire(&sql, owner).await {
                winners.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    while let Some(rival) = rivals.join_next().await {
        rival.unwrap();
    }
    assert_eq!(winners.load(Ordering::SeqCst), 1);
}
