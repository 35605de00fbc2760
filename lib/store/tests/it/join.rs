//! The caller's own transaction.

use std::time::Duration;

use crate::{
    engine::{Engine, begin, inserting, on_each_engine},
    stage::{Stage, hapax, key, tenant},
};
use hapax_core::{Begin, Effect, Lease, Operation, Policy};
use hapax_store::Kind;

on_each_engine! {
    rows_and_answer_commit_together
    a_zombie_is_refused_and_changes_nothing
    a_transaction_that_ended_itself_is_not_sealed
    a_caller_may_commit_by_itself_and_say_so
    a_dropped_seal_is_read_back
}

async fn lease(order: &Operation) -> Lease {
    match order.business(tenant(), key("1001")).begin().await.unwrap() {
        Begin::Run(lease) => lease,
        other => panic!("{other:?}"),
    }
}

fn policy() -> Policy {
    Policy::new(Effect::Transactional).forever()
}

async fn rows_and_answer_commit_together<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let lease = lease(&order).await;
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    assert_eq!(joined.attempt(), 1);
    E::execute(&mut tx, &inserting("seat")).await.unwrap();
    let sealed = joined.seal(&mut tx, &"done").await.unwrap();
    assert!(matches!(
        order.business(tenant(), key("1001")).begin().await.unwrap(),
        Begin::Busy { .. }
    ));
    sealed.commit(tx).await.unwrap();
    let again = order.business(tenant(), key("1001")).begin().await.unwrap();
    assert!(matches!(again, Begin::Replay(_)), "{again:?}");
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn a_zombie_is_refused_and_changes_nothing<E: Engine>() {
    let stage = Stage::<E>::set().await.with_clock().await.with_orders().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let zombie = lease(&order).await;
    stage.pass(Duration::from_secs(3600)).await;
    let other = stage.other().await;
    let heir = lease(&hapax(&other).declare("shop.order", policy()).unwrap()).await;
    assert_eq!(heir.attempt(), 2);

    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(zombie, &mut tx).await.unwrap();
    E::execute(&mut tx, &inserting("zombie")).await.unwrap();
    let refused = joined.seal(&mut tx, &"zombie").await.unwrap_err();
    assert_eq!(refused.error().kind(), Kind::Fenced);
    assert!(refused.into_lease().is_none());
    tx.rollback().await.unwrap();

    let mut tx = begin::<E>(&pool).await;
    let joined = other.join(heir, &mut tx).await.unwrap();
    E::execute(&mut tx, &inserting("heir")).await.unwrap();
    joined.seal(&mut tx, &"heir").await.unwrap().commit(tx).await.unwrap();
    assert_eq!(stage.orders().await, ["heir"]);
}

async fn a_transaction_that_ended_itself_is_not_sealed<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let mut held = Some(lease(&order).await);
    for end in ["ROLLBACK", "COMMIT; {}", "ROLLBACK; {}"].map(|end| end.replace("{}", E::BEGIN)) {
        let pool = stage.pool().await;
        let mut tx = begin::<E>(&pool).await;
        let joined = stage.sql.join(held.take().unwrap(), &mut tx).await.unwrap();
        E::execute(&mut tx, &end).await.unwrap();
        let unsealed = joined.seal(&mut tx, &"done").await.unwrap_err();
        assert_eq!(unsealed.error().kind(), Kind::Refused, "after {end}");
        held = unsealed.into_lease();
        assert!(held.is_some(), "nothing was lost, after {end}");
        tx.rollback().await.ok();
    }
    let busy = order.business(tenant(), key("1001")).begin().await.unwrap();
    assert!(matches!(busy, Begin::Busy { .. }), "{busy:?}");
}

async fn a_caller_may_commit_by_itself_and_say_so<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let lease = lease(&order).await;
    let waiting = order.business(tenant(), key("1001")).wait(Duration::from_secs(20));
    let waiting = tokio::spawn(async move { waiting.begin().await });
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    let sealed = joined.seal(&mut tx, &"done").await.unwrap();
    tx.commit().await.unwrap();
    sealed.committed();
    assert!(matches!(waiting.await.unwrap().unwrap(), Begin::Replay(_)));
}

async fn a_dropped_seal_is_read_back<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    // The transaction was rolled back: the next attempt need not wait for the lease.
    let held = lease(&order).await;
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(held, &mut tx).await.unwrap();
    let sealed = joined.seal(&mut tx, &"done").await.unwrap();
    tx.rollback().await.unwrap();
    drop(sealed);
    let next = async {
        loop {
            match order.business(tenant(), key("1001")).begin().await.unwrap() {
                Begin::Run(lease) => return lease,
                Begin::Busy { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
                other => panic!("{other:?}"),
            }
        }
    };
    let lease = tokio::time::timeout(Duration::from_secs(5), next).await.unwrap();
    assert_eq!(lease.attempt(), 2, "it was handed on, not released");

    // The transaction was committed: repeats get the answer.
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    let sealed = joined.seal(&mut tx, &"done").await.unwrap();
    tx.commit().await.unwrap();
    drop(sealed);
    let call = order.business(tenant(), key("1001")).wait(Duration::from_secs(5));
    let again = call.begin().await.unwrap();
    assert!(matches!(again, Begin::Replay(_)), "{again:?}");
}
