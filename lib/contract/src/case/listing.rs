//! What operators and the completer see: pages of records and the journal of one.

use crate::{
    stage::{
        Stage, actor, checkpoint, complete, doubt, identity, name, nonce, release, settle, value,
    },
    subject::Subject,
};
use hapax_core::{
    Effect, Id, Retention, Status,
    store::{Claim, Entry, Event, Ruling, Scan, Step},
};

const EVERYTHING: Scan = Scan { operation: None, status: None, after: None, limit: 1000 };

/// The longest note that is kept, in bytes.
const NOTE_BYTES_MAX: usize = 255;

/// A scan gives the records of one operation and of no other.
pub async fn a_scan_filters_by_operation(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for operation in ["order.pay", "order.pay2", "order_pay"] {
        for key in ["a", "b"] {
            stage.hold(&stage.claim_of(identity(operation, key), 1)).await;
        }
    }
    let scan = Scan { operation: Some(name("order.pay")), ..EVERYTHING };
    let records = stage.scan(scan).await;
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(record.identity.operation().as_str(), "order.pay");
    }
    let scan = Scan { operation: Some(name("order.none")), ..EVERYTHING };
    assert!(stage.scan(scan).await.is_empty());
    assert_eq!(stage.scan(EVERYTHING).await.len(), 6);
}

/// A scan gives the records that have a status now: the computed ones too.
pub async fn a_scan_filters_by_status(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let ids = one_of_each_status(&stage).await;
    for (status, id) in ids {
        let scan = Scan { status: Some(status), ..EVERYTHING };
        let found: Vec<_> = stage.scan(scan).await.iter().map(|r| r.identity.id()).collect();
        assert_eq!(found, [id], "{status:?}");
    }
    let scan = Scan { status: Some(Status::Open), operation: Some(name("none")), ..EVERYTHING };
    assert!(stage.scan(scan).await.is_empty(), "both filters count");
}

/// Pages of any size give every record once, in the order of the ids.
pub async fn pages_are_complete_and_ordered(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut expected: Vec<Id> = Vec::new();
    for serial in 0..23 {
        expected.push(stage.hold(&stage.claim(&format!("page-{serial}"), 1)).await.id);
    }
    expected.sort();
    for limit in [1, 7, 22, 23, 24, 1000] {
        let records = stage.scan(Scan { limit, ..EVERYTHING }).await;
        let ids: Vec<_> = records.iter().map(|record| record.identity.id()).collect();
        assert_eq!(ids, expected, "pages of {limit}");
    }
    let records = stage.scan(EVERYTHING).await;
    for record in records {
        assert_eq!(stage.record(record.identity.id()).await, record, "a page shows whole records");
    }
}

/// A page that is filtered still leads to the next one.
pub async fn filtered_pages_are_complete(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let mut running = Vec::new();
    for serial in 0..20 {
        let fence = stage.hold(&stage.claim(&format!("mixed-{serial}"), 1)).await;
        if serial % 4 == 0 {
            running.push(fence.id);
        } else {
            stage.apply(complete(fence, "done")).await;
        }
    }
    running.sort();
    let scan = Scan { status: Some(Status::Running), limit: 2, ..EVERYTHING };
    let found: Vec<_> = stage.scan(scan).await.iter().map(|r| r.identity.id()).collect();
    assert_eq!(found, running);
}

/// The journal tells what happened, oldest first, with time, epoch, actor and note.
pub async fn a_history_tells_the_events_in_order(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let first = Claim { effect: Effect::Opaque, ..stage.claim("told", 1) };
    let released = stage.grant(&first).await;
    let fence = crate::stage::fence(&first, &released);
    let (_, freed_at) = stage.apply(release(fence, stage.beats(9))).await;
    let second = stage.claim("told", 2);
    let died = stage.grant(&second).await;
    stage.pass(2).await;
    let third = stage.claim("told", 3);
    let retaken = stage.grant(&third).await;
    let fence = crate::stage::fence(&third, &retaken);
    let (_, doubted_at) = stage.apply(doubt(fence)).await;
    let nothing = Ruling::NothingHappened { memory: stage.beats(9) };
    let (settled, settled_at) = stage.apply(settle(fence, 9, nothing)).await;
    let last = stage.claim("told", 4);
    let done = stage.grant(&last).await;
    let (_, done_at) = stage.apply(complete(crate::stage::fence(&last, &done), "x")).await;

    let line = |at, epoch, event, who: &str, note: &str| Entry {
        at,
        epoch,
        event,
        actor: actor(who),
        note: note.to_owned(),
    };
    let expected = [
        line(released.now, released.epoch, Event::Claimed, "worker 1", ""),
        line(freed_at, released.epoch, Event::Released, "worker 1", ""),
        line(died.now, died.epoch, Event::Claimed, "worker 2", ""),
        line(retaken.now, retaken.epoch, Event::Retaken, "worker 3", ""),
        line(doubted_at, retaken.epoch, Event::Doubted, "worker 3", "the answer was lost"),
        line(settled_at, settled.epoch, Event::Settled, "judge", "seen at the bank"),
        line(done.now, done.epoch, Event::Claimed, "worker 4", ""),
        line(done_at, done.epoch, Event::Completed, "worker 4", ""),
    ];
    assert_eq!(history(&stage, first.id).await, expected);
    assert!(history(&stage, stage.claim("untold", 1).id).await.is_empty());
}

