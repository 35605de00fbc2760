//! An exhaustive search of the protocol: what each class promises, and what breaks it.
//!
//! One key, two or three workers, and everything that can happen to their messages: claims that
//! arrive late or twice, answers that are lost, leases that end at any time, holders that die or
//! pause, effects that are on their way meanwhile, and a judge. The record moves by the real
//! rule; nothing of it is written down twice.

mod protocol;
mod world;

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use self::{
    protocol::{Bend, Protocol},
    world::{Budget, TICK, WINDOW},
};
use hapax_core::Effect;

const KEYED: Effect = Effect::Keyed { window: Duration::from_secs(WINDOW as u64) };
const QUERYABLE: Effect = Effect::Queryable { quiet: TICK };

/// Two workers to whom much may happen.
fn two(effect: Effect) -> Protocol {
    let budget = Budget { resends: 1, losses: 1, deaths: 1, renewals: 1 };
    Protocol { effect, workers: 2, ticks: 3, budget, bend: Bend::None, forgives_late_packets: true }
}

/// Three workers to whom less may happen; `deaths` of them die or give up.
fn three(effect: Effect, deaths: u8) -> Protocol {
    let budget = Budget { resends: 0, losses: 1, deaths, renewals: 0 };
    Protocol { effect, workers: 3, ticks: 3, budget, bend: Bend::None, forgives_late_packets: true }
}

/// Searches everything and asserts that every promise holds.
fn holds(protocol: &Protocol) {
    #[expect(clippy::disallowed_methods, reason = "tells how long the search took")]
    let start = Instant::now();
    let checker = protocol.clone().checker().threads(2).spawn_bfs().join();
    println!(
        "{:?}: {} states in {:?}",
        protocol.effect,
        checker.unique_state_count(),
        start.elapsed()
    );
    checker.assert_properties();
}

/// Asserts that the search finds how a bent protocol breaks `promise`.
fn is_refuted(protocol: &Protocol, bend: Bend, promise: &'static str) {
    let bent = Protocol { bend, ..protocol.clone() };
    let found = HasDiscoveries::AnyOf([promise].into());
    let checker = bent.checker().threads(2).finish_when(found).spawn_bfs().join();
    let path = checker.assert_any_discovery(promise);
    println!("{bend:?} breaks \"{promise}\": {:?}", path.into_actions());
}

const ONCE: &str = "at most one effect";
const PARKED: &str = "nothing is parked without a reason";

#[test]
fn a_transactional_effect_happens_exactly_once() {
    holds(&two(Effect::Transactional));
}

#[test]
fn a_transactional_effect_of_three_happens_exactly_once() {
    holds(&three(Effect::Transactional, 1));
}

#[test]
fn a_keyed_effect_happens_once_within_its_window() {
    let protocol = two(KEYED);
    let budget = Budget { renewals: 0, ..protocol.budget };
    holds(&Protocol { budget, ..protocol });
}

#[test]
fn a_keyed_effect_of_three_happens_once_within_its_window() {
    holds(&three(KEYED, 0));
}

#[test]
fn a_queryable_effect_that_can_be_sealed_happens_once() {
    holds(&two(QUERYABLE));
}

#[test]
fn a_queryable_effect_of_three_that_can_be_sealed_happens_once() {
    holds(&three(QUERYABLE, 1));
}

#[test]
fn an_opaque_effect_happens_at_most_once() {
    holds(&two(Effect::Opaque));
}

#[test]
fn an_opaque_effect_of_three_happens_at_most_once() {
    holds(&three(Effect::Opaque, 1));
}

#[test]
fn a_completion_without_a_fence_is_refuted() {
    is_refuted(&two(Effect::Transactional), Bend::UnfencedCompletion, ONCE);
}

#[test]
fn a_release_without_a_fence_is_refuted() {
    is_refuted(&three(QUERYABLE, 0), Bend::UnfencedRelease, ONCE);
}

#[test]
fn an_open_record_that_forgets_its_nonce_is_refuted() {
    is_refuted(&two(Effect::Opaque), Bend::OpenForgetsNonce, PARKED);
}

#[test]
fn a_completion_that_needs_a_live_lease_is_refuted() {
    is_refuted(&two(Effect::Opaque), Bend::CompletionNeedsLease, PARKED);
}

#[test]
fn a_queryable_effect_without_a_seal_is_refuted() {
    is_refuted(&two(QUERYABLE), Bend::NoSeal, ONCE);
}

#[test]
fn a_key_made_from_the_epoch_is_refuted() {
    is_refuted(&two(KEYED), Bend::KeyFromEpoch, ONCE);
}

#[test]
fn a_take_over_that_keeps_the_epoch_is_refuted() {
    is_refuted(&two(QUERYABLE), Bend::TakeOverKeepsEpoch, ONCE);
}

#[test]
fn a_holder_that_acts_after_its_window_is_refuted() {
    is_refuted(&two(KEYED), Bend::ActsAfterWindow, ONCE);
}

#[test]
fn a_commit_that_counts_its_own_repeat_is_refuted() {
    is_refuted(&two(Effect::Transactional), Bend::RepeatCommits, ONCE);
}

#[test]
fn an_opaque_attempt_that_is_retaken_is_refuted() {
    is_refuted(&two(Effect::Opaque), Bend::OpaqueIsRetaken, ONCE);
}

#[test]
fn a_release_that_speaks_for_earlier_attempts_is_refuted() {
    is_refuted(&three(KEYED, 0), Bend::ReleaseSpeaksForAll, ONCE);
}

/// A known limit, and why the property above forgives it: a record remembers one nonce.
///
/// A claim that is still on the wire when its sender has given up and another attempt has been
/// released is taken for a new claim, which nobody holds. No effect can come of it; an opaque
/// record then waits for a judge.
#[test]
fn a_claim_that_outlives_its_sender_can_park_a_record() {
    let strict = Protocol { forgives_late_packets: false, ..two(Effect::Opaque) };
    is_refuted(&strict, Bend::None, PARKED);
}
