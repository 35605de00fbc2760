//! Jobs of one and of two instances on one store, in virtual time.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use super::*;
use crate::{
    record::Effect,
    store::{MemoryStore, Store},
    testing::{START, Seen, VirtualClock},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store, a clock, and everything that the jobs did.
#[derive(Clone)]
struct World {
    clock: Arc<VirtualClock>,
    store: MemoryStore,
    effects: Seen<(u32, Timestamp)>,
    seen: Seen<Happening>,
}

impl World {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let store = MemoryStore::with(clock.clone(), 100_000);
        Self { clock, store, effects: Seen::new(), seen: Seen::new() }
    }

    fn hapax(&self) -> Hapax {
        Hapax::on(Arc::new(self.store.clone())).clock(self.clock.clone()).build()
    }

    fn jobs(&self) -> Jobs {
        let jobs = Jobs::new(self.hapax(), Tenant::parse("system").unwrap());
        jobs.witness(self.seen.clone())
    }

    /// One instance that writes down what it does.
    fn instance(&self, number: u32, schedule: Schedule, takes: Duration) -> Jobs {
        let world = self.clone();
        let job = move |due: Timestamp, _: Work| {
            let world = world.clone();
            Box::pin(async move {
                world.clock.sleep(takes).await;
                world.effects.add((number, due));
                End::Done(())
            }) as BoxFuture<'static, End<()>>
        };
        self.jobs().on("report", schedule, policy(), job).unwrap()
    }

    /// Runs these instances for so long and stops them.
    async fn live(&self, instances: Vec<Jobs>, span: Duration) {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        for jobs in instances {
            running.spawn(jobs.run(stop.clone()));
        }
        self.clock.sleep(span).await;
        stop.cancel();
        running.join_all().await;
    }

    fn dues(&self) -> Vec<Timestamp> {
        self.effects.all().into_iter().map(|(_, due)| due).collect()
    }
}

fn policy() -> Policy {
    Policy::new(Effect::Transactional).lease(SECOND * 15).retain(DAY * 2, DAY)
}

fn every(period: Duration) -> Schedule {
    Schedule::every(period).unwrap()
}

/// The due time so many minutes after the latest one at the start.
fn minute(after: i64) -> Timestamp {
    let first = every(MINUTE).due(START).as_millis();
    Timestamp::from_millis(first + after * 60_000)
}

#[test]
fn a_due_time_is_the_floor_of_the_stores_clock() {
    let at = |millis| Timestamp::from_millis(millis);
    let plain = every(Duration::from_millis(1000));
    assert_eq!(plain.due(at(0)), at(0));
    assert_eq!(plain.due(at(999)), at(0));
    assert_eq!(plain.due(at(1000)), at(1000));
    let shifted = plain.offset(Duration::from_millis(300));
    assert_eq!(shifted.due(at(1299)), at(300));
    assert_eq!(shifted.due(at(1300)), at(1300));
    assert_eq!(shifted.due(at(0)), at(-700), "before the first one too");
}

#[tokio::test(start_paused = true)]
async fn two_instances_run_each_due_time_once() {
    let world = World::new();
    let instances: Vec<_> =
        (0..2).map(|number| world.instance(number, every(MINUTE), SECOND)).collect();
    world.live(instances, MINUTE * 99 + SECOND * 30).await;
    let dues = world.dues();
    let expected: Vec<_> = (0..dues.len()).map(|at| minute(i64::try_from(at).unwrap())).collect();
    assert_eq!(dues, expected, "one effect per due time, in order");
    assert_eq!(dues.len(), 100);
    let repeated = world.seen.count(|event| matches!(event, Happening::Repeated { .. }));
    assert_eq!(repeated, 100, "the other instance found it done");
}

