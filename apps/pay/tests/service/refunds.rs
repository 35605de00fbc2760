//! Refunds: set aside, asked for under one number until it is known, then booked.

use std::collections::BTreeMap;

use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    channel::Letter,
    clock::{soon, soon_is},
    shop::{Shop, no, order},
    stage::{Setup, Stage},
};

const REFUND: &str = "alipay.trade.refund";
const REFUND_QUERY: &str = "alipay.trade.fastpay.refund.query";

async fn paid(stage: &Stage, shop: &Shop, order_id: &str, amount: &str) -> String {
    let mut body = order(order_id);
    body["amount"] = json!(amount);
    let payment = no(&shop.settle(&format!("key-{order_id}"), &body).await.is(201));
    stage.channel.pay(&payment).await;
    shop.becomes(&payment, "paid").await;
    payment
}

#[tokio::test]
async fn a_refund_is_made_once_however_often_it_is_asked_for() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    let first = shop.refund(&payment, "R1", "8.03").await;
    let first = if first.status == 202 {
        shop.refund_becomes(&payment, "R1", "done").await
    } else {
        first.is(201)
    };
    assert_eq!((&first["status"], &first["amount"]), (&json!("done"), &json!("8.03")));
    assert_eq!((&first["origin"], &first["reason"]), (&json!("merchant"), &json!("damaged")));
    for _ in 0..3 {
        assert_eq!(shop.refund(&payment, "R1", "8.03").await.is(200), first);
    }
    let shown = shop.payment(&payment).await;
    assert_eq!((&shown["refunded"], &shown["reserved"]), (&json!("8.03"), &json!("0.00")));
    assert_eq!(shown["benefits"][0]["status"], "granted", "net money is left");
    stage.told("1001", "refund.done").await;
    stage.audit().await;
}

// Behaviour 21.
#[tokio::test]
async fn an_unanswered_refund_is_made_once() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for (order_id, fault) in [
        ("drop_request", json!("drop_request")),
        ("drop_answer", json!("drop_answer")),
        ("unavailable", json!({"unavailable": {"done": false}})),
        ("unavailable_done", json!({"unavailable": {"done": true}})),
        ("system_error", json!({"system_error": {"done": false}})),
        ("system_error_done", json!({"system_error": {"done": true}})),
        ("wrong_sign", json!("wrong_sign")),
        ("no_sign", json!("no_sign")),
        ("cut_body", json!("cut_body")),
        ("bad_gateway", json!({"bad_gateway": {"done": false}})),
        ("refund_later", json!({"refund_later": {"ms": 150}})),
        ("refused", json!({"refused": {"sub_code": "ACQ.SELLER_BALANCE_NOT_ENOUGH"}})),
    ] {
        let payment = paid(&stage, &shop, order_id, "88.80").await;
        stage.channel.break_silently(REFUND, fault, Some(2)).await;
        let refund_no = format!("R_{order_id}");
        let asked = shop.refund(&payment, &refund_no, "8.80").await.is(202);
        assert_eq!(asked["status"], "processing", "{order_id}");
        shop.refund_becomes(&payment, &refund_no, "done").await;
        let trade = stage.channel.trade(&payment).await;
        assert_eq!(trade.refunds.len(), 1, "{order_id}: one number");
        assert_eq!((trade.refunded_fen, trade.refunds[0].times), (880, 1), "{order_id}");
        assert_eq!(trade.refunds[0].out_request_no, refund_no);
    }
    stage.audit().await;
}

/// Behaviour 21: how long the channel is left alone before it is asked.
#[tokio::test]
async fn an_unanswered_refund_is_asked_about_before_it_is_sent_again() {
    let stage = Setup::new().period("refund_ask_after", "400ms").open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    stage.channel.break_silently(REFUND, json!("drop_answer"), Some(1)).await;
    shop.refund(&payment, "R1", "8.80").await.is(202);
    for _ in 0..3 {
        let repeat = shop.refund(&payment, "R1", "8.80").await.is(202);
        assert_eq!(repeat["status"], "processing");
    }
    assert_eq!(stage.channel.calls(REFUND_QUERY).await, 0, "not yet");
    shop.refund_becomes(&payment, "R1", "done").await;
    assert_eq!(stage.channel.calls(REFUND).await, 1, "the question was enough");
    let span = "SELECT done_at - sent_at FROM pay_refunds";
    assert!(stage.books.number(span).await >= 400);
    stage.audit().await;
}

