//! The reconciler on sources of the test's making, in virtual time.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::*;
use crate::{
    store::FaultKind,
    testing::{Seen, VirtualClock},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Overdue payments.
#[derive(Clone)]
struct Payments {
    clock: Arc<VirtualClock>,
    /// What is not settled, and when each is due.
    due: Arc<Mutex<Vec<(u32, Instant)>>>,
    /// How long an item is left out once it was handed out; without it the source insists.
    lease: Duration,
    verdict: Arc<dyn Fn(u32, usize) -> Verdict + Send + Sync>,
    asked: Seen<(u32, Instant)>,
    at_once: Arc<AtomicUsize>,
    at_once_max: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
    takes: Duration,
}

impl Payments {
    fn new(
        clock: &Arc<VirtualClock>,
        count: u32,
        verdict: impl Fn(u32, usize) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            clock: clock.clone(),
            due: Arc::new(Mutex::new((0..count).map(|item| (item, clock.now())).collect())),
            lease: Duration::ZERO,
            verdict: Arc::new(verdict),
            asked: Seen::new(),
            at_once: Arc::default(),
            at_once_max: Arc::default(),
            is_down: Arc::default(),
            takes: Duration::from_millis(100),
        }
    }

    fn left(&self) -> usize {
        self.due.lock().unwrap().len()
    }

    /// How long after one another an item was asked about.
    fn gaps(&self, item: u32) -> Vec<u64> {
        let asked = self.asked.all().into_iter().filter(|(asked, _)| *asked == item);
        let times: Vec<_> = asked.map(|(_, at)| at).collect();
        times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect()
    }
}

impl Reconcile for Payments {
    type Item = u32;

    fn due(&self, limit: u16) -> BoxFuture<'static, Result<Vec<u32>, Fault>> {
        let answer = if self.is_down.load(Ordering::SeqCst) {
            Err(Fault::new(FaultKind::Unavailable, "down"))
        } else {
            let (mut due, now) = (self.due.lock().unwrap(), self.clock.now());
            let page = due.iter_mut().filter(|(_, due_at)| *due_at <= now).take(limit.into());
            Ok(page
                .map(|(item, due_at)| {
                    *due_at = now + self.lease;
                    *item
                })
                .collect())
        };
        Box::pin(async { answer })
    }

    fn settle(&self, item: u32) -> BoxFuture<'static, Verdict> {
        let nth = self.asked.count(|(asked, _)| *asked == item);
        self.asked.add((item, self.clock.now()));
        let this = self.clone();
        Box::pin(async move {
            let now = this.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            this.at_once_max.fetch_max(now, Ordering::SeqCst);
            this.clock.sleep(this.takes).await;
            this.at_once.fetch_sub(1, Ordering::SeqCst);
            let verdict = (this.verdict)(item, nth);
            if verdict == Verdict::Settled {
                this.due.lock().unwrap().retain(|(due, _)| *due != item);
            }
            verdict
        })
    }
}

async fn reconcile_for(
    payments: &Payments,
    span: Duration,
    change: impl FnOnce(Reconciler<Payments>) -> Reconciler<Payments>,
) -> Seen<Happening> {
    let (stop, seen, mut running) = (CancellationToken::new(), Seen::new(), JoinSet::new());
    let reconciler = Reconciler::new(payments.clone(), SECOND).clock(payments.clock.clone());
    running.spawn(change(reconciler.witness(seen.clone())).run(stop.clone()));
    payments.clock.sleep(span).await;
    stop.cancel();
    running.join_all().await;
    seen
}

#[test]
fn the_steps_grow_and_the_last_one_repeats() {
    let pauses: Vec<_> = (1..=10).map(|asked| pause(&STEPS, asked).as_secs()).collect();
    assert_eq!(pauses, [5, 15, 60, 300, 900, 3600, 10_800, 21_600, 21_600, 21_600]);
    assert_eq!(pause(&STEPS, 0), STEPS[0]);
    assert_eq!(pause(&[], 3), MINUTE, "no steps at all is no busy loop");
}

#[tokio::test(start_paused = true)]
async fn everything_overdue_is_settled_in_bounded_portions() {
    let clock = VirtualClock::new();
    let payments = Payments::new(&clock, 500, |_, _| Verdict::Settled);
    let payments = Payments { lease: MINUTE, ..payments };
    let seen = reconcile_for(&payments, SECOND * 10, |by| by.at_once(8)).await;
    assert_eq!(payments.left(), 0);
    assert_eq!(payments.asked.all().len(), 500, "each one once");
    assert_eq!(payments.at_once_max.load(Ordering::SeqCst), 8);
    assert_eq!(seen.count(|event| *event == Happening::Settled), 500);
}