/// Repeats, refusals, renewals and recovery points are no events.
pub async fn what_ends_nothing_is_not_told(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let claim = stage.claim("quiet", 1);
    let fence = stage.hold(&claim).await;
    let quiet = async |count: usize| {
        let told = history(&stage, claim.id).await;
        assert_eq!(told.len(), count, "{told:?}");
    };
    stage.grant(&claim).await;
    stage.ask(&stage.claim("quiet", 2)).await;
    stage.apply(Step::Renew { fence, lease: stage.beats(9) }).await;
    stage.apply(checkpoint(fence, b"point")).await;
    let stale = hapax_core::Fence { nonce: nonce(8), ..fence };
    stage.refuse(complete(stale, "stale")).await;
    stage.refuse(settle(fence, 9, crate::stage::happened("too early"))).await;
    quiet(1).await;

    stage.apply(complete(fence, "done")).await;
    quiet(2).await;
    stage.apply(complete(fence, "again")).await;
    stage.ask(&stage.claim("quiet", 3)).await;
    stage.look(claim.id).await;
    quiet(2).await;
}

/// A reason that is too long loses its end, but no letter is cut in two.
pub async fn a_long_note_is_cut_at_a_letter(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (key, why) in [
        ("ascii", "x".repeat(300)),
        ("exact", "y".repeat(NOTE_BYTES_MAX)),
        ("two", "é".repeat(200)),
        ("three", format!("a{}", "字".repeat(200))),
        ("four", format!("ab{}", "🦀".repeat(100))),
    ] {
        let fence = stage.hold(&stage.claim(key, 1)).await;
        stage.apply(Step::Doubt { fence, why: why.clone() }).await;
        let told = history(&stage, fence.id).await;
        let note = told.last().map(|entry| entry.note.clone()).unwrap_or_default();
        let mut expected = why;
        while expected.len() > NOTE_BYTES_MAX {
            expected.pop();
        }
        assert_eq!(note, expected, "{key}");
    }
}

/// A reason may hold any character: none of them harms the step.
pub async fn a_note_may_hold_any_character(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (serial, why) in
        ["", "'; DROP --", "\"\\", "\u{1}\u{7f}\u{feff}", "👩‍👩‍👧", "{}[]"].iter().enumerate()
    {
        let fence = stage.hold(&stage.claim(&format!("note-{serial}"), 1)).await;
        stage.apply(Step::Doubt { fence, why: (*why).to_owned() }).await;
        let told = history(&stage, fence.id).await;
        assert_eq!(told.last().map(|entry| entry.note.as_str()), Some(*why));
    }
    // Not every database keeps NUL in a text: it is left out everywhere.
    let fence = stage.hold(&stage.claim("nul", 1)).await;
    stage.apply(Step::Doubt { fence, why: "a\0b".to_owned() }).await;
    let told = history(&stage, fence.id).await;
    assert_eq!(told.last().map(|entry| entry.note.as_str()), Some("ab"));
}

async fn history(stage: &Stage<'_>, id: Id) -> Vec<Entry> {
    let told = stage.store().history(id).await;
    told.unwrap_or_else(|fault| panic!("a history failed: {fault:?}"))
}

async fn one_of_each_status(stage: &Stage<'_>) -> Vec<(Status, Id)> {
    let mut ids = Vec::new();
    let mut enter = |status, id| ids.push((status, id));
    let short = |fence, keep, grace| Step::Complete {
        fence,
        outcome: value("done"),
        retention: Retention { keep: Some(keep), grace },
    };
    let abandoned = stage.hold(&stage.claim("abandoned", 1)).await;
    enter(Status::Abandoned, abandoned.id);
    let unknown = stage.hold(&stage.claim("unknown", 1)).await;
    stage.apply(doubt(unknown)).await;
    enter(Status::Unknown, unknown.id);
    let open = stage.hold(&stage.claim("open", 1)).await;
    stage.apply(release(open, stage.beats(50))).await;
    enter(Status::Open, open.id);
    let completed = stage.hold(&stage.claim("completed", 1)).await;
    stage.apply(short(completed, stage.beats(50), stage.beats(1))).await;
    enter(Status::Completed, completed.id);
    let expired = stage.hold(&stage.claim("expired", 1)).await;
    stage.apply(short(expired, stage.beats(1), stage.beats(50))).await;
    enter(Status::Expired, expired.id);
    let running = Claim { lease: stage.beats(50), ..stage.claim("running", 1) };
    enter(Status::Running, stage.hold(&running).await.id);
    stage.pass(3).await;
    ids
}