/// Behaviour 21: the number is the key.
#[tokio::test]
async fn a_refund_number_with_another_amount_or_payment_is_refused() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let first = paid(&stage, &shop, "1001", "88.80").await;
    let second = paid(&stage, &shop, "1002", "88.80").await;
    shop.refund(&first, "R1", "8.80").await;
    shop.refund(&first, "R1", "8.81").await.refused(409, "refund_conflict");
    shop.refund(&second, "R1", "8.80").await.refused(409, "refund_conflict");
    shop.refund_becomes(&first, "R1", "done").await;
    shop.refund(&first, "R1", "8.81").await.refused(409, "refund_conflict");
    assert_eq!(stage.books.count("pay_refunds", "1").await, 1);
    shop.refund(&first, "R2", "8.80").await;
    shop.refund_becomes(&first, "R2", "done").await;
    stage.audit().await;
    assert_eq!(stage.channel.trade(&first).await.refunded_fen, 1760, "equal amounts may go twice");
}

#[tokio::test]
async fn what_is_not_paid_is_not_refunded() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = no(&shop.buy("1001").await);
    shop.refund(&payment, "R1", "8.80").await.refused(409, "not_refundable");
    shop.refund("P404", "R1", "8.80").await.refused(404, "not_found");
    shop.get(&format!("/v1/payments/{payment}/refunds/R1")).await.refused(404, "not_found");
    assert_eq!(stage.books.count("pay_refunds", "1").await, 0);
}

// Behaviour 22.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_refunds_at_once_never_exceed_the_payment() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "100.00").await;
    let mut crowd = JoinSet::new();
    for number in 0..50 {
        let (shop, payment) = (stage.shop(), payment.clone());
        crowd.spawn(async move { shop.refund(&payment, &format!("R{number}"), "3.00").await });
    }
    let mut statuses = BTreeMap::<u16, usize>::new();
    for answer in crowd.join_all().await {
        *statuses.entry(answer.status).or_default() += 1;
        match answer.status {
            201 | 202 => {}
            422 => {
                let problem = answer.refused(422, "refund_exceeds_payment");
                assert!(problem["detail"].as_str().unwrap().contains("1.00 CNY"), "{problem}");
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!(statuses.get(&422), Some(&17), "{statuses:?}");
    stage.audit().await;
    let trade = stage.channel.trade(&payment).await;
    assert_eq!((trade.refunds.len(), trade.refunded_fen), (33, 9900));
    shop.refund(&payment, "last", "1.01").await.refused(422, "refund_exceeds_payment");
    shop.refund(&payment, "last", "1.00").await;
    shop.refund_becomes(&payment, "last", "done").await;
    shop.benefits_become(&payment, "revoked").await;
    stage.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_copies_of_one_refund_at_once_are_one_refund() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    for round in 0..5 {
        let payment = paid(&stage, &shop, &format!("o{round}"), "88.80").await;
        let mut crowd = JoinSet::new();
        for _ in 0..20 {
            let (shop, payment) = (stage.shop(), payment.clone());
            crowd.spawn(async move { shop.refund(&payment, &format!("R{round}"), "88.80").await });
        }
        for answer in crowd.join_all().await {
            assert!(matches!(answer.status, 200..=202), "never a false failure: {answer:?}");
        }
        shop.refund_becomes(&payment, &format!("R{round}"), "done").await;
    }
    stage.audit().await;
}

/// Money is set aside before the channel is asked and given free only by a sure refusal.
#[tokio::test]
async fn a_refund_that_the_channel_refuses_for_good_frees_its_money() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    stage.channel.control("finish", &json!({"out_trade_no": payment})).await;
    let asked = shop.refund(&payment, "R1", "88.80").await;
    assert!(matches!(asked.status, 201 | 202), "{asked:?}");
    let refused = shop.refund_becomes(&payment, "R1", "refused").await;
    assert!(refused["failure"].as_str().unwrap().contains("TRADE_HAS_FINISHED"), "{refused}");
    assert_eq!(shop.payment(&payment).await["reserved"], "0.00");
    assert_eq!(shop.refund(&payment, "R1", "88.80").await.is(200)["status"], "refused");
    stage.told("1001", "refund.refused").await;
    stage.audit().await;
}

/// Behaviour 21: never pending for ever, also when the first answer and the first question were
/// lost.
#[tokio::test]
async fn a_refund_that_cannot_be_made_any_more_ends_refused_after_lost_answers() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    let rules = json!({"calls": [
        {"fault": "drop_request", "method": REFUND, "when": {"times": 1}},
        {"fault": "drop_request", "method": REFUND_QUERY, "when": {"times": 3}},
    ], "notices": [{"fault": "lost"}]});
    stage.channel.faults(rules).await;
    shop.refund(&payment, "R1", "88.80").await.is(202);
    stage.channel.control("finish", &json!({"out_trade_no": payment})).await;
    shop.refund_becomes(&payment, "R1", "refused").await;
    assert_eq!(shop.payment(&payment).await["reserved"], "0.00");
    stage.audit().await;
}

