//! Plays one life on one store.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    canon::{Canon, Said},
    op::{Effects, Fences, Flaw, KEYS, Op, Seen},
};
use crate::{
    fault::insist,
    stage::{actor, name, nonce, prints, valid, value},
    subject::Subject,
};
use hapax_core::{
    Actor, BusinessKey, Channel, ChannelKey, Effect, Epoch, Fence, Id, Identity, Nonce,
    OperationName, Outcome, Principal, Prints, RequestKey, Retention, Status, Tenant, Timestamp,
    store::{Answer, Claim, Ruling, Scan, Step, Store},
};

const OPERATIONS: [&str; 2] = ["oracle.one", "oracle.two"];

/// A store with what a life on it needs to remember.
pub(super) struct Player<'a> {
    subject: &'a dyn Subject,
    store: Arc<dyn Store>,
    tries: usize,
    canon: Canon,
    grants: Vec<Fence>,
    /// How often each kind of thing happened.
    tally: std::collections::BTreeMap<&'static str, usize>,
}

/// What a store said to each op, and what it kept in the end.
pub(super) struct Played {
    pub(super) said: Vec<Vec<Said>>,
    pub(super) tally: std::collections::BTreeMap<&'static str, usize>,
}

impl<'a> Player<'a> {
    /// A player that sends each step until it is answered, at most `tries` times.
    pub(super) async fn new(subject: &'a dyn Subject, store: Arc<dyn Store>, tries: usize) -> Self {
        let start = match store.look(vec![identity(0).id()]).await.pop() {
            Some(Ok(found)) => found.now,
            Some(Err(_)) | None => Timestamp::default(),
        };
        let canon = Canon::new(start, subject.beat());
        Self { subject, store, tries, canon, grants: Vec::new(), tally: Default::default() }
    }

    /// Plays `ops`, then looks at all that is left.
    pub(super) async fn play(mut self, ops: &[Op]) -> Played {
        let mut said = Vec::with_capacity(ops.len() + 1);
        for op in ops {
            said.push(self.take(op).await);
            self.canon.end_op();
        }
        said.push(self.end().await);
        Played { said, tally: self.tally }
    }

    async fn take(&mut self, op: &Op) -> Vec<Said> {
        match op {
            Op::Batch(ops) => {
                let mut steps: Vec<Step> = Vec::new();
                for op in ops {
                    let step = self.step(op).await;
                    steps.extend(step.filter(|step| steps.iter().all(|s| s.id() != step.id())));
                }
                steps.sort_by_key(Step::id);
                self.send(steps).await
            }
            Op::Look { key } => vec![self.look(identity(*key).id()).await],
            Op::Scan { operation, status, limit } => {
                vec![self.scan(*operation, *status, *limit).await]
            }
            Op::Purge { rows } => vec![self.purge(*rows).await],
            Op::Pass { beats } => {
                self.subject.pass(self.subject.beat() * u32::from(*beats)).await;
                self.canon.pass(*beats);
                Vec::new()
            }
            Op::Claim { .. }
            | Op::Renew { .. }
            | Op::Checkpoint { .. }
            | Op::Complete { .. }
            | Op::Doubt { .. }
            | Op::Release { .. }
            | Op::Settle { .. } => {
                let step = self.step(op).await;
                self.send(step.into_iter().collect()).await
            }
        }
    }

    async fn send(&mut self, steps: Vec<Step>) -> Vec<Said> {
        let mut answers = self.store.apply(steps.clone()).await;
        if answers.len() != steps.len() {
            return vec![Said::Broke(format!("{} answers to {steps:?}", answers.len()))];
        }
        for (step, answer) in steps.iter().zip(&mut answers) {
            if matches!(answer, Answer::Away(_) | Answer::Unsure(_)) && self.tries > 1 {
                *answer = insist(&*self.store, step, self.tries).await;
            }
        }
        let pairs = steps.iter().zip(answers);
        pairs.map(|(step, answer)| self.hear(step, answer)).collect()
    }

