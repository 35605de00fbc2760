//! Notices in any order, and before their payment.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;

use crate::{
    channel::Letter,
    shop::{no, order},
    stage::{Setup, Stage},
};
use hapax::{Begin, Effect, Hapax, Policy, Principal, RequestKey, Tenant, sql::SqliteStore};
use hapax_pay::CREATE_OPERATION;

fn letters(payment: &str) -> [Letter; 5] {
    let paid = Letter::paid(payment);
    let named = |id: &str| paid.clone().with("notify_id", &format!("{id}{payment}"));
    [
        named("wait").with("trade_status", "WAIT_BUYER_PAY").without("gmt_payment"),
        named("success"),
        named("part").with("refund_fee", "3.00"),
        named("full").with("refund_fee", "88.80").with("trade_status", "TRADE_CLOSED"),
        named("finished").with("trade_status", "TRADE_FINISHED"),
    ]
}

fn orders(of: usize) -> Vec<Vec<usize>> {
    if of == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(of - 1);
    let longer = shorter.iter().flat_map(|order| {
        (0..of).map(|at| {
            let mut order = order.clone();
            order.insert(at, of - 1);
            order
        })
    });
    longer.collect()
}

// Behaviour 14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_of_notices_ends_the_same() {
    let stage = Setup::new().callbacks_only().period("sweep", "500ms").open().await;
    let shop = stage.shop();
    let orders = orders(5);
    assert_eq!(orders.len(), 120);
    for (number, sequence) in orders.iter().enumerate() {
        let payment = no(&shop.buy(&format!("o{number}")).await);
        let letters = letters(&payment);
        for at in sequence {
            assert!(stage.is_taken(letters[*at].signed()).await, "{sequence:?} at {at}");
        }
    }
    stage.is_quiet().await;
    let ends = stage
        .books
        .column(
            "SELECT DISTINCT concat_ws('|', p.status, p.given_back, p.refunded, p.reserved, \
             p.surplus, o.status) FROM pay_payments p JOIN pay_orders o \
             USING (tenant, order_id, round)",
        )
        .await;
    assert_eq!(ends, ["paid|8880|0|0|0|paid"]);
    assert_eq!(stage.books.count("pay_benefits", "status IN ('cancelled', 'revoked')").await, 120);
    assert_eq!(stage.broken().await, []);
    for (number, sequence) in orders.iter().enumerate() {
        let told = stage.north.told(&format!("o{number}"));
        let money: Vec<_> = told.iter().filter(|kind| !kind.starts_with("benefit")).collect();
        assert_eq!(money, ["payment.paid"], "{sequence:?}");
    }
}

/// Leaves a request of north's as a process would that died after it chose a number.
async fn died_with(stage: &Stage, key: &str, point: Option<&'static str>) {
    let sql = SqliteStore::open(stage.file()).await.unwrap();
    let hapax = Hapax::new(Arc::new(sql.clone()));
    let policy = Policy::new(Effect::Keyed { window: Duration::from_secs(7 * 86_400) });
    let create = hapax.declare(CREATE_OPERATION, policy).unwrap();
    let (tenant, merchant) =
        (Tenant::parse("north").unwrap(), Principal::parse("merchant").unwrap());
    let call = create.request(tenant, merchant, RequestKey::parse(key).unwrap());
    let Begin::Run(lease) = call.begin().await.unwrap() else { panic!("the key is free") };
    if let Some(point) = point {
        lease.checkpoint(Bytes::from_static(point.as_bytes())).await.unwrap();
    }
    lease.hand_on().await.unwrap();
    hapax.drain().await;
    sql.close().await;
}

// Behaviour 15.
#[tokio::test]
async fn a_notice_that_came_before_its_payment_is_settled_later() {
    let stage = Setup::new().callbacks_only().period("complete", "1h").open().await;
    let shop = stage.shop();
    let payment = "PEARLY0001";
    died_with(&stage, "k1", Some(payment)).await;
    let notice = Letter::paid(payment).signed();
    for _ in 0..3 {
        assert!(!stage.is_taken(notice.clone()).await, "to be sent again");
    }
    assert_eq!(stage.books.count("pay_notices", "status = 'unmatched'").await, 1, "and kept");
    // The row appears: the notice is judged again by itself.
    stage.channel.lose_notices().await;
    let created = shop.settle("k1", &order("1001")).await;
    assert_eq!(created.json()["payment_no"], payment);
    assert_eq!(shop.payment(payment).await["status"], "paid");
    assert_eq!(stage.books.count("pay_notices", "status = 'settled'").await, 1);
    shop.benefits_become(payment, "granted").await;
    assert!(stage.is_taken(notice).await);
    assert_eq!(stage.books.effects(payment).await, (1, 0));
}

/// A request that died before it wrote anything surely did nothing.
#[tokio::test]
async fn a_request_that_did_nothing_gives_its_key_back() {
    let stage = Setup::new().period("complete", "10ms").open().await;
    let shop = stage.shop();
    died_with(&stage, "k1", None).await;
    died_with(&stage, "k2", Some("PNEVER0001")).await;
    crate::clock::soon_is("both keys are free", 2, || async {
        stage.books.count("hapax_records", "state = 4").await
    })
    .await;
    let attempts = stage.books.number("SELECT max(attempts) FROM hapax_records").await;
    assert!(attempts <= 5, "they were not taken up again and again: {attempts}");
    for (key, order_id) in [("k1", "1001"), ("k2", "1002")] {
        let answer = shop.create(key, &order(order_id)).await;
        assert!(!answer.is_replayed());
        assert_eq!(answer.is(201)["status"], json!("paying"));
    }
}
