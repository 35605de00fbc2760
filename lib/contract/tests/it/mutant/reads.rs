//! Stores that are wrong about what they keep and show.

use super::{Bend, Lives, caught, with_result};
use hapax_core::{
    BusinessKey, Identity, Outcome, Scope, State, Status,
    store::{self, Answer, Page, Step},
};

mutants! {
    /// A purge takes dead claims: they run again whatever their class.
    a_purge_of_the_dead_is_caught: Bend::Purge(|record, now| {
        record.is_reusable(now) || (record.state == State::Claimed && record.lease_until <= now)
    }) => Find, ["a_purge_takes_only_what_counts_as_absent"];

    /// A purge takes what has expired and is still in its grace.
    a_purge_before_the_grace_is_caught: Bend::Purge(|record, now| {
        record.is_reusable(now) || record.expires_at.is_some_and(|expiry| expiry <= now)
    }) => Find, ["a_purge_takes_only_what_counts_as_absent"];

    /// A purge takes what is kept for ever.
    a_purge_of_what_is_kept_for_ever_is_caught: Bend::Purge(|record, now| {
        record.is_reusable(now) || (record.state == State::Completed && record.reuse_at.is_none())
    }) => Find, ["for_ever_has_no_expiry", "a_completed_record_never_changes"];

    /// A purge takes nothing.
    a_purge_that_does_nothing_is_caught: Bend::Purge(|_, _| false) => Miss, [
        "a_purge_takes_only_what_counts_as_absent",
        "a_purge_is_bounded",
    ];

    /// A purge knows no bound.
    a_purge_without_a_bound_is_caught: Bend::PurgeAll => Find, ["a_purge_is_bounded"];

    /// Large outcomes lose their end.
    an_outcome_that_is_cut_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if let Some(Outcome::Value(bytes)) = &mut after.outcome {
                bytes.truncate(64 * 1024);
            }
        })
    }) => Miss, ["outcomes_are_kept_byte_for_byte"];

    /// Outcomes go through a text column.
    an_outcome_that_is_text_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            if let Some(Outcome::Value(bytes)) = &mut after.outcome {
                *bytes = String::from_utf8_lossy(bytes).into_owned().into();
            }
        })
    }) => Miss, ["outcomes_are_kept_byte_for_byte"];

    /// An empty recovery point is taken for none.
    an_empty_point_that_is_none_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            after.checkpoint = after.checkpoint.take().filter(|point| !point.is_empty());
        })
    }) => Find, ["checkpoints_are_kept_byte_for_byte"];

    /// A collation folds the letters of a key.
    a_key_that_is_folded_is_caught: Bend::Take(|record, step, now| {
        with_result(record, step, now, |_, after| {
            let identity = &after.identity;
            if let Scope::Tenant(tenant) = identity.scope() {
                let key = BusinessKey::parse(&identity.key().to_lowercase()).unwrap();
                let operation = identity.operation().clone();
                after.identity = Identity::business(tenant.clone(), operation, key);
            }
        })
    }) => Miss, ["what_differs_a_little_is_different"];

    /// Repeats are journalled as if they had happened again.
    a_journal_of_repeats_is_caught: Bend::Take(|record, step, now| {
        let (record, entry, answer) = store::apply(record, step, now);
        let repeat = match (&entry, &answer, &record) {
            (None, Answer::Applied { epoch, .. }, Some(record)) => Some(store::Entry {
                at: now,
                epoch: *epoch,
                event: store::Event::Completed,
                actor: record.caller.clone(),
                note: String::new(),
            }),
            _ => None,
        };
        (record, entry.or(repeat), answer)
    }) => Find, ["what_ends_nothing_is_not_told"];

    /// The journal forgets who did it.
    a_journal_without_actors_is_caught: Bend::Take(|record, step, now| {
        let (record, mut entry, answer) = store::apply(record, step, now);
        if let Some(entry) = &mut entry {
            entry.actor = hapax_core::Actor::parse("somebody").unwrap();
        }
        (record, entry, answer)
    }) => Find, ["a_history_tells_the_events_in_order"];

    /// A note is cut by letters where it should be by bytes.
    a_note_that_is_cut_by_letters_is_caught: Bend::Take(|record, step, now| {
        let (record, mut entry, answer) = store::apply(record, step, now);
        if let (Some(entry), Step::Doubt { why, .. }) = (&mut entry, step) {
            entry.note = why.chars().take(255).collect();
        }
        (record, entry, answer)
    }) => Miss, ["a_long_note_is_cut_at_a_letter"];

    /// A scan knows the stored state only, not what it means now.
    a_status_that_is_not_computed_is_caught: Bend::Status(|record, _, status| {
        matches!(
            (record.state, status),
            (State::Claimed, Status::Running)
                | (State::Completed, Status::Completed)
                | (State::Unknown, Status::Unknown)
                | (State::Open, Status::Open)
        )
    }) => Find, ["a_scan_filters_by_status"];

    /// A page begins one record too late.
    a_page_that_skips_is_caught: Bend::Scan(|mut page| {
        if page.next.is_some() && page.records.len() > 1 {
            page.records.pop();
        }
        page
    }) => Find, ["pages_are_complete_and_ordered"];

    /// A page comes in any order.
    a_page_without_an_order_is_caught: Bend::Scan(|page| {
        let records = page.records.into_iter().rev().collect();
        Page { records, ..page }
    }) => Find, ["pages_are_complete_and_ordered"];

    /// The first page is the only one.
    a_scan_of_one_page_is_caught: Bend::Scan(|page| Page { next: None, ..page }) => Find, [
        "pages_are_complete_and_ordered",
        "filtered_pages_are_complete",
    ];

    /// The answers of a batch come in another order than its steps.
    answers_in_another_order_are_caught: Bend::Answers(|answers| {
        answers.into_iter().rev().collect()
    }) => Find, ["answers_line_up_with_their_steps"];

    /// One refused step makes the whole batch fail.
    a_batch_that_fails_as_one_is_caught: Bend::Answers(|answers| {
        let refused = answers.iter().any(|answer| matches!(answer, Answer::Found(_)));
        if !refused || answers.len() == 1 {
            return answers;
        }
        let fault = || store::Fault::new(store::FaultKind::Unavailable, "the batch failed");
        answers.iter().map(|_| Answer::Away(fault())).collect()
    }) => Find, ["a_poisonous_step_harms_only_itself"];

    /// The work begins when somebody waits for it.
    work_that_waits_to_be_awaited_is_caught: Bend::Lazy => Miss, [
        "a_dropped_call_abandons_only_the_answer",
    ];

    /// The clock goes back by a millisecond now and then.
    a_clock_that_goes_back_is_caught: Bend::ClockBack => Find, ["the_clock_never_goes_back"];
}
