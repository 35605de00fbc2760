//! A call whose effect and answer commit together.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    engine::{Engine, begin, blunder, insert, on_each_engine},
    stage::{Stage, key, prints, tenant, value},
};
use hapax_core::{Begin, Busy, Effect, End as Ending, Policy, Ran};
use hapax_store::{End, Error, Kind, MySql, Postgres, Sqlite, Tx};

on_each_engine! {
    a_repeat_gets_the_answer_of_the_first
    a_refusal_keeps_the_answer_and_drops_the_rows
    a_failed_closure_frees_its_key
    a_panic_rolls_back_and_the_class_rules
    a_panic_of_an_opaque_effect_is_held
    a_closure_that_holds_the_writer_too_long_is_rolled_back
    dropped_callers_leave_no_open_transaction
    a_dropped_caller_does_not_stop_its_closure
    duplicates_of_a_slow_key_hold_nothing_that_others_need
    a_closure_that_keeps_its_transaction_is_refused
    ; on servers: a_call_begun_inside_a_closure_has_a_connection_of_its_own
}

fn policy() -> Policy {
    Policy::new(Effect::Transactional).forever()
}

async fn a_repeat_gets_the_answer_of_the_first<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    for round in 0..3_u32 {
        let call = order.business(tenant(), key("1001"));
        let ran = stage
            .sql
            .run_in_tx(call, async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, "seat").await?;
                Ok::<_, Error>(End::Commit(round))
            })
            .await
            .unwrap();
        match round {
            0 => assert!(matches!(ran, Ran::Fresh(0)), "{ran:?}"),
            _ => assert!(matches!(ran, Ran::Replayed(0)), "{ran:?}"),
        }
    }
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn a_refusal_keeps_the_answer_and_drops_the_rows<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    for round in 0..2 {
        let call = order.business(tenant(), key("1001"));
        let ran = stage
            .sql
            .run_in_tx(call, async |mut tx: Tx<E>| {
                insert::<E>(&mut tx, "seat").await?;
                Ok::<_, Error>(End::Refuse("sold out".to_owned()))
            })
            .await
            .unwrap();
        let (Ran::Fresh(said) | Ran::Replayed(said)) = ran else { panic!("{ran:?}") };
        assert_eq!(said, "sold out", "in round {round}");
    }
    assert!(stage.orders().await.is_empty());
}

async fn a_failed_closure_frees_its_key<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let call = order.business(tenant(), key("1001")).prints(prints("bad"));
    let failed = stage
        .sql
        .run_in_tx(call, async |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "seat").await?;
            blunder::<E>(&mut tx).await?;
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    assert_eq!(failed.unwrap_err().kind(), Kind::Refused);
    assert!(stage.orders().await.is_empty());

    let corrected = order.business(tenant(), key("1001")).prints(prints("good"));
    let ran = stage
        .sql
        .run_in_tx(corrected, async |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "seat").await?;
            Ok::<_, Error>(End::Commit(1))
        })
        .await;
    assert!(matches!(ran, Ok(Ran::Fresh(1))), "{ran:?}");
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn a_panic_rolls_back_and_the_class_rules<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    for round in 0..2 {
        // The first attempt hands its claim on in the background.
        let call = order.business(tenant(), key("1001")).wait(Duration::from_secs(5));
        let ran = stage
            .sql
            .run_in_tx(call, async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, "seat").await?;
                assert!(round > 0, "the first closure panics");
                Ok::<_, Error>(End::Commit(round))
            })
            .await;
        match round {
            0 => assert_eq!(ran.unwrap_err().kind(), Kind::Panicked),
            _ => assert!(matches!(ran, Ok(Ran::Fresh(1))), "{ran:?}"),
        }
    }
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn a_panic_of_an_opaque_effect_is_held<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(Policy::new(Effect::Opaque).forever());
    let call = || order.business(tenant(), key("1001"));
    let ran = stage
        .sql
        .run_in_tx(call(), async |tx: Tx<E>| {
            drop(tx);
            panic!("nobody knows what it did outside");
            #[expect(unreachable_code, reason = "says what the closure would answer")]
            Ok::<End<()>, Error>(End::Commit(()))
        })
        .await;
    assert_eq!(ran.unwrap_err().kind(), Kind::Panicked);
    // The doubt is written in the background.
    for _ in 0..100 {
        if let Begin::Held = call().begin().await.unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is held for a person");
}

