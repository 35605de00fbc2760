//! A row that the database refuses.

use std::sync::Arc;

use sqlx::Connection;

use crate::stage::{Stage, claim, grant};
use hapax_core::store::{Answer, FaultKind, Step, Store};

/// Whatever concerns this key is refused by the database itself.
async fn poison(stage: &Stage, key: &str) {
    let mut conn = stage.connect().await;
    let triggers = format!(
        "CREATE TRIGGER no_insert BEFORE INSERT ON hapax_records WHEN new.key_text = '{key}'
         BEGIN SELECT RAISE(ABORT, 'poison'); END;
         CREATE TRIGGER no_update BEFORE UPDATE ON hapax_records WHEN new.key_text = '{key}'
         BEGIN SELECT RAISE(ABORT, 'poison'); END;"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(triggers)).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_row_harms_only_itself() {
    let stage = Stage::set().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_harms_only_itself() {
    let stage = Stage::set().await;
    let (_, held) = grant(&stage.sql, &claim("held", 9)).await;
    let (_, damaged) = grant(&stage.sql, &claim("damaged", 9)).await;
    let mut conn = stage.connect().await;
    let newer = sqlx::query("UPDATE hapax_records SET format = 2 WHERE key_text = 'damaged'");
    newer.execute(&mut conn).await.unwrap();
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
