//! The journal of every entity's moves.

use crate::{
    engine::{Engine, on_each_engine},
    stage::{Stage, actor},
};
use hapax_core::machine::Transition;
use hapax_store::{Error, Kind, Sql, Tx};

on_each_engine! {
    a_version_is_left_once
}

async fn go<E: Engine>(
    sql: &Sql<E>,
    version: i64,
    from: &'static str,
    to: &'static str,
) -> Result<(), Error> {
    let journal = sql.clone();
    sql.write("move", async move |mut tx: Tx<E>| {
        let entity = "pay_1".to_owned();
        let moved = Transition { kind: "payment", entity, version, from, to, event: "moved" };
        journal.transition(&mut tx, &moved, &actor("worker")).await
    })
    .await
}

async fn a_version_is_left_once<E: Engine>() {
    let stage = Stage::<E>::set().await;
    go(&stage.sql, 1, "created", "waiting").await.unwrap();
    let error = go(&stage.sql, 1, "created", "failed").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Fenced);
    go(&stage.sql, 2, "waiting", "paid").await.unwrap();
    let moves = stage.sql.moves("payment", "pay_1", 0, 10).await.unwrap();
    let told: Vec<_> =
        moves.iter().map(|line| (line.version, line.from.as_str(), line.to.as_str())).collect();
    assert_eq!(told, [(1, "created", "waiting"), (2, "waiting", "paid")]);
    assert!(stage.sql.moves("payment", "pay_2", 0, 10).await.unwrap().is_empty());
    assert_eq!(stage.sql.moves("payment", "pay_1", 2, 10).await.unwrap().len(), 1);
}
