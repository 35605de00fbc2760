//! What the cases share: a fresh store, its clock, and one way to ask it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::subject::Subject;
use hapax_core::{
    Actor, BusinessKey, Decision, Effect, Fence, Fingerprint, Grant, Id, Identity, Nonce,
    OperationName, Outcome, Prints, Record, Retention, Tenant, Timestamp, decide,
    store::{Answer, Claim, Found, Ruling, Scan, Step, Store},
};

/// The operation of claims that name no other.
pub(crate) const OPERATION: &str = "contract.case";

/// A fresh store on trial.
pub(crate) struct Stage<'a> {
    subject: &'a dyn Subject,
    store: Arc<dyn Store>,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(subject: &'a dyn Subject) -> Self {
        Self { subject, store: subject.open().await }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn beats(&self, count: u32) -> Duration {
        self.subject.beat() * count
    }

    pub(crate) async fn pass(&self, beats: u32) {
        self.subject.pass(self.beats(beats)).await;
    }

    /// A claim of two beats on a business key, whose prints say "request".
    pub(crate) fn claim(&self, key: &str, serial: u8) -> Claim {
        self.claim_of(identity(OPERATION, key), serial)
    }

    pub(crate) fn claim_of(&self, identity: Identity, serial: u8) -> Claim {
        Claim {
            id: identity.id(),
            identity,
            nonce: nonce(serial),
            prints: prints("request"),
            lease: self.beats(2),
            effect: Effect::Transactional,
            attempts_max: 5,
            caller: actor(&format!("worker {serial}")),
        }
    }

    /// Takes one step alone.
    pub(crate) async fn send(&self, step: Step) -> Answer {
        let mut answers = self.store.apply(vec![step]).await;
        assert_eq!(answers.len(), 1, "one step, one answer");
        answers.remove(0)
    }

    /// Takes steps in one call; the answers come in the order of the ids.
    pub(crate) async fn send_all(&self, mut steps: Vec<Step>) -> Vec<Answer> {
        steps.sort_by_key(Step::id);
        let count = steps.len();
        let answers = self.store.apply(steps).await;
        assert_eq!(answers.len(), count, "each step has its answer");
        answers
    }

    /// Sends a claim that must be granted.
    pub(crate) async fn grant(&self, claim: &Claim) -> Grant {
        granted(self.send(Step::Claim(Arc::new(claim.clone()))).await)
    }

    /// Sends a claim that must be granted; its fence.
    pub(crate) async fn hold(&self, claim: &Claim) -> Fence {
        fence(claim, &self.grant(claim).await)
    }

    /// Sends a claim and judges what the store says, as the engine does.
    pub(crate) async fn ask(&self, claim: &Claim) -> Decision {
        match self.send(Step::Claim(Arc::new(claim.clone()))).await {
            Answer::Granted(grant) if grant.must_verify() => Decision::Verify(grant),
            Answer::Granted(grant) => Decision::Run(grant),
            Answer::Found(found) => {
                let decision = decide(&found, claim);
                let refused = !matches!(decision, Decision::Run(_) | Decision::Verify(_));
                assert!(refused, "a claim was refused that may run: {found:?}");
                decision
            }
            answer => panic!("a claim is granted or finds the record, not {answer:?}"),
        }
    }

    /// Takes a step that must happen; the record that it left, and when.
    pub(crate) async fn apply(&self, step: Step) -> (Record, Timestamp) {
        let id = step.id();
        match self.send(step.clone()).await {
            Answer::Applied { epoch, now } => {
                let record = self.record(id).await;
                assert_eq!(record.epoch, epoch, "the answer names the epoch that it left");
                (record, now)
            }
            answer => panic!("{step:?} must happen, but the store said {answer:?}"),
        }
    }

    /// Takes a step that must be refused and must leave no trace.
    pub(crate) async fn refuse(&self, step: Step) {
        let id = step.id();
        let before = self.look(id).await.record;
        match self.send(step.clone()).await {
            Answer::Found(found) => assert_eq!(found.record, before, "{step:?} shows the record"),
            answer => panic!("{step:?} must be refused, but the store said {answer:?}"),
        }
        assert_eq!(self.look(id).await.record, before, "{step:?} left a trace");
    }

    pub(crate) async fn look(&self, id: Id) -> Found {
        let mut seen = self.store.look(vec![id]).await;
        assert_eq!(seen.len(), 1, "one id, one answer");
        seen.remove(0).unwrap_or_else(|fault| panic!("a look failed: {fault:?}"))
    }

    /// The record, which must be there.
    pub(crate) async fn record(&self, id: Id) -> Record {
        let found = self.look(id).await;
        let record = found.record.unwrap_or_else(|| panic!("there is no record of {id:?}"));
        Arc::unwrap_or_clone(record)
    }

    /// Every record that a scan gives, page by page.
    pub(crate) async fn scan(&self, scan: Scan) -> Vec<Record> {
        let (mut records, mut scan) = (Vec::new(), scan);
        loop {
            let page = self.store.scan(scan.clone()).await;
            let page = page.unwrap_or_else(|fault| panic!("a scan failed: {fault:?}"));
            assert!(page.records.len() <= usize::from(scan.limit), "a page keeps its limit");
            records.extend(page.records);
            let Some(next) = page.next else { return records };
            assert!(scan.after.is_none_or(|after| next > after), "pages go forward");
            scan.after = Some(next);
        }
    }

    pub(crate) async fn purge(&self, rows: u16) -> u16 {
        let purged = self.store.purge(rows).await;
        let purged = purged.unwrap_or_else(|fault| panic!("a purge failed: {fault:?}"));
        assert!(purged <= rows, "a purge of {rows} rows removed {purged}");
        purged
    }

    /// Purges until nothing is left to purge.
    pub(crate) async fn purge_all(&self) {
        while self.purge(1000).await > 0 {}
    }
}

