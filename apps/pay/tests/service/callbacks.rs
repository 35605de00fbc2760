//! Callbacks of the channel: what is believed, when it is acknowledged, and what it does once.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    channel::{Letter, NORTH_SELLER, SOUTH_APP, SOUTH_SELLER},
    clock::{soon, soon_is},
    shop::{no, order},
    stage::{Setup, Stage},
};

async fn notice_status(stage: &Stage, notify_id: &str) -> String {
    let sql = format!("SELECT status FROM pay_notices WHERE notify_id = '{notify_id}'");
    stage.books.text(sql).await
}

// Behaviour 7 and the forms of behaviour 13: nothing but callbacks brings the news here.
#[tokio::test]
async fn every_genuine_form_of_a_callback_pays() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    for form in [
        "gbk",
        "sign_type_signed",
        "empty_signed",
        "empty_unsigned",
        "plus_raw",
        "extra_fields",
        "zero_refund",
    ] {
        stage.channel.faults(json!({"notices": [{"fault": form}]})).await;
        let mut body = order(form);
        body["subject"] = json!("会员 100% +1");
        let payment = no(&shop.create(form, &body).await.is(201));
        stage.channel.pay(&payment).await;
        let paid = shop.becomes(&payment, "paid").await;
        assert_eq!(paid["subject"], "会员 100% +1", "{form}");
        shop.benefits_become(&payment, "granted").await;
        let notify_id = stage.channel.acknowledged(&payment).await;
        let deliveries = stage.channel.deliveries(&payment).await;
        assert_eq!(deliveries[0].form, form, "{deliveries:?}");
        assert_eq!(notice_status(&stage, &notify_id).await, "settled", "{form}");
    }
    stage.audit().await;
}

// Behaviour 8.
#[tokio::test]
async fn what_is_no_notice_changes_nothing() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let before = stage.books.snapshot().await;
    let notice = Letter::paid(&payment);
    let signed = notice.signed();
    // The parameters that the buyer's browser carries to the return page.
    let returned = ["notify_id", "notify_type", "trade_status"];
    let returned = returned.iter().fold(notice.clone(), |letter, name| letter.without(name));
    for body in [
        returned.signed(),
        notice.clone().without("notify_id").signed(),
        format!("{signed}&total_amount=88.80"),
        format!("{signed}&total_amount=0.01"),
        format!("app_id=2026000000000001&{signed}"),
        notice.encoded(),
        String::new(),
    ] {
        assert!(!stage.is_taken(body.clone()).await, "{body}");
    }
    // The true notice, with something beside the body that no signature covers.
    let url = format!("http://{}/v1/notify/alipay?total_amount=88.80", stage.service.address);
    let answer = stage.http.post(url).body(signed.clone()).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "failure");
    assert_eq!(stage.books.snapshot().await, before);
    assert_eq!(stage.books.count("pay_notices", "1").await, 0, "anybody could have sent them");
    assert!(stage.is_taken(signed).await, "the notice itself is good");
    assert_eq!(shop.payment(&payment).await["status"], "paid");
}

// Behaviour 9.
#[tokio::test]
async fn a_signed_notice_that_does_not_fit_is_kept_refused_and_changes_nothing() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let before = stage.books.snapshot().await;
    let good = Letter::paid(&payment);
    for (name, value, verdict) in [
        ("total_amount", "88.81", "quarantined"),
        ("total_amount", "88.8000001", "quarantined"),
        ("total_amount", "1e2", "quarantined"),
        ("seller_id", SOUTH_SELLER, "quarantined"),
        ("notify_type", "dut_user_sign", "quarantined"),
        ("trade_status", "TRADE_PENDING", "quarantined"),
        ("refund_fee", "88.81", "quarantined"),
        ("subject", "x&total_amount=0.01", "quarantined"),
        ("out_trade_no", "P0000", "unmatched"),
    ] {
        let id = format!("{name}-{value}").replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let notice = good.clone().with(name, value).with("notify_id", &id);
        for _ in 0..2 {
            assert!(!stage.is_taken(notice.signed()).await, "{name}={value}");
        }
        assert_eq!(notice_status(&stage, &id).await, verdict, "{name}={value}");
        let kept = stage
            .books
            .text(format!("SELECT reason FROM pay_notices WHERE notify_id = '{id}'"))
            .await;
        assert!(kept.len() > 10, "it says why: {kept}");
    }
    assert_eq!(stage.books.snapshot().await, before);
    assert!(stage.is_taken(good.signed()).await);
}

