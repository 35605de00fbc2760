//! SQLite with one guard clause taken away: somebody must notice, for each of them.

use std::{
    panic::catch_unwind,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use sqlx::AssertSqlSafe;
use tempfile::TempDir;

use super::{
    hitch::{Hitch, Hitched},
    oracle,
};
use crate::{
    error::Error,
    sql::{Sql, Sqlite, SqliteStore, Tx, dialect::all},
};
use hapax_contract::{BoxFuture, locks, outbox};
use hapax_core::{
    Nonce, Tenant,
    lock::{LockName, Locks},
    message::{Message, Outbox},
};

/// The dialect. It sends the [bent](BEND) text in place of the right one.
type Bent = Hitched<Sqlite, Bends>;

/// What bends texts.
struct Bends;

/// The right text and the one that is sent for it.
static BEND: RwLock<Option<(&'static str, &'static str)>> = RwLock::new(None);
/// One text is bent at a time.
static ALONE: Mutex<()> = Mutex::new(());

impl Hitch for Bends {
    fn text(text: &'static str) -> &'static str {
        match *BEND.read().unwrap_or_else(PoisonError::into_inner) {
            Some((right, bent)) if right == text => bent,
            Some(_) | None => text,
        }
    }
}

/// Stores of the dialect, each in a file of its own.
#[derive(Default)]
struct Files(Mutex<Vec<(TempDir, Sql<Bent>)>>);

impl Files {
    async fn set(&self) -> Sql<Bent> {
        let dir = tempfile::tempdir().unwrap();
        let right = SqliteStore::open(dir.path().join("hapax.db")).await.unwrap();
        let sql = Sql::<Bent>::beside(&right);
        self.0.lock().unwrap().push((dir, sql.clone()));
        // A clock in the future stands still unless it is moved.
        self.move_on(Duration::from_secs(1_000_000)).await;
        sql
    }

    async fn move_on(&self, span: Duration) {
        let stores: Vec<_> = self.0.lock().unwrap().iter().map(|(_, sql)| sql.clone()).collect();
        for sql in stores {
            let moved = sql.write("pass", async move |mut tx: Tx<Bent>| {
                let pass = "UPDATE hapax_clock SET latest = (SELECT now FROM hapax_now) + ?1";
                let span = hapax_core::millis(span);
                sqlx::query(pass).bind(span).execute(&mut **tx).await?;
                Ok::<_, Error>(())
            });
            moved.await.unwrap();
        }
    }
}

const BEAT: Duration = Duration::from_secs(60);

macro_rules! on_trial {
    ($trait:path, $opened:ty, $open:expr) => {
        impl $trait for Files {
            fn name(&self) -> &'static str {
                "bent sqlite"
            }

            fn open(&self) -> BoxFuture<'_, $opened> {
                Box::pin(async { $open(self.set().await) })
            }

            fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
                Box::pin(self.move_on(span))
            }

            fn beat(&self) -> Duration {
                BEAT
            }
        }
    };
}

on_trial!(locks::Place, Arc<dyn Locks>, |sql: Sql<Bent>| Arc::new(sql) as _);
on_trial!(outbox::Office, (Arc<dyn Outbox>, outbox::Write), |sql: Sql<Bent>| {
    let writer: outbox::Write = Arc::new({
        let sql = sql.clone();
        move |message| Box::pin(write(sql.clone(), message))
    });
    (Arc::new(sql) as Arc<dyn Outbox>, writer)
});

async fn write(sql: Sql<Bent>, message: Message) {
    let outbox = sql.clone();
    let written = sql.write("send", async move |mut tx: Tx<Bent>| {
        outbox.send(&mut tx, &message).await?;
        Ok::<_, Error>(())
    });
    written.await.unwrap();
}

/// The texts that lack one clause each, and the clause.
fn bends(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins_group = |at: usize| at > 0 && lines[at - 1].trim_end().ends_with('(');
    let is_whole = |line: &str| line.matches('(').count() == line.matches(')').count();
    let mut bends = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_whole(line)) {
        let clause = line.trim();
        let next = lines.get(at + 1).map_or("", |line| line.trim());
        let is_guard = clause.starts_with("AND ") || clause.starts_with("OR ");
        let opens_a_choice = begins_group(at) && next.starts_with("OR ");
        if !is_guard && !opens_a_choice {
            continue;
        }
        let rest = lines.iter().enumerate().filter(|(other, _)| *other != at);
        let rest = rest.map(|(other, line)| match () {
            () if other == at + 1 && opens_a_choice => line.replacen("OR ", "", 1),
            // The clause was the last one of its statement.
            () if other + 1 == at && clause.ends_with(';') => format!("{line};"),
            () => (*line).to_owned(),
        });
        bends.push((clause.to_owned(), rest.collect::<Vec<_>>().join("\n")));
    }
    bends
}