pub(crate) fn granted(answer: Answer) -> Grant {
    match answer {
        Answer::Granted(grant) => grant,
        answer => panic!("a claim must be granted, but the store said {answer:?}"),
    }
}

pub(crate) fn fence(claim: &Claim, grant: &Grant) -> Fence {
    Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce }
}

pub(crate) fn identity(operation: &str, key: &str) -> Identity {
    let key = valid(BusinessKey::parse(key));
    Identity::business(valid(Tenant::parse("contract")), name(operation), key)
}

pub(crate) fn name(operation: &str) -> OperationName {
    valid(OperationName::parse(operation))
}

pub(crate) fn actor(text: &str) -> Actor {
    valid(Actor::parse(text))
}

pub(crate) fn nonce(serial: u8) -> Nonce {
    Nonce::from_bytes([serial; 16])
}

pub(crate) fn prints(request: &str) -> Prints {
    Fingerprint::new().text("request", request).prints()
}

pub(crate) fn value(answer: &str) -> Outcome {
    Outcome::Value(Bytes::copy_from_slice(answer.as_bytes()))
}

pub(crate) fn valid<T>(parsed: Result<T, hapax_core::Invalid>) -> T {
    parsed.unwrap_or_else(|invalid| panic!("the suite has a bad constant: {invalid}"))
}

/// Completes with an answer that is kept for ever.
pub(crate) fn complete(fence: Fence, answer: &str) -> Step {
    Step::Complete { fence, outcome: value(answer), retention: Retention::FOREVER }
}

pub(crate) fn release(fence: Fence, memory: Duration) -> Step {
    Step::Release { fence, memory }
}

pub(crate) fn doubt(fence: Fence) -> Step {
    Step::Doubt { fence, why: "the answer was lost".to_owned() }
}

pub(crate) fn checkpoint(fence: Fence, point: &'static [u8]) -> Step {
    Step::Checkpoint { fence, point: Bytes::from_static(point) }
}

/// Settles what the attempt of `fence` did; `serial` makes the ruling's nonce.
pub(crate) fn settle(fence: Fence, serial: u8, ruling: Ruling) -> Step {
    Step::Settle {
        id: fence.id,
        seen: fence.epoch,
        nonce: nonce(serial),
        ruling,
        by: actor("judge"),
        reason: "seen at the bank".to_owned(),
    }
}

pub(crate) fn happened(answer: &str) -> Ruling {
    Ruling::Completed { outcome: value(answer), retention: Retention::FOREVER }
}

/// Every step that only the holder of `fence` may take.
pub(crate) fn holders_steps(fence: Fence, span: Duration) -> Vec<Step> {
    vec![
        Step::Renew { fence, lease: span },
        checkpoint(fence, b"stale"),
        doubt(fence),
        complete(fence, "stale"),
        release(fence, span),
    ]
}
