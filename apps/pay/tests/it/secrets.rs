//! Nothing that prints shows a key or a signature.

use crate::stage::{alipay_key, app_key, key_text, notice_of, now, params, protocol, purchase};
use hapax_pay::channel::{
    Channel as _, Received, Way,
    alipay::{Alipay, Gateway, Params, Patience},
};

#[tokio::test]
async fn no_key_and_no_signature_is_printed() {
    let gateway = Gateway::new("http://127.0.0.1:9/", Patience::default()).unwrap();
    let channel = Alipay::new(protocol(), gateway);
    let frozen = channel.freeze_purchase(&purchase(Way::Page), now()).unwrap();
    let sign = params(&frozen).into_iter().find(|(name, _)| name == "sign").unwrap().1;
    let page = channel.prepare(&frozen).await;
    let body = notice_of(&[]);
    let received = Received { query: None, body: body.as_bytes() };
    let signed = Params::new().with("sign", &sign);

    let printed = format!(
        "{:?} {:?} {frozen:?} {page:?} {received:?} {signed:?} {channel:?}",
        app_key(),
        alipay_key(),
    );

    assert!(printed.contains("PrivateKey(***)"));
    let piece = sign.split(['+', '/', '=']).max_by_key(|piece| piece.len()).unwrap();
    assert!(!printed.contains(piece), "{printed}");
    for name in ["app_private_pkcs8", "app_private_pkcs1", "app_public", "alipay_public"] {
        for line in key_text(name).lines().filter(|line| !line.starts_with("-----")) {
            assert!(!printed.contains(line), "{name} is printed");
        }
    }
}
