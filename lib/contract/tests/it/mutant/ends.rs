//! Stores that are wrong about how an attempt ends.

use std::sync::Arc;

use super::{Bend, Lives, caught, with_record, with_result};
use hapax_core::{
    Fence, Nonce, Prints, State, Timestamp,
    store::{self, Answer, Ruling, Step},
};

/// The step with another fence, if only a holder may take it.
fn refenced(step: &Step, bend: impl FnOnce(Fence) -> Fence) -> Step {
    let mut step = step.clone();
    if let Step::Renew { fence, .. }
    | Step::Checkpoint { fence, .. }
    | Step::Complete { fence, .. }
    | Step::Doubt { fence, .. }
    | Step::Release { fence, .. } = &mut step
    {
        *fence = bend(*fence);
    }
    step
}

mutants! {
    /// The epoch is not compared.
    an_epoch_that_is_not_compared_is_caught: Bend::Take(|record, step, now| {
        let epoch = record.as_ref().map(|record| record.epoch);
        let step = refenced(step, |fence| Fence { epoch: epoch.unwrap_or(fence.epoch), ..fence });
        store::apply(record, &step, now)
    }) => Find, ["a_stale_fence_cannot_complete"];

    /// The nonce is not compared.
    a_nonce_that_is_not_compared_is_caught: Bend::Take(|record, step, now| {
        let nonce = record.as_ref().map(|record| record.nonce);
        let step = refenced(step, |fence| Fence { nonce: nonce.unwrap_or(fence.nonce), ..fence });
        store::apply(record, &step, now)
    }) => Find, [
        "a_stale_fence_cannot_complete",
        "a_nonce_that_is_almost_right_is_wrong",
    ];

    /// A nonce is compared by its first half only.
    a_nonce_that_is_half_compared_is_caught: Bend::Take(|record, step, now| {
        let nonce = record.as_ref().map(|record| record.nonce);
        let step = refenced(step, |fence| match nonce {
            Some(nonce) if nonce.as_bytes()[..8] == fence.nonce.as_bytes()[..8] => {
                Fence { nonce, ..fence }
            }
            _ => fence,
        });
        store::apply(record, &step, now)
    }) => Miss, ["a_nonce_that_is_almost_right_is_wrong"];

    /// Neither is compared: whoever was taken over completes.
    a_completion_without_a_fence_is_caught: Bend::Take(|record, step, now| {
        let held = record.as_ref().map(|record| (record.epoch, record.nonce));
        let step = refenced(step, |fence| match held {
            Some((epoch, nonce)) => Fence { epoch, nonce, ..fence },
            None => fence,
        });
        store::apply(record, &step, now)
    }) => Find, [
        "a_holder_that_was_taken_over_is_fenced",
        "a_ruling_fences_the_holder",
    ];

    /// A completion needs a live lease: work that was done is thrown away.
    a_completion_that_looks_at_the_clock_is_caught: Bend::Take(|record, step, now| {
        let lapsed = record.as_ref().is_some_and(|record| {
            record.state == State::Claimed && record.lease_until <= now
        });
        if lapsed && matches!(step, Step::Complete { .. }) {
            let found = store::Found { record: record.clone(), now };
            return (record, None, Answer::Found(found));
        }
        store::apply(record, step, now)
    }) => Find, ["a_late_holder_completes_if_nobody_took_over"];

    /// A completion that comes twice counts twice.
    a_completion_that_overwrites_is_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            let repeated = matches!(step, Step::Complete { fence, .. } if record.is_held_by(fence));
            if repeated && record.state == State::Completed {
                record.state = State::Claimed;
            }
        })
    }) => Find, ["a_repeated_complete_is_applied", "a_completed_record_never_changes"];

    /// The grace is forgotten: an expired key runs again at once.
    a_retention_without_grace_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if after.state == State::Completed {
                after.reuse_at = after.expires_at;
            }
        })
    }) => Find, ["an_outcome_expires_and_is_refused"];

    /// A renewal is added to what is left.
    a_renewal_that_adds_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if let (Step::Renew { lease, .. }, Some(before)) = (step, before) {
                after.lease_until = before.lease_until.plus(*lease);
            }
        })
    }) => Find, ["a_renewal_counts_from_now", "a_renewal_of_zero_hands_on"];

    /// A renewal never shortens a lease, so that nothing can be handed on.
    a_renewal_that_never_shortens_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if let (Step::Renew { .. }, Some(before)) = (step, before) {
                after.lease_until = std::cmp::max(before.lease_until, after.lease_until);
            }
        })
    }) => Find, ["a_renewal_counts_from_now", "a_renewal_of_zero_hands_on"];

    /// A released record keeps the request: a corrected one is a mismatch for ever.
    a_release_that_keeps_the_request_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if let (Step::Release { .. }, Some(before)) = (step, before) {
                after.prints = before.prints;
            }
        })
    }) => Find, ["a_release_forgets_the_request"];

    /// A released record keeps the recovery point of what did not happen.
    a_release_that_keeps_the_recovery_point_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if let (Step::Release { .. }, Some(before)) = (step, before) {
                after.checkpoint = before.checkpoint.clone();
            }
        })
    }) => Find, ["a_checkpoint_is_dropped_at_the_end", "a_release_forgets_the_request"];

    /// A released record forgets its nonce: a late packet begins a ghost.
    a_release_that_forgets_the_nonce_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if matches!(step, Step::Release { .. }) {
                after.nonce = Nonce::from_bytes([0; 16]);
            }
        })
    }) => Find, [
        "a_late_claim_of_a_released_attempt_is_refused",
        "a_repeated_release_is_applied",
    ];

    /// A release deletes the record, and with it its epoch and its nonce.
    a_release_that_deletes_is_caught: Bend::Take(|record, step, now| {
        let (record, entry, answer) = store::apply(record, step, now);
        let released = matches!(step, Step::Release { .. });
        (record.filter(|record| !(released && record.state == State::Open)), entry, answer)
    }) => Find, [
        "a_late_claim_of_a_released_attempt_is_refused",
        "a_release_forgets_the_request",
    ];

    /// A doubt leaves the lease running.
    a_doubt_that_keeps_the_lease_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if let (Step::Doubt { .. }, Some(before)) = (step, before) {
                after.lease_until = before.lease_until;
            }
        })
    }) => Find, ["a_doubt_makes_the_record_unknown", "a_doubt_follows_its_class"];

    /// A doubt cannot be taken back by who knows better.
    a_doubt_that_is_final_is_caught: Bend::Take(|record, step, now| {
        let unknown = record.as_ref().is_some_and(|record| record.state == State::Unknown);
        if unknown && matches!(step, Step::Complete { .. } | Step::Release { .. }) {
            let found = store::Found { record: record.clone(), now };
            return (record, None, Answer::Found(found));
        }
        store::apply(record, step, now)
    }) => Find, ["a_doubting_holder_may_still_find_out"];

    /// A ruling does not ask what the judge saw.
    a_ruling_that_ignores_what_was_seen_is_caught: Bend::Take(|record, step, now| {
        let mut step = step.clone();
        if let (Step::Settle { seen, .. }, Some(record)) = (&mut step, &record) {
            *seen = record.epoch;
        }
        store::apply(record, &step, now)
    }) => Find, ["a_ruling_needs_the_epoch_that_was_seen"];

    /// A ruling does not wait until the attempt is over.
    a_ruling_on_the_living_is_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            let open = matches!(record.state, State::Claimed | State::Unknown);
            if open && matches!(step, Step::Settle { .. }) {
                record.lease_until = Timestamp::from_millis(0);
            }
        })
    }) => Find, ["a_live_attempt_cannot_be_settled"];

    /// A ruling leaves the epoch: a late completion is not fenced by it.
    a_ruling_without_a_new_epoch_is_caught: Bend::Take(|record, step, now| {
        let (mut after, entry, answer) = store::apply(record.clone(), step, now);
        if let (Step::Settle { .. }, Some(before), Some(record), Some(_)) =
            (step, record, &mut after, &entry)
        {
            Arc::make_mut(record).epoch = before.epoch;
            return (after, entry, Answer::Applied { epoch: before.epoch, now });
        }
        (after, entry, answer)
    }) => Find, ["a_ruling_fences_the_holder"];

    /// A ruling that comes twice is refused the second time.
    a_ruling_that_cannot_be_repeated_is_caught: Bend::Take(|record, step, now| {
        let settled = record.as_ref().is_some_and(|record| {
            matches!(record.state, State::Completed | State::Open)
        });
        if settled && matches!(step, Step::Settle { .. }) {
            let found = store::Found { record: record.clone(), now };
            return (record, None, Answer::Found(found));
        }
        store::apply(record, step, now)
    }) => Find, ["a_repeated_ruling_is_applied"];

    /// "Nothing happened" keeps the request.
    a_ruling_that_keeps_the_request_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            let nothing = matches!(
                step,
                Step::Settle { ruling: Ruling::NothingHappened { .. }, .. }
            );
            if let (true, Some(before)) = (nothing, before) {
                after.prints = before.prints;
            }
        })
    }) => Find, ["a_ruling_that_nothing_happened_opens"];

    /// A record that counts as absent still answers its old ruling.
    a_ruling_that_outlives_its_record_is_caught: Bend::Take(|record, step, now| {
        if let (Step::Settle { nonce, .. }, Some(kept)) = (step, &record)
            && kept.is_reusable(now)
            && kept.nonce == *nonce
        {
            let epoch = kept.epoch;
            return (record, None, Answer::Applied { epoch, now });
        }
        store::apply(record, step, now)
    }) => Find, ["a_purge_is_unobservable"];

    /// A record that counts as absent still belongs to its old holder.
    a_holder_that_outlives_its_record_is_caught: Bend::Take(|record, step, now| {
        with_record(record, step, now, |record| {
            if !matches!(step, Step::Claim(_)) {
                record.reuse_at = None;
            }
        })
    }) => Find, ["a_purge_is_unobservable"];

    /// A record is reusable before the clock has passed its epoch: the epoch comes again.
    a_record_that_is_absent_too_soon_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| match step {
            Step::Release { memory, .. } => after.reuse_at = Some(now.plus(*memory)),
            Step::Complete { retention, .. } => after.reuse_at = retention.reuse_at(now),
            _ => {}
        })
    }) => Miss, ["a_purge_lets_no_epoch_come_again"];

    /// An open record is not compared, but neither is a claimed one whose prints were lost.
    a_take_over_that_forgets_the_request_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |before, after| {
            if before.is_some() && matches!(step, Step::Claim(_)) && after.attempts > 1 {
                after.prints = Prints::NONE;
            }
        })
    }) => Find, ["a_take_over_keeps_the_request", "a_claim_without_prints_matches_every_request"];
}
