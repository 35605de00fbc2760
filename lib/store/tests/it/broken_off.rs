//! Transactions that a server breaks off: what ran in them runs again as a whole, or is refused
//! as a whole.
//!
//! In a deadlock PostgreSQL fails all that follows (25P02) and MariaDB forgets what went before
//! (1213). Code that swallows the error and goes on must not commit half of its work in either.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::{
    sync::{Barrier, Notify},
    task::JoinSet,
};

use crate::{
    engine::{
        Conn, Engine, begin, blunder, insert, inserting, on_each_engine, on_each_server, on_engine,
    },
    ledger::policy,
    stage::{Stage, actor, key, tenant},
};
use hapax_core::{
    Begin, Ran,
    machine::Transition,
    message::{Message, MessageId, Outbox, Received, Topic},
};
use hapax_store::{End, Error, Kind, MySql, Postgres, Tx};

mod all {
    use super::*;

    on_each_engine! {
        a_duplicate_leaves_the_callers_transaction_usable
    }
}

on_each_server! {
    a_deadlock_runs_the_whole_write_again
    a_deadlock_runs_the_whole_call_again
    a_swallowed_deadlock_commits_nothing
    a_deadlock_in_a_joined_transaction_gives_the_lease_back
    a_deadlock_at_the_seal_gives_the_lease_back
    a_lock_at_the_seal_gives_the_lease_back
}

mod aborted {
    use super::*;

    on_engine!(postgres: hapax_store::Postgres, a_swallowed_error_is_told_and_keeps_nothing);
}

/// Who is broken off in a deadlock.
trait Deadlocks: Engine {
    /// Makes a transaction the one that is broken off.
    const YIELD: &'static str;
    /// Makes a transaction wait for a lock only so long.
    const IMPATIENT: &'static str;
    /// Makes a transaction the one that is not.
    const INSIST: &'static str;
    /// The code of a write in a transaction that was broken off and then spoilt.
    const SPOILT: &'static str;
}

impl Deadlocks for Postgres {
    const YIELD: &'static str = "SET LOCAL deadlock_timeout = '10ms'";
    const IMPATIENT: &'static str = "SET LOCAL lock_timeout = '100ms'";
    const INSIST: &'static str = "SET LOCAL deadlock_timeout = '1min'";
    const SPOILT: &'static str = "25P02";
}

impl Deadlocks for MySql {
    const YIELD: &'static str = "DO 0";
    const IMPATIENT: &'static str = "SET SESSION innodb_lock_wait_timeout = 1";
    // The one that has written less is broken off.
    const INSIST: &'static str = "INSERT INTO ballast VALUES (1), (2), (3), (4), (5), (6), (7)";
    /// A read-only transaction does not write.
    const SPOILT: &'static str = "25006";
}

/// Two rows that everybody wants.
async fn stage<E: Engine>() -> Arc<Stage<E>> {
    let stage = Stage::<E>::set().await.with_orders().await;
    stage.execute("CREATE TABLE ballast (n INT NOT NULL)").await;
    stage.execute("CREATE TABLE stock (item CHAR(1) PRIMARY KEY, n BIGINT NOT NULL)").await;
    stage.execute("INSERT INTO stock VALUES ('a', 0), ('b', 0)").await;
    Arc::new(stage)
}

async fn take<E: Engine>(conn: &mut Conn<E>, item: &str) -> Result<(), Error> {
    E::execute(conn, &taking(item)).await?;
    Ok(())
}

fn taking(item: &str) -> String {
    format!("UPDATE stock SET n = n + 1 WHERE item = '{item}'")
}

/// How often each was taken.
async fn taken<E: Engine>(stage: &Stage<E>) -> [i64; 2] {
    let mut conn = stage.connect().await;
    let least = E::number(&mut conn, "SELECT min(n) FROM stock").await.unwrap();
    [least, E::number(&mut conn, "SELECT max(n) FROM stock").await.unwrap()]
}