#[tokio::test]
async fn a_notice_through_the_account_of_another_tenant_is_not_matched() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    // The channel signs for both of them; only the tenant tells them apart.
    let notice = Letter::paid(&payment).with("app_id", SOUTH_APP).with("seller_id", SOUTH_SELLER);
    assert!(!stage.is_taken(notice.signed()).await);
    assert_eq!(stage.books.status(&payment).await, "waiting");
    let nobody = Letter::paid(&payment).with("app_id", "2026999999999999");
    assert!(!stage.is_taken(nobody.signed()).await);
    assert_eq!(stage.books.count("pay_notices", "status = 'unmatched'").await, 1);
}

/// The channel sends on while the operator corrects the configuration.
#[tokio::test]
async fn a_notice_is_judged_again_when_the_configuration_was_put_right() {
    let setup = Setup::new().callbacks_only().north_seller("2088000000000999");
    let stage = setup.notice_gap_ms(100).open().await;
    let payment = no(&stage.shop().buy("1001").await);
    stage.channel.pay(&payment).await;
    soon_is("the notice is kept", 1, || async {
        stage.books.count("pay_notices", "status = 'quarantined'").await
    })
    .await;
    assert_eq!(stage.books.status(&payment).await, "waiting");
    let stage = stage.restart_with(|setup| setup.north_seller(NORTH_SELLER)).await;
    stage.channel.acknowledged(&payment).await;
    stage.shop().becomes(&payment, "paid").await;
    assert_eq!(stage.books.count("pay_notices", "1").await, 1, "one row for one event");
    stage.audit().await;
}

/// The same check on the path of a question.
#[tokio::test]
async fn an_answer_about_another_amount_books_nothing() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    stage.channel.lose_notices().await;
    let payment = no(&shop.buy("1001").await);
    stage.books.run("UPDATE pay_payments SET amount = 8881").await;
    stage.channel.pay(&payment).await;
    let asked = stage.channel.calls("alipay.trade.query").await;
    soon("it was asked three times more", || async {
        (stage.channel.calls("alipay.trade.query").await > asked + 3).then_some(())
    })
    .await;
    assert_eq!(stage.books.status(&payment).await, "waiting");
    assert_eq!(stage.books.effects(&payment).await, (0, 0));
    stage.books.run("UPDATE pay_payments SET amount = 8880").await;
    shop.becomes(&payment, "paid").await;
}

/// And on the path of a question about a trade that was given back whole at the channel.
#[tokio::test]
async fn an_answer_about_another_amount_gives_nothing_back() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    for (order_id, amount) in [("less", 8870), ("more", 8890)] {
        let payment = no(&shop.buy(order_id).await);
        stage.channel.faults(json!({})).await;
        stage.channel.pay(&payment).await;
        shop.becomes(&payment, "paid").await;
        stage.channel.lose_notices().await;
        shop.refund(&payment, &format!("R_{order_id}"), "88.80").await.is(201);
        // As if nobody had told us of any of this, and another amount had been asked for.
        stage
            .books
            .run(format!(
                "DELETE FROM pay_refunds; UPDATE pay_payments SET amount = {amount}, \
                 status = 'waiting', refunded = 0, given_back = 0 WHERE payment_no = '{payment}'"
            ))
            .await;
        let closing = shop.close(&payment).await.is(202);
        assert_eq!(closing["status"], "closing", "{order_id}: a person must look");
        let books = format!(
            "SELECT concat_ws('|', status, given_back, refunded) FROM pay_payments \
             WHERE payment_no = '{payment}'"
        );
        assert_eq!(stage.books.text(books).await, "closing|0|0", "{order_id}");
    }
}

