//! A business that keeps books: every effect is a row, nothing keeps one from being there twice,
//! and an audit counts them.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    engine::{Engine, insert},
    stage::{Stage, hapax, key, tenant},
};
use hapax_core::{Effect, Nonce, Operation, Policy, Ran};
use hapax_store::{End, Error, Sql, Tx};

/// Longer than any attempt that another one waits for.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn policy() -> Policy {
    Policy::new(Effect::Transactional).forever()
}

/// The operation whose effects are rows.
pub(crate) fn ordering<E: Engine>(sql: &Sql<E>, policy: Policy) -> Operation {
    hapax(sql).declare("shop.order", policy).unwrap()
}

/// An answer that no other attempt gives.
pub(crate) fn answer(item: usize) -> String {
    let nonce = Nonce::random().unwrap();
    let chance: String = nonce.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{item}/{chance}")
}

/// Orders `item` unless it was ordered, and waits for whoever does it. The row is the answer.
pub(crate) async fn order<E: Engine>(
    sql: &Sql<E>,
    operation: &Operation,
    item: usize,
) -> Result<Ran<String>, Error> {
    let call = operation.business(tenant(), key(&item.to_string())).wait(PATIENCE);
    sql.run_in_tx(call, async move |mut tx: Tx<E>| {
        let answer = answer(item);
        insert::<E>(&mut tx, &answer).await?;
        Ok(End::Commit(answer))
    })
    .await
}

/// What was answered to a call that was not refused.
pub(crate) fn said(ran: Ran<String>) -> String {
    match ran {
        Ran::Fresh(answer) | Ran::Replayed(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Every answer that was given is a row, every item has one row, and a repeat gets that answer.
pub(crate) async fn audit<E: Engine>(stage: &Stage<E>, given: &[String]) {
    let mut rows = BTreeMap::new();
    for row in stage.orders().await {
        let (item, _) = row.split_once('/').unwrap();
        let item: usize = item.parse().unwrap();
        if let Some(other) = rows.insert(item, row.clone()) {
            panic!("item {item} was doubled: {other} and {row}");
        }
    }
    for answer in given {
        let (item, _) = answer.split_once('/').unwrap();
        let row = rows.get(&item.parse().unwrap());
        assert_eq!(row, Some(answer), "an answer that was given was lost");
    }
    let operation = ordering(&stage.sql, policy());
    for (item, row) in rows {
        match order(&stage.sql, &operation, item).await.unwrap() {
            Ran::Replayed(answer) => assert_eq!(answer, row, "a repeat got another answer"),
            other => panic!("item {item} has a row and no answer: {other:?}"),
        }
    }
}
