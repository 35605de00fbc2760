//! What is kept, is kept exactly.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    stage::{OPERATION, Stage, actor, identity, name, valid},
    subject::Subject,
};
use hapax_core::{
    BusinessKey, Channel, ChannelKey, Decision, Identity, KEY_BYTES_MAX, NAME_BYTES_MAX,
    OPERATION_BYTES_MAX, OUTCOME_BYTES_MAX, Outcome, Principal, REFERENCE_BYTES_MAX, RequestKey,
    Retention, Tenant,
    store::{Claim, Step},
};

/// An outcome comes back byte for byte, the empty one and the largest one too.
pub async fn outcomes_are_kept_byte_for_byte(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let largest: Vec<u8> = every_byte.iter().copied().cycle().take(OUTCOME_BYTES_MAX).collect();
    let reference: Vec<u8> = every_byte.repeat(REFERENCE_BYTES_MAX / 256);
    for (key, outcome) in [
        ("empty", Outcome::Value(Bytes::new())),
        ("every-byte", Outcome::Value(Bytes::from(every_byte))),
        ("largest", Outcome::Value(Bytes::from(largest))),
        ("nowhere", Outcome::Tombstone(Bytes::new())),
        ("reference", Outcome::Tombstone(Bytes::from(reference))),
    ] {
        let fence = stage.hold(&stage.claim(key, 1)).await;
        let (kept, retention) = (outcome.clone(), Retention::FOREVER);
        let (record, _) = stage.apply(Step::Complete { fence, outcome, retention }).await;
        // Outcomes do not show in messages.
        assert!(record.outcome.as_ref() == Some(&kept), "{key}");
        let repeat = stage.claim(key, 2);
        assert!(stage.ask(&repeat).await == Decision::Replay(kept), "{key}");
    }
}

/// A recovery point comes back byte for byte.
pub async fn checkpoints_are_kept_byte_for_byte(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    for (key, point) in [
        ("empty", Bytes::new()),
        ("every-byte", Bytes::from(every_byte.clone())),
        ("frozen-request", Bytes::from(every_byte.repeat(256))),
    ] {
        let fence = stage.hold(&stage.claim(key, 1)).await;
        let (record, _) = stage.apply(Step::Checkpoint { fence, point: point.clone() }).await;
        assert!(record.checkpoint.as_ref() == Some(&point), "{key}");
        stage.pass(2).await;
        let grant = stage.grant(&stage.claim(key, 2)).await;
        assert!(grant.checkpoint == Some(point), "{key}: an empty point is a point");
    }
}

/// The readable parts come back as they were, whatever letters they have.
pub async fn labels_are_kept_exactly(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let longest_name = "n".repeat(NAME_BYTES_MAX);
    let longest_key = "k".repeat(KEY_BYTES_MAX);
    let longest_operation = "o".repeat(OPERATION_BYTES_MAX);
    let names = [
        "shop",
        "商店 №1",
        "l'été 'n' \"co\"; --",
        "🦀\u{200d}\u{301}",
        " s ",
        "%_\\",
        &longest_name,
    ];
    let keys = ["1001", "~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./", "%2F", &longest_key];
    let operations = ["order.create", "a-b_c.9", &longest_operation];

    let mut claims = Vec::new();
    for label in names {
        for key in keys {
            for operation in operations {
                claims.extend(identities(label, operation, key));
            }
        }
    }
    for identity in claims {
        let caller = actor(identity.scope().tenant().as_str());
        let claim = Claim { caller, ..stage.claim_of(identity.clone(), 1) };
        stage.grant(&claim).await;
        let record = stage.record(claim.id).await;
        assert_eq!(record.identity.key(), identity.key());
        assert_eq!((&record.identity, &record.caller), (&identity, &claim.caller));
    }
}

/// Keys, names and operations that look alike to a database are different all the same.
pub async fn what_differs_a_little_is_different(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let alike = |label: &str, operation: &str, key: &str| {
        let tenant = valid(Tenant::parse(label));
        Identity::business(tenant, name(operation), valid(BusinessKey::parse(key)))
    };
    let mut all = Vec::new();
    for key in ["order", "Order", "ORDER", "order.", "order/", "0rder", "%C3%A9", "%c3%a9", "%e9"] {
        all.push(alike("shop", "op", key));
    }
    for label in
        ["Shop", "shop ", " shop", "sho\u{301}p", "sh\u{f3}p", "ｓｈｏｐ", "shopß", "shopss"]
    {
        all.push(alike(label, "op", "order"));
    }
    for operation in ["op.", "op_", "op-", "0p"] {
        all.push(alike("shop", operation, "order"));
    }
    for identity in &all {
        assert_eq!(stage.grant(&stage.claim_of(identity.clone(), 1)).await.attempt, 1);
    }
    for identity in all {
        let record = stage.record(identity.id()).await;
        assert_eq!(record.identity, identity);
    }
}

/// The same key in three scopes is three records.
pub async fn the_scope_is_part_of_the_record(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    for (serial, identity) in (1..).zip(identities("same", OPERATION, "same")) {
        let claim = stage.claim_of(identity, serial);
        stage.grant(&claim).await;
    }
    for (serial, identity) in (1..).zip(identities("same", OPERATION, "same")) {
        assert_eq!(stage.record(identity.id()).await.nonce, crate::stage::nonce(serial));
    }
}

/// A look answers each id in its place and leaves no trace.
pub async fn a_look_changes_nothing(subject: &dyn Subject) {
    let stage = Stage::set(subject).await;
    let held = stage.hold(&stage.claim("held", 1)).await;
    let absent = identity(OPERATION, "absent").id();
    let before = stage.record(held.id).await;

    let seen = stage.store().look(vec![absent, held.id, absent, held.id]).await;
    let records: Vec<_> = seen
        .into_iter()
        .map(|found| found.unwrap_or_else(|fault| panic!("a look failed: {fault:?}")).record)
        .collect();
    let held_record = Some(Arc::new(before.clone()));
    assert_eq!(records, [None, held_record.clone(), None, held_record]);
    assert!(stage.store().look(Vec::new()).await.is_empty());
    assert_eq!(stage.look(absent).await.record, None);
    assert_eq!(stage.record(held.id).await, before);
}

/// One identity of each scope.
fn identities(label: &str, operation: &str, key: &str) -> [Identity; 3] {
    let tenant = || valid(Tenant::parse(label));
    [
        Identity::business(tenant(), name(operation), valid(BusinessKey::parse(key))),
        Identity::request(
            tenant(),
            valid(Principal::parse(label)),
            name(operation),
            valid(RequestKey::parse(key)),
        ),
        Identity::channel(
            tenant(),
            valid(Channel::parse(label)),
            name(operation),
            valid(ChannelKey::parse(key)),
        ),
    ]
}
