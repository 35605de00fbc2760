//! Notices to the merchant: signed, numbered, and sent again until they are taken.

use std::collections::HashSet;

use serde_json::json;

use crate::{
    clock::{soon, soon_is},
    shop::no,
    stage::{NORTH_NOTICES, Stage},
};

#[tokio::test]
async fn a_notice_is_signed_and_sent_again_until_it_is_taken() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    stage.north.will_answer(&[500, 503, 400, 302, 404]);
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    stage.told("1001", "benefit.granted").await;
    let deliveries = stage.north.deliveries();
    let first: Vec<_> = deliveries.iter().filter(|it| it.kind() == "payment.paid").collect();
    let statuses: Vec<_> = first.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [500, 503, 400, 302, 404, 200], "and not once more");
    let ids: HashSet<_> = first.iter().map(|it| it.header("hapax-event-id")).collect();
    assert_eq!(ids.len(), 1, "the same event in every delivery");
    assert!(first.iter().all(|it| it.body == first[0].body), "in the same bytes");
    assert!(first.iter().all(|it| it.sequence() == first[0].sequence()));
    for delivery in &deliveries {
        assert!(delivery.is_signed_with(NORTH_NOTICES), "{delivery:?}");
        assert!(!delivery.is_signed_with("another-secret-0123456789abcdefghijkl"));
        assert_eq!(delivery.header("content-type"), "application/json");
        assert_eq!(delivery.json()["event_id"], delivery.header("hapax-event-id"));
    }
    let notice = first[0].json();
    for (member, value) in [
        ("type", json!("payment.paid")),
        ("tenant", json!("north")),
        ("order_id", json!("1001")),
        ("round", json!(1)),
        ("payment_no", json!(payment)),
        ("amount", json!("88.80")),
        ("currency", json!("CNY")),
    ] {
        assert_eq!(notice[member], value, "{notice}");
    }
    assert!(notice["occurred_at"].as_str().unwrap().ends_with('Z'), "{notice}");
}

#[tokio::test]
async fn notices_of_one_order_come_in_order_with_rising_sequence() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    shop.benefits_become(&payment, "granted").await;
    // The merchant is away while more happens.
    stage.is_quiet().await;
    stage.north.will_answer(&[503; 4]);
    shop.refund(&payment, "R1", "8.80").await;
    shop.refund_becomes(&payment, "R1", "done").await;
    shop.refund(&payment, "R2", "80.00").await;
    shop.refund_becomes(&payment, "R2", "done").await;
    stage.told("1001", "benefit.revoked").await;
    assert_eq!(
        stage.north.told("1001"),
        ["payment.paid", "benefit.granted", "refund.done", "refund.done", "benefit.revoked"]
    );
    let taken = stage.north.deliveries().into_iter().filter(|it| it.status == 200);
    let sequences: Vec<_> = taken.map(|it| it.sequence()).collect();
    assert!(sequences.is_sorted_by(|left, right| left < right), "{sequences:?}");
    soon_is("nothing waits", 0, || async { stage.books.count("hapax_outbox", "1").await }).await;
}

/// At least once and in order, until a 2xx answer: no number of refusals ends it.
#[tokio::test]
async fn a_notice_that_is_refused_again_and_again_is_sent_until_it_is_taken() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let refusals: Vec<_> = [404, 400, 302, 401, 410].into_iter().cycle().take(30).collect();
    stage.north.will_answer(&refusals);
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    stage.told("1001", "benefit.granted").await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"], "in order");
    let deliveries = stage.north.deliveries();
    let first = deliveries.iter().filter(|it| it.kind() == "payment.paid").count();
    assert_eq!(first, refusals.len() + 1, "nothing overtook it");
    stage.audit().await;
}

/// A merchant that is away holds up nobody else.
#[tokio::test]
async fn a_merchant_that_is_away_holds_up_no_other() {
    let stage = Stage::open().await;
    let (north, south) = (stage.shop(), stage.other_shop());
    stage.north.will_answer(&[503; 500]);
    for number in 0..10 {
        let order_id = format!("o{number}");
        for shop in [&north, &south] {
            let payment = no(&shop.buy(&order_id).await);
            stage.channel.pay(&payment).await;
        }
    }
    soon("south was told everything", || async {
        let told = stage.south.deliveries().iter().filter(|it| it.status == 200).count();
        (told == 20).then_some(())
    })
    .await;
    stage.north.will_answer(&[]);
    soon("north was told everything", || async {
        let told = stage.north.deliveries().iter().filter(|it| it.status == 200).count();
        (told == 20).then_some(())
    })
    .await;
    stage.audit().await;
}

/// Exactly as often as it happened: nothing is told that was rolled back, nothing twice.
#[tokio::test]
async fn nothing_is_told_that_did_not_happen() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    stage.books.break_on("UPDATE ON pay_notices").await;
    let payment = no(&shop.buy("1001").await);
    let notice = crate::channel::Letter::paid(&payment).signed();
    for _ in 0..5 {
        assert!(!stage.is_taken(notice.clone()).await);
    }
    assert_eq!(stage.north.deliveries().len(), 0);
    stage.books.mend().await;
    stage.channel.pay(&payment).await;
    stage.told("1001", "benefit.granted").await;
    stage.is_quiet().await;
    let ids: Vec<_> =
        stage.north.deliveries().iter().map(|it| it.header("hapax-event-id").to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 2);
}
