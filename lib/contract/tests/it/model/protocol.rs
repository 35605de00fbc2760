//! The moves: what workers, wire, receiver, judge and clock can do next.
//!
//! The record changes only by the real [`apply`](hapax_core::store::apply()); a bend falsifies
//! one step around it, to show that the search would find it.

use std::sync::Arc;

use stateright::{Model, Property};

use super::world::{
    Budget, Hold, Kept, Phase, TICK, WINDOW, World, claim, complete, fence, nonce, release, ruling,
};
use hapax_core::{
    Decision, Effect, Record, State, decide,
    store::{self, Answer, Found, Step},
};

/// One key, its workers, and how the protocol is bent.
#[derive(Clone)]
pub(super) struct Protocol {
    pub(super) effect: Effect,
    pub(super) workers: usize,
    pub(super) ticks: u8,
    pub(super) budget: Budget,
    pub(super) bend: Bend,
    /// A claim that arrives when another attempt has come and gone in between may park a record.
    pub(super) forgives_late_packets: bool,
}

/// What is wrong with the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bend {
    /// Nothing.
    None,
    /// A completion compares neither fence nor state.
    UnfencedCompletion,
    /// A release compares no fence.
    UnfencedRelease,
    /// A released record forgets the nonce.
    OpenForgetsNonce,
    /// A completion needs a live lease.
    CompletionNeedsLease,
    /// Earlier attempts are not sealed at the receiver.
    NoSeal,
    /// The receiver's key is made from the epoch.
    KeyFromEpoch,
    /// A take-over leaves the epoch as it was.
    TakeOverKeepsEpoch,
    /// A holder acts although the receiver may have forgotten the key.
    ActsAfterWindow,
    /// A commit that finds its own completion commits its effect once more.
    RepeatCommits,
    /// A dead attempt may be retaken whatever its class.
    OpaqueIsRetaken,
    /// A later keyed attempt that did nothing says "surely no effect" of the earlier ones too.
    ReleaseSpeaksForAll,
}

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Time passes.
    Tick,
    /// A worker begins.
    Begin(usize),
    /// A worker sends its claim once more.
    Resend(usize),
    /// A worker waits no longer for the answer to its claim.
    GiveUp(usize),
    /// A claim packet arrives.
    ClaimArrives(usize, Answered),
    /// A worker asks for its claim in order to hand it back.
    TakeBack(usize, Answered),
    /// A worker prolongs its lease.
    Renew(usize),
    /// A worker asks the receiver.
    Ask(usize),
    /// A worker seals earlier attempts.
    Seal(usize),
    /// A worker sends its effect.
    Act(usize),
    /// A worker commits effect and completion in one transaction.
    Commit(usize, Answered),
    /// A worker reads back whether it committed.
    Resolve(usize),
    /// A worker finds that it cannot do the work, surely without effect.
    Fail(usize),
    /// An effect arrives.
    EffectLands(usize, Answered),
    /// An effect is lost, and its sender does not know.
    EffectIsLost(usize),
    /// A worker says how it ended.
    Say(usize, Answered),
    /// A worker says it and waits no longer; it arrives later.
    SayLate(usize),
    /// A late word arrives.
    WordArrives(usize),
    /// A worker dies.
    Die(usize),
    /// A judge who has seen the receiver's books settles what nobody can do any more.
    Judge,
}

/// Whether an answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Yes,
    Lost,
}

const BOTH: [Answered; 2] = [Answered::Yes, Answered::Lost];

impl Model for Protocol {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.workers, self.budget)]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        // Keyed effects arrive within the margin that `Effect::terms` keeps, or are lost.
        let in_flight = world.workers.iter().any(|worker| worker.effect.is_some());
        let waits = matches!(self.effect, Effect::Keyed { .. }) && in_flight;
        if world.tick < self.ticks && !waits {
            moves.push(Move::Tick);
        }
        for at in 0..world.workers.len() {
            self.moves_of(world, at, moves);
        }
        moves.push(Move::Judge);
    }

    fn next_state(&self, last: &World, action: Move) -> Option<World> {
        let mut world = last.clone();
        self.take(&mut world, action)?;
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("at most one effect", |_, world: &World| world.receiver.applied <= 1),
            Property::always("a completed record tells the truth", |_, world: &World| {
                world.state() != Some(State::Completed) || world.receiver.applied > 0
            }),
            Property::always("a transaction is whole", |protocol: &Self, world: &World| {
                protocol.effect != Effect::Transactional
                    || (world.state() == Some(State::Completed)) == (world.receiver.applied > 0)
            }),
            Property::always(
                "nothing is parked without a reason",
                |protocol: &Self, world: &World| {
                    !world.is_at_rest() || protocol.is_free_or_excused(world)
                },
            ),
            Property::sometimes("it completes", |_, world: &World| {
                world.is_at_rest() && world.state() == Some(State::Completed)
            }),
        ];
        if self.budget.resends > 0 {
            let refused = |_: &Self, world: &World| world.spent;
            properties.push(Property::sometimes("a late packet is refused", refused));
        }
        properties
    }
}

