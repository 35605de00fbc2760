//! Tells merchants, again and again, until they answer `success`.
//!
//! Invariant: a notice is over when one answer was HTTP 200 with exactly the seven bytes
//! `success`, and only then; every delivery is signed anew with a new `notify_time`
//! (`a_notice_is_sent_again_until_it_is_acknowledged`).

mod body;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::header::CONTENT_TYPE;

pub(crate) use self::body::return_address;

use self::body::{Posting, genuine, hostile};
use crate::channel::Channel;
use crate::faults::{NoticeFault, ms};
use crate::wire::{self, Outcome};
use crate::world::{Notice, delivery};

/// The one right answer.
const ACK: &[u8] = b"success";

/// Bytes of an answer that are read and kept; the right one has seven.
const ANSWER_MAX: usize = 256;

/// Carries one notice through its schedule.
///
/// # Cancellation
/// Ends at the next pause or in the middle of a delivery when the simulator stops.
pub(crate) async fn carry(channel: Channel, notice: Arc<Notice>) {
    let stop = channel.parts().stop.clone();
    stop.run_until_cancelled(carry_on(&channel, &notice)).await;
}

/// Delivers a notice once more, outside its schedule.
pub(crate) async fn resend(channel: &Channel, notice: &Notice) -> bool {
    deliver(channel, notice, 0).await
}

async fn carry_on(channel: &Channel, notice: &Notice) {
    if notice.faults.contains(&NoticeFault::Lost) {
        channel.step(|world, now| world.lose(notice, now));
        return;
    }
    hold(channel, notice).await;
    let limit = notice.faults.iter().find_map(|fault| match fault {
        NoticeFault::FirstOnly { deliveries } => Some(*deliveries),
        _ => None,
    });
    let parts = channel.parts();
    for (attempt, gap) in (1_u32..).zip(&parts.gaps) {
        if limit.is_some_and(|limit| attempt > limit) {
            channel.step(|world, _| world.happened("first_only"));
            break;
        }
        parts.clock.sleep(*gap).await;
        let answered_meanwhile = channel.look(|world| world.is_acked(&notice.notify_id));
        if answered_meanwhile || deliver(channel, notice, attempt).await {
            return;
        }
    }
    channel.step(|world, _| world.give_up(&notice.notify_id));
}

/// Waits as the faults of the notice demand.
async fn hold(channel: &Channel, notice: &Notice) {
    for fault in &notice.faults {
        let happened = match *fault {
            NoticeFault::Delay { ms: wait } => {
                channel.parts().clock.sleep(ms(wait)).await;
                true
            }
            NoticeFault::Reorder { wait_ms } => {
                channel.wait_until(ms(wait_ms), |world| world.was_overtaken(notice)).await
            }
            NoticeFault::PastClose { wait_ms } => {
                channel.wait_until(ms(wait_ms), |world| world.was_closed_since(notice)).await
            }
            _ => false,
        };
        if happened {
            channel.step(|world, _| world.happened(fault.label()));
        }
    }
}

/// Makes one delivery with all that goes wrong around it; tells whether it was acknowledged.
async fn deliver(channel: &Channel, notice: &Notice, attempt: u32) -> bool {
    let faults = channel.step(|world, _| world.plan_delivery(notice));
    for fault in faults.iter().filter(|fault| fault.is_hostile()) {
        attack(channel, notice, attempt, fault).await;
    }
    if faults.contains(&NoticeFault::Dropped) {
        channel.step(|world, now| world.drop_delivery(notice, attempt, now));
        return false;
    }
    let posting = match genuine(channel.parts(), notice, &faults, channel.now()) {
        Ok(posting) => posting,
        Err(error) => {
            tracing::error!(error = %error, "a notice could not be signed");
            return false;
        }
    };
    let copies = faults.iter().find_map(|fault| match fault {
        NoticeFault::Duplicate { copies } => Some(usize::from(*copies)),
        _ => None,
    });
    let crowd = Crowd::default();
    let sends = (0..copies.unwrap_or(1)).map(|_| crowd.count(post(channel, notice, &posting)));
    let mut answers = join_all(sends).await;
    for answer in &mut answers {
        answer.attempt = attempt;
    }
    channel.step(|world, _| {
        if crowd.most() > 1 {
            world.book_parallel();
            world.happened("duplicate");
        }
        for form in &posting.forms {
            world.happened(form);
        }
        world.book_copies(notice, answers)
    })
}

async fn attack(channel: &Channel, notice: &Notice, attempt: u32, fault: &NoticeFault) {
    let posting = match hostile(channel.parts(), notice, fault, channel.now()) {
        Ok(posting) => posting,
        Err(error) => {
            tracing::error!(error = %error, "a forgery could not be signed");
            return;
        }
    };
    let mut answer = post(channel, notice, &posting).await;
    answer.hostile = true;
    answer.attempt = attempt;
    channel.step(|world, _| world.book_hostile(answer));
}

/// Posts one body and notes what came back.
async fn post(channel: &Channel, notice: &Notice, posting: &Posting) -> wire::Delivery {
    let parts = channel.parts();
    // Fails only when the semaphore is closed, which nobody does.
    let _permit = parts.in_flight.acquire().await;
    let start = channel.now();
    let form = if posting.forms.is_empty() { "plain".to_owned() } else { posting.forms.join("+") };
    let mut delivery = delivery(notice, start, form);
    let content_type =
        format!("application/x-www-form-urlencoded; charset={}", posting.charset.name());
    let sent = parts
        .http
        .post(&notice.url)
        .header(CONTENT_TYPE, content_type)
        .body(posting.body.clone())
        .timeout(parts.notify_timeout)
        .send();
    match read(sent).await {
        Ok((status, answer)) => {
            let taken = status == 200 && answer == ACK;
            delivery.outcome = if taken { Outcome::Success } else { Outcome::Refused };
            delivery.http_status = Some(status);
            delivery.answer = String::from_utf8_lossy(&answer).into_owned();
        }
        Err(error) => {
            let late = error.is_timeout();
            delivery.outcome = if late { Outcome::Timeout } else { Outcome::Unreachable };
            delivery.answer = root_cause(&error);
        }
    }
    let took = Duration::try_from(start.duration_until(channel.now())).unwrap_or_default();
    delivery.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    delivery
}

/// Reads an answer as far as it matters.
async fn read(
    sent: impl Future<Output = reqwest::Result<reqwest::Response>>,
) -> reqwest::Result<(u16, Vec<u8>)> {
    let mut response = sent.await?;
    let mut answer = Vec::new();
    while answer.len() < ANSWER_MAX
        && let Some(chunk) = response.chunk().await?
    {
        answer.extend(chunk);
    }
    answer.truncate(ANSWER_MAX);
    Ok((response.status().as_u16(), answer))
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Counts how many run at the same moment.
#[derive(Default)]
struct Crowd {
    here: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    async fn count<F: Future>(&self, work: F) -> F::Output {
        let here = self.here.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(here, Ordering::Relaxed);
        let done = work.await;
        self.here.fetch_sub(1, Ordering::Relaxed);
        done
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}