/// A refusal of a second copy does not speak of the first one.
#[tokio::test]
async fn a_refund_that_was_made_is_not_taken_for_refused() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    let rules = json!({"calls": [
        {"fault": "drop_answer", "method": REFUND, "when": {"times": 1}},
        {"fault": {"refused": {"sub_code": "ACQ.TRADE_HAS_FINISHED"}}, "method": REFUND},
    ], "notices": [{"fault": "lost"}]});
    stage.channel.faults(rules).await;
    shop.refund(&payment, "R1", "88.80").await.is(202);
    shop.refund_becomes(&payment, "R1", "done").await;
    stage.audit().await;
}

#[tokio::test]
async fn a_full_refund_takes_the_benefit_back_whoever_comes_first() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    // The grant comes first.
    let payment = paid(&stage, &shop, "grant-first", "88.80").await;
    shop.benefits_become(&payment, "granted").await;
    shop.refund(&payment, "R1", "88.80").await;
    shop.benefits_become(&payment, "revoked").await;
    assert_eq!(stage.books.effects(&payment).await, (1, 1));
    stage.audit().await;
    assert_eq!(
        stage.north.told("grant-first"),
        ["payment.paid", "benefit.granted", "refund.done", "benefit.revoked"]
    );

    // The refund comes first: the message is on its way while the consumer cannot write.
    stage.books.break_on("INSERT ON pay_effects").await;
    let payment = paid(&stage, &shop, "refund-first", "88.80").await;
    shop.refund(&payment, "R2", "88.80").await;
    shop.benefits_become(&payment, "cancelled").await;
    stage.books.mend().await;
    stage.audit().await;
    assert_eq!(stage.books.effects(&payment).await, (0, 0), "what was cancelled is never given");
    assert_eq!(stage.north.told("refund-first"), ["payment.paid", "refund.done"]);
}

#[tokio::test]
async fn a_benefit_message_that_comes_twice_grants_once() {
    let stage = Stage::open().await;
    let shop = stage.shop();
    // Kept as the relay leaves it, to be written into the outbox again: delivery at least once.
    stage
        .books
        .run(
            "CREATE TABLE copies AS SELECT id, topic, key_text, payload FROM hapax_outbox; \
              CREATE TRIGGER copy AFTER INSERT ON hapax_outbox WHEN NEW.topic = 'benefit' BEGIN \
              INSERT INTO copies VALUES (NEW.id, NEW.topic, NEW.key_text, NEW.payload); END",
        )
        .await;
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    shop.benefits_become(&payment, "granted").await;
    stage.is_quiet().await;
    for _ in 0..3 {
        stage
            .books
            .run(
                "DROP TRIGGER IF EXISTS copy; INSERT INTO hapax_outbox \
                  (id, topic, key_text, payload, visible_at, attempts, created_at) \
                  SELECT id, topic, key_text, payload, 0, 0, 0 FROM copies",
            )
            .await;
        soon_is("it was delivered again", 0, || async {
            stage.books.count("hapax_outbox", "1").await
        })
        .await;
    }
    assert_eq!(stage.books.effects(&payment).await, (1, 0));
    assert_eq!(stage.books.count("hapax_inbox", "consumer = 'benefits'").await, 1);
    stage.audit().await;
    assert_eq!(stage.north.told("1001"), ["payment.paid", "benefit.granted"]);
}

/// Money that goes back by the merchant's own hand at the channel is seen by its notices.
#[tokio::test]
async fn a_refund_made_at_the_channel_itself_is_booked() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    shop.benefits_become(&payment, "granted").await;
    let letter = Letter::paid(&payment);
    let letter = letter.with("notify_id", "byhand").with("refund_fee", "80.00");
    assert!(stage.is_taken(letter.signed()).await);
    assert_eq!(shop.payment(&payment).await["refunded"], "80.00");
    let problem = shop.refund(&payment, "R1", "8.81").await.refused(422, "refund_exceeds_payment");
    assert!(problem["detail"].as_str().unwrap().contains("8.80 CNY"), "{problem}");
    soon("the payment still has its benefit", || async {
        let shown = shop.payment(&payment).await;
        (shown["benefits"][0]["status"] == "granted").then_some(())
    })
    .await;
}

/// Sets a refund aside as a process would that died before it asked, or after.
async fn set_aside(stage: &Stage, payment: &str, refund_no: &str, fen: u32, status: &str) {
    let sql = format!(
        "INSERT INTO pay_refunds (tenant, refund_no, payment_no, amount, currency, reason, origin, \
         status, version, created_at) \
         VALUES ('north', '{refund_no}', '{payment}', {fen}, 'CNY', '', 'merchant', '{status}', 1, \
         0); \
         UPDATE pay_payments SET reserved = reserved + {fen} WHERE payment_no = '{payment}'"
    );
    stage.books.run(sql).await;
}

