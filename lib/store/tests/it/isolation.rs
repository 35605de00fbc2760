//! Isolation levels: whatever a server's default is and whatever a caller uses, a key has one
//! winner and everybody gets its answer.

use std::{any::Any, sync::Arc};

use sqlx::Pool;
use tokio::task::JoinSet;

use crate::{
    engine::{Conn, Engine, Own, connect, inserting, on_each_engine, on_each_server},
    ledger::{answer, audit, order, ordering, policy, said},
    stage::{Stage, key, send, tenant},
};
use hapax_core::{
    Begin, Outcome, Ran,
    message::{Message, MessageId, Outbox, Received, Topic},
    store::{Answer, Step},
};
use hapax_store::{Dialect, Error, Joined, Kind, MySql, Postgres, Tx, Unsealed};

mod all {
    use super::*;

    on_each_engine! {
        a_storm_has_one_winner_a_key
    }
}

on_each_server! {
    a_servers_default_changes_nothing
    a_callers_level_changes_nothing
    a_snapshot_from_before_the_claim_or_its_renewal_gives_the_lease_back
    a_storm_of_callers_at_any_level_has_one_winner_a_key
}

const SESSIONS: usize = 16;
const KEYS: usize = 150;
/// Of callers with transactions of their own, at each of four levels.
const OWN_KEYS: usize = 40;

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

trait Levels: Engine {
    /// The level that a session begins its next transactions with.
    const LEVEL: &'static str;
    /// Makes a level that of the caller's transaction, as its first statement.
    const BEGIN_AT: &'static str;

    /// Of a snapshot from before the claim and one from before its renewal, at each level: how many
    /// do not see what the seal must find.
    const OLD_SNAPSHOTS: usize;

    /// A store on a server, or in a database, with this default.
    fn stage_with_default(level: &'static str) -> impl Future<Output = Stage<Self>> + Send;
}

impl Levels for Postgres {
    const LEVEL: &'static str = "SELECT current_setting('transaction_isolation')";
    const BEGIN_AT: &'static str = "BEGIN ISOLATION LEVEL {level}";
    const OLD_SNAPSHOTS: usize = 4;

    async fn stage_with_default(level: &'static str) -> Stage<Self> {
        let site = Self::site().await;
        let mut conn = connect::<Self>(site.url()).await;
        let level = level.to_lowercase();
        let set =
            format!("ALTER DATABASE {} SET default_transaction_isolation = '{level}'", site.name());
        Self::execute(&mut conn, &set).await.unwrap();
        let mut conn = connect::<Self>(site.url()).await;
        assert_eq!(Self::texts(&mut conn, Self::LEVEL).await.unwrap(), [level]);
        Stage::on(site.url().to_owned(), Box::new(site)).await
    }
}

impl Levels for MySql {
    const LEVEL: &'static str = "SELECT lower(replace(@@session.tx_isolation, '-', ' '))";
    const BEGIN_AT: &'static str = "SET TRANSACTION ISOLATION LEVEL {level}; BEGIN";
    // A read that locks sees the latest row at any level.
    const OLD_SNAPSHOTS: usize = 0;