// Behaviour 10: whatever breaks before the commit, nothing is acknowledged and nothing is there.
#[tokio::test]
async fn success_is_answered_only_after_the_commit() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    for (point, on) in [
        ("before_the_notice", "INSERT ON pay_notices"),
        ("after_the_notice", "UPDATE ON pay_payments"),
        ("order", "UPDATE OF status ON pay_orders"),
        ("benefit", "INSERT ON pay_benefits"),
        ("message", "INSERT ON hapax_outbox"),
        ("journal", "INSERT ON hapax_transitions"),
        ("before_the_commit", "UPDATE ON pay_notices"),
    ] {
        let payment = no(&shop.buy(point).await);
        let before = stage.books.snapshot().await;
        let notice = Letter::paid(&payment).signed();
        stage.books.break_on(on).await;
        for _ in 0..3 {
            assert!(!stage.is_taken(notice.clone()).await, "{point}");
        }
        stage.books.mend().await;
        assert_eq!(stage.books.snapshot().await, before, "{point}: all or nothing");
        for _ in 0..3 {
            let answer = stage.notify(notice.clone()).await;
            assert_eq!((answer.status, &answer.body[..]), (200, &b"success"[..]), "{point}");
        }
        shop.benefits_become(&payment, "granted").await;
        assert_eq!(stage.books.effects(&payment).await, (1, 0), "{point}");
    }
}

/// Behaviour 10, its last point: committed, and the acknowledgement is lost.
#[tokio::test]
async fn an_acknowledgement_that_was_lost_is_given_again() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let notice = Letter::paid(&payment).signed();
    for _ in 0..5 {
        let mut line = TcpStream::connect(stage.service.address).await.unwrap();
        let head = format!(
            "POST /v1/notify/alipay HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{notice}",
            notice.len()
        );
        line.write_all(head.as_bytes()).await.unwrap();
        // Gone before the answer can be read.
        drop(line);
    }
    shop.becomes(&payment, "paid").await;
    shop.benefits_become(&payment, "granted").await;
    assert!(stage.is_taken(notice).await);
    assert_eq!(stage.books.effects(&payment).await, (1, 0));
    stage.is_quiet().await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"]);
}

// Behaviour 11.
#[tokio::test]
async fn eight_copies_at_once_and_all_resends_have_one_effect() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let eight = json!({"notices": [{"fault": {"duplicate": {"copies": 8}}}]});
    stage.channel.faults(eight).await;
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    let notify_id = stage.channel.acknowledged(&payment).await;
    stage.channel.faults(json!({})).await;
    for _ in 0..3 {
        let again = stage.channel.control("notify/resend", &json!({"notify_id": notify_id})).await;
        assert_eq!(again["acknowledged"], true);
    }
    let deliveries = stage.channel.deliveries(&payment).await;
    assert!(deliveries.len() >= 11, "{}", deliveries.len());
    assert!(deliveries.iter().all(|it| it.answer == "success"), "{deliveries:?}");
    shop.benefits_become(&payment, "granted").await;
    let counted = stage.books.number("SELECT deliveries FROM pay_notices").await;
    assert_eq!(counted, i64::try_from(deliveries.len()).unwrap());
    stage.audit().await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"]);
}

/// Behaviour 11, with more copies than any channel sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_copies_of_one_callback_at_once_have_one_effect() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let notice = Letter::paid(&payment).signed();
    let url = format!("http://{}/v1/notify/alipay", stage.service.address);
    let mut copies = JoinSet::new();
    for _ in 0..300 {
        let request = stage.http.post(&url).body(notice.clone());
        copies.spawn(async move { request.send().await.unwrap().text().await.unwrap() });
    }
    let answers = copies.join_all().await;
    assert!(answers.iter().all(|answer| answer == "success"), "{answers:?}");
    shop.benefits_become(&payment, "granted").await;
    assert_eq!(stage.books.effects(&payment).await, (1, 0));
    let transitions = stage.books.count("hapax_transitions", "kind = 'payment'").await;
    assert_eq!(transitions, 2, "prepared and paid");
}

// Behaviour 12.
#[tokio::test]
async fn different_notices_of_one_payment_pay_once() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let paid = Letter::paid(&payment);
    for letter in [
        paid.clone().with("notify_id", "n1"),
        paid.clone().with("notify_id", "n2").with("trade_status", "TRADE_FINISHED"),
        paid.clone().with("notify_id", "n3").with("refund_fee", "3.00"),
        paid.clone().with("notify_id", "n4"),
    ] {
        assert!(stage.is_taken(letter.signed()).await);
    }
    shop.benefits_become(&payment, "granted").await;
    assert_eq!(stage.books.effects(&payment).await, (1, 0));
    assert_eq!(shop.payment(&payment).await["refunded"], "3.00");
    stage.is_quiet().await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"]);
}