impl Protocol {
    fn moves_of(&self, world: &World, at: usize, moves: &mut Vec<Move>) {
        let worker = &world.workers[at];
        let (losses, deaths) = (world.budget.losses > 0, world.budget.deaths > 0);
        let mut either = |to: fn(usize, Answered) -> Move| {
            moves
                .extend(BOTH.iter().filter(|a| **a == Answered::Yes || losses).map(|a| to(at, *a)));
        };
        if worker.claims > 0 {
            either(Move::ClaimArrives);
        }
        if worker.effect.is_some() {
            either(Move::EffectLands);
        }
        match worker.phase {
            Phase::TakingBack => either(Move::TakeBack),
            Phase::Running(_) if self.effect == Effect::Transactional => either(Move::Commit),
            Phase::Returning(_) | Phase::Knows(_) | Phase::Releasing(_) | Phase::Doubting(_) => {
                either(Move::Say);
            }
            _ => {}
        }
        if worker.effect.is_some() && losses {
            moves.push(Move::EffectIsLost(at));
        }
        if worker.word.is_some() {
            moves.push(Move::WordArrives(at));
        }
        match worker.phase {
            // Workers are alike: they begin in the order of their numbers.
            Phase::Idle if at == 0 || world.workers[at - 1].phase != Phase::Idle => {
                moves.push(Move::Begin(at));
            }
            Phase::Claiming => {
                moves.extend([Move::Resend(at), Move::GiveUp(at)]);
            }
            Phase::Asking(_) => moves.push(Move::Ask(at)),
            Phase::Sealing(_) => moves.push(Move::Seal(at)),
            Phase::Running(_) => moves.extend([Move::Renew(at), Move::Act(at), Move::Fail(at)]),
            Phase::Acting(_) => moves.push(Move::Renew(at)),
            Phase::Knows(_) => moves.push(Move::SayLate(at)),
            Phase::Resolving(_) => moves.push(Move::Resolve(at)),
            Phase::Idle
            | Phase::TakingBack
            | Phase::Returning(_)
            | Phase::Releasing(_)
            | Phase::Doubting(_)
            | Phase::Gone => {}
        }
        if deaths && !matches!(worker.phase, Phase::Idle | Phase::Gone) {
            moves.push(Move::Die(at));
        }
    }

    fn take(&self, world: &mut World, action: Move) -> Option<()> {
        match action {
            Move::Tick => world.tick += 1,
            Move::Begin(at) => {
                world.workers[at].phase = Phase::Claiming;
                world.workers[at].claims = 1;
            }
            Move::Resend(at) => {
                world.budget.resends = world.budget.resends.checked_sub(1)?;
                world.workers[at].claims += 1;
            }
            Move::GiveUp(at) => {
                world.budget.deaths = world.budget.deaths.checked_sub(1)?;
                world.workers[at].phase = Phase::TakingBack;
            }
            Move::ClaimArrives(at, answered) => self.claim_arrives(world, at, answered)?,
            Move::TakeBack(at, answered) => self.take_back(world, at, answered)?,
            Move::Renew(at) => self.renew(world, at)?,
            Move::Ask(at) | Move::Seal(at) => self.ask(world, at)?,
            Move::Act(at) => self.act(world, at)?,
            Move::Commit(at, answered) => self.commit(world, at, answered)?,
            Move::Resolve(at) => self.resolve(world, at)?,
            Move::Fail(at) => {
                let Phase::Running(hold) = world.workers[at].phase else { return None };
                world.workers[at].phase = Phase::Releasing(hold);
            }
            Move::EffectLands(at, answered) => self.effect_lands(world, at, answered)?,
            Move::EffectIsLost(at) => {
                lose(world)?;
                world.workers[at].effect = None;
                self.forget(world, at);
            }
            Move::Say(at, answered) => self.say(world, at, answered)?,
            Move::SayLate(at) => {
                lose(world)?;
                let Phase::Knows(hold) = world.workers[at].phase else { return None };
                world.workers[at].phase = Phase::Gone;
                world.workers[at].word = Some(hold.epoch);
            }
            Move::WordArrives(at) => {
                let epoch = world.workers[at].word.take()?;
                self.apply(world, &complete(fence(at, epoch)));
            }
            Move::Die(at) => {
                world.budget.deaths = world.budget.deaths.checked_sub(1)?;
                world.excused = true;
                world.workers[at].phase = Phase::Gone;
            }
            Move::Judge => self.judge(world)?,
        }
        Some(())
    }