/// Somebody who has one thing and then wants another, and is not broken off for it.
struct Rival {
    turn: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Rival {
    async fn with<E: Deadlocks>(stage: &Arc<Stage<E>>, has: String, wants: String) -> Self {
        let (ready, turn) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (stage, has_it, goes) = (Arc::clone(stage), Arc::clone(&ready), Arc::clone(&turn));
        let task = tokio::spawn(async move {
            let pool = stage.pool().await;
            let mut tx = begin::<E>(&pool).await;
            E::execute(&mut tx, E::INSIST).await.unwrap();
            E::execute(&mut tx, &has).await.unwrap();
            has_it.notify_one();
            goes.notified().await;
            E::execute(&mut tx, &wants).await.unwrap();
            tx.rollback().await.unwrap();
        });
        ready.notified().await;
        Self { turn, task }
    }

    /// It goes for the other thing, and waits for whoever has it.
    async fn go(turn: &Notify) {
        turn.notify_one();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }

    async fn end(self) {
        self.task.await.unwrap();
    }
}

/// Takes both rows, in this order; at the first time both transactions have one when they want
/// the other.
async fn cross<E: Engine>(
    tx: &mut Tx<E>,
    items: [&str; 2],
    meeting: &Barrier,
    runs: &AtomicU32,
) -> Result<(), Error> {
    take::<E>(tx, items[0]).await?;
    if runs.fetch_add(1, Ordering::SeqCst) < 2 {
        meeting.wait().await;
    }
    take::<E>(tx, items[1]).await
}

async fn a_deadlock_runs_the_whole_write_again<E: Engine>() {
    let stage = stage::<E>().await;
    let (meeting, runs) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let mut writes = JoinSet::new();
    for items in [["a", "b"], ["b", "a"]] {
        let (sql, meeting, runs) = (stage.sql.clone(), Arc::clone(&meeting), Arc::clone(&runs));
        writes.spawn(async move {
            sql.write("cross", async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, items[0]).await?;
                cross::<E>(&mut tx, items, &meeting, &runs).await
            })
            .await
        });
    }
    for written in writes.join_all().await {
        written.unwrap();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3, "one of the two ran again");
    assert_eq!(taken(&stage).await, [2, 2], "each took both rows once");
    let mut orders = stage.orders().await;
    orders.sort();
    assert_eq!(orders, ["a", "b"]);
}

async fn a_deadlock_runs_the_whole_call_again<E: Engine>() {
    let stage = stage::<E>().await;
    let order = stage.operation(policy());
    let (meeting, runs) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let mut calls = JoinSet::new();
    for items in [["a", "b"], ["b", "a"]] {
        let (sql, meeting, runs) = (stage.sql.clone(), Arc::clone(&meeting), Arc::clone(&runs));
        let call = order.business(tenant(), key(items[0]));
        calls.spawn(async move {
            sql.run_in_tx(call, async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, items[0]).await?;
                cross::<E>(&mut tx, items, &meeting, &runs).await?;
                Ok::<_, Error>(End::Commit(items[0].to_owned()))
            })
            .await
        });
    }
    for ran in calls.join_all().await {
        assert!(matches!(ran, Ok(Ran::Fresh(_))), "{ran:?}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3, "one of the two ran again");
    assert_eq!(taken(&stage).await, [2, 2], "each took both rows once");
    let mut orders = stage.orders().await;
    orders.sort();
    assert_eq!(orders, ["a", "b"]);
    for item in ["a", "b"] {
        let id = order.business(tenant(), key(item)).id();
        let history = hapax_core::store::Store::history(&stage.sql, id).await.unwrap();
        assert_eq!(history.len(), 2, "one claim, one completion: {history:?}");
    }
}

async fn a_swallowed_deadlock_commits_nothing<E: Deadlocks>() {
    let stage = stage::<E>().await;
    let order = stage.operation(policy());
    // Runs into a deadlock, and goes on as if nothing had been.
    let stumble = async |mut tx: Tx<E>, turn: Arc<Notify>| {
        E::execute(&mut tx, E::YIELD).await?;
        insert::<E>(&mut tx, "before").await?;
        take::<E>(&mut tx, "a").await?;
        Rival::go(&turn).await;
        take::<E>(&mut tx, "b").await.expect_err("it is a deadlock");
        insert::<E>(&mut tx, "after").await.ok();
        Ok::<_, Error>(())
    };
    let rival = Rival::with(&stage, taking("b"), taking("a")).await;
    let turn = Arc::clone(&rival.turn);
    let written = stage.sql.write("stumble", async move |tx: Tx<E>| stumble(tx, turn).await).await;
    rival.end().await;
    assert_eq!(written.unwrap_err().kind(), Kind::Refused);
    assert!(stage.orders().await.is_empty());

    let rival = Rival::with(&stage, taking("b"), taking("a")).await;
    let turn = Arc::clone(&rival.turn);
    let call = order.business(tenant(), key("1001"));
    let ran = stage.sql.run_in_tx(call.clone(), async move |tx: Tx<E>| {
        stumble(tx, turn).await?;
        Ok::<_, Error>(End::Commit(()))
    });
    let ran = ran.await;
    rival.end().await;
    assert_eq!(ran.unwrap_err().kind(), Kind::Refused);
    assert!(stage.orders().await.is_empty());
    assert_eq!(taken(&stage).await, [0, 0]);

    // The key is free, and the connections are whole.
    for _ in 0..20 {
        let call = order.business(tenant(), key("1001"));
        let again = stage.sql.run_in_tx(call, async |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "seat").await?;
            Ok::<_, Error>(End::Commit(()))
        });
        assert!(matches!(again.await.unwrap(), Ran::Fresh(()) | Ran::Replayed(())));
    }
    assert_eq!(stage.orders().await, ["seat"]);
}

