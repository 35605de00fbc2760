//! More than one process on one file, and processes that die.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::task::JoinSet;

use crate::{
    parts::{Actor, hear, part, say},
    stage::{Stage, claim, hapax, key, send, tenant, value},
};
use hapax_core::{
    Begin, Effect, Hapax, Lease, Operation, Policy, Ran,
    store::{Answer, Step, Store},
};
use hapax_store::{End, Error, Kind, Sqlite, SqliteStore, Tx};

fn policy() -> Policy {
    Policy::new(Effect::Transactional).forever()
}

fn play(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

async fn open(file: &Path) -> (SqliteStore, Operation) {
    let sql = SqliteStore::open(file).await.unwrap();
    let order = Hapax::new(Arc::new(sql.clone())).declare("shop.order", policy()).unwrap();
    (sql, order)
}

/// Orders `item` unless it was ordered; waits for whoever does it.
async fn order(sql: &SqliteStore, order: &Operation, item: usize) -> Result<Ran<usize>, Error> {
    let call = order.business(tenant(), key(&item.to_string())).wait(Duration::from_secs(20));
    sql.run_in_tx(call, async move |mut tx: Tx<Sqlite>| {
        let insert = sqlx::query("INSERT INTO orders (item) VALUES (?1)").bind(item.to_string());
        insert.execute(&mut **tx).await?;
        Ok(End::Commit(item))
    })
    .await
}

const KEYS: usize = 60;

async fn compete(file: &Path) {
    let (sql, operation) = open(file).await;
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let (sql, operation) = (sql.clone(), operation.clone());
        workers.spawn(async move {
            let mut fresh = 0;
            for step in 0..KEYS {
                let item = (step + worker * 7) % KEYS;
                match order(&sql, &operation, item).await.unwrap() {
                    Ran::Fresh(said) => {
                        assert_eq!(said, item);
                        fresh += 1;
                    }
                    Ran::Replayed(said) => assert_eq!(said, item),
                    other => panic!("{other:?}"),
                }
            }
            fresh
        });
    }
    let mut fresh = 0;
    while let Some(worker) = workers.join_next().await {
        fresh += worker.unwrap();
    }
    sql.close().await;
    say(&fresh.to_string());
}

#[test]
fn two_processes_with_eight_workers_each_have_one_winner_a_key() {
    if let Some((_, file)) = part() {
        return play(compete(&file));
    }
    play(async {
        let stage = Stage::set().await.with_orders().await;
        let test = "processes::two_processes_with_eight_workers_each_have_one_winner_a_key";
        let actors = [0, 1].map(|_| Actor::start(test, "compete", &stage.path()));
        let fresh: usize =
            actors.into_iter().flat_map(Actor::finish).map(|n| n.parse::<usize>().unwrap()).sum();
        assert_eq!(fresh, KEYS, "each key was fresh once");
        let mut orders = stage.orders().await;
        orders.sort_by_key(|item| item.parse::<usize>().unwrap());
        assert_eq!(orders, (0..KEYS).map(|item| item.to_string()).collect::<Vec<_>>());
    });
}