/// Takes each clause of the statements away in turn; says which ones nobody missed.
fn survivors(names: &[&str], is_noticed: impl Fn() -> bool) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = all::<Sqlite>().into_iter().filter(|(name, _)| names.contains(name));
    let mutants: Vec<_> = texts
        .flat_map(|(name, right)| {
            let bends = bends(right).into_iter();
            bends.map(move |(clause, bent)| (format!("{name}: {clause}"), right, &*bent.leak()))
        })
        .collect();
    assert!(mutants.len() > names.len(), "there is something to take away");
    for (mutant, _, bent) in &mutants {
        assert!(is_understood(bent), "without {mutant} it is no statement:\n{bent}");
    }
    // Each mutant that is noticed panics or parts; that is not worth a message.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut survivors = Vec::new();
    for (mutant, right, bent) in mutants {
        *BEND.write().unwrap() = Some((right, bent));
        if !is_noticed() {
            survivors.push(mutant);
        }
    }
    *BEND.write().unwrap() = None;
    std::panic::set_hook(hook);
    survivors
}

/// Whether the database understands the text: one that it refuses would prove nothing.
fn is_understood(text: &str) -> bool {
    let mut understood = false;
    hapax_contract::run(async {
        let files = Files::default();
        let sql = files.set().await;
        understood = true;
        for statement in text.split(";\n") {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            understood &= sqlx::query(explain).fetch_all(sql.readers()).await.is_ok();
        }
    });
    understood
}

/// Lives that are enough to miss any clause.
const LIVES: u32 = 256;

fn parts_from_the_pure_rule() -> bool {
    // A statement that the database refuses, or a record that cannot be read, is a parting too.
    let searched = catch_unwind(|| oracle::search::<Sqlite, Bent>(LIVES, 0));
    !matches!(searched, Ok(Ok(())))
}

#[test]
fn the_pure_rule_notices_each_lost_clause_of_a_claim() {
    assert_eq!(survivors(&["CLAIM_REUSE", "CLAIM_RETAKE"], parts_from_the_pure_rule), [""; 0]);
}

#[test]
fn the_pure_rule_notices_each_lost_clause_of_a_holders_step() {
    let steps = ["RENEW", "CHECKPOINT", "COMPLETE", "DOUBT", "RELEASE"];
    assert_eq!(survivors(&steps, parts_from_the_pure_rule), [""; 0]);
}

#[test]
fn the_pure_rule_notices_each_lost_clause_of_a_ruling() {
    assert_eq!(survivors(&["SETTLE_COMPLETED", "SETTLE_OPEN"], parts_from_the_pure_rule), [""; 0]);
}

#[test]
fn the_pure_rule_notices_each_lost_clause_of_a_page() {
    assert_eq!(survivors(&["SCAN", "SCAN_UNFINISHED"], parts_from_the_pure_rule), [""; 0]);
}

/// Whether one of the cases fails.
macro_rules! fails {
    ($room:ident: $($case:ident)+) => {{
        let cases: &[fn()] = &[$(|| hapax_contract::run($room::$case(&Files::default()))),+];
        cases.iter().any(|case| catch_unwind(case).is_err())
    }};
}

#[test]
fn the_contract_notices_each_lost_clause_of_a_lock() {
    let is_noticed = || {
        let contract = fails! { locks:
            a_held_lock_is_taken
            the_same_owner_gains_again_under_the_same_fence
            a_lock_is_free_after_its_lease
            a_lease_that_is_over_is_not_renewed
            a_foreign_renewal_changes_nothing
            a_foreign_release_changes_nothing
            a_repeated_release_changes_nothing
        };
        contract || catch_unwind(|| hapax_contract::run(a_lapsed_lock_is_not_given_back())).is_err()
    };
    let texts = ["LOCK_ACQUIRE", "LOCK_RENEW", "LOCK_RELEASE"];
    assert_eq!(survivors(&texts, is_noticed), [""; 0]);
}

async fn a_lapsed_lock_is_not_given_back() {
    let files = Files::default();
    let locks = files.set().await;
    let name = LockName::of(&Tenant::parse("shop").unwrap(), "order", "1001");
    let owner = Nonce::from_bytes([1; 16]);
    locks.acquire(name, owner, BEAT).await.unwrap();
    files.move_on(BEAT).await;
    assert!(!locks.release(name, owner).await.unwrap(), "a purge may have taken it away");
}

#[test]
fn the_contract_notices_each_lost_clause_of_a_letter() {
    let is_noticed = || {
        fails! { outbox:
            only_the_oldest_of_a_key_is_claimed
            messages_without_a_key_do_not_wait
            a_burial_frees_its_key
            a_claim_that_was_taken_over_changes_nothing
            only_a_buried_message_is_replayed
        }
    };
    let texts = ["OUTBOX_CLAIM", "OUTBOX_ACK", "OUTBOX_RETRY", "OUTBOX_BURY", "OUTBOX_REPLAY"];
    assert_eq!(survivors(&texts, is_noticed), [""; 0]);
}
