//! The list of the named cases, and what runs one of them.

use std::{fmt, future::Future, time::Duration};

use futures_util::future::BoxFuture;

use crate::{case, subject::Subject};

/// A case that takes longer than this hangs: the slowest waits some thirty beats.
const CASE_MAX: Duration = Duration::from_secs(60);

/// One fact that every store must hold.
#[derive(Clone, Copy)]
pub struct Case {
    /// The fact.
    pub name: &'static str,
    body: for<'a> fn(&'a dyn Subject) -> BoxFuture<'a, ()>,
}

impl Case {
    /// Tries the fact on `subject`.
    ///
    /// # Panics
    /// If the fact does not hold.
    pub fn run(&self, subject: &dyn Subject) {
        run((self.body)(subject));
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Runs `work` to its end, on a runtime of its own and for at most a minute.
///
/// # Panics
/// If it takes longer, or if `work` panics.
pub fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap_or_else(|cause| panic!("there is no runtime: {cause}"));
    let end = runtime.block_on(async { tokio::time::timeout(CASE_MAX, work).await });
    assert!(end.is_ok(), "it did not end within {CASE_MAX:?}");
}

macro_rules! list {
    ([] $($room:ident: [$($case:ident)+])+) => {
        /// Every named case.
        pub const CASES: &[Case] = &[$($(
            Case {
                name: stringify!($case),
                body: |subject| Box::pin(case::$room::$case(subject)),
            },
        )+)+];
    };
}

/// Hands the list of cases to another macro: the one place where a case is entered.
#[doc(hidden)]
#[macro_export]
macro_rules! __with_cases {
    ($($then:ident)::+ ! [$($args:tt)*]) => {
        $($then)::+! {
            [$($args)*]
            batch: [
                answers_line_up_with_their_steps
                a_poisonous_step_harms_only_itself
                a_full_batch_is_taken
                an_empty_batch_is_answered_with_nothing
                a_dropped_call_abandons_only_the_answer
                a_hint_is_only_a_hint
            ]
            claim: [
                a_fresh_claim_is_granted
                the_same_nonce_is_granted_again
                the_same_nonce_is_granted_again_after_its_lease
                a_second_claim_finds_the_first
                another_request_is_a_mismatch
                a_claim_without_prints_matches_every_request
                either_of_two_prints_is_recognised
                claims_at_once_give_one_grant
                claims_on_other_keys_are_all_granted
                take_overs_at_once_give_one_grant
                a_late_completion_and_a_take_over_have_one_winner
                a_late_step_and_a_take_over_do_not_mix
                a_take_over_keeps_the_request
                a_repeat_finds_the_outcome
            ]
            class: [
                a_transactional_attempt_is_retaken_at_once
                a_keyed_attempt_is_retaken_within_its_window
                a_queryable_attempt_is_verified_after_its_quiet_time
                an_opaque_attempt_is_never_retaken
                a_doubt_follows_its_class
                the_stricter_class_wins_from_the_record
                the_stricter_class_wins_from_the_claim
                the_shorter_window_wins
                attempts_are_bounded
                a_release_resets_the_attempts
                spans_without_end_do_not_overflow
            ]
            content: [
                outcomes_are_kept_byte_for_byte
                checkpoints_are_kept_byte_for_byte
                labels_are_kept_exactly
                what_differs_a_little_is_different
                the_scope_is_part_of_the_record
                a_look_changes_nothing
            ]
            end: [
                a_repeated_complete_is_applied
                a_stale_fence_cannot_complete
                a_late_holder_completes_if_nobody_took_over
                a_holder_that_was_taken_over_is_fenced
                a_completed_record_never_changes
                a_step_on_no_record_finds_nothing
                a_release_forgets_the_request
                a_late_claim_of_a_released_attempt_is_refused
                an_open_record_is_claimed_at_once
                a_repeated_release_is_applied
                a_doubt_makes_the_record_unknown
                a_doubting_holder_may_still_find_out
                a_tombstone_is_no_answer
                epochs_only_rise
                a_nonce_that_is_almost_right_is_wrong
            ]
            lease: [
                a_renewal_counts_from_now
                a_renewal_of_zero_hands_on
                a_late_renewal_revives_the_lease
                a_lease_holds_until_its_end
                a_checkpoint_survives_a_take_over
                a_checkpoint_is_dropped_at_the_end
                the_clock_never_goes_back
            ]
            listing: [
                a_scan_filters_by_operation
                a_scan_filters_by_status
                pages_are_complete_and_ordered
                filtered_pages_are_complete
                a_history_tells_the_events_in_order
                what_ends_nothing_is_not_told
                a_long_note_is_cut_at_a_letter
                a_note_may_hold_any_character
            ]
            retention: [
                an_outcome_expires_and_is_refused
                an_expired_key_runs_again_after_its_grace
                an_old_nonce_is_new_after_the_grace
                for_ever_has_no_expiry
                a_retention_without_end_does_not_overflow
                a_purge_takes_only_what_counts_as_absent
                a_purge_is_bounded
                a_purge_is_unobservable
                a_purge_lets_no_epoch_come_again
            ]
            settle: [
                a_ruling_needs_the_epoch_that_was_seen
                a_live_attempt_cannot_be_settled
                a_ruling_fences_the_holder
                a_ruling_that_it_happened_completes
                a_ruling_that_nothing_happened_opens
                a_repeated_ruling_is_applied
                a_late_completion_and_a_ruling_have_one_winner
                what_has_ended_cannot_be_settled
            ]
        }
    };
}

__with_cases!(list![]);

/// Makes one test of every named case, and two of random lives against the reference.
///
/// The first argument is an expression that makes a fresh [`Subject`](crate::Subject); each test
/// evaluates it for itself. The second is the number of random lives, 64 if it is left out: a
/// store that really waits will want fewer.
#[macro_export]
macro_rules! suite {
    ($subject:expr) => {
        $crate::suite!($subject, $crate::oracle::CASES);
    };
    ($subject:expr, $lives:expr) => {
        $crate::__with_cases!($crate::__tests![$subject]);

        #[test]
        fn random_steps_match_the_reference() {
            $crate::oracle::search(&$subject, $lives).unwrap();
        }

        #[test]
        fn lost_messages_change_nothing() {
            $crate::oracle::search_losses(&$subject, $lives).unwrap();
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$subject:expr] $($room:ident: [$($case:ident)+])+) => {$($(
        #[test]
        fn $case() {
            let subject = $subject;
            $crate::run($crate::case::$room::$case(&subject));
        }
    )+)+};
}
