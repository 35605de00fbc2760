//! A row that the database refuses.

use std::sync::Arc;

use crate::{
    engine::{Deed, Engine, on_each_engine},
    stage::{Stage, claim, grant},
};
use hapax_core::store::{Answer, FaultKind, Step, Store};

on_each_engine! {
    a_poison_row_harms_only_itself
    a_damaged_record_harms_only_itself
}

/// Whatever concerns this key is refused by the database itself.
async fn poison<E: Engine>(stage: &Stage<E>, key: &str) {
    for deed in [Deed::Insert, Deed::Update] {
        let ours = format!("new.key_text = '{key}'");
        stage.execute(&E::refusal(deed, "hapax_records", &ours)).await;
    }
}

async fn a_poison_row_harms_only_itself<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let (_, held) = grant(&stage.sql, &claim("held", 9)).await;
    poison(&stage, "poison").await;
    let mut steps: Vec<_> =
        (0..30).map(|serial| Step::Claim(Arc::new(claim(&format!("good/{serial}"), 1)))).collect();
    steps.push(Step::Claim(Arc::new(claim("poison", 1))));
    steps.push(Step::Renew { fence: held, lease: std::time::Duration::from_secs(60) });
    steps.sort_by_key(Step::id);
    let poisoned = claim("poison", 1).id;
    for (step, answer) in steps.iter().zip(stage.sql.apply(steps.clone()).await) {
        match answer {
            Answer::Away(fault) => {
                assert_eq!(step.id(), poisoned, "only the poisoned step is away");
                assert_eq!(fault.kind(), FaultKind::Corrupt, "trying again does not help");
            }
            Answer::Granted(_) | Answer::Applied { .. } => assert_ne!(step.id(), poisoned),
            answer => panic!("{answer:?}"),
        }
    }
    let found = stage.sql.look(steps.iter().map(Step::id).collect()).await;
    let kept = found.into_iter().filter(|found| found.as_ref().unwrap().record.is_some()).count();
    assert_eq!(kept, 31, "all but the poisoned one are kept");
}

async fn a_damaged_record_harms_only_itself<E: Engine>() {
    let stage = Stage::<E>::set().await;
    let (_, held) = grant(&stage.sql, &claim("held", 9)).await;
    let (_, damaged) = grant(&stage.sql, &claim("damaged", 9)).await;
    stage.execute("UPDATE hapax_records SET format = 2 WHERE key_text = 'damaged'").await;
    let mut ids = vec![held.id, damaged.id];
    ids.sort();
    for (id, found) in ids.iter().zip(stage.sql.look(ids.clone()).await) {
        match found {
            Ok(found) => assert!(*id == held.id && found.record.is_some()),
            Err(fault) => {
                assert_eq!((*id, fault.kind()), (damaged.id, FaultKind::Corrupt));
            }
        }
    }
    let mut steps: Vec<_> =
        ["held", "damaged"].map(|key| Step::Claim(Arc::new(claim(key, 1)))).into();
    steps.sort_by_key(Step::id);
    for (step, answer) in steps.iter().zip(stage.sql.apply(steps.clone()).await) {
        match answer {
            Answer::Found(_) => assert_eq!(step.id(), held.id),
            Answer::Away(fault) => {
                assert_eq!((step.id(), fault.kind()), (damaged.id, FaultKind::Corrupt));
            }
            answer => panic!("{answer:?}"),
        }
    }
}