async fn a_closure_that_holds_the_writer_too_long_is_rolled_back<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy().lease(Duration::from_millis(600)));
    let ran = stage
        .sql
        .run_in_tx(order.business(tenant(), key("1001")), async |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "seat").await?;
            std::future::pending::<()>().await;
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    let error = ran.unwrap_err();
    assert_eq!(error.kind(), Kind::Late);
    assert!(error.to_string().contains("move slow calls out"), "{error}");
    assert!(stage.orders().await.is_empty());
    let ran = order.business(tenant(), key("1001")).begin().await.unwrap();
    assert!(matches!(ran, Begin::Run(_)), "the key is free: {ran:?}");
}

/// On SQLite it would wait for the writer that the closure holds: see `one_writer`.
async fn a_call_begun_inside_a_closure_has_a_connection_of_its_own<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let small = E::at(stage.place()).business(1).steps(1).readers(1);
    let small = E::open(&small).await.unwrap();
    let inner = order.clone();
    let ran = small
        .run_in_tx(order.business(tenant(), key("outer")), async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "outer").await?;
            let begun = inner.business(tenant(), key("inner")).begin().await?;
            let Begin::Run(lease) = begun else { panic!("{begun:?}") };
            lease.complete(value("inner")).await?;
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    assert!(matches!(ran, Ok(Ran::Fresh(()))), "{ran:?}");
    assert_eq!(stage.orders().await, ["outer"]);
}

async fn dropped_callers_leave_no_open_transaction<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    // Each caller goes away one poll later than the one before.
    for polls in 0..12_usize {
        let item = format!("item {polls:02}");
        let call = order.business(tenant(), key(&format!("k{polls}")));
        let mut ran = Box::pin(stage.sql.run_in_tx(call, {
            let item = item.clone();
            async move |mut tx: Tx<E>| {
                insert::<E>(&mut tx, &item).await?;
                tokio::task::yield_now().await;
                Ok::<_, Error>(End::Commit(()))
            }
        }));
        for _ in 0..polls {
            if ran.as_mut().now_or_never().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(ran);
    }
    // Whatever had begun is over soon, and the writer is free for anybody.
    let other = stage.pool().await;
    for polls in 0..12_usize {
        let call = order.business(tenant(), key(&format!("k{polls}"))).wait(Duration::from_secs(5));
        let item = format!("item {polls:02}");
        let ran = stage.sql.run_in_tx(call, async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, &item).await?;
            Ok::<_, Error>(End::Commit(()))
        });
        let ran = ran.await.unwrap();
        assert!(matches!(ran, Ran::Fresh(()) | Ran::Replayed(())), "{ran:?}");
        let tx = begin::<E>(&other).await;
        tx.rollback().await.unwrap();
    }
    let orders = stage.orders().await;
    assert_eq!(orders.len(), 12, "each order once: {orders:?}");
}

async fn a_dropped_caller_does_not_stop_its_closure<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let call = order.business(tenant(), key("1001"));
    let running = tokio::spawn({
        let (sql, started, go_on) = (stage.sql.clone(), Arc::clone(&started), Arc::clone(&go_on));
        async move {
            let ran = sql.run_in_tx(call, async move |mut tx: Tx<E>| {
                started.notify_one();
                go_on.notified().await;
                insert::<E>(&mut tx, "seat").await?;
                Ok::<_, Error>(End::Commit(7))
            });
            ran.await
        }
    });
    started.notified().await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    go_on.notify_one();
    let call = order.business(tenant(), key("1001")).wait(Duration::from_secs(5));
    let again = call.run(|_| async { Ending::Done(8) }).await.unwrap();
    assert!(matches!(again, Ran::Replayed(7)), "{again:?}");
    assert_eq!(stage.orders().await, ["seat"]);
}