    /// Takes a step on the record by the real rule, bent where this protocol is bent.
    fn apply(&self, world: &mut World, step: &Step) -> Answer {
        let (now, before) = (world.now(), world.record.take().map(|kept| kept.0));
        if self.bend == Bend::None {
            let (after, _, answer) = store::apply(before, step, now);
            world.record = after.map(Kept);
            return answer;
        }
        let step = self.bent_step(before.as_deref(), step);
        let lapsed = before.as_ref().is_some_and(|record| record.lease_until <= now);
        let needs_lease = self.bend == Bend::CompletionNeedsLease;
        if needs_lease && lapsed && matches!(step, Step::Complete { .. }) {
            world.record = before.clone().map(Kept);
            return Answer::Found(Found { record: before, now });
        }
        let (mut after, _, mut answer) = store::apply(before.clone(), &step, now);
        if let (Some(after), Some(before)) = (&mut after, &before) {
            self.bend_result(before, Arc::make_mut(after), &mut answer);
        }
        world.record = after.map(Kept);
        answer
    }

    fn bent_step(&self, record: Option<&Record>, step: &Step) -> Step {
        let mut step = step.clone();
        let unfenced = match &mut step {
            Step::Complete { fence, .. } if self.bend == Bend::UnfencedCompletion => Some(fence),
            Step::Release { fence, .. } if self.bend == Bend::UnfencedRelease => Some(fence),
            _ => None,
        };
        if let (Some(fence), Some(record)) = (unfenced, record) {
            (fence.epoch, fence.nonce) = (record.epoch, record.nonce);
        }
        step
    }

    fn bend_result(&self, before: &Record, after: &mut Record, answer: &mut Answer) {
        if self.bend == Bend::OpenForgetsNonce && after.state == State::Open {
            after.nonce = hapax_core::Nonce::from_bytes([0; 16]);
        }
        if let (Bend::TakeOverKeepsEpoch, Answer::Granted(grant)) = (self.bend, answer)
            && grant.attempt > 1
        {
            after.epoch = before.epoch;
            grant.epoch = before.epoch;
        }
    }

    fn claim_arrives(&self, world: &mut World, at: usize, answered: Answered) -> Option<()> {
        world.workers[at].claims -= 1;
        // A record remembers the nonce of its last attempt, not of the one before.
        let is_late = world.workers[at].phase != Phase::Claiming;
        world.excused |= is_late && has_moved_on(world, at) && self.forgives_late_packets;
        let answer = self.claim(world, at);
        if answered == Answered::Lost {
            return lose(world);
        }
        if world.workers[at].phase == Phase::Claiming {
            world.workers[at].phase = match answer {
                Answer::Granted(grant) if grant.must_verify() => Phase::Asking(hold(world, &grant)),
                Answer::Granted(grant) => Phase::Running(hold(world, &grant)),
                _ => Phase::Gone,
            };
        }
        Some(())
    }

    fn claim(&self, world: &mut World, at: usize) -> Answer {
        let claim = claim(at, self.effect);
        if self.bend == Bend::OpaqueIsRetaken
            && let Some(Kept(record)) = &mut world.record
        {
            let record = Arc::make_mut(record);
            record.terms.retake_after = Some(std::time::Duration::ZERO);
            record.terms.class = hapax_core::Class::Transactional;
            let claim = store::Claim { effect: Effect::Transactional, ..claim };
            return self.apply(world, &Step::Claim(Arc::new(claim)));
        }
        let answer = self.apply(world, &Step::Claim(Arc::new(claim.clone())));
        if let Answer::Found(found) = &answer {
            world.spent |= decide(found, &claim) == Decision::Spent;
        }
        answer
    }