#[tokio::test(start_paused = true)]
async fn an_item_is_never_asked_twice_at_once() {
    let clock = VirtualClock::new();
    let slow = Payments::new(&clock, 3, |_, nth| match nth {
        0 => Verdict::Later(SECOND * 7),
        _ => Verdict::Settled,
    });
    let slow = Payments { takes: SECOND * 30, ..slow };
    reconcile_for(&slow, MINUTE * 3, |by| by).await;
    for item in 0..3 {
        assert!(matches!(slow.gaps(item)[..], [37..=38]), "30 s for the answer, 7 s of rest");
    }
    assert_eq!(slow.at_once_max.load(Ordering::SeqCst), 3, "it was due all the time");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_panics_or_hangs_delays_no_other() {
    let clock = VirtualClock::new();
    let payments = Payments::new(&clock, 40, |item, _| match item {
        3 => panic!("a bug that one item finds"),
        _ => Verdict::Settled,
    });
    struct Hangs(Payments);
    impl Reconcile for Hangs {
        type Item = u32;
        fn due(&self, limit: u16) -> BoxFuture<'static, Result<Vec<u32>, Fault>> {
            self.0.due(limit)
        }
        fn settle(&self, item: u32) -> BoxFuture<'static, Verdict> {
            if item == 4 {
                self.0.asked.add((4, self.0.clock.now()));
                return Box::pin(std::future::pending());
            }
            assert!(item != 5, "one that panics before it begins");
            self.0.settle(item)
        }
    }
    let (stop, seen, mut running) = (CancellationToken::new(), Seen::new(), JoinSet::new());
    let reconciler = Reconciler::new(Hangs(payments.clone()), SECOND).clock(clock.clone());
    let reconciler = reconciler.at_once(16).patience(SECOND * 20).witness(seen.clone());
    running.spawn(reconciler.run(stop.clone()));
    clock.sleep(SECOND * 5).await;
    assert_eq!(payments.left(), 3, "all but those");
    clock.sleep(MINUTE * 2).await;
    // By the steps, although the source insists; a sweep comes once a second.
    assert!(matches!(payments.gaps(3)[..2], [5..=6, 15..=16]), "{:?}", payments.gaps(3));
    assert!(matches!(payments.gaps(4)[..1], [25..=26]), "20 s of patience, 5 s of rest");
    assert!(seen.count(|event| *event == Happening::Panicked) >= 6);
    assert!(seen.count(|event| *event == Happening::TimedOut) >= 2);
    stop.cancel();
    running.join_all().await;
}

#[tokio::test(start_paused = true)]
async fn later_and_alarm_are_asked_again() {
    let clock = VirtualClock::new();
    let payments = Payments::new(&clock, 2, |item, nth| match (item, nth) {
        (_, 3) => Verdict::Settled,
        (0, _) => Verdict::Later(SECOND * 20),
        _ => Verdict::Alarm("paid twice".to_owned()),
    });
    let seen = reconcile_for(&payments, MINUTE * 10, |by| by).await;
    assert_eq!(payments.left(), 0);
    assert!(matches!(payments.gaps(0)[..], [20..=21, 20..=21, 20..=21]));
    assert!(matches!(payments.gaps(1)[..], [5..=6, 15..=16, 60..=61]));
    assert_eq!(seen.count(|event| *event == Happening::Alarm("paid twice".to_owned())), 3);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_down_is_asked_again() {
    let clock = VirtualClock::new();
    let payments = Payments::new(&clock, 5, |_, _| Verdict::Settled);
    payments.is_down.store(true, Ordering::SeqCst);
    let repairing = async {
        clock.sleep(SECOND * 5).await;
        payments.is_down.store(false, Ordering::SeqCst);
    };
    let (seen, ()) = futures_util::join!(reconcile_for(&payments, SECOND * 10, |by| by), repairing);
    assert_eq!(payments.left(), 0);
    let failed = seen.count(|event| *event == Happening::DueFailed);
    assert!((4..=6).contains(&failed), "once a period: {failed}");
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_is_told_to_stop_waits_for_its_answers() {
    let clock = VirtualClock::new();
    let payments = Payments::new(&clock, 100, |_, _| Verdict::Settled);
    let payments = Payments { takes: SECOND * 10, ..payments };
    reconcile_for(&payments, SECOND * 2, |by| by.at_once(8)).await;
    assert_eq!(payments.left(), 92);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut resting = Resting::default();
    let now = SystemClock.now();
    for item in 0..RESTING_MAX + 10 {
        resting.rest(item, now + MINUTE, 1);
    }
    assert_eq!((resting.items.len(), resting.order.len()), (RESTING_MAX, RESTING_MAX));
    assert!(!resting.holds(&0, now) && resting.holds(&10, now));
    resting.forget_settled(now + MINUTE * 62);
    assert!(resting.items.is_empty() && resting.order.is_empty());
}
