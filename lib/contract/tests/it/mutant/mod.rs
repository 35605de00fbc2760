//! The suite can fail: each store here is wrong in one place, and is caught.
//!
//! Each mutant names the cases that must catch it, and says whether random lives alone find it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use self::bent::{Bend, Bent, Taken};
use hapax_contract::{CASES, oracle};
use hapax_core::{
    Record, Timestamp,
    store::{self, Step},
};

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident: $bend:expr => $lives:ident, $cases:expr;)+) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            caught($bend, &$cases, Lives::$lives);
        }
    )+};
}

mod bent;
mod claims;
mod ends;
mod reads;

/// Lives that are played on a mutant that they should find: they need some fifty.
const LIVES: u32 = 3000;
/// Lives that are played where nothing should be found.
const SOUND_LIVES: u32 = 200;

/// Whether random lives find a mutant by themselves.
#[derive(Clone, Copy)]
enum Lives {
    Find,
    /// They do not do what the mutant does wrong.
    Miss,
}

/// The store of these tests is sound until it is bent.
#[test]
fn the_unbent_store_holds_every_case() {
    for case in CASES {
        case.run(&Bent::new(Bend::None));
    }
    oracle::search(&Bent::new(Bend::None), SOUND_LIVES).unwrap();
    oracle::search_losses(&Bent::new(Bend::None), SOUND_LIVES).unwrap();
}

/// Asserts that each of `cases` fails on a store that is bent like this.
fn caught(bend: Bend, cases: &[&str], lives: Lives) {
    for name in cases {
        let case = CASES.iter().find(|case| case.name == *name);
        let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
        let held = catch_unwind(AssertUnwindSafe(|| case.run(&Bent::new(bend)))).is_ok();
        assert!(!held, "{name} holds although the store is bent");
    }
    match lives {
        Lives::Find => drop(oracle::search(&Bent::new(bend), LIVES).unwrap_err()),
        Lives::Miss => oracle::search(&Bent::new(bend), SOUND_LIVES).unwrap(),
    }
}

/// Bends what a step finds, then takes it by the rule.
fn with_record(
    record: Option<Arc<Record>>,
    step: &Step,
    now: Timestamp,
    bend: impl FnOnce(&mut Record),
) -> Taken {
    let record = record.map(|mut record| {
        bend(Arc::make_mut(&mut record));
        record
    });
    store::apply(record, step, now)
}

/// Takes a step by the rule, then bends the record that it left if it changed something.
fn with_result(
    record: Option<Arc<Record>>,
    step: &Step,
    now: Timestamp,
    bend: impl FnOnce(Option<&Record>, &mut Record),
) -> Taken {
    let before = record.clone();
    let (mut after, entry, answer) = store::apply(record, step, now);
    if after != before
        && let Some(after) = &mut after
    {
        bend(before.as_deref(), Arc::make_mut(after));
    }
    (after, entry, answer)
}