    async fn stage_with_default(level: &'static str) -> Stage<Self> {
        let setting = level.replace(' ', "-");
        let server =
            hapax_testkit::MariaDb::with(&[("transaction-isolation", &setting)]).await.unwrap();
        let mut conn = connect::<Self>(&server.url()).await;
        let shown = Self::texts(&mut conn, Self::LEVEL).await.unwrap();
        assert_eq!(shown, [level.to_lowercase()]);
        Stage::on(server.url(), Box::new(server) as Box<dyn Any + Send + Sync>).await
    }
}

async fn level<E: Levels>(conn: &mut Conn<E>) -> String {
    E::texts(conn, E::LEVEL).await.unwrap().remove(0)
}

/// Sixteen processes, as far as the database can tell, that want the same keys at once.
async fn storm<E: Engine>(stage: &Stage<E>) {
    let mut sessions = JoinSet::new();
    for session in 0..SESSIONS {
        let opening = E::at(stage.place()).steps(1).business(1).readers(1);
        let sql = E::open(&opening).await.unwrap();
        sessions.spawn(async move {
            let operation = ordering(&sql, policy());
            let mut answers = Vec::new();
            for step in 0..KEYS {
                // Half of them come from the other end.
                let item = if session % 2 == 0 { step } else { KEYS - 1 - step };
                answers.push(order(&sql, &operation, item).await.unwrap());
            }
            sql.close().await;
            answers
        });
    }
    let answers: Vec<Ran<String>> = sessions.join_all().await.into_iter().flatten().collect();
    let fresh = answers.iter().filter(|ran| matches!(ran, Ran::Fresh(_))).count();
    assert_eq!(fresh, KEYS, "one winner a key");
    let given: Vec<String> = answers.into_iter().map(said).collect();
    assert_eq!(given.len(), SESSIONS * KEYS, "everybody got an answer");
    assert_eq!(stage.orders().await.len(), KEYS);
    audit(stage, &given).await;
}

async fn a_storm_has_one_winner_a_key<E: Engine>() {
    storm(&Stage::<E>::set().await.with_orders().await).await;
}

async fn a_servers_default_changes_nothing<E: Levels>() {
    for default in LEVELS {
        let stage = E::stage_with_default(default).await.with_orders().await;
        let of_writes = stage.sql.write("level", async |mut tx: Tx<E>| {
            let level = E::texts(&mut tx, E::LEVEL).await?.remove(0);
            Ok::<_, Error>(level)
        });
        assert_eq!(of_writes.await.unwrap(), "read committed", "by default {default}");
        let mut reader = stage.sql.readers().acquire().await.unwrap();
        assert_eq!(level::<E>(&mut reader).await, "read committed", "by default {default}");
        drop(reader);
        storm(&stage).await;
    }
}

async fn a_callers_level_changes_nothing<E: Levels>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let (operation, pool) = (ordering(&stage.sql, policy()), stage.pool().await);
    for (item, at) in LEVELS.into_iter().enumerate() {
        let call = operation.business(tenant(), key(&item.to_string()));
        let id = MessageId::of(&[at]);
        let topic = Topic::parse("order.paid").unwrap();
        let message = Message { id, topic, key: at.to_owned(), payload: "paid".into() };
        let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
        let mut tx = begin_at::<E>(&pool, at).await;
        // Whoever reads first has its snapshot then.
        E::texts(&mut tx, "SELECT item FROM orders").await.unwrap();
        let joined = stage.sql.join(lease, &mut tx).await.unwrap();
        let answer = answer(item);
        E::execute(&mut tx, &inserting(&answer)).await.unwrap();
        let received = stage.sql.once(&mut tx, "benefit", id).await.unwrap();
        assert_eq!(received, Received::First, "at {at}");
        stage.sql.send(&mut tx, &message).await.unwrap();
        let repeat = stage.sql.once(&mut tx, "benefit", id).await.unwrap();
        assert_eq!(repeat, Received::Repeat, "at {at}");
        if let Err(unsealed) = seal_and_commit(joined, tx, &answer).await {
            panic!("at {at}: {unsealed:?}");
        }
        match call.begin().await.unwrap() {
            Begin::Replay(Outcome::Value(kept)) => {
                assert_eq!(kept, serde_json::to_vec(&answer).unwrap());
            }
            other => panic!("at {at}: {other:?}"),
        }
        assert_eq!(stage.sql.depth().await.unwrap().waiting, u64::try_from(item + 1).unwrap());
        // A repeat whose snapshot is newer.
        let mut tx = begin_at::<E>(&pool, at).await;
        let repeat = stage.sql.once(&mut tx, "benefit", id).await.unwrap();
        assert_eq!(repeat, Received::Repeat, "at {at}");
        tx.commit().await.unwrap();
    }
    audit(&stage, &[]).await;
}

/// Begins as a caller with another level would.
async fn begin_at<E: Levels>(pool: &Pool<<E as Dialect>::Db>, level: &str) -> Own<E> {
    let begin = E::BEGIN_AT.replace("{level}", level);
    pool.begin_with(sqlx::AssertSqlSafe(begin)).await.unwrap()
}

async fn seal_and_commit<E: Engine>(
    joined: Joined<E>,
    mut tx: Own<E>,
    answer: &String,
) -> Result<(), Unsealed> {
    joined.seal(&mut tx, answer).await?.commit(tx).await
}

