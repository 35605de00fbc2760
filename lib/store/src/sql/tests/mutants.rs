//! Each engine with one guard of one statement taken away: somebody must notice, for each of them.
//!
//! SQLite's are taken away in every run; those of the servers by `cargo xtask sql-mutants`.

use std::{
    any::Any,
    panic::catch_unwind,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use super::{
    bend::bends,
    ground::{Ground, pass},
    hitch::{Hitch, Hitched},
    house, oracle,
};
use crate::{
    error::Error,
    sql::{Dialect, MySql, Postgres, Sql, Sqlite, Tx, dialect::all},
};
use hapax_contract::{BoxFuture, Subject, case, locks, outbox};
use hapax_core::{
    lock::Locks,
    message::{Message, Outbox},
    store::Store,
};

/// A dialect that sends the [bent](BEND) text in place of the right one.
pub(super) type Bent<G> = Hitched<G, Bends>;

/// What bends texts.
pub(in crate::sql) struct Bends;

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

type Site<G> = (Box<dyn Any + Send + Sync>, Sql<Bent<G>>);

/// Stores of the dialect, each in a database of its own.
pub(super) struct Sites<G: Ground>(Mutex<Vec<Site<G>>>);

impl<G: Ground> Sites<G> {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(super) async fn set(&self) -> Sql<Bent<G>> {
        let (outlives, right) = G::open().await;
        let sql = Sql::<Bent<G>>::beside(&right);
        self.0.lock().unwrap().push((outlives, sql.clone()));
        sql
    }

    pub(super) async fn move_on(&self, span: Duration) {
        let stores: Vec<_> = self.0.lock().unwrap().iter().map(|(_, sql)| sql.clone()).collect();
        for sql in stores {
            pass::<G, Bent<G>>(&sql, span).await;
        }
    }
}

pub(super) const BEAT: Duration = Duration::from_secs(60);

macro_rules! on_trial {
    ($trait:path, $opened:ty, $open:expr) => {
        impl<G: Ground> $trait for Sites<G> {
            fn name(&self) -> &'static str {
                "bent"
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

on_trial!(Subject, Arc<dyn Store>, |sql: Sql<Bent<G>>| Arc::new(sql) as _);
on_trial!(locks::Place, Arc<dyn Locks>, |sql: Sql<Bent<G>>| Arc::new(sql) as _);
on_trial!(outbox::Office, (Arc<dyn Outbox>, outbox::Write), |sql: Sql<Bent<G>>| {
    let writer: outbox::Write = Arc::new({
        let sql = sql.clone();
        move |message| Box::pin(write(sql.clone(), message))
    });
    (Arc::new(sql) as Arc<dyn Outbox>, writer)
});

async fn write<D: Dialect>(sql: Sql<D>, message: Message) {
    let outbox = sql.clone();
    let written = sql.write("send", async move |mut tx: Tx<D>| {
        outbox.send(&mut tx, &message).await?;
        Ok::<_, Error>(())
    });
    written.await.unwrap();
}

/// Whether one of the facts does not hold any more.
macro_rules! fails {
    ($sites:ty: $($($path:ident)::+ * $times:literal),+ $(,)?) => {
        false $(|| (0..$times).any(|_| {
            catch_unwind(|| hapax_contract::run($($path)::+(&<$sites>::new()))).is_err()
        }))+
    };
}

/// Lives that are enough to miss any guard.
const LIVES: u32 = 256;

/// Who would notice that a guard of this statement is gone.
fn is_noticed<G: Ground>(name: &str) -> bool {
    match name {
        _ if name.starts_with("LOCK_PURGE") => {
            fails!(Sites<G>: house::a_purge_leaves_locks_that_matter * 1)
        }
        _ if name.starts_with("LOCK_") => fails! { Sites<G>:
            locks::a_held_lock_is_taken * 1,
            locks::the_same_owner_gains_again_under_the_same_fence * 1,
            locks::a_lock_is_free_after_its_lease * 1,
            locks::a_lease_that_is_over_is_not_renewed * 1,
            locks::a_foreign_renewal_changes_nothing * 1,
            locks::a_foreign_release_changes_nothing * 1,
            locks::a_repeated_release_changes_nothing * 1,
            house::locks_do_not_meet * 1,
            house::a_lapsed_lock_is_not_given_back * 1,
            house::a_lapsed_lock_has_one_heir * 10,
        },
        _ if name.starts_with("OUTBOX_") => fails! { Sites<G>:
            outbox::only_the_oldest_of_a_key_is_claimed * 1,
            outbox::messages_without_a_key_do_not_wait * 1,
            outbox::a_burial_frees_its_key * 1,
            outbox::a_claim_that_was_taken_over_changes_nothing * 1,
            outbox::only_a_buried_message_is_replayed * 1,
            house::letters_are_listed_page_by_page * 1,
            house::a_message_is_sent_once * 1,
            house::what_is_handled_is_told_once * 3,
            house::a_relay_that_finds_nothing_writes_nothing * 1,
            house::a_purge_leaves_letters_that_matter * 1,
            house::claims_at_once_share_no_letter * 5,
            house::a_letter_that_is_locked_holds_up_no_other * 1,
        },
        "INBOX_ONCE" | "INBOX_PURGE" => {
            fails!(Sites<G>: house::a_message_is_first_until_its_window_is_over * 1)
        }
        "TRANSITION_WRITE" | "TRANSITIONS" => {
            fails!(Sites<G>: house::moves_are_told_of_their_entity * 1)
        }
        "JOURNAL_PURGE" => fails!(Sites<G>: house::a_purge_leaves_young_lines * 1),
        // Few lives miss most guards; the races miss the locks.
        _ => {
            parts_from_the_pure_rule::<G>(LIVES / 8)
                || fails! { Sites<G>:
                    house::pages_are_of_their_operation * 1,
                    house::a_record_that_is_locked_holds_up_no_claim * 1,
                    case::claim::claims_at_once_give_one_grant * 10,
                    case::claim::take_overs_at_once_give_one_grant * 10,
                    case::claim::a_late_completion_and_a_take_over_have_one_winner * 20,
                    case::claim::a_late_step_and_a_take_over_do_not_mix * 10,
                    case::settle::a_late_completion_and_a_ruling_have_one_winner * 20,
                }
                || parts_from_the_pure_rule::<G>(LIVES)
        }
    }
}

fn parts_from_the_pure_rule<G: Ground>(lives: u32) -> bool {
    // A statement that is refused, or a record that cannot be read, is a parting too.
    let searched = catch_unwind(|| oracle::search::<G, Bent<G>>(lives, 0));
    !matches!(searched, Ok(Ok(())))
}

/// Takes each guard of the statements that are wanted away in turn; says which ones nobody missed.
///
/// One line for each is printed: `cargo xtask sql-mutants` counts them.
fn survivors<G: Ground>(engine: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The schema is not asked about records.
    let texts = all::<G>().into_iter();
    let texts = texts.filter(|(name, _)| is_wanted(name) && !name.starts_with("SCHEMA_"));
    let mutants: Vec<_> = texts
        .flat_map(|(name, right)| {
            bends(name, right).into_iter().map(move |bend| (name, right, bend))
        })
        .collect();
    assert!(!mutants.is_empty(), "there is something to take away");
    // Each mutant that is noticed panics or parts; that is not worth a message.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut survivors = Vec::new();
    for (name, right, bend) in mutants {
        let mutant = format!("{engine} {}: {}", name.to_lowercase(), bend.guard);
        *BEND.write().unwrap() = Some((right, bend.text.leak()));
        if is_noticed::<G>(name) {
            println!("killed {mutant}");
        } else {
            println!("SURVIVED {mutant}");
            survivors.push(mutant);
        }
    }
    *BEND.write().unwrap() = None;
    std::panic::set_hook(hook);
    survivors
}

/// Without a bend everybody is content: what notices a mutant notices nothing else.
fn nobody_complains<G: Ground>() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for name in
        ["LOCK_PURGE", "LOCK_ACQUIRE", "OUTBOX_CLAIM", "INBOX_ONCE", "TRANSITIONS", "JOURNAL_PURGE"]
    {
        assert!(!is_noticed::<G>(name), "{name} is right");
    }
}

/// The tests of one engine, in parts that run beside each other.
macro_rules! mutants {
    ($engine:ident: $marker:ty $(, #[$only:meta])?) => {
        mod $engine {
            use super::*;

            $(#[$only])?
            const ENGINE: &str = stringify!($engine);

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_a_claim_is_noticed() {
                let claims = survivors::<$marker>(ENGINE, |name| name.starts_with("CLAIM_"));
                assert_eq!(claims, [""; 0]);
            }

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_a_holders_step_is_noticed() {
                let steps = ["RENEW", "CHECKPOINT", "COMPLETE", "DOUBT", "RELEASE"];
                let steps = survivors::<$marker>(ENGINE, |name| steps.contains(&name));
                assert_eq!(steps, [""; 0]);
            }

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_a_ruling_is_noticed() {
                let rulings = survivors::<$marker>(ENGINE, |name| name.starts_with("SETTLE_"));
                assert_eq!(rulings, [""; 0]);
            }

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_a_lock_is_noticed() {
                let locks = survivors::<$marker>(ENGINE, |name| name.starts_with("LOCK_"));
                assert_eq!(locks, [""; 0]);
            }

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_a_letter_is_noticed() {
                let letters = survivors::<$marker>(ENGINE, |name| name.starts_with("OUTBOX_"));
                assert_eq!(letters, [""; 0]);
            }

            #[test]
            $(#[$only])?
            fn each_lost_guard_of_any_other_statement_is_noticed() {
                let steps = ["RENEW", "CHECKPOINT", "COMPLETE", "DOUBT", "RELEASE"];
                let others = survivors::<$marker>(ENGINE, |name| {
                    let rooms = ["CLAIM_", "SETTLE_", "LOCK_", "OUTBOX_"];
                    !steps.contains(&name) && !rooms.iter().any(|room| name.starts_with(room))
                });
                assert_eq!(others, [""; 0]);
            }

            #[test]
            fn nothing_is_noticed_where_nothing_is_lost() {
                nobody_complains::<$marker>();
            }
        }
    };
}

mutants!(sqlite: Sqlite);
mutants!(postgres: Postgres, #[cfg(feature = "mutants")]);
mutants!(mysql: MySql, #[cfg(feature = "mutants")]);