async fn order_until_killed(file: &Path) {
    let (sql, operation) = open(file).await;
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let (sql, operation) = (sql.clone(), operation.clone());
        workers.spawn(async move {
            for step in 0.. {
                let item = step * 4 + worker;
                match order(&sql, &operation, item).await.unwrap() {
                    Ran::Fresh(_) | Ran::Replayed(_) => say(&item.to_string()),
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    workers.join_next().await;
}

/// Every acknowledged order is there, every order is there once, and each has its answer.
async fn audit(stage: &Stage, acknowledged: &[usize]) {
    let mut orders: Vec<usize> =
        stage.orders().await.iter().map(|item| item.parse().unwrap()).collect();
    orders.sort_unstable();
    let count = orders.len();
    orders.dedup();
    assert_eq!(orders.len(), count, "an order was doubled");
    for item in acknowledged {
        assert!(orders.binary_search(item).is_ok(), "acknowledged order {item} was lost");
    }
    let operation = stage.operation(policy());
    for item in &orders {
        let call = operation.business(tenant(), key(&item.to_string()));
        match call.begin().await.unwrap() {
            Begin::Replay(_) => {}
            other => panic!("order {item} has rows and no answer: {other:?}"),
        }
    }
}

#[test]
fn a_crash_at_any_point_leaves_all_or_nothing() {
    if let Some((_, file)) = part() {
        return play(order_until_killed(&file));
    }
    play(async {
        let stage = Stage::set().await.with_orders().await;
        let test = "processes::a_crash_at_any_point_leaves_all_or_nothing";
        let mut acknowledged = Vec::new();
        for round in 0..12_u64 {
            let actor = Actor::start(test, "order", &stage.path());
            // It has begun, and dies in the middle of whatever it does then.
            acknowledged.push(actor.line());
            tokio::time::sleep(Duration::from_millis(20 + round * 13)).await;
            acknowledged.extend(actor.kill());
            let acknowledged: Vec<usize> =
                acknowledged.iter().map(|item| item.parse().unwrap()).collect();
            audit(&stage, &acknowledged).await;
            // Claims of the dead lapse before the next round.
            stage.pass(Duration::from_secs(60)).await;
        }
        // Whatever was left half-way is free again, and is done once.
        let (sql, operation) = (stage.sql.clone(), stage.operation(policy()));
        let most = acknowledged.iter().map(|item| item.parse::<usize>().unwrap()).max().unwrap();
        for item in 0..most + 8 {
            let ran = order(&sql, &operation, item).await.unwrap();
            assert!(matches!(ran, Ran::Fresh(_) | Ran::Replayed(_)), "{ran:?}");
        }
        audit(&stage, &(0..most + 8).collect::<Vec<_>>()).await;
    });
}

async fn hold_and_wait(file: &Path) {
    let (sql, operation) = open(file).await;
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let lease: Lease = match operation.business(tenant(), key("1001")).begin().await.unwrap() {
        Begin::Run(lease) => lease,
        other => panic!("{other:?}"),
    };
    say("claimed");
    hear();
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let joined = sql.join(lease, &mut tx).await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('zombie')").execute(&mut *tx).await.unwrap();
    let refused = joined.seal(&mut tx, &"zombie").await.unwrap_err();
    assert_eq!(refused.error().kind(), Kind::Fenced);
    say("fenced");
}

#[test]
fn a_process_that_was_stopped_beyond_its_lease_is_fenced() {
    if let Some((_, file)) = part() {
        return play(hold_and_wait(&file));
    }
    play(async {
        let stage = Stage::set().await.with_orders().await;
        let test = "processes::a_process_that_was_stopped_beyond_its_lease_is_fenced";
        let mut zombie = Actor::start(test, "zombie", &stage.path());
        assert_eq!(zombie.line(), "claimed");
        zombie.signal("STOP");
        stage.pass(Duration::from_secs(3600)).await;
        let order = stage.operation(policy());
        match order.business(tenant(), key("1001")).begin().await.unwrap() {
            Begin::Run(heir) => {
                assert_eq!(heir.attempt(), 2);
                heir.complete(value("heir")).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
        zombie.signal("CONT");
        zombie.tell();
        assert_eq!(zombie.line(), "fenced");
        zombie.finish();
        assert!(stage.orders().await.is_empty(), "the zombie's rows were rolled back");
    });
}

async fn fill_the_disk(file: &Path) {
    let (sql, _) = open(file).await;
    let mut kept = Vec::new();
    let refused = loop {
        let claim = claim(&kept.len().to_string(), 1);
        match send(&sql, Step::Claim(Arc::new(claim.clone()))).await {
            Answer::Granted(_) => kept.push(claim),
            Answer::Away(_) | Answer::Unsure(_) => break claim,
            answer => panic!("{answer:?}"),
        }
    };
    say("full");
    let found = sql.look(kept.iter().map(|claim| claim.id).collect()).await;
    assert!(found.into_iter().all(|found| found.unwrap().record.is_some()), "none was lost");
    hear();
    // Room again: the same process goes on, and asks for what it was not sure about.
    let answer = send(&sql, Step::Claim(Arc::new(refused))).await;
    assert!(matches!(answer, Answer::Granted(_)), "{answer:?}");
    say("recovered");
}

#[test]
fn a_full_disk_refuses_and_a_process_goes_on_when_there_is_room() {
    if let Some((_, file)) = part() {
        return play(fill_the_disk(&file));
    }
    let dir = tempfile::tempdir().unwrap();
    let test = "processes::a_full_disk_refuses_and_a_process_goes_on_when_there_is_room";
    let file = dir.path().join("hapax.db");
    let mut actor = Actor::start_confined(test, "fill", &file, 1024);
    assert_eq!(actor.line(), "full");
    actor.relieve();
    actor.tell();
    assert_eq!(actor.line(), "recovered");
    actor.finish();
}

async fn migrate(file: &Path) {
    hear();
    let sql = SqliteStore::open(file).await.unwrap();
    let order = hapax(&sql).declare("shop.order", policy()).unwrap();
    let begun = order.business(tenant(), key("1001")).begin().await.unwrap();
    say(if matches!(begun, Begin::Run(_)) { "run" } else { "busy" });
    hear();
}

#[test]
fn two_processes_migrate_at_once() {
    if let Some((_, file)) = part() {
        return play(migrate(&file));
    }
    for _ in 0..5 {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hapax.db");
        let test = "processes::two_processes_migrate_at_once";
        let mut actors = [0, 1, 2].map(|_| Actor::start(test, "migrate", &file));
        actors.iter_mut().for_each(Actor::tell);
        let mut begun: Vec<_> = actors.iter().map(Actor::line).collect();
        begun.sort();
        assert_eq!(begun, ["busy", "busy", "run"]);
        actors.iter_mut().for_each(Actor::tell);
        actors.into_iter().for_each(|actor| drop(actor.finish()));
    }
}