async fn a_snapshot_from_before_the_claim_or_its_renewal_gives_the_lease_back<E: Levels>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let (operation, pool) = (ordering(&stage.sql, policy()), stage.pool().await);
    let mut old = 0;
    for (round, at) in LEVELS.into_iter().enumerate() {
        for is_before_the_claim in [true, false] {
            let item = round * 2 + usize::from(is_before_the_claim);
            let call = operation.business(tenant(), key(&item.to_string()));
            let claim = async || match call.begin().await.unwrap() {
                Begin::Run(lease) => lease,
                other => panic!("it is fresh: {other:?}"),
            };
            let mut lease = if is_before_the_claim { None } else { Some(claim().await) };
            let mut tx = begin_at::<E>(&pool, at).await;
            E::texts(&mut tx, "SELECT item FROM orders").await.unwrap();
            let held = match lease.take() {
                None => claim().await,
                Some(lease) => {
                    let step = Step::Renew { fence: lease.fence(), lease: lease.lease() };
                    assert!(matches!(send(&stage.sql, step).await, Answer::Applied { .. }));
                    lease
                }
            };
            let joined = stage.sql.join(held, &mut tx).await.unwrap();
            let answer = answer(item);
            E::execute(&mut tx, &inserting(&answer)).await.unwrap();
            let Err(unsealed) = seal_and_commit(joined, tx, &answer).await else { continue };
            old += 1;
            let mut failed = Some(unsealed);
            // The lease is renewed at once, perhaps after the next snapshot too.
            while let Some(unsealed) = failed.take() {
                assert_eq!(unsealed.error().kind(), Kind::Unavailable, "at {at}: {unsealed:?}");
                let held = unsealed.into_lease().expect("nothing was lost");
                let mut tx = begin_at::<E>(&pool, at).await;
                let joined = stage.sql.join(held, &mut tx).await.unwrap();
                E::execute(&mut tx, &inserting(&answer)).await.unwrap();
                failed = seal_and_commit(joined, tx, &answer).await.err();
            }
        }
    }
    assert_eq!(old, E::OLD_SNAPSHOTS);
    assert_eq!(stage.orders().await.len(), 2 * LEVELS.len());
    audit(&stage, &[]).await;
}

/// Sessions that claim by the engine and commit in transactions of their own.
async fn a_storm_of_callers_at_any_level_has_one_winner_a_key<E: Levels>() {
    let stage = Arc::new(Stage::<E>::set().await.with_orders().await);
    let mut reruns = 0;
    for (round, at) in LEVELS.into_iter().enumerate() {
        let mut sessions = JoinSet::new();
        for _ in 0..SESSIONS {
            let opening = E::at(stage.place()).steps(1).business(1).readers(1);
            let sql = E::open(&opening).await.unwrap();
            let stage = Arc::clone(&stage);
            sessions.spawn(async move {
                let (operation, pool) = (ordering(&sql, policy()), stage.pool().await);
                let (mut fresh, mut reruns) = (0, 0);
                for step in 0..OWN_KEYS {
                    let item = round * OWN_KEYS + step;
                    let call = operation.business(tenant(), key(&item.to_string()));
                    let call = call.wait(std::time::Duration::from_secs(20));
                    let mut lease = match call.begin().await.unwrap() {
                        Begin::Run(lease) => lease,
                        Begin::Replay(_) => continue,
                        other => panic!("{other:?}"),
                    };
                    loop {
                        let mut tx = begin_at::<E>(&pool, at).await;
                        let joined = sql.join(lease, &mut tx).await.unwrap();
                        let answer = answer(item);
                        E::execute(&mut tx, &inserting(&answer)).await.unwrap();
                        match seal_and_commit(joined, tx, &answer).await {
                            Ok(()) => break,
                            Err(unsealed) => {
                                assert!(unsealed.error().is_retryable(), "at {at}: {unsealed:?}");
                                lease = unsealed.into_lease().expect("nothing was lost");
                                reruns += 1;
                            }
                        }
                    }
                    fresh += 1;
                }
                pool.close().await;
                sql.close().await;
                (fresh, reruns)
            });
        }
        let mut fresh = 0;
        for (won, again) in sessions.join_all().await {
            fresh += won;
            reruns += again;
        }
        assert_eq!(fresh, OWN_KEYS, "one winner a key at {at}");
    }
    println!("{reruns} transactions ran again");
    assert_eq!(stage.orders().await.len(), LEVELS.len() * OWN_KEYS);
    audit(&stage, &[]).await;
}
