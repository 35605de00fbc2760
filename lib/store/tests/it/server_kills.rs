//! Servers that are killed in the middle of everything, and come back.
//!
//! Twenty kills a server, ten in each of two ways to commit. A restart takes MariaDB about a
//! second, so that ten fit into the time that one test may take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::Pool;
use tokio::task::JoinSet;

use crate::{
    engine::{Engine, inserting, on_each_server},
    ledger::{answer, audit, order, ordering, policy, said},
    stage::{Stage, key, tenant},
};
use hapax_core::{Begin, Operation, Outcome, Policy};
use hapax_store::{Dialect, MySql, Postgres, Sql};
use hapax_testkit::{
    Server,
    engine::{Engine as ServerEngine, MariaDbEngine, PostgresEngine},
};

on_each_server! {
    a_server_that_is_killed_under_calls_doubles_and_loses_nothing
    a_server_that_is_killed_under_joined_transactions_doubles_and_loses_nothing
}

const KILLS: u64 = 10;
const WORKERS: usize = 4;

trait Mortal: Engine {
    type Engine: ServerEngine;
}

impl Mortal for Postgres {
    type Engine = PostgresEngine;
}

impl Mortal for MySql {
    type Engine = MariaDbEngine;
}

/// A short lease: what a kill leaves half-way is another's soon.
fn hasty() -> Policy {
    policy().lease(Duration::from_secs(2)).attempts_max(1000)
}

/// What workers do until they are told to stop.
struct Work<E: Engine> {
    sql: Sql<E>,
    operation: Operation,
    pool: Pool<<E as Dialect>::Db>,
    next: AtomicUsize,
    is_over: AtomicBool,
}

async fn kill_under<E: Mortal, W>(by: fn(Arc<Work<E>>, usize) -> W)
where
    W: Future<Output = Option<String>> + Send + 'static,
{
    let server = Server::<E::Engine>::start().await.unwrap();
    let stage = Stage::<E>::on(server.url(), Box::new(())).await.with_orders().await;
    let work = Arc::new(Work {
        sql: stage.sql.clone(),
        operation: ordering(&stage.sql, hasty()),
        pool: stage.pool().await,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let work = Arc::clone(&work);
        workers.spawn(async move {
            let mut given = Vec::new();
            while !work.is_over.load(Ordering::SeqCst) {
                let item = work.next.fetch_add(1, Ordering::SeqCst);
                // Whoever is not answered asks again.
                loop {
                    if let Some(answer) = by(Arc::clone(&work), item).await {
                        given.push(answer);
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            given
        });
    }
    let mut served = 0;
    for round in 0..KILLS {
        // It dies at another moment each time, after it has served somebody.
        while work.next.load(Ordering::SeqCst) <= served + WORKERS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(round * 17 % 100)).await;
        server.kill().await.unwrap();
        served = work.next.load(Ordering::SeqCst);
        server.restart().await.unwrap();
    }
    work.is_over.store(true, Ordering::SeqCst);
    let given: Vec<String> = workers.join_all().await.into_iter().flatten().collect();
    println!("{} answers over {KILLS} kills", given.len());
    audit(&stage, &given).await;
    assert_eq!(stage.orders().await.len(), given.len(), "each answer has its row");
}

async fn by_call<E: Engine>(work: Arc<Work<E>>, item: usize) -> Option<String> {
    match order(&work.sql, &work.operation, item).await {
        Ok(ran) => Some(said(ran)),
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            None
        }
    }
}

async fn by_transaction<E: Engine>(work: Arc<Work<E>>, item: usize) -> Option<String> {
    let call = work.operation.business(tenant(), key(&item.to_string()));
    let lease = match call.wait(Duration::from_secs(20)).begin().await {
        Ok(Begin::Run(lease)) => lease,
        Ok(Begin::Replay(Outcome::Value(kept))) => {
            return Some(serde_json::from_slice(&kept).unwrap());
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            return None;
        }
    };
    // Dropped anywhere, the lease is handed on, or lapses.
    let mut tx = work.pool.begin_with(E::BEGIN).await.ok()?;
    let joined = work.sql.join(lease, &mut tx).await.ok()?;
    let answer = answer(item);
    E::execute(&mut tx, &inserting(&answer)).await.ok()?;
    let sealed = joined.seal(&mut tx, &answer).await.ok()?;
    sealed.commit(tx).await.ok()?;
    Some(answer)
}

async fn a_server_that_is_killed_under_calls_doubles_and_loses_nothing<E: Mortal>() {
    kill_under::<E, _>(by_call).await;
}

async fn a_server_that_is_killed_under_joined_transactions_doubles_and_loses_nothing<E: Mortal>() {
    kill_under::<E, _>(by_transaction).await;
}