async fn duplicates_of_a_slow_key_hold_nothing_that_others_need<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy().busy(Busy::Wait(Duration::from_secs(30))));
    let others_done = Arc::new(Notify::new());
    let runs = Arc::new(AtomicU32::new(0));
    let mut duplicates = JoinSet::new();
    for _ in 0..500 {
        let call = order.business(tenant(), key("slow"));
        let (others_done, runs) = (Arc::clone(&others_done), Arc::clone(&runs));
        duplicates.spawn(call.run(move |_| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            // It ends only if nobody is kept from its work meanwhile.
            others_done.notified().await;
            Ending::Done("slow".to_owned())
        }));
    }
    for item in 0..50 {
        let call = order.business(tenant(), key(&format!("other {item}").replace(' ', "/")));
        let ran = stage.sql.run_in_tx(call, async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, &item.to_string()).await?;
            Ok::<_, Error>(End::Commit(item))
        });
        assert!(matches!(ran.await.unwrap(), Ran::Fresh(_)));
    }
    others_done.notify_one();
    let mut fresh = 0;
    while let Some(ran) = duplicates.join_next().await {
        match ran.unwrap().unwrap() {
            Ran::Fresh(said) => {
                assert_eq!(said, "slow");
                fresh += 1;
            }
            Ran::Replayed(said) => assert_eq!(said, "slow"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((fresh, runs.load(Ordering::SeqCst)), (1, 1));
}

/// A closure that ends its transaction by itself and goes on as code that swallows its errors; the
/// rows that stay.
async fn meddle<E: Engine>(end: &'static str) -> Vec<String> {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let call = order.business(tenant(), key("1001"));
    let ran = stage
        .sql
        .run_in_tx(call.clone(), async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "before").await?;
            E::execute(&mut tx, end).await.ok();
            insert::<E>(&mut tx, "after").await.ok();
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    assert_eq!(ran.unwrap_err().kind(), Kind::Refused, "after {end}");
    let found = call.look().await.unwrap();
    let completed = found.record.is_some_and(|record| record.outcome.is_some());
    assert!(!completed, "an answer that nobody committed, after {end}");
    let kept = stage.orders().await;
    let free = stage.sql.write("next", async |mut tx: Tx<E>| insert::<E>(&mut tx, "next").await);
    free.await.unwrap();
    assert_eq!(stage.orders().await.len(), kept.len() + 1, "its connection is whole, after {end}");
    kept
}

const ENDS: [&str; 4] = ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT; BEGIN"];

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_cannot_commit_past_its_seal_on_sqlite() {
    for end in ENDS {
        assert_eq!(meddle::<Sqlite>(end).await, [""; 0], "rows without an answer, after {end}");
    }
}

/// A server commits what it is told to; what can be had is that no answer is stored for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_commits_is_found_out_on_postgres() {
    let kept = [&["before", "after"][..], &["after"], &[], &["before"]];
    for (end, kept) in ENDS.into_iter().zip(kept) {
        assert_eq!(meddle::<Postgres>(end).await, kept, "after {end}");
    }
}

/// Here, what follows such an end commits nothing by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_commits_is_found_out_on_mysql() {
    let kept = [&["before"][..], &[], &[], &["before"]];
    for (end, kept) in ENDS.into_iter().zip(kept) {
        assert_eq!(meddle::<MySql>(end).await, kept, "after {end}");
    }
}

async fn a_closure_that_keeps_its_transaction_is_refused<E: Engine>() {
    let stage = Stage::<E>::set().await.with_orders().await;
    let order = stage.operation(policy());
    let shelf: Arc<Mutex<Option<Tx<E>>>> = Arc::default();
    let kept = Arc::clone(&shelf);
    let ran = stage
        .sql
        .run_in_tx(order.business(tenant(), key("1001")), async move |mut tx: Tx<E>| {
            insert::<E>(&mut tx, "seat").await?;
            *kept.lock().unwrap() = Some(tx);
            Ok::<_, Error>(End::Commit(()))
        })
        .await;
    assert_eq!(ran.unwrap_err().kind(), Kind::Invalid);
    drop(shelf.lock().unwrap().take());
    let free = stage.sql.write("after", async |mut tx: Tx<E>| insert::<E>(&mut tx, "late").await);
    free.await.unwrap();
    assert_eq!(stage.orders().await, ["late"], "what was kept was rolled back");
}