    /// What the engine does with a claim whose caller is gone.
    fn take_back(&self, world: &mut World, at: usize, answered: Answered) -> Option<()> {
        let answer = self.claim(world, at);
        if answered == Answered::Lost {
            return lose(world);
        }
        world.workers[at].phase = match answer {
            Answer::Granted(grant) => Phase::Returning(hold(world, &grant)),
            _ => Phase::Gone,
        };
        Some(())
    }

    fn renew(&self, world: &mut World, at: usize) -> Option<()> {
        let (Phase::Running(hold) | Phase::Acting(hold)) = world.workers[at].phase else {
            return None;
        };
        world.budget.renewals = world.budget.renewals.checked_sub(1)?;
        self.apply(world, &Step::Renew { fence: fence(at, hold.epoch), lease: TICK });
        Some(())
    }

    /// Asks the receiver, then seals what earlier attempts may still have on the wire.
    fn ask(&self, world: &mut World, at: usize) -> Option<()> {
        world.workers[at].phase = match world.workers[at].phase {
            Phase::Asking(hold) | Phase::Sealing(hold) if world.receiver.applied > 0 => {
                Phase::Knows(hold)
            }
            Phase::Asking(hold) if self.bend == Bend::NoSeal => Phase::Running(hold),
            Phase::Asking(hold) => Phase::Sealing(hold),
            Phase::Sealing(hold) => {
                let sealed = std::cmp::max(world.receiver.sealed_below, hold.epoch);
                world.receiver.sealed_below = sealed;
                Phase::Running(hold)
            }
            _ => return None,
        };
        Some(())
    }

    fn act(&self, world: &mut World, at: usize) -> Option<()> {
        let Phase::Running(hold) = world.workers[at].phase else { return None };
        let too_late = hold.until.is_some_and(|until| until <= world.now());
        if self.effect == Effect::Transactional || (too_late && self.bend != Bend::ActsAfterWindow)
        {
            return None;
        }
        world.workers[at].phase = Phase::Acting(hold);
        world.workers[at].effect = Some(hold.epoch);
        Some(())
    }

    /// Effect and completion, both or none.
    fn commit(&self, world: &mut World, at: usize, answered: Answered) -> Option<()> {
        let Phase::Running(hold) = world.workers[at].phase else { return None };
        let was_done = world.state() == Some(State::Completed);
        let answer = self.apply(world, &complete(fence(at, hold.epoch)));
        let counts_repeats = matches!(self.bend, Bend::UnfencedCompletion | Bend::RepeatCommits);
        let commits = matches!(answer, Answer::Applied { .. }) && (!was_done || counts_repeats);
        world.receiver.applied += u8::from(commits);
        world.workers[at].phase = match answered {
            Answered::Yes => Phase::Gone,
            Answered::Lost if self.bend == Bend::RepeatCommits => Phase::Running(hold),
            Answered::Lost => Phase::Resolving(hold),
        };
        if answered == Answered::Lost { lose(world) } else { Some(()) }
    }

    /// Looks whether the commit went through: if the record is still ours, it did not.
    fn resolve(&self, world: &mut World, at: usize) -> Option<()> {
        let Phase::Resolving(hold) = world.workers[at].phase else { return None };
        let Kept(record) = world.record.as_ref()?;
        let ours = record.is_held_by(&fence(at, hold.epoch)) && record.state == State::Claimed;
        world.workers[at].phase = if ours { Phase::Running(hold) } else { Phase::Gone };
        Some(())
    }

    fn effect_lands(&self, world: &mut World, at: usize, answered: Answered) -> Option<()> {
        let epoch = world.workers[at].effect.take()?;
        let happened = self.receive(world, epoch);
        if answered == Answered::Lost {
            lose(world)?;
            self.forget(world, at);
        } else if let Phase::Acting(hold) = world.workers[at].phase {
            // A void attempt is told so: it had no effect and never will.
            world.workers[at].phase =
                if happened { Phase::Knows(hold) } else { Phase::Releasing(hold) };
        }
        Some(())
    }

    /// Whether the effect has taken place, now or before.
    fn receive(&self, world: &mut World, epoch: i64) -> bool {
        let tick = world.tick;
        let receiver = &mut world.receiver;
        match self.effect {
            Effect::Keyed { .. } => {
                let key = if self.bend == Bend::KeyFromEpoch { epoch } else { 0 };
                receiver.keys.retain(|(_, since)| since + WINDOW > tick);
                if receiver.keys.iter().all(|(known, _)| *known != key) {
                    receiver.keys.push((key, tick));
                    receiver.applied += 1;
                }
                true
            }
            Effect::Queryable { .. } if epoch < receiver.sealed_below => false,
            Effect::Queryable { .. } | Effect::Opaque => {
                receiver.applied += 1;
                true
            }
            Effect::Transactional => false,
        }
    }

