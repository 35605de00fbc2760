//! Answers to COMMIT that never come: what is between the store and its server breaks the wire at
//! the very moment.
//!
//! On each server 200 answers are swallowed, 50 in each of four ways to commit, and 10 requests of
//! each way. That takes some ten seconds a server; the odds of each way are in its 50.

use std::time::{Duration, Instant};

use sqlx::Pool;

use crate::{
    engine::{Engine, begin, insert, inserting, on_each_server, pool},
    ledger::{answer, audit, order, ordering, policy},
    stage::{Stage, key, tenant},
};
use hapax_core::{Begin, Operation, Ran, store::Store};
use hapax_store::{Dialect, Kind, Sql, Tx};
use hapax_testkit::{
    Proxy,
    proxy::{Fate, Request, commits},
};

on_each_server! {
    a_lost_answer_to_a_claim_doubles_and_loses_nothing
    a_lost_commit_of_a_call_doubles_and_loses_nothing
    a_lost_commit_of_a_joined_transaction_doubles_and_loses_nothing
    a_lost_commit_of_a_write_is_unsure_and_never_run_again
}

const ANSWERS: usize = 50;
const REQUESTS: usize = 10;
const LEASE: Duration = Duration::from_secs(10);

fn fates() -> impl Iterator<Item = (usize, Fate)> {
    let answers = std::iter::repeat_n(Fate::AnswerLost, ANSWERS);
    answers.chain(std::iter::repeat_n(Fate::RequestLost, REQUESTS)).enumerate()
}

/// A store behind a wire that breaks.
struct Line<E: Engine> {
    stage: Stage<E>,
    proxy: Proxy,
    sql: Sql<E>,
    operation: Operation,
    pool: Pool<<E as Dialect>::Db>,
    slowest: Duration,
}

impl<E: Engine> Line<E> {
    async fn lay() -> Self {
        let stage = Stage::<E>::set().await.with_orders().await;
        let proxy = Proxy::before(stage.place()).unwrap();
        let sql = E::open(&E::at(&proxy.url())).await.unwrap();
        let operation = ordering(&sql, policy().lease(LEASE));
        let pool = pool::<E>(&proxy.url()).await;
        Self { stage, proxy, sql, operation, pool, slowest: Duration::ZERO }
    }

    /// Does `work`, whose first request that `is_it` accepts meets `fate`.
    #[expect(clippy::disallowed_methods, reason = "measures how long it takes to be sure")]
    async fn lose<T>(
        &mut self,
        fate: Fate,
        is_it: fn(&Request) -> bool,
        work: impl AsyncFn(&Self) -> T,
    ) -> T {
        self.proxy.next(fate, is_it);
        let began = Instant::now();
        let said = work(self).await;
        self.slowest = std::cmp::max(self.slowest, began.elapsed());
        assert_eq!(self.proxy.armed(), 0, "it was lost");
        said
    }

    /// All were lost, everything was resolved within one lease, and the books are right.
    async fn audit(self, given: &[String]) {
        assert_eq!(self.proxy.happened(), u64::try_from(ANSWERS + REQUESTS).unwrap());
        assert_eq!(self.proxy.swallowed(), u64::try_from(ANSWERS).unwrap());
        assert!(self.slowest < LEASE, "it took {:?} to be sure", self.slowest);
        println!("the slowest was sure after {:?}", self.slowest);
        audit(&self.stage, given).await;
    }
}

/// The text of a claim; on MySQL its COMMIT is part of it.
fn claims(request: &Request) -> bool {
    request.text.contains("-- claim_insert")
}

async fn a_lost_answer_to_a_claim_doubles_and_loses_nothing<E: Engine>() {
    let mut line = Line::<E>::lay().await;
    let mut given = Vec::new();
    for (item, fate) in fates() {
        let work = async |line: &Line<E>| order(&line.sql, &line.operation, item).await;
        match line.lose(fate, claims, work).await.unwrap() {
            Ran::Fresh(answer) => given.push(answer),
            other => panic!("{fate:?}: {other:?}"),
        }
        let id = line.operation.business(tenant(), key(&item.to_string())).id();
        let history = line.stage.sql.history(id).await.unwrap();
        assert_eq!(history.len(), 2, "one claim, one completion: {history:?}");
    }
    line.audit(&given).await;
}

async fn a_lost_commit_of_a_call_doubles_and_loses_nothing<E: Engine>() {
    let mut line = Line::<E>::lay().await;
    let mut given = Vec::new();
    for (item, fate) in fates() {
        let work = async |line: &Line<E>| order(&line.sql, &line.operation, item).await;
        match line.lose(fate, commits, work).await.unwrap() {
            Ran::Fresh(answer) => given.push(answer),
            other => panic!("{fate:?}: {other:?}"),
        }
    }
    line.audit(&given).await;
}

async fn a_lost_commit_of_a_joined_transaction_doubles_and_loses_nothing<E: Engine>() {
    let mut line = Line::<E>::lay().await;
    let mut given = Vec::new();
    for (item, fate) in fates() {
        let work = async |line: &Line<E>| {
            let call = line.operation.business(tenant(), key(&item.to_string()));
            let Begin::Run(mut lease) = call.begin().await.unwrap() else { panic!("it is fresh") };
            let mut runs = 1;
            loop {
                let mut tx = begin::<E>(&line.pool).await;
                let joined = line.sql.join(lease, &mut tx).await.unwrap();
                let answer = answer(item);
                E::execute(&mut tx, &inserting(&answer)).await.unwrap();
                let sealed = joined.seal(&mut tx, &answer).await.unwrap();
                match sealed.commit(tx).await {
                    Ok(()) => return (answer, runs),
                    Err(unsealed) => lease = unsealed.into_lease().expect("nothing was lost"),
                }
                runs += 1;
            }
        };
        let (answer, runs) = line.lose(fate, commits, work).await;
        assert_eq!(runs, if fate == Fate::AnswerLost { 1 } else { 2 }, "{fate:?}");
        given.push(answer);
    }
    line.audit(&given).await;
}

async fn a_lost_commit_of_a_write_is_unsure_and_never_run_again<E: Engine>() {
    let mut line = Line::<E>::lay().await;
    for (item, fate) in fates() {
        let work = async |line: &Line<E>| {
            let written = line.sql.write("order", async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, &item.to_string()).await
            });
            written.await.unwrap_err().kind()
        };
        assert_eq!(line.lose(fate, commits, work).await, Kind::Unsure, "{fate:?}");
    }
    let kept: Vec<String> = (0..ANSWERS).map(|item| item.to_string()).collect();
    assert_eq!(line.stage.orders().await, kept, "those that arrived, once each");
    let free = line.sql.write("free", async |mut tx: Tx<E>| insert::<E>(&mut tx, "seat").await);
    free.await.unwrap();
}
