//! More than one process on one database, and processes that die or are stopped.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use crate::{
    engine::{Engine, begin, in_parts_on_each_engine, insert, inserting, pool},
    ledger::{answer, audit, order, ordering, policy, said},
    parts::{Actor, hear, part, say},
    stage::{Stage, claim, key, send, tenant},
};
use hapax_core::{
    Begin, Lease, Ran,
    store::{Answer, Step, Store},
};
use hapax_store::{End, Error, Kind, Sqlite, SqliteStore, Tx};

in_parts_on_each_engine! {
    two_processes_with_eight_workers_each_have_one_winner_a_key
    a_crash_at_any_point_leaves_all_or_nothing
    a_process_that_was_stopped_beyond_its_lease_is_fenced
    two_processes_migrate_at_once
}

const KEYS: usize = 60;

async fn compete<E: Engine>(place: &str) {
    let sql = E::open(&E::at(place)).await.unwrap();
    let operation = ordering(&sql, policy());
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let (sql, operation) = (sql.clone(), operation.clone());
        workers.spawn(async move {
            let mut fresh = 0;
            for step in 0..KEYS {
                let item = (step + worker * 7) % KEYS;
                match order(&sql, &operation, item).await.unwrap() {
                    Ran::Fresh(_) => fresh += 1,
                    Ran::Replayed(_) => {}
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

async fn two_processes_with_eight_workers_each_have_one_winner_a_key<E: Engine>(test: &str) {
    if let Some((_, place)) = part() {
        return compete::<E>(&place).await;
    }
    let stage = Stage::<E>::set().await.with_orders().await;
    let actors = [0, 1].map(|_| Actor::start(test, "compete", stage.place()));
    let fresh: usize =
        actors.into_iter().flat_map(Actor::finish).map(|n| n.parse::<usize>().unwrap()).sum();
    assert_eq!(fresh, KEYS, "each key was fresh once");
    assert_eq!(stage.orders().await.len(), KEYS);
    audit(&stage, &[]).await;
}

/// Workers of one process that dies.
const WORKERS: usize = 4;
/// Kills of one engine.
const KILLS: u64 = 20;

async fn order_until_killed<E: Engine>(place: &str) {
    let sql = E::open(&E::at(place)).await.unwrap();
    let operation = ordering(&sql, policy());
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (sql, operation) = (sql.clone(), operation.clone());
        workers.spawn(async move {
            for step in 0.. {
                let item = step * WORKERS + worker;
                // What a killed process left half-way is another worker's after its lease.
                let call = operation.business(tenant(), key(&item.to_string()));
                let ran = sql.run_in_tx(call, async move |mut tx: Tx<E>| {
                    let answer = answer(item);
                    insert::<E>(&mut tx, &answer).await?;
                    Ok::<_, Error>(End::Commit(answer))
                });
                match ran.await.unwrap() {
                    Ran::Fresh(answer) => say(&format!("fresh {answer}")),
                    Ran::Replayed(answer) => say(&format!("again {answer}")),
                    Ran::Busy { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    workers.join_next().await;
}

async fn a_crash_at_any_point_leaves_all_or_nothing<E: Engine>(test: &str) {
    if let Some((_, place)) = part() {
        return order_until_killed::<E>(&place).await;
    }
    let stage = Stage::<E>::set().await.with_clock().await.with_orders().await;
    let mut given = Vec::new();
    for round in 0..KILLS {
        let actor = Actor::start(test, "order", stage.place());
        // It makes something new, and dies in the middle of whatever it does then.
        let mut told = Vec::new();
        while !told.last().is_some_and(|line: &String| line.starts_with("fresh")) {
            told.push(actor.line());
        }
        tokio::time::sleep(Duration::from_millis(5 + round * 7)).await;
        told.extend(actor.kill());
        given.extend(told.iter().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())));
    }
    // What was left half-way is free after its lease, and is done once.
    stage.pass(Duration::from_secs(3600)).await;
    let operation = ordering(&stage.sql, policy());
    let items = given.iter().filter_map(|answer| answer.split_once('/')?.0.parse::<usize>().ok());
    let most = items.max().unwrap();
    for item in 0..most + 2 * WORKERS {
        given.push(said(order(&stage.sql, &operation, item).await.unwrap()));
    }
    audit(&stage, &given).await;
}

/// What a zombie tries when it wakes.
const TRIES: [&str; 4] = ["seal", "complete", "checkpoint", "open"];

async fn haunt<E: Engine>(place: &str) {
    let sql = E::open(&E::at(place)).await.unwrap();
    let (operation, pool) = (ordering(&sql, policy()), pool::<E>(place).await);
    for round in 0.. {
        let way = TRIES[round % TRIES.len()];
        let call = operation.business(tenant(), key(&round.to_string()));
        let lease: Lease = match call.begin().await.unwrap() {
            Begin::Run(lease) => lease,
            other => panic!("{other:?}"),
        };
        // Where there is one writer, nobody could take over while a transaction is open.
        let open = match way {
            "open" if !E::HAS_ONE_WRITER => {
                let mut tx = begin::<E>(&pool).await;
                E::execute(&mut tx, &inserting(&format!("{round}/zombie"))).await.unwrap();
                Some(tx)
            }
            _ => None,
        };
        say("claimed");
        hear();
        let refused: bool = match way {
            "complete" => {
                let done = lease.complete(hapax_core::Outcome::Value("zombie".into())).await;
                done.unwrap_err().kind() == hapax_core::Kind::Fenced
            }
            "checkpoint" => {
                let kept = lease.checkpoint("zombie".into()).await;
                drop(lease);
                kept.unwrap_err().kind() == hapax_core::Kind::Fenced
            }
            _ => {
                let mut tx = match open {
                    Some(tx) => tx,
                    None => begin::<E>(&pool).await,
                };
                let joined = sql.join(lease, &mut tx).await.unwrap();
                E::execute(&mut tx, &inserting(&format!("{round}/zombie"))).await.unwrap();
                let unsealed = joined.seal(&mut tx, &"zombie").await.unwrap_err();
                tx.rollback().await.unwrap();
                unsealed.error().kind() == Kind::Fenced && unsealed.into_lease().is_none()
            }
        };
        say(if refused { "fenced" } else { "NOT FENCED" });
    }
}

async fn a_process_that_was_stopped_beyond_its_lease_is_fenced<E: Engine>(test: &str) {
    const STOPS: usize = 20;
    if let Some((_, place)) = part() {
        return haunt::<E>(&place).await;
    }
    let stage = Stage::<E>::set().await.with_clock().await.with_orders().await;
    let operation = ordering(&stage.sql, policy());
    let mut zombie = Actor::start(test, "zombie", stage.place());
    let (mut given, mut fenced) = (Vec::new(), 0);
    for round in 0..STOPS {
        assert_eq!(zombie.line(), "claimed");
        zombie.signal("STOP");
        stage.pass(Duration::from_secs(3600)).await;
        match order(&stage.sql, &operation, round).await.unwrap() {
            Ran::Fresh(answer) => given.push(answer),
            other => panic!("{other:?}"),
        }
        zombie.signal("CONT");
        zombie.tell();
        fenced += usize::from(zombie.line() == "fenced");
    }
    zombie.kill();
    assert_eq!(fenced, STOPS, "every late write was refused");
    assert_eq!(stage.orders().await, given, "no row of a zombie is there");
    audit(&stage, &given).await;
}

async fn migrate<E: Engine>(place: &str) {
    hear();
    let sql = E::open(&E::at(place)).await.unwrap();
    let begun = ordering(&sql, policy()).business(tenant(), key("1001")).begin().await.unwrap();
    say(if matches!(begun, Begin::Run(_)) { "run" } else { "busy" });
    hear();
}

async fn two_processes_migrate_at_once<E: Engine>(test: &str) {
    if let Some((_, place)) = part() {
        return migrate::<E>(&place).await;
    }
    for _ in 0..5 {
        let site = E::site().await;
        let place = E::place(&site);
        let mut actors = [0, 1, 2].map(|_| Actor::start(test, "migrate", &place));
        actors.iter_mut().for_each(Actor::tell);
        let mut begun: Vec<_> = actors.iter().map(Actor::line).collect();
        begun.sort();
        assert_eq!(begun, ["busy", "busy", "run"]);
        actors.iter_mut().for_each(Actor::tell);
        actors.into_iter().for_each(|actor| drop(actor.finish()));
    }
}

async fn fill_the_disk(file: &str) {
    let sql = SqliteStore::open(file).await.unwrap();
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

/// A server fills a disk of its own; SQLite fills the application's.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_a_process_goes_on_when_there_is_room() {
    if let Some((_, file)) = part() {
        return fill_the_disk(&file).await;
    }
    let site = Sqlite::site().await;
    let test = "processes::a_full_disk_refuses_and_a_process_goes_on_when_there_is_room";
    let mut actor = Actor::start_confined(test, "fill", &Sqlite::place(&site), 1024);
    assert_eq!(actor.line(), "full");
    actor.relieve();
    actor.tell();
    assert_eq!(actor.line(), "recovered");
    actor.finish();
}
