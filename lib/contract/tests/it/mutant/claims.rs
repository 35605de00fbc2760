//! Stores that are wrong about who gets the work.

use std::sync::Arc;

use super::{Bend, Lives, caught, with_record, with_result};
use hapax_core::{
    Effect, Epoch, Nonce, Prints, State,
    store::{self, Answer, Claim, Step},
};

mutants! {
    /// Reads, then writes: two claims that meet both win.
    a_torn_claim_is_caught: Bend::Torn => Miss, [
        "claims_at_once_give_one_grant",
        "take_overs_at_once_give_one_grant",
        "a_late_completion_and_a_take_over_have_one_winner",
    ];

    /// A claim whose answer was lost finds itself and takes itself for somebody else.
    a_claim_that_does_not_know_its_nonce_is_caught: Bend::Take(|record, step, now| {
        let Step::Claim(claim) = step else { return store::apply(record, step, now) };
        let known = record.as_ref().is_some_and(|record| record.nonce == claim.nonce);
        let nonce = if known { Nonce::from_bytes([0xEE; 16]) } else { claim.nonce };
        let claim = Claim { nonce, ..Claim::clone(claim) };
        store::apply(record, &Step::Claim(Arc::new(claim)), now)
    }) => Find, [
        "the_same_nonce_is_granted_again",
        "the_same_nonce_is_granted_again_after_its_lease",
    ];

    /// Whoever comes gets the work.
    a_claim_that_overwrites_is_caught: Bend::Take(|record, step, now| {
        let record = record.filter(|_| !matches!(step, Step::Claim(_)));
        store::apply(record, step, now)
    }) => Find, ["a_second_claim_finds_the_first", "claims_at_once_give_one_grant"];

    /// Asking again prolongs the lease.
    a_repeat_that_renews_is_caught: Bend::Take(|record, step, now| {
        let (mut record, entry, answer) = store::apply(record, step, now);
        if let (Step::Claim(claim), Answer::Granted(_), Some(record)) =
            (step, &answer, &mut record)
        {
            Arc::make_mut(record).lease_until = now.plus(claim.lease);
        }
        (record, entry, answer)
    }) => Find, ["the_same_nonce_is_granted_again"];

    /// The request is not compared.
    ignored_prints_are_caught: Bend::Take(|record, step, now| {
        let Step::Claim(claim) = step else { return store::apply(record, step, now) };
        let blank = Claim { prints: Prints::NONE, ..Claim::clone(claim) };
        let (mut record, entry, answer) =
            store::apply(record, &Step::Claim(Arc::new(blank)), now);
        if let (Answer::Granted(_), Some(record)) = (&answer, &mut record) {
            Arc::make_mut(record).prints = claim.prints;
        }
        (record, entry, answer)
    }) => Find, ["another_request_is_a_mismatch", "either_of_two_prints_is_recognised"];

    /// Redis with PX = lease: a dead claim vanishes, and with it its class.
    a_claim_that_vanishes_with_its_lease_is_caught: Bend::Take(|record, step, now| {
        let record =
            record.filter(|record| record.state != State::Claimed || record.lease_until > now);
        store::apply(record, step, now)
    }) => Find, [
        "an_opaque_attempt_is_never_retaken",
        "a_late_holder_completes_if_nobody_took_over",
        "a_checkpoint_survives_a_take_over",
    ];

    /// A take-over leaves the epoch as it was.
    a_take_over_without_a_new_epoch_is_caught: Bend::Take(|record, step, now| {
        let before = record.as_ref().map(|record| record.epoch);
        let (mut after, entry, answer) = store::apply(record, step, now);
        if let (Answer::Granted(grant), Some(before), Some(record)) = (&answer, before, &mut after)
            && grant.attempt > 1
        {
            Arc::make_mut(record).epoch = before;
            let grant = hapax_core::Grant { epoch: before, ..grant.clone() };
            return (after, entry, Answer::Granted(grant));
        }
        (after, entry, answer)
    }) => Find, [
        "epochs_only_rise",
        "a_take_over_keeps_the_request",
        "take_overs_at_once_give_one_grant",
    ];

    /// The epoch is the clock: two attempts in one millisecond share it.
    an_epoch_that_is_only_the_clock_is_caught: Bend::Take(|record, step, now| {
        let (mut after, entry, answer) = store::apply(record, step, now);
        if let (Step::Claim(_), Answer::Granted(grant), Some(_), Some(record)) =
            (step, &answer, &entry, &mut after)
        {
            Arc::make_mut(record).epoch = Epoch::after(None, now);
            let grant = hapax_core::Grant { epoch: record.epoch, ..grant.clone() };
            return (after, entry, Answer::Granted(grant));
        }
        (after, entry, answer)
    }) => Find, ["a_release_forgets_the_request", "an_open_record_is_claimed_at_once"];

    /// The class of the claim alone counts: a deploy frees what was held.
    a_class_that_forgets_the_record_is_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            if let Step::Claim(claim) = step {
                record.terms = claim.effect.terms(record.created_at);
            }
        })
    }) => Find, [
        "the_stricter_class_wins_from_the_record",
    ];

    /// The class of the record alone counts.
    a_class_that_ignores_the_claim_is_caught: Bend::Take(|record, step, now| {
        let Step::Claim(claim) = step else { return store::apply(record, step, now) };
        let is_dead = record.as_ref().is_some_and(|record| {
            matches!(record.state, State::Claimed | State::Unknown) && record.nonce != claim.nonce
        });
        let effect = if is_dead { Effect::Transactional } else { claim.effect };
        let claim = Claim { effect, ..Claim::clone(claim) };
        store::apply(record, &Step::Claim(Arc::new(claim)), now)
    }) => Find, ["the_stricter_class_wins_from_the_claim", "the_shorter_window_wins"];

    /// A dead attempt may be retaken although its receiver has forgotten the key.
    a_window_that_never_closes_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| after.terms.retake_until = None)
    }) => Find, ["the_shorter_window_wins", "a_fresh_claim_is_granted"];

    /// The quiet time is not waited for.
    a_quiet_time_that_is_not_kept_is_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            if record.state == State::Claimed && record.lease_until <= now {
                record.terms.retake_after = record.terms.retake_after.map(|_| now.since(now));
            }
        })
    }) => Find, ["a_live_attempt_cannot_be_settled"];

    /// Dead attempts are not counted.
    attempts_without_a_bound_are_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            record.attempts = std::cmp::min(record.attempts, 1);
        })
    }) => Find, ["attempts_are_bounded", "a_keyed_attempt_is_retaken_within_its_window"];

    /// A take-over forgets the recovery point.
    a_take_over_without_the_recovery_point_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if matches!(step, Step::Claim(_)) {
                after.checkpoint = None;
            }
        })
    }) => Find, ["a_checkpoint_survives_a_take_over"];

    /// A take-over makes the operation young again, and its window with it.
    a_take_over_that_rejuvenates_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if matches!(step, Step::Claim(_)) {
                after.created_at = now;
            }
        })
    }) => Find, ["a_take_over_keeps_the_request"];

    /// A take-over loosens the terms to those of the claim.
    a_take_over_that_loosens_the_terms_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if let Step::Claim(claim) = step {
                after.terms = claim.effect.terms(after.created_at);
            }
        })
    }) => Find, ["the_stricter_class_wins_from_the_claim"];
}
