//! Callers that go away, and what they must not leave: a connection inside of a transaction.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::{
    engine::{Conn, Engine, insert, on_each_server},
    ledger::{answer, order, ordering, policy},
    stage::{Stage, claim, key, nonce, tenant},
};
use hapax_core::{
    Busy, Policy, Ran,
    lock::{LockName, Locks},
    message::Outbox,
    store::{Scan, Step, Store},
};
use hapax_store::{End, Error, MySql, Postgres, Tx};

on_each_server! {
    dropped_callers_leave_no_connection_in_a_transaction
}

/// Callers that go away.
const CALLERS: usize = 400;
/// Whatever they began is over by then.
const QUIET: Duration = Duration::from_secs(10);
/// MariaDB shows the same list again to whoever asks within a tenth of a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Each of these callers counts as an attempt that died.
fn patient() -> Policy {
    policy().attempts_max(1000)
}

trait Sessions: Engine {
    /// Counts the sessions of this database that are in a transaction and do nothing.
    const IDLE: &'static str;
    /// What they are, in words.
    const LEFT: &'static str;
}

impl Sessions for Postgres {
    const IDLE: &'static str = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    const LEFT: &'static str = "SELECT query FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
}

impl Sessions for MySql {
    const IDLE: &'static str = "SELECT count(*) FROM information_schema.innodb_trx AS t
        JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
        WHERE p.db = DATABASE()";
    const LEFT: &'static str =
        "SELECT concat_ws(' ', t.trx_started, now(), t.trx_state, t.trx_rows_locked,
        t.trx_rows_modified, t.trx_isolation_level, p.command, p.time, p.state, p.info)
        FROM information_schema.innodb_trx AS t
        JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id
        WHERE p.db = DATABASE()";
}

/// Begins something and goes away after so many polls and so many milliseconds.
async fn vanish(work: impl Future, polls: usize) {
    let mut work = Box::pin(work);
    for _ in 0..polls {
        if work.as_mut().now_or_never().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn begin_something<E: Engine>(stage: &Stage<E>, caller: usize) {
    let (sql, polls) = (stage.sql.clone(), caller / 8 % 7);
    let operation = ordering(&sql, patient().busy(Busy::Refuse));
    let call = operation.business(tenant(), key(&format!("{}", caller % 40)));
    match caller % 8 {
        0 | 1 => {
            let work = async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, &answer(caller % 40)).await?;
                Ok::<_, Error>(End::Commit(format!("by caller {caller}")))
            };
            vanish(sql.run_in_tx(call, work), polls).await;
        }
        2 => {
            let write = sql.write("vanish", async move |mut tx: Tx<E>| {
                E::execute(&mut tx, "INSERT INTO ballast VALUES (1)").await?;
                Ok::<_, Error>(())
            });
            vanish(write, polls).await;
        }
        3 => vanish(call.begin(), polls).await,
        4 => {
            let step = Step::Claim(claim(&format!("step/{caller}"), 1).into());
            vanish(sql.apply(vec![step]), polls).await;
        }
        5 => vanish(sql.claim(10, Duration::from_secs(1)), polls).await,
        6 => {
            let name = LockName::of(&tenant(), "order", "1001");
            vanish(sql.acquire(name, nonce(1), Duration::from_secs(1)), polls).await;
        }
        _ => {
            let scan = Scan { operation: None, status: None, after: None, limit: 10 };
            vanish(sql.scan(scan), polls).await;
            vanish(sql.now(), polls).await;
            vanish(sql.purge(10), polls).await;
        }
    }
}

async fn idle<E: Sessions>(conn: &mut Conn<E>) -> i64 {
    E::number(conn, E::IDLE).await.unwrap()
}

async fn dropped_callers_leave_no_connection_in_a_transaction<E: Sessions>() {
    let stage = Stage::<E>::set().await.with_clock().await.with_orders().await;
    stage.execute("CREATE TABLE ballast (n INT NOT NULL)").await;
    for batch in 0..CALLERS / 8 {
        let callers = (0..8).map(|at| begin_something(&stage, batch * 8 + at));
        futures_util::future::join_all(callers).await;
    }
    let mut conn = stage.connect().await;
    let quiet = async {
        while idle::<E>(&mut conn).await > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(QUIET, quiet).await.is_err() {
        let left = E::texts(&mut conn, E::LEFT).await.unwrap();
        panic!("connections were left in a transaction: {left:?}");
    }

    // Every connection of every pool still works.
    stage.pass(Duration::from_secs(3600)).await;
    let mut calls = JoinSet::new();
    for item in 0..40 {
        let sql = stage.sql.clone();
        calls.spawn(async move { order(&sql, &ordering(&sql, patient()), item).await });
    }
    for ran in calls.join_all().await {
        let ran = ran.unwrap();
        assert!(matches!(ran, Ran::Fresh(_) | Ran::Replayed(_)), "{ran:?}");
    }
    tokio::time::sleep(LOOK_EVERY).await;
    assert_eq!(idle::<E>(&mut conn).await, 0);
    assert_eq!(stage.orders().await.len(), 40, "each order once");
}