async fn refund_status(stage: &Stage, refund_no: &str) -> String {
    let sql = format!("SELECT status FROM pay_refunds WHERE refund_no = '{refund_no}'");
    stage.books.text(sql).await
}

/// Who refunds by hand at the channel may choose a number that another payment's refund has here.
#[tokio::test]
async fn a_notice_about_one_payment_moves_no_refund_of_another() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let first = paid(&stage, &shop, "1001", "88.80").await;
    let second = paid(&stage, &shop, "1002", "88.80").await;
    for (status, total) in [("reserved", "8.80"), ("sent", "17.60")] {
        set_aside(&stage, &second, status, 880, status).await;
        let letter = Letter::paid(&first).with("notify_id", status).with("out_biz_no", status);
        assert!(stage.is_taken(letter.with("refund_fee", total).signed()).await);
        assert_eq!(refund_status(&stage, status).await, status, "nobody asked for it");
        assert_eq!(shop.payment(&first).await["refunded"], total);
    }
    let shown = shop.payment(&second).await;
    assert_eq!((&shown["refunded"], &shown["reserved"]), (&json!("0.00"), &json!("17.60")));
    assert_eq!(stage.broken().await, []);
}

/// The same number by hand for less: what we asked for is not made by that.
#[tokio::test]
async fn a_notice_is_about_a_refund_only_if_its_total_covers_it() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    set_aside(&stage, &payment, "R1", 5000, "sent").await;
    for (total, status) in [("49.99", "sent"), ("50.00", "done")] {
        let letter = Letter::paid(&payment).with("notify_id", &total.replace('.', ""));
        let letter = letter.with("out_biz_no", "R1").with("refund_fee", total);
        assert!(stage.is_taken(letter.signed()).await);
        assert_eq!(refund_status(&stage, "R1").await, status, "{total}");
        assert_eq!(shop.payment(&payment).await["refunded"], total);
    }
    assert_eq!(stage.broken().await, []);
}

/// The channel's total may hold a refund that is still under way here: nothing is refused for
/// counting it twice.
#[tokio::test]
async fn a_refund_that_may_fit_is_not_refused_while_another_is_under_way() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    set_aside(&stage, &payment, "R1", 5000, "sent").await;
    stage.books.run("UPDATE pay_payments SET given_back = 5000").await;
    let undecided = shop.refund(&payment, "R2", "38.80").await;
    assert_eq!(undecided.header("retry-after"), Some("10"));
    assert_eq!(undecided.refused(409, "refunds_under_way")["retryable"], json!(true));
    let more = shop.refund(&payment, "R3", "38.81").await;
    more.refused(422, "refund_exceeds_payment");
    assert_eq!(stage.books.count("pay_refunds", "refund_no <> 'R1'").await, 0);
}

/// A number that is in use here may also be chosen by hand for another amount: only a total that
/// covers all that is booked tells of it.
#[tokio::test]
async fn a_total_that_other_refunds_explain_tells_nothing_of_this_one() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    set_aside(&stage, &payment, "R2", 3000, "sent").await;
    stage.books.run("UPDATE pay_payments SET refunded = 5000, given_back = 5000").await;
    for (total, status) in [("60.00", "sent"), ("80.00", "done")] {
        let letter = Letter::paid(&payment).with("notify_id", &total.replace('.', ""));
        let letter = letter.with("out_biz_no", "R2").with("refund_fee", total);
        assert!(stage.is_taken(letter.signed()).await);
        assert_eq!(refund_status(&stage, "R2").await, status, "{total}");
    }
}

/// 30.00 by hand, 58.80 through us: the answer to the second tells of both.
#[tokio::test]
async fn the_total_of_a_refund_answer_is_believed_when_every_notice_is_lost() {
    let stage = Setup::new().callbacks_only().open().await;
    let shop = stage.shop();
    let payment = paid(&stage, &shop, "1001", "88.80").await;
    shop.benefits_become(&payment, "granted").await;
    stage.channel.lose_notices().await;
    shop.refund(&payment, "byhand", "30.00").await.is(201);
    // As if the merchant had made it at the channel itself.
    stage
        .books
        .run("DELETE FROM pay_refunds; UPDATE pay_payments SET refunded = 0, given_back = 0")
        .await;
    let made = shop.refund(&payment, "R1", "58.80").await.is(201);
    assert_eq!((&made["status"], &made["amount"]), (&json!("done"), &json!("58.80")));
    assert_eq!(stage.channel.trade(&payment).await.refunded_fen, 8880);
    let shown = shop.payment(&payment).await;
    assert_eq!(shown["refunded"], "88.80", "nothing is left");
    shop.benefits_become(&payment, "revoked").await;
    stage.audit().await;
}