/// Behaviour 12: some products never say `TRADE_SUCCESS`.
#[tokio::test]
async fn finished_alone_is_paid() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let finished = json!({"not_refundable": {}, "push": {"precreate": ["finished"]}});
    stage.channel.faults(finished).await;
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    assert_eq!(stage.channel.deliveries(&payment).await[0].trade_status, "TRADE_FINISHED");
    stage.audit().await;
}

// Behaviour 13.
#[tokio::test]
async fn a_refund_notice_never_pays() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    let partly = Letter::paid(&payment).with("notify_id", "n1").with("refund_fee", "3.00");
    assert!(stage.is_taken(partly.signed()).await);
    assert_eq!(stage.books.status(&payment).await, "waiting");
    assert_eq!(stage.books.effects(&payment).await, (0, 0));
    let paid = Letter::paid(&payment).with("notify_id", "n2").with("refund_fee", "0.00");
    let paid = paid.with("gmt_close", "2026-10-01 08:00:31");
    assert!(stage.is_taken(paid.signed()).await);
    assert_eq!(stage.books.status(&payment).await, "paid");
    shop.benefits_become(&payment, "granted").await;
    let fully = Letter::paid(&payment).with("notify_id", "n3").with("refund_fee", "88.80");
    assert!(stage.is_taken(fully.with("trade_status", "TRADE_CLOSED").signed()).await);
    shop.benefits_become(&payment, "revoked").await;
    let shown = shop.payment(&payment).await;
    assert_eq!((&shown["status"], &shown["refunded"]), (&json!("paid"), &json!("88.80")));
    assert_eq!(stage.books.effects(&payment).await, (1, 1));
}

/// Behaviour 13: closed and never paid.
#[tokio::test]
async fn a_closed_notice_without_money_closes() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    stage.channel.scan(&payment).await;
    stage.channel.control("expire", &json!({"out_trade_no": payment})).await;
    shop.becomes(&payment, "closed").await;
    assert_eq!(shop.order("1001").await["status"], "closed");
    stage.told("1001", "payment.closed").await;
    stage.audit().await;
}

#[tokio::test]
async fn callback_query_and_sweep_at_once_pay_once() {
    let stage = Setup::new().period("sweep", "5ms").period("checks", "5ms").open().await;
    let shop = stage.shop();
    let eight = json!({"notices": [{"fault": {"duplicate": {"copies": 8}}}]});
    stage.channel.faults(eight).await;
    for round in 0..10 {
        let order_id = format!("race-{round}");
        let payment = no(&shop.buy(&order_id).await);
        stage.channel.scan(&payment).await;
        // The merchant closes while the buyer pays: a third path to the same news.
        let (_, closed) = tokio::join!(stage.channel.pay(&payment), shop.close(&payment));
        assert!(closed.status == 200 || closed.status == 202, "{closed:?}");
        shop.becomes(&payment, "paid").await;
        shop.benefits_become(&payment, "granted").await;
        let paid = format!("kind = 'payment' AND entity = '{payment}' AND to_state = 'paid'");
        assert_eq!(stage.books.count("hapax_transitions", &paid).await, 1);
        stage.is_quiet().await;
        let told = stage.north.told(&order_id);
        assert_eq!(told, ["payment.paid", "benefit.granted"]);
    }
    stage.audit().await;
}

// Behaviour 10: to acknowledge means exactly seven bytes, and nothing else does.
#[tokio::test]
async fn the_acknowledgement_is_seven_bytes_of_text() {
    let stage = Setup::new().callbacks_only().open().await;
    let payment = no(&stage.shop().buy("1001").await);
    let mut line = TcpStream::connect(stage.service.address).await.unwrap();
    let notice = Letter::paid(&payment).signed();
    let request = format!(
        "POST /v1/notify/alipay HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{notice}",
        notice.len()
    );
    line.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    line.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-length: 7"), "{head}");
    assert_eq!(body, "success");
}

/// A callback may overtake the answer to "take this payment".
#[tokio::test]
async fn a_payment_may_be_paid_before_its_code_is_known() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let race = json!({"races": [{"at": "before_create_answer", "do": "pay"}]});
    stage.channel.faults(race).await;
    let answer = shop.settle("k", &order("1001")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let payment = no(&answer.json());
    shop.becomes(&payment, "paid").await;
    soon("the repeat finds it paid", || async {
        let other = shop.create("k2", &order("1001")).await.is(200);
        (other["status"] == "paid").then_some(())
    })
    .await;
    stage.audit().await;
}