#[tokio::test(start_paused = true)]
async fn a_restart_repeats_nothing() {
    let world = World::new();
    for _ in 0..10 {
        let instance = world.instance(0, every(MINUTE), SECOND);
        world.live(vec![instance], SECOND * 20).await;
    }
    let mut dues = world.dues();
    assert_eq!(dues.len(), 4, "200 s: {dues:?}");
    dues.dedup();
    assert_eq!(dues.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_instance_died_is_taken_over() {
    let world = World::new();
    let dying = world.clone();
    let job = move |_: Timestamp, _: Work| {
        let world = dying.clone();
        Box::pin(async move {
            world.clock.sleep(DAY).await;
            End::Done(())
        }) as BoxFuture<'static, End<()>>
    };
    let dies = world.jobs().on("report", every(DAY), policy(), job).unwrap();
    let mut running = JoinSet::new();
    running.spawn(dies.run(CancellationToken::new()));
    world.clock.sleep(SECOND).await;
    running.shutdown().await;

    world.live(vec![world.instance(2, every(DAY), SECOND)], MINUTE).await;
    assert_eq!(world.effects.all(), [(2, every(DAY).due(START))]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_longer_than_a_lease_is_still_waited_for() {
    let world = World::new();
    let dying = world.clone();
    let job = move |_: Timestamp, _: Work| {
        let world = dying.clone();
        Box::pin(async move {
            world.clock.sleep(DAY).await;
            End::Done(())
        }) as BoxFuture<'static, End<()>>
    };
    let dies = world.jobs().on("report", every(DAY), policy(), job).unwrap();
    let mut running = JoinSet::new();
    running.spawn(dies.run(CancellationToken::new()));
    world.clock.sleep(SECOND).await;
    let dying = async {
        world.clock.sleep(MINUTE).await;
        assert!(world.effects.all().is_empty(), "it is renewed and kept");
        running.shutdown().await;
    };
    let heir = world.instance(2, every(DAY), SECOND);
    futures_util::join!(world.live(vec![heir], MINUTE * 2), dying);
    assert_eq!(world.effects.all(), [(2, every(DAY).due(START))]);
}

#[tokio::test(start_paused = true)]
async fn missed_runs_are_left_out_or_made_up_for() {
    for (missed, expected) in [
        (Missed::Skip, vec![0, 60]),
        (Missed::CatchUp { max: 3 }, vec![0, 57, 58, 59, 60]),
        (Missed::CatchUp { max: 100 }, (0..=60).collect()),
    ] {
        let world = World::new();
        let schedule = every(MINUTE).missed(missed);
        world.live(vec![world.instance(0, schedule, SECOND)], SECOND * 5).await;
        // Nobody lives for an hour.
        world.clock.sleep(MINUTE * 60 - SECOND * 5).await;
        world.live(vec![world.instance(0, schedule, Duration::ZERO)], SECOND * 5).await;
        let expected: Vec<_> = expected.into_iter().map(minute).collect();
        assert_eq!(world.dues(), expected, "{missed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_never_ran_has_missed_nothing() {
    let world = World::new();
    let schedule = every(MINUTE).missed(Missed::CatchUp { max: 100 });
    world.live(vec![world.instance(0, schedule, SECOND)], SECOND * 5).await;
    assert_eq!(world.dues(), [minute(0)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_effect_is_tried_again_and_a_panic_too() {
    let world = World::new();
    let (tries, inner) = (Arc::new(AtomicU32::new(0)), world.clone());
    let job = move |due: Timestamp, _: Work| {
        let nth = tries.fetch_add(1, Ordering::SeqCst);
        assert!(nth != 1, "a bug that comes and goes");
        let world = inner.clone();
        Box::pin(async move {
            match nth {
                0 => return End::NoEffect,
                2 => return End::Unknown("the answer was lost".to_owned()),
                3 => panic!("in the middle of the work"),
                _ => world.effects.add((nth, due)),
            }
            End::Done(())
        }) as BoxFuture<'static, End<()>>
    };
    let jobs = world.jobs().on("report", every(DAY), policy(), job).unwrap();
    world.live(vec![jobs], MINUTE).await;
    assert_eq!(world.effects.all(), [(4, every(DAY).due(START))]);
    assert_eq!(world.seen.count(|event| matches!(event, Happening::Failed { .. })), 4);
    assert_eq!(world.seen.count(|event| matches!(event, Happening::Ran { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn an_opaque_run_whose_end_nobody_knows_is_held_and_the_next_one_runs() {
    let world = World::new();
    let inner = world.clone();
    let job = move |due: Timestamp, _: Work| {
        let is_first = due == minute(0);
        inner.effects.add((0, due));
        Box::pin(async move {
            if is_first { End::Unknown("who knows".to_owned()) } else { End::Done(()) }
        }) as BoxFuture<'static, End<()>>
    };
    let policy = Policy::new(Effect::Opaque);
    let jobs = world.jobs().on("report", every(MINUTE), policy, job).unwrap();
    world.live(vec![jobs], MINUTE * 2).await;
    assert_eq!(world.dues(), [minute(0), minute(1), minute(2)], "never the first one again");
    let held =
        Happening::Held { operation: OperationName::parse("job.report").unwrap(), due: minute(0) };
    assert_eq!(world.seen.count(|event| *event == held), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_lease_is_seen_and_does_not_count() {
    let world = World::new();
    let (store, inner) = (world.store.clone(), world.clone());
    let stolen = Arc::new(Mutex::new(false));
    let job = move |due: Timestamp, work: Work| {
        let (store, world, stolen) = (store.clone(), inner.clone(), Arc::clone(&stolen));
        Box::pin(async move {
            if !std::mem::replace(&mut *stolen.lock().unwrap(), true) {
                // Its lease ends under it, as if the process had been paused.
                let fence = work.fence();
                let step = crate::store::Step::Renew { fence, lease: Duration::ZERO };
                drop(store.apply(vec![step]).await);
                let found = store.look(vec![fence.id]).await.pop().unwrap().unwrap();
                let record = found.record.unwrap();
                let ruling = crate::store::Ruling::NothingHappened { memory: Duration::ZERO };
                let settle = crate::store::Step::Settle {
                    id: fence.id,
                    seen: record.epoch,
                    nonce: crate::Nonce::from_bytes([9; 16]),
                    ruling,
                    by: crate::Actor::parse("ann").unwrap(),
                    reason: "test".to_owned(),
                };
                drop(store.apply(vec![settle]).await);
                work.lost().cancelled().await;
                return End::Done(());
            }
            world.effects.add((1, due));
            End::Done(())
        }) as BoxFuture<'static, End<()>>
    };
    let jobs = world.jobs().on("report", every(DAY), policy(), job).unwrap();
    world.live(vec![jobs], MINUTE).await;
    assert_eq!(world.effects.all().len(), 1);
    assert_eq!(world.seen.count(|event| matches!(event, Happening::LeaseLost { .. })), 1);
    assert_eq!(world.seen.count(|event| matches!(event, Happening::Ran { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_run_does_not_delay_another_job() {
    let world = World::new();
    let slow = world.clone();
    let long = move |_: Timestamp, _: Work| {
        let world = slow.clone();
        Box::pin(async move {
            world.clock.sleep(MINUTE * 10).await;
            End::Done(())
        }) as BoxFuture<'static, End<()>>
    };
    let jobs = world.instance(0, every(MINUTE), SECOND);
    let jobs = jobs.on("long", every(DAY), policy(), long).unwrap();
    world.live(vec![jobs], MINUTE * 5 - SECOND * 30).await;
    assert_eq!(world.dues().len(), 5);
    let long = OperationName::parse("job.long").unwrap();
    let is_long =
        |event: &Happening| matches!(event, Happening::Ran { operation, .. } if *operation == long);
    let ended = world.seen.count(is_long);
    assert_eq!(ended, 1, "told to stop, it was waited for");
}

#[test]
fn a_schedule_or_policy_that_cannot_hold_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let world = World::new();
    assert!(Schedule::every(Duration::ZERO).is_err());
    assert!(Schedule::every(Duration::from_micros(10_500)).is_err());
    let nothing =
        |_: Timestamp, _: Work| Box::pin(async { End::Done(()) }) as BoxFuture<'static, End<()>>;
    let on = |schedule, policy| world.jobs().on("report", schedule, policy, nothing);
    let refused = on(every(DAY), policy().retain(DAY, DAY)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "kept for a day, asked for up to two");
    assert!(on(every(DAY), policy().retain(DAY * 2, DAY)).is_ok());
    let week = every(DAY).missed(Missed::CatchUp { max: 7 });
    assert!(on(week, policy().retain(DAY * 9 - SECOND, DAY)).is_err());
    assert!(on(week, policy().retain(DAY * 9, DAY)).is_ok());
    assert!(on(every(SECOND).missed(Missed::CatchUp { max: 1_001 }), policy()).is_err());
    let twice = world.jobs().on("report", every(SECOND), policy(), nothing).unwrap();
    assert!(twice.on("report", every(SECOND), policy(), nothing).is_err(), "declared twice");
}
