//! The toy's outbox: the oldest event of each order, again and again until it is taken.

use std::time::Duration;

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;

use super::clock::{now_ms, sleep};
use super::shop::Event;
use super::{Flaw, Toy, money};

const PAUSE: Duration = Duration::from_millis(25);
const TIMEOUT: Duration = Duration::from_millis(80);

pub(crate) async fn carry(toy: Toy) {
    let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
    loop {
        sleep(PAUSE).await;
        let due = due(&toy);
        let sends = due.iter().map(|event| send(&toy, &http, event));
        for (event, taken) in due.iter().zip(join_all(sends).await) {
            let line = (event.payment.tenant.clone(), event.payment.order_id.clone());
            if taken && let Some(events) = toy.shop().outbox.get_mut(&line) {
                events.retain(|known| known.id != event.id);
            }
        }
    }
}

fn due(toy: &Toy) -> Vec<Event> {
    let shop = toy.shop();
    let at_once = match shop.flaw {
        Flaw::SilentToMerchants => 0,
        Flaw::OvertakingNotices => usize::MAX,
        _ => 1,
    };
    shop.outbox.values().flat_map(|events| events.iter().take(at_once)).cloned().collect()
}

async fn send(toy: &Toy, http: &reqwest::Client, event: &Event) -> bool {
    let (flaw, (url, secret)) = {
        let shop = toy.shop();
        (shop.flaw, shop.merchants[&event.payment.tenant].clone())
    };
    let id = match flaw {
        Flaw::NewEventPerDelivery => format!("{:032x}", now_ms() * 1_000 + event.sequence),
        _ => event.id.clone(),
    };
    let payment = &event.payment;
    let body = json!({
        "event_id": id, "type": event.kind, "tenant": payment.tenant,
        "order_id": payment.order_id, "round": payment.round, "payment_no": payment.no,
        "amount": money::text(payment.amount), "currency": "CNY",
    })
    .to_string();
    let time = (now_ms() / 1_000).to_string();
    let secret = if flaw == Flaw::ForgedNotices { "guessed".to_owned() } else { secret };
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{time}.{body}").as_bytes());
    let mac: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let sent = http
        .post(url)
        .header("hapax-event-id", id)
        .header("hapax-sequence", event.sequence)
        .header("hapax-signature", format!("t={time},v1={mac}"))
        .header("content-type", "application/json")
        .body(body)
        .send();
    sent.await.is_ok_and(|response| response.status().is_success())
}