    /// The holder will never learn what its effect did.
    fn forget(&self, world: &mut World, at: usize) {
        if let Phase::Acting(hold) = world.workers[at].phase {
            world.excused = true;
            world.workers[at].phase = Phase::Doubting(hold);
        }
    }

    fn say(&self, world: &mut World, at: usize, answered: Answered) -> Option<()> {
        let zero = std::time::Duration::ZERO;
        let phase = world.workers[at].phase;
        let step = match phase {
            Phase::Knows(hold) => complete(fence(at, hold.epoch)),
            Phase::Releasing(hold) if self.may_release(hold) => release(fence(at, hold.epoch)),
            Phase::Returning(hold) if hold.attempt == 1 => release(fence(at, hold.epoch)),
            Phase::Releasing(hold) | Phase::Returning(hold) => {
                Step::Renew { fence: fence(at, hold.epoch), lease: zero }
            }
            Phase::Doubting(hold) => {
                let fence = fence(at, hold.epoch);
                match self.effect {
                    Effect::Transactional | Effect::Keyed { .. } => {
                        Step::Renew { fence, lease: zero }
                    }
                    Effect::Queryable { .. } | Effect::Opaque => {
                        Step::Doubt { fence, why: String::new() }
                    }
                }
            }
            _ => return None,
        };
        self.apply(world, &step);
        match (answered, phase) {
            (Answered::Yes, _) => world.workers[at].phase = Phase::Gone,
            // The engine begins again with the claim.
            (Answered::Lost, Phase::Returning(_)) => {
                world.workers[at].phase = Phase::TakingBack;
            }
            (Answered::Lost, _) => {}
        }
        if answered == Answered::Lost { lose(world) } else { Some(()) }
    }

    /// Whether an attempt that did nothing knows that the earlier ones did nothing either.
    fn may_release(&self, hold: Hold) -> bool {
        let keyed = matches!(self.effect, Effect::Keyed { .. });
        !keyed || hold.attempt == 1 || self.bend == Bend::ReleaseSpeaksForAll
    }

    /// A judge speaks when nobody who ever held the work can act on it any more.
    fn judge(&self, world: &mut World) -> Option<()> {
        let Kept(record) = world.record.as_ref()?;
        let silent = world.workers.iter().all(|worker| {
            worker.effect.is_none() && matches!(worker.phase, Phase::Idle | Phase::Gone)
        });
        if !silent || world.settled {
            return None;
        }
        let step = Step::Settle {
            id: record.identity.id(),
            seen: record.epoch,
            nonce: nonce(200),
            ruling: ruling(world.receiver.applied > 0),
            by: hapax_core::Actor::parse("judge").unwrap(),
            reason: String::new(),
        };
        let answer = self.apply(world, &step);
        world.settled = matches!(answer, Answer::Applied { .. });
        Some(())
    }

    /// Whether somebody who comes when all is over is served, or there is a reason why not.
    fn is_free_or_excused(&self, world: &World) -> bool {
        let record = world.record.clone().map(|kept| kept.0);
        let late = world.now().plus(TICK * 2);
        let newcomer = claim(100, self.effect);
        let decision = decide(&Found { record, now: late }, &newcomer);
        let held = decision == Decision::Held;
        match self.effect {
            Effect::Transactional | Effect::Queryable { .. } => !held,
            Effect::Keyed { .. } => !held || late >= super::world::window_end(),
            Effect::Opaque => !held || world.excused,
        }
    }
}

/// Whether another attempt than the worker's own has ended without effect.
fn has_moved_on(world: &World, at: usize) -> bool {
    let nobody = hapax_core::Nonce::from_bytes([0; 16]);
    world.record.as_ref().is_some_and(|Kept(record)| {
        record.state == State::Open && ![nonce(at), nobody].contains(&record.nonce)
    })
}

fn hold(world: &World, grant: &hapax_core::Grant) -> Hold {
    let until = world.record.as_ref().and_then(|kept| kept.0.terms.retake_until);
    Hold { epoch: grant.epoch.get(), attempt: grant.attempt, until }
}

fn lose(world: &mut World) -> Option<()> {
    world.budget.losses = world.budget.losses.checked_sub(1)?;
    Some(())
}
