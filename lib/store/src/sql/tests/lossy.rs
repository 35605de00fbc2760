//! SQLite behind a line that loses COMMITs and their answers: the one fault that nobody can
//! provoke on a file.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tempfile::TempDir;

use super::hitch::{Hitch, Hitched, Loss};
use crate::{
    error::{Error, Kind},
    sql::{End, Sql, Sqlite, SqliteStore, Tx},
};
use hapax_core::{
    Begin, BusinessKey, Effect, Hapax, Operation, Policy, Ran, Tenant,
    store::{Answer, Step, Store},
};

/// The dialect. Its COMMITs meet the losses of the line, in their order.
type Lossy = Hitched<Sqlite, Line>;

/// The line.
struct Line;

static LINE: Mutex<VecDeque<Loss>> = Mutex::new(VecDeque::new());
/// There is one line: tests use it one at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl Hitch for Line {
    fn loss() -> Loss {
        let loss = LINE.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        loss.unwrap_or(Loss::None)
    }
}

/// A store behind the line, with a table of the business.
struct Shop {
    _dir: TempDir,
    sql: Sql<Lossy>,
    operation: Operation,
}

impl Shop {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let whole = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
        let sql = Sql::<Lossy>::beside(&whole);
        sql.write("set_up", async |mut tx: Tx<Lossy>| {
            sqlx::query("CREATE TABLE orders (item INTEGER NOT NULL)").execute(&mut **tx).await?;
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
        let policy = Policy::new(Effect::Transactional).forever();
        let hapax = Hapax::new(Arc::new(sql.clone()));
        let operation = hapax.declare("shop.order", policy).unwrap();
        Self { _dir: dir, sql, operation }
    }

    fn call(&self, item: i64) -> hapax_core::Call {
        let key = BusinessKey::of(&[&item.to_string()]).unwrap();
        self.operation.business(Tenant::parse("shop").unwrap(), key)
    }

    async fn order(&self, item: i64) -> Result<Ran<i64>, Error> {
        self.sql
            .run_in_tx(self.call(item), async move |mut tx: Tx<Lossy>| {
                let insert = sqlx::query("INSERT INTO orders (item) VALUES (?1)");
                insert.bind(item).execute(&mut **tx).await?;
                Ok(End::Commit(item))
            })
            .await
    }

    async fn orders(&self) -> Vec<i64> {
        let orders = sqlx::query_scalar("SELECT item FROM orders ORDER BY item");
        orders.fetch_all(self.sql.readers()).await.unwrap()
    }
}

/// The next COMMITs meet these losses.
fn meet(losses: impl IntoIterator<Item = Loss>) {
    LINE.lock().unwrap().extend(losses);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_read_back() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    // The claim commits, then the order commits and nobody says so.
    meet([Loss::None, Loss::Answer]);
    assert!(matches!(shop.order(7).await, Ok(Ran::Fresh(7))));
    assert!(matches!(shop.order(7).await, Ok(Ran::Replayed(7))));
    assert_eq!(shop.orders().await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_did_not_arrive_is_run_again_under_its_claim() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    meet([Loss::None, Loss::Request, Loss::Request]);
    assert!(matches!(shop.order(7).await, Ok(Ran::Fresh(7))));
    assert_eq!(shop.orders().await, [7]);
    let history = shop.sql.history(shop.call(7).id()).await.unwrap();
    assert_eq!(history.len(), 2, "one claim, one completion: {history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_is_granted_once() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    meet([Loss::Answer, Loss::Request, Loss::None]);
    assert!(matches!(shop.order(7).await, Ok(Ran::Fresh(7))));
    let history = shop.sql.history(shop.call(7).id()).await.unwrap();
    assert_eq!(history.len(), 2, "the second packet found the first one's claim: {history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_whose_commit_is_not_answered_are_unsure() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    let Begin::Run(lease) = shop.call(7).begin().await.unwrap() else { panic!("it is fresh") };
    let step = Step::Checkpoint { fence: lease.fence(), point: Bytes::from("sent") };
    meet([Loss::Answer]);
    let answers = shop.sql.apply(vec![step.clone()]).await;
    assert!(matches!(answers[..], [Answer::Unsure(_)]), "{answers:?}");
    let answers = shop.sql.apply(vec![step]).await;
    assert!(matches!(answers[..], [Answer::Applied { .. }]), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_of_a_joined_transaction_is_read_back() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    for (loss, committed) in [(Loss::Answer, true), (Loss::Request, false)] {
        let item = i64::from(committed);
        let Begin::Run(lease) = shop.call(item).begin().await.unwrap() else { panic!("fresh") };
        let mut tx = shop.sql.shared().pools.business.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let joined = shop.sql.join(lease, &mut tx).await.unwrap();
        let insert = sqlx::query("INSERT INTO orders (item) VALUES (?1)").bind(item);
        insert.execute(&mut *tx).await.unwrap();
        let sealed = joined.seal(&mut tx, &item).await.unwrap();
        meet([loss]);
        match sealed.commit(tx).await {
            Ok(()) => assert!(committed),
            Err(unsealed) => {
                assert!(!committed, "{unsealed:?}");
                unsealed.into_lease().unwrap().release().await.unwrap();
            }
        }
    }
    assert_eq!(shop.orders().await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_commit_is_not_answered_is_unsure() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    meet([Loss::Answer]);
    let written = shop
        .sql
        .write("order", async |mut tx: Tx<Lossy>| {
            sqlx::query("INSERT INTO orders (item) VALUES (1)").execute(&mut **tx).await?;
            Ok::<_, Error>(())
        })
        .await;
    assert_eq!(written.unwrap_err().kind(), Kind::Unsure);
    assert_eq!(shop.orders().await, [1], "it is not run again on a guess");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_lost_commits_double_and_lose_nothing() {
    let _alone = ALONE.lock().await;
    let shop = Shop::open().await;
    // A fixed mixture that meets claims and orders alike: 200 of 400 are lost.
    let losses = (0..400_u32).map(|serial| match serial * 7 % 11 {
        0..=2 => Loss::Answer,
        3..=4 => Loss::Request,
        _ => Loss::None,
    });
    meet(losses);
    let mut item = 0;
    while !LINE.lock().unwrap().is_empty() {
        item += 1;
        let ran = shop.order(item).await.unwrap();
        assert!(matches!(ran, Ran::Fresh(said) if said == item), "{ran:?}");
    }
    assert_eq!(shop.orders().await, (1..=item).collect::<Vec<_>>());
}