fn code(error: &sqlx::Error) -> String {
    error.as_database_error().and_then(|told| told.code()).unwrap_or_default().into_owned()
}

async fn a_deadlock_in_a_joined_transaction_gives_the_lease_back<E: Deadlocks>() {
    let stage = stage::<E>().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let call = order.business(tenant(), key("1001"));
    let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
    let rival = Rival::with(&stage, taking("b"), taking("a")).await;
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    E::execute(&mut tx, E::YIELD).await.unwrap();
    E::execute(&mut tx, &inserting("half")).await.unwrap();
    take::<E>(&mut tx, "a").await.unwrap();
    Rival::go(&rival.turn).await;
    take::<E>(&mut tx, "b").await.expect_err("it is a deadlock");
    rival.end().await;
    // Whoever swallows that hears it from the seal.
    let unsealed = joined.seal(&mut tx, &"done").await.unwrap_err();
    assert_eq!(unsealed.error().kind(), Kind::Refused, "{unsealed:?}");
    let late = E::execute(&mut tx, &inserting("late")).await.unwrap_err();
    assert_eq!(code(&late), E::SPOILT, "{late}");
    tx.commit().await.ok();
    assert!(stage.orders().await.is_empty(), "nothing half-done");

    let lease = unsealed.into_lease().expect("nothing was lost");
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    E::execute(&mut tx, &inserting("whole")).await.unwrap();
    joined.seal(&mut tx, &"done").await.unwrap().commit(tx).await.unwrap();
    assert_eq!(stage.orders().await, ["whole"]);
    assert!(matches!(call.begin().await.unwrap(), Begin::Replay(_)));
}

async fn a_deadlock_at_the_seal_gives_the_lease_back<E: Deadlocks>() {
    let stage = stage::<E>().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let call = order.business(tenant(), key("1001"));
    let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
    let record = "SELECT epoch FROM hapax_records FOR UPDATE".to_owned();
    let rival = Rival::with(&stage, record, taking("a")).await;
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    E::execute(&mut tx, E::YIELD).await.unwrap();
    E::execute(&mut tx, &inserting("half")).await.unwrap();
    take::<E>(&mut tx, "a").await.unwrap();
    Rival::go(&rival.turn).await;
    let unsealed = joined.seal(&mut tx, &"done").await.unwrap_err();
    rival.end().await;
    assert!(unsealed.error().is_retryable(), "{unsealed:?}");
    let late = E::execute(&mut tx, &inserting("late")).await.unwrap_err();
    assert_eq!(code(&late), E::SPOILT, "{late}");
    tx.commit().await.ok();
    assert!(stage.orders().await.is_empty(), "nothing half-done");
    let lease = unsealed.into_lease().expect("nothing was lost");
    let mut tx = begin::<E>(&pool).await;
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    E::execute(&mut tx, &inserting("whole")).await.unwrap();
    joined.seal(&mut tx, &"done").await.unwrap().commit(tx).await.unwrap();
    assert_eq!(stage.orders().await, ["whole"]);
}

