//! The reference holds its own contract.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

use hapax_contract::{
    CASES, Memory,
    oracle::{self, LIFE_OPS_MAX},
};

hapax_contract::suite!(Memory::new());

/// Runs to completion: the reference never waits.
fn now<T>(work: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(work).expect("the reference never waits")
}

/// A search that tries nothing finds nothing: each of these must happen often.
#[test]
fn random_lives_do_everything() {
    let mut runner = TestRunner::deterministic();
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..300 {
        let life = oracle::lives(LIFE_OPS_MAX).new_tree(&mut runner).unwrap().current();
        for (what, count) in now(oracle::trace(&Memory::new(), &life)).tally() {
            *tally.entry(what).or_default() += count;
        }
    }
    for what in [
        "granted",
        "granted again",
        "retaken",
        "claim refused",
        "completed",
        "released",
        "doubted",
        "settled",
        "ruling void",
        "applied",
        "fenced",
        "purged",
        "nothing to purge",
    ] {
        let count = tally.get(what).copied().unwrap_or_default();
        assert!(count >= 50, "{what}: {count} times in {tally:?}");
    }
}

/// Every case that is written is in the list.
#[test]
fn every_case_is_entered() {
    let rooms = concat!(
        include_str!("../../src/case/batch.rs"),
        include_str!("../../src/case/claim.rs"),
        include_str!("../../src/case/class.rs"),
        include_str!("../../src/case/content.rs"),
        include_str!("../../src/case/end.rs"),
        include_str!("../../src/case/lease.rs"),
        include_str!("../../src/case/listing.rs"),
        include_str!("../../src/case/retention.rs"),
        include_str!("../../src/case/settle.rs"),
    );
    let written = rooms.lines().filter_map(|line| line.strip_prefix("pub async fn "));
    let mut written: Vec<_> = written.filter_map(|rest| rest.split('(').next()).collect();
    let mut entered: Vec<_> = CASES.iter().map(|case| case.name).collect();
    written.sort_unstable();
    entered.sort_unstable();
    assert_eq!(written, entered);
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_purge_is_observed_in_any_life(life in oracle::lives(LIFE_OPS_MAX)) {
        let compared = now(oracle::compare_purges(&Memory::new(), &life));
        prop_assert!(compared.is_ok(), "{compared:?}");
    }

    #[test]
    fn a_life_is_told_the_same_twice(life in oracle::lives(LIFE_OPS_MAX)) {
        let (one, two) = (Memory::new(), Memory::new());
        let parted = now(oracle::trace(&one, &life)).parts_from(&now(oracle::trace(&two, &life)));
        prop_assert!(parted.is_none(), "{parted:?}");
    }
}
