//! Stopping: no new request, what has begun is finished, the rest is handed on.

use std::pin::pin;

use futures_util::future::{Either, select};
use serde_json::json;

use crate::{
    clock::soon,
    shop::{no, order},
    stage::{Running, Setup, Stage},
};

#[tokio::test]
async fn a_drained_service_leaves_no_running_request() {
    let mut stage = Stage::open().await;
    let shop = stage.shop();
    let slow = json!({"calls": [
        {"fault": {"delay_answer": {"ms": 500}}, "method": "alipay.trade.precreate"},
        {"fault": {"delay_answer": {"ms": 500}}, "method": "alipay.trade.query"},
    ]});
    stage.channel.faults(slow).await;
    let bodies: Vec<_> = (0..5).map(|n| order(&format!("o{n}"))).collect();
    let creating = futures_util::future::join_all(
        bodies.iter().enumerate().map(async |(n, body)| shop.create(&format!("k{n}"), body).await),
    );
    let telling = async {
        soon("all are at the channel", || async {
            (stage.channel.calls("alipay.trade.precreate").await >= 5).then_some(())
        })
        .await;
        stage.service.tell();
    };
    let (answers, ()) = tokio::join!(creating, telling);
    for answer in answers {
        assert_eq!(answer.is(201)["status"], "paying", "what has begun is finished");
    }
    let config = stage.config_at(stage.service.address);
    stage.service.stop().await;
    assert_eq!(stage.books.count("hapax_records", "state = 1").await, 0, "no claim is left");
    assert_eq!(stage.books.count("hapax_locks", "owner IS NOT NULL").await, 0, "nor a lock");
    assert_eq!(stage.books.count("pay_runs", "stopped_at IS NULL").await, 0);
    assert_eq!(stage.books.count("pay_requests", "1").await, 5, "and the journal is written");
    let late = shop.try_create("k9", &order("o9")).await;
    assert!(late.is_err(), "nobody listens: {late:?}");
    // What was leased for a question is not lost: the next instance goes on.
    stage.channel.faults(json!({})).await;
    stage.service = Running::open(config).await;
    let payment = no(&shop.settle("k0", &order("o0")).await.is(201));
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    stage.audit().await;
}

/// Its connection is gone, its work is not.
#[tokio::test]
async fn a_drain_finishes_what_a_client_left_behind() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let slow = json!({"delay_answer": {"ms": 500}});
    stage.channel.break_calls("alipay.trade.precreate", slow, Some(1)).await;
    let body = order("1001");
    {
        let leaving = pin!(shop.create("k1", &body));
        let asked = pin!(soon("the channel is asked", || async {
            (stage.channel.calls("alipay.trade.precreate").await > 0).then_some(())
        }));
        // The request is dropped with this block, and its connection with it.
        assert!(matches!(select(leaving, asked).await, Either::Right(_)));
    }
    let config = stage.config_at(stage.service.address);
    stage.service.stop().await;
    assert_eq!(stage.books.count("hapax_records", "state = 2").await, 1, "it was finished");
    let again = Running::open(config).await;
    let answer = shop.create("k1", &body).await;
    assert!(answer.is_replayed());
    assert_eq!(answer.is(201)["status"], "paying");
    again.stop().await;
}

#[tokio::test]
async fn a_drain_does_not_wait_for_ever_for_a_client() {
    let stage = Setup::new().period("drain", "300ms").open().await;
    // A client that never ends its request.
    let mut line = tokio::net::TcpStream::connect(stage.service.address).await.unwrap();
    let head = b"POST /v1/payments HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{";
    tokio::io::AsyncWriteExt::write_all(&mut line, head).await.unwrap();
    stage.shop().buy("1001").await;
    stage.service.stop().await;
    drop(line);
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let stage = Stage::open().await;
    let first = stage.shop().create("k1", &order("1001")).await;
    let payment = no(&first.json());
    let stage = stage.restart_with(|setup| setup).await;
    let shop = stage.shop();
    let again = shop.create("k1", &order("1001")).await;
    assert!(again.is_replayed());
    assert_eq!(again.body, first.body);
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    stage.audit().await;
    assert_eq!(stage.books.count("pay_runs", "1").await, 2);
}
