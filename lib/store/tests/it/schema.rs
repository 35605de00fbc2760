//! The schema and its steps.

use crate::{
    engine::{Engine, on_each_engine},
    stage::{Stage, claim, grant},
};
use hapax_store::{Error, Kind};

on_each_engine! {
    the_steps_are_listed_before_they_are_taken
    every_step_has_a_way_back
    a_newer_schema_is_refused
    an_edited_step_is_refused
    records_outlive_the_store_that_wrote_them
}

async fn the_steps_are_listed_before_they_are_taken<E: Engine>() {
    let site = E::site().await;
    let opening = E::at(&E::place(&site));
    for _ in 0..2 {
        let before = E::migrations(&opening).await.unwrap();
        assert!(before.iter().all(|step| !step.is_applied && step.sql.contains("CREATE TABLE")));
    }
    let taken = E::migrate(&opening).await.unwrap();
    assert!(!taken.is_empty());
    assert!(E::migrate(&opening).await.unwrap().is_empty(), "twice is once");
    assert!(E::migrations(&opening).await.unwrap().iter().all(|step| step.is_applied));
}

async fn every_step_has_a_way_back<E: Engine>() {
    let site = E::site().await;
    let opening = E::at(&E::place(&site));
    let steps = E::migrate(&opening).await.unwrap().len();
    for version in (0..i64::try_from(steps).unwrap()).rev() {
        E::revert(&opening, version).await.unwrap();
        let applied = E::migrations(&opening).await.unwrap();
        let applied = applied.iter().filter(|step| step.is_applied).count();
        assert_eq!(i64::try_from(applied), Ok(version));
    }
    assert_eq!(E::migrate(&opening).await.unwrap().len(), steps, "and forth again");
    E::open(&opening).await.unwrap();
}

fn why(error: &Error) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

async fn a_newer_schema_is_refused<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let newer = format!(
        "INSERT INTO _hapax_migrations (version, description, success, checksum, execution_time)
         VALUES (9999, 'from the future', TRUE, {}, 0)",
        E::octets(&[0])
    );
    stage.execute(&newer).await;
    let error = E::open(&E::at(stage.place())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    let why = why(&error);
    assert!(why.contains("schema version 9999") && why.contains("run a newer build"), "{why}");
}

async fn an_edited_step_is_refused<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let checksum = E::octets(&[0]);
    let edit = format!("UPDATE _hapax_migrations SET checksum = {checksum} WHERE version = 2");
    stage.execute(&edit).await;
    let error = E::open(&E::at(stage.place())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Schema);
    let why = why(&error);
    assert!(why.contains("schema version 2 was applied from another script"), "{why}");
}

async fn records_outlive_the_store_that_wrote_them<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let (granted, fence) = grant(&stage.sql, &claim("1001", 1)).await;
    stage.sql.close().await;
    let again = stage.other().await;
    let (repeated, same) = grant(&again, &claim("1001", 1)).await;
    assert_eq!((repeated.epoch, same), (granted.epoch, fence));
}