/// MariaDB then goes on with the transaction, in which the business's rows are.
async fn a_lock_at_the_seal_gives_the_lease_back<E: Deadlocks>() {
    let stage = stage::<E>().await;
    let (order, pool) = (stage.operation(policy()), stage.pool().await);
    let call = order.business(tenant(), key("1001"));
    let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
    let mut holder = begin::<E>(&pool).await;
    E::texts(&mut holder, "SELECT key_text FROM hapax_records FOR UPDATE").await.unwrap();
    let mut tx = begin::<E>(&pool).await;
    E::execute(&mut tx, E::IMPATIENT).await.unwrap();
    let joined = stage.sql.join(lease, &mut tx).await.unwrap();
    E::execute(&mut tx, &inserting("half")).await.unwrap();
    let unsealed = joined.seal(&mut tx, &"done").await.unwrap_err();
    assert!(unsealed.error().is_retryable(), "{unsealed:?}");
    let late = E::execute(&mut tx, &inserting("late")).await.unwrap_err();
    assert_eq!(code(&late), E::SPOILT, "{late}");
    tx.commit().await.ok();
    assert!(stage.orders().await.is_empty(), "nothing half-done");
    holder.rollback().await.unwrap();
    unsealed.into_lease().expect("nothing was lost").release().await.unwrap();
}

async fn a_swallowed_error_is_told_and_keeps_nothing<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let swallow = async |mut tx: Tx<E>| {
        insert::<E>(&mut tx, "before").await?;
        blunder::<E>(&mut tx).await.expect_err("there is no such table");
        insert::<E>(&mut tx, "after").await.expect_err("the transaction is broken off");
        Ok::<_, Error>(())
    };
    let told = |error: &Error| {
        assert_eq!(error.kind(), Kind::Refused);
        assert_eq!(
            error.to_string(),
            "find the transaction alive: the database refused a statement"
        );
    };
    let written = stage.sql.write("swallow", swallow).await;
    told(&written.unwrap_err());
    for _ in 0..2 {
        let call = order.business(tenant(), key("1001"));
        let ran = stage.sql.run_in_tx(call, async move |tx: Tx<E>| {
            swallow(tx).await?;
            Ok::<_, Error>(End::Commit(()))
        });
        told(&ran.await.unwrap_err());
    }
    assert!(stage.orders().await.is_empty());
    let free = stage.sql.write("free", async |mut tx: Tx<E>| insert::<E>(&mut tx, "seat").await);
    free.await.unwrap();
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn a_duplicate_leaves_the_callers_transaction_usable<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let pool = stage.pool().await;
    let id = MessageId::of(&["paid", "1001"]);
    let message = Message {
        id,
        topic: Topic::parse("order.paid").unwrap(),
        key: "1001".to_owned(),
        payload: "paid".into(),
    };
    let entity = "pay_1".to_owned();
    let moved = Transition {
        kind: "payment",
        entity,
        version: 1,
        from: "created",
        to: "paid",
        event: "moved",
    };
    for (round, expected) in [Received::First, Received::Repeat].into_iter().enumerate() {
        let mut tx = begin::<E>(&pool).await;
        E::execute(&mut tx, &inserting(&format!("before {round}"))).await.unwrap();
        assert_eq!(stage.sql.once(&mut tx, "benefit", id).await.unwrap(), expected);
        assert_eq!(stage.sql.once(&mut tx, "benefit", id).await.unwrap(), Received::Repeat);
        for _ in 0..2 {
            stage.sql.send(&mut tx, &message).await.unwrap();
        }
        let first = stage.sql.transition(&mut tx, &moved, &actor("worker")).await;
        assert_eq!(first.is_ok(), round == 0, "{first:?}");
        let second = stage.sql.transition(&mut tx, &moved, &actor("worker")).await;
        assert_eq!(second.unwrap_err().kind(), Kind::Fenced);
        E::execute(&mut tx, &inserting(&format!("after {round}"))).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(stage.orders().await, ["before 0", "after 0", "before 1", "after 1"]);
    assert_eq!(stage.sql.depth().await.unwrap().waiting, 1);
    assert_eq!(stage.sql.moves("payment", "pay_1", 0, 10).await.unwrap().len(), 1);
}
