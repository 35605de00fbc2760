//! Scripts with one guard taken away: somebody must notice, for each of them.
//!
//! A guard is a line of a condition (`and ...`, `or ...`, or the first one, after `return`), or a
//! line that turns a step away (`if ... then return ... end`).

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

use super::{
    moved::{Moved, moved},
    oracle, server,
};
use crate::redis::script::{Part, Scripts};
use hapax_contract::{CASES, locks};
use hapax_testkit::Redis;

/// Random lives that a guard must survive before it counts as missed by nobody.
const LIVES: u32 = 256;
/// Two servers are tried at once.
const LANES: usize = 2;
/// The hook of panics is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

/// A part of the scripts without one of its guards.
struct Mutant {
    part: &'static str,
    guard: String,
    text: String,
}

impl Mutant {
    fn name(&self) -> String {
        format!("redis {}: {}", self.part, self.guard)
    }

    /// The scripts with the part in place of the right one, after `finish`.
    fn scripts(&self, finish: fn(&str) -> String) -> &'static Scripts {
        let bent = |(name, text): &Part| match *name == self.part {
            true => self.text.clone(),
            false => (*text).to_owned(),
        };
        let scripts = Scripts::made_by(|parts| finish(&parts.iter().map(bent).collect::<String>()));
        Box::leak(Box::new(scripts))
    }
}

/// Every part without each of its guards.
fn mutants() -> Vec<Mutant> {
    let parts = Mutex::new(BTreeMap::new());
    Scripts::made_by(|of_script| {
        parts.lock().unwrap().extend(of_script.iter().copied());
        String::new()
    });
    let parts = parts.into_inner().unwrap().into_iter();
    parts.flat_map(|(part, text)| bends(part, text)).collect()
}

fn bends(part: &'static str, text: &str) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let joint = |at: usize| {
        let line = lines.get(at).map_or("", |line| line.trim());
        ["and ", "or "].into_iter().find(|joint| line.starts_with(joint))
    };
    let mut bends = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let guard = line.trim();
        let turns_away =
            guard.starts_with("if ") && guard.contains(" then return ") && guard.ends_with(" end");
        let first = guard.strip_prefix("return ").filter(|_| joint(at + 1).is_some());
        if joint(at).is_none() && !turns_away && first.is_none() {
            continue;
        }
        let mut rest = lines.clone();
        let next = match (first, joint(at + 1)) {
            // The second condition becomes the first one.
            (Some(_), Some(joint)) => rest[at + 1].replacen(joint, "return ", 1),
            _ => String::new(),
        };
        if first.is_some() {
            rest[at + 1] = &next;
        }
        rest.remove(at);
        let guard = first.unwrap_or(guard).to_owned();
        bends.push(Mutant { part, guard, text: rest.join("\n") + "\n" });
    }
    bends
}

fn fails(case: impl Fn()) -> bool {
    catch_unwind(AssertUnwindSafe(case)).is_err()
}

/// The first case of the contract that fails without the guard, or what else does.
fn noticed(mutant: &Mutant, subject: &Moved, server: &Redis) -> Option<&'static str> {
    if mutant.part.starts_with("lock") {
        return noticed_by_locks(subject);
    }
    if let Some(case) = CASES.iter().find(|case| fails(|| case.run(subject))) {
        return Some(case.name);
    }
    if fails(|| hapax_contract::oracle::search(subject, 64).unwrap()) {
        return Some("random_steps_match_the_reference");
    }
    let scripts = mutant.scripts(str::to_owned);
    let parts = fails(|| oracle::search(server, scripts, LIVES, 0).unwrap());
    parts.then_some("any_step_does_what_the_pure_rule_does")
}

fn noticed_by_locks(subject: &Moved) -> Option<&'static str> {
    macro_rules! first_failing {
        ($($case:ident)+) => {$(
            if fails(|| hapax_contract::run(locks::$case(subject))) {
                return Some(stringify!($case));
            }
        )+};
    }
    first_failing! {
        a_held_lock_is_taken
        the_same_owner_gains_again_under_the_same_fence
        a_lock_is_free_after_its_lease
        a_lock_is_free_after_its_release
        a_fence_rises_with_every_holder
        a_lease_that_is_over_is_not_renewed
        a_foreign_renewal_changes_nothing
        a_foreign_release_changes_nothing
        a_repeated_release_changes_nothing
        owners_at_once_give_one_holder
    }
    let parts = fails(|| locks::search(subject, locks::LIVES).unwrap());
    parts.then_some("random_sequences_match_the_memory")
}

/// Whether a server takes the scripts: one that it refuses would prove nothing.
fn is_understood(mutant: &Mutant, server: &Redis) -> bool {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let fleet = crate::redis::RedisStore::at(&server.url()).fleet().await.unwrap();
        let node = fleet.masters().remove(0);
        for script in mutant.scripts(str::to_owned).all() {
            if node.load(script).await.is_err() {
                return false;
            }
        }
        true
    })
}

/// Tries every mutant and prints what became of it; those that nobody noticed.
fn survivors(mutants: Vec<Mutant>) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (queue, survivors) = (Mutex::new(mutants.into_iter()), Mutex::new(Vec::new()));
    let lane = || {
        let (mut subject, server) = (Moved::new(), server());
        loop {
            let mutant = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(mutant) = mutant else { break };
            assert!(is_understood(&mutant, &server), "no script without {}", mutant.name());
            subject.rerun(mutant.scripts(moved));
            match noticed(&mutant, &subject, &server) {
                Some(case) => println!("killed {} (by {case})", mutant.name()),
                None => {
                    println!("SURVIVED {}", mutant.name());
                    survivors.lock().unwrap().push(mutant.name());
                }
            }
        }
    };
    // Each mutant that is noticed panics or parts; that is not worth a message.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    std::panic::set_hook(hook);
    survivors.into_inner().unwrap()
}

/// Tries the guards of `parts`.
fn nobody_survives(parts: &[&str]) {
    let mut mutants = mutants();
    mutants.retain(|mutant| parts.contains(&mutant.part));
    assert_eq!(survivors(mutants), [""; 0]);
}

#[test]
fn every_guard_of_a_claim_is_missed() {
    nobody_survives(&["claim"]);
}

#[test]
fn every_guard_of_a_holders_step_is_missed() {
    nobody_survives(&["renew", "checkpoint", "complete", "doubt", "release"]);
}

#[test]
fn every_guard_of_a_ruling_is_missed() {
    nobody_survives(&["settle"]);
}

#[test]
fn every_guard_of_a_lock_is_missed() {
    nobody_survives(&["lock", "lock_acquire", "lock_renew", "lock_release"]);
}

#[test]
fn every_guard_that_scripts_share_is_missed() {
    nobody_survives(&["prelude", "record"]);
}

#[test]
fn every_part_with_guards_is_tried() {
    let mutants = mutants();
    let parts: BTreeSet<_> = mutants.iter().map(|mutant| mutant.part).collect();
    let tried: BTreeSet<_> = [
        "prelude",
        "record",
        "claim",
        "renew",
        "checkpoint",
        "complete",
        "doubt",
        "release",
        "settle",
        "lock",
        "lock_acquire",
        "lock_renew",
        "lock_release",
    ]
    .into();
    assert_eq!(parts, tried);
    let server = server();
    for mutant in &mutants {
        assert!(is_understood(mutant, &server), "no script without {}", mutant.name());
    }
}
