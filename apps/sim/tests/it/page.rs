//! The page behind a code.

use serde_json::json;

use crate::client::Call;
use crate::shop::{Notice, Shop};
use crate::stage::Stage;

async fn read(stage: &Stage, url: &str) -> (u16, String) {
    let response = stage.http.get(url).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn press(stage: &Stage, url: &str) -> u16 {
    stage.http.post(url).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_buyer_can_scan_and_pay_with_plain_forms() {
    let stage = Stage::open().await;
    let shop = Shop::open(vec![]).await;
    let page = stage.precreate("T1", Some(&shop)).await["qr_code"].as_str().unwrap().to_owned();
    let (status, html) = read(&stage, &page).await;
    assert_eq!(status, 200);
    assert!(html.contains("<svg ") && html.contains("nobody scanned it"), "{html}");
    assert!(html.contains("<form method=\"post\"") && !html.contains("<script"), "{html}");

    assert_eq!(press(&stage, &format!("{page}/scan")).await, 303);
    assert!(read(&stage, &page).await.1.contains("WAIT_BUYER_PAY"));
    assert_eq!(press(&stage, &format!("{page}/pay")).await, 303);
    shop.received(1).await;
    stage.totals_reach("the acknowledgement", |totals| totals.notices_acked == 1).await;
    let (_, html) = read(&stage, &page).await;
    assert!(html.contains("Paid.") && !html.contains("<svg "), "{html}");
    assert!(html.contains("<td>Success<td>200 success"), "the delivery is listed: {html}");

    assert_eq!(press(&stage, &format!("{page}/pay")).await, 409, "it is paid already");
}

#[tokio::test]
async fn nothing_from_outside_becomes_markup() {
    let stage = Stage::open().await;
    let biz = json!({
        "out_trade_no": "T1", "total_amount": "1", "subject": "<img src=x onerror=alert(1)>\"'&",
    });
    let created = stage.call("alipay.trade.precreate", &biz).await;
    let url = created["qr_code"].as_str().unwrap();
    let response = stage.http.get(url).send().await.unwrap();
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let html = response.text().await.unwrap();
    assert!(!html.contains("<img") && html.contains("&lt;img src=x"), "{html}");
    assert!(!html.contains("style=") && !html.contains("http-equiv=\"refresh\" content=\"0"));
    let css = stage.http.get(stage.url("/qr/style.css")).send().await.unwrap();
    assert_eq!(css.headers()["content-type"], "text/css; charset=utf-8");
}

#[tokio::test]
async fn a_page_that_does_not_exist_says_so() {
    let stage = Stage::open().await;
    let (status, html) = read(&stage, &stage.url("/qr/0123")).await;
    assert!(status == 404 && html.contains("No such code"));
    assert_eq!(press(&stage, &stage.url("/qr/0123/pay")).await, 404);
    assert_eq!(read(&stage, &stage.url("/")).await.0, 404);
}

#[tokio::test]
async fn page_pay_leads_the_browser_to_the_checkout_and_back() {
    let stage = Stage::open().await;
    for (method, product, number) in [
        ("alipay.trade.page.pay", "FAST_INSTANT_TRADE_PAY", "T1"),
        ("alipay.trade.wap.pay", "QUICK_WAP_WAY", "T2"),
    ] {
        let biz = json!({
            "out_trade_no": number, "total_amount": "1.00", "subject": "tea",
            "product_code": product,
        });
        let call = Call::new(method, &biz).with("return_url", "https://shop.example/back?a=1");
        let url = stage.url(&format!("/gateway.do?{}", call.signed().wire()));
        let response = stage.http.get(url).send().await.unwrap();
        assert_eq!(response.status(), 303);
        let page = response.headers()["location"].to_str().unwrap().to_owned();
        assert!(!read(&stage, &page).await.1.contains("shop.example"), "not before it is paid");
        press(&stage, &format!("{page}/pay")).await;
        let html = read(&stage, &page).await.1;
        let link = html.split("<a href=\"").nth(1).unwrap().split('"').next().unwrap();
        let link = link.replace("&amp;", "&");
        let query = link.strip_prefix("https://shop.example/back?a=1&").unwrap();
        let back = Notice { raw: query.as_bytes().to_vec() };
        assert!(back.is_genuine(), "signed as notices are");
        assert_eq!(back.text("method"), format!("{method}.return"));
        assert_eq!(
            (back.text("out_trade_no"), back.text("total_amount")),
            (number.to_owned(), "1.00".to_owned())
        );
        for name in ["notify_id", "notify_type", "trade_status"] {
            assert!(!back.names().contains(&name.to_owned()), "{name}");
        }
    }
}

#[tokio::test]
async fn a_refused_page_call_shows_a_page() {
    let stage = Stage::open().await;
    let biz = json!({"out_trade_no": "T1", "total_amount": "1.00", "subject": "<b>tea"});
    let call = Call::new("alipay.trade.page.pay", &biz);
    let (status, body) = stage.send(&call.clone().signed()).await.unwrap();
    let html = String::from_utf8(body).unwrap();
    assert!(status == 400 && html.contains("ACQ.INVALID_PARAMETER"), "{html}");
    let (status, body) = stage.send(&call.with("sign", "AAAA")).await.unwrap();
    let html = String::from_utf8(body).unwrap();
    assert!(status == 400 && html.contains("isv.invalid-signature"), "{html}");
    assert!(html.contains("&lt;b&gt;tea") && !html.contains("<b>tea"), "{html}");
}