    fn hear(&mut self, step: &Step, answer: Answer) -> Said {
        if let (Step::Claim(claim), Answer::Granted(grant)) = (step, &answer) {
            let fence = Fence { id: claim.id, epoch: grant.epoch, nonce: claim.nonce };
            let known = self.grants.contains(&fence);
            self.count(match (known, grant.attempt) {
                (true, _) => "granted again",
                (false, 1) => "granted",
                (false, _) => "retaken",
            });
            if !known {
                self.grants.push(fence);
            }
        } else {
            self.count(kind(step, &answer));
        }
        self.canon.answer(step.id(), answer)
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    async fn step(&self, op: &Op) -> Option<Step> {
        let span = |beats: u8| self.subject.beat() * u32::from(beats);
        Some(match op {
            Op::Claim { key, nonce: serial, request, lease, effect, attempts_max } => {
                let identity = identity(*key);
                Step::Claim(Arc::new(Claim {
                    id: identity.id(),
                    identity,
                    nonce: nonce(*serial),
                    prints: requests(*request),
                    lease: span(*lease),
                    effect: self.effect(*effect),
                    attempts_max: u32::from(*attempts_max),
                    caller: worker(*serial),
                }))
            }
            Op::Renew { fence, lease } => {
                Step::Renew { fence: self.fence(*fence), lease: span(*lease) }
            }
            Op::Checkpoint { fence, point } => {
                let point = Bytes::from(vec![*point; usize::from(*point)]);
                Step::Checkpoint { fence: self.fence(*fence), point }
            }
            Op::Complete { fence, answer, keep, grace } => Step::Complete {
                fence: self.fence(*fence),
                outcome: outcome(*answer),
                retention: Retention { keep: keep.map(span), grace: span(*grace) },
            },
            Op::Doubt { fence } => {
                Step::Doubt { fence: self.fence(*fence), why: "nobody knows".to_owned() }
            }
            Op::Release { fence, memory } => {
                Step::Release { fence: self.fence(*fence), memory: span(*memory) }
            }
            Op::Settle { key, seen, nonce: serial, ruling, beats } => {
                let id = identity(*key).id();
                let (keep, memory) = (Some(span(*beats)), span(*beats));
                let retention = Retention { keep, grace: span(1) };
                Step::Settle {
                    id,
                    seen: self.seen(id, *seen).await,
                    nonce: nonce(*serial),
                    ruling: match ruling {
                        Some(answer) => Ruling::Completed { outcome: outcome(*answer), retention },
                        None => Ruling::NothingHappened { memory },
                    },
                    by: valid(Actor::parse("judge")),
                    reason: "seen at the bank".to_owned(),
                }
            }
            Op::Batch(_)
            | Op::Look { .. }
            | Op::Scan { .. }
            | Op::Purge { .. }
            | Op::Pass { .. } => return None,
        })
    }

    fn effect(&self, effect: Effects) -> Effect {
        let beats = |count| self.subject.beat() * count;
        match effect {
            Effects::Transactional => Effect::Transactional,
            Effects::Keyed { long } => Effect::Keyed { window: beats(if long { 30 } else { 10 }) },
            Effects::Queryable { long } => {
                Effect::Queryable { quiet: beats(if long { 6 } else { 2 }) }
            }
            Effects::Opaque => Effect::Opaque,
        }
    }

    /// A fence that was handed out, or one that never was.
    fn fence(&self, wanted: Fences) -> Fence {
        let Some(fence) = self.granted(wanted.back) else {
            let epoch = Epoch::from_stored(0);
            return Fence { id: identity(0).id(), epoch, nonce: nonce(0) };
        };
        match wanted.flaw {
            Flaw::None => fence,
            Flaw::Epoch => {
                Fence { epoch: Epoch::from_stored(fence.epoch.get().saturating_sub(1)), ..fence }
            }
            Flaw::Nonce => Fence { nonce: Nonce::from_bytes([0xFF; 16]), ..fence },
        }
    }

    fn granted(&self, back: u8) -> Option<Fence> {
        self.grants.iter().rev().nth(usize::from(back)).copied()
    }

    /// As [`granted`](Self::granted), of one record: epochs of two records may be equal or not.
    fn granted_on(&self, id: Id, back: u8) -> Option<Fence> {
        let grants = self.grants.iter().rev().filter(|fence| fence.id == id);
        grants.copied().nth(usize::from(back))
    }

    async fn seen(&self, id: Id, seen: Seen) -> Epoch {
        let none = Epoch::from_stored(0);
        match seen {
            Seen::Grant(back) => self.granted_on(id, back).map_or(none, |fence| fence.epoch),
            Seen::Current => match self.store.look(vec![id]).await.pop() {
                Some(Ok(found)) => found.record.map_or(none, |record| record.epoch),
                Some(Err(_)) | None => none,
            },
        }
    }

    async fn look(&mut self, id: Id) -> Said {
        match self.store.look(vec![id]).await.pop() {
            Some(Ok(found)) => self.canon.found(id, found),
            broke => Said::Broke(format!("a look said {broke:?}")),
        }
    }

    async fn scan(&mut self, operation: Option<u8>, status: Option<u8>, limit: u8) -> Said {
        let operation = operation.map(operation_of);
        let status = status.and_then(|serial| STATUSES.get(usize::from(serial)).copied());
        let mut scan = Scan { operation, status, after: None, limit: u16::from(limit) };
        let mut records = Vec::new();
        loop {
            let page = match self.store.scan(scan.clone()).await {
                Ok(page) => page,
                Err(fault) => return Said::Broke(format!("a scan said {fault:?}")),
            };
            let last = records.last().map(|record: &hapax_core::Record| record.identity.id());
            let first = page.records.first().map(|record| record.identity.id());
            if page.records.len() > usize::from(limit) || (last >= first && first.is_some()) {
                return Said::Broke("a page is too long or out of order".to_owned());
            }
            records.extend(page.records);
            match page.next {
                Some(next) if scan.after < Some(next) => scan.after = Some(next),
                Some(_) => return Said::Broke("the pages do not go forward".to_owned()),
                None => return self.canon.page(records, page.now),
            }
        }
    }

    async fn purge(&mut self, rows: u16) -> Said {
        match self.store.purge(rows).await {
            // How many were left to purge is no business of a caller.
            Ok(purged) if purged <= rows => {
                self.count(if purged > 0 { "purged" } else { "nothing to purge" });
                Said::Silent
            }
            broke => Said::Broke(format!("a purge of {rows} rows said {broke:?}")),
        }
    }

    async fn end(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        for key in 0..KEYS {
            let id = identity(key).id();
            said.push(self.look(id).await);
        }
        said.push(self.scan(None, None, 2).await);
        for key in 0..KEYS {
            let id = identity(key).id();
            said.push(match self.store.history(id).await {
                Ok(entries) => self.canon.history(id, entries),
                Err(fault) => Said::Broke(format!("a history said {fault:?}")),
            });
        }
        said
    }
}

const STATUSES: [Status; 6] = [
    Status::Running,
    Status::Abandoned,
    Status::Unknown,
    Status::Open,
    Status::Completed,
    Status::Expired,
];

fn kind(step: &Step, answer: &Answer) -> &'static str {
    match (step, answer) {
        (Step::Claim(_), Answer::Found(_)) => "claim refused",
        (Step::Settle { .. }, Answer::Applied { .. }) => "settled",
        (Step::Settle { .. }, Answer::Found(_)) => "ruling void",
        (Step::Complete { .. }, Answer::Applied { .. }) => "completed",
        (Step::Release { .. }, Answer::Applied { .. }) => "released",
        (Step::Doubt { .. }, Answer::Applied { .. }) => "doubted",
        (_, Answer::Applied { .. }) => "applied",
        (_, Answer::Found(_)) => "fenced",
        (_, Answer::Granted(_) | Answer::Away(_) | Answer::Unsure(_)) => "failed",
    }
}

/// One key of each scope.
fn identity(key: u8) -> Identity {
    let tenant = valid(Tenant::parse("oracle"));
    let operation = operation_of(key % 2);
    match key {
        0 => Identity::business(tenant, operation, valid(BusinessKey::parse("zero"))),
        1 => {
            let principal = valid(Principal::parse("buyer"));
            Identity::request(tenant, principal, operation, valid(RequestKey::parse("one")))
        }
        _ => {
            let channel = valid(Channel::parse("bank"));
            Identity::channel(tenant, channel, operation, valid(ChannelKey::parse("two")))
        }
    }
}

fn operation_of(serial: u8) -> OperationName {
    let [one, two] = OPERATIONS;
    name(if serial == 0 { one } else { two })
}

fn requests(request: u8) -> Prints {
    if request == 0 { Prints::NONE } else { prints(&format!("request {request}")) }
}

fn worker(serial: u8) -> Actor {
    actor(&format!("worker {serial}"))
}

fn outcome(answer: u8) -> Outcome {
    match answer {
        0 => Outcome::Tombstone(Bytes::from_static(b"/elsewhere")),
        answer => value(&"x".repeat(usize::from(answer))),
    }
}
