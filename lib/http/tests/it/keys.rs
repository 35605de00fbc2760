//! The key header in all the forms in which it comes.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request};
use tower::ServiceExt;

use crate::{
    site::{Plan, Site, answer},
    wire::Ask,
};
use hapax_core::Effect;
use hapax_http::{
    KeyRule,
    header::{IDEMPOTENCY_KEY, IDEMPOTENT_TOKEN},
};

async fn site(
    change: impl FnOnce(hapax_http::IdempotencyLayer) -> hapax_http::IdempotencyLayer + 'static,
) -> Site {
    Plan::new(Effect::Opaque)
        .layer(change)
        .serve(|effects, _| async move { answer(201, format!("run {}", effects.happen())) })
        .await
}

/// Sends lines as bytes, also such as no HTTP client would send; `None` is "not accepted".
async fn run_of(site: &Site, lines: &[&[u8]]) -> Option<String> {
    let mut request = Request::post("/work").header("authorization", "shop/ann");
    for line in lines {
        request = request.header(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).ok()?);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = site.router.clone().oneshot(request).await.unwrap();
    let is_fresh_or_replay = response.status() == 201;
    assert!(is_fresh_or_replay || response.status() == 400, "{lines:?}: {}", response.status());
    let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
    is_fresh_or_replay.then(|| String::from_utf8_lossy(&body).into_owned())
}

/// Forms of a key, and the text that they all stand for.
const READ: &[(&[u8], &str)] = &[
    (b"k", "k"),
    (b"\"k\"", "k"),
    (b" k ", "k"),
    (b" \"k\" ", "k"),
    (b"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
    (b"\"8e03978e-40d5-43e8-bc93-6894a57f9324\"", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
    (b"123", "123"),
    (b"\"123\"", "123"),
    (b"K", "K"),
    (b"a/b?c#d%20", "a/b?c#d%20"),
    (b"a+b=c==", "a+b=c=="),
    (b":YWJj:", ":YWJj:"),
    (b"?1", "?1"),
    (b"\"a,b\"", "a,b"),
    (b"\"a;b\"", "a;b"),
    (b"\"a\\\"b\"", "a\"b"),
    (b"\"a\\\\b\"", "a\\b"),
    (b"a\\b", "a\\b"),
    (b"'k'", "'k'"),
];

/// Lines that are no key.
const REFUSED: &[&[&[u8]]] = &[
    &[],
    &[b""],
    &[b" "],
    &[b"\"\""],
    &[b"\" \""],
    &[b"\"k"],
    &[b"k\""],
    &[b"\"k\"x"],
    &[b"\"k\";p"],
    &[b"\"k\";p=1"],
    &[b"k;p=1"],
    &[b"\"k\", \"l\""],
    &[b"\"k\",\"k\""],
    &[b"k,l"],
    &[b"k, k"],
    &[b"a b"],
    &[b"\"a b\""],
    &[b"a\tb"],
    &[b"\"a\\nb\""],
    &[b"caf\xc3\xa9"],
    &[b"\"caf\xc3\xa9\""],
    &[b"\xff"],
    &[b"k", b"k"],
    &[b"k", b"l"],
    &[b"\"k\"", b"k"],
];

/// Guards `key::parse`: without the branch for quotes, the checks for parameters and for commas,
/// or the count of lines in `key::read`, a row turns.
#[tokio::test]
async fn forty_forms_of_the_key_header() {
    let (long, too_long) = ("x".repeat(255), "x".repeat(256));
    let quoted = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"")
    };
    let (quoted_long, quoted_too_long) = (quoted(&long), quoted(&too_long));
    let mut read = READ.to_vec();
    read.extend([(long.as_bytes(), &*long), (quoted_long.as_bytes(), &*long)]);
    let mut refused = REFUSED.to_vec();
    let over = [too_long.as_bytes(), quoted_too_long.as_bytes()].map(|line| [line]);
    refused.extend(over.iter().map(|lines| &lines[..]));
    assert!(read.len() + refused.len() >= 40);

    let site = site(|layer| layer).await;
    for (line, text) in &read {
        let ran = run_of(&site, &[line]).await;
        assert!(ran.is_some(), "{text}");
        // The plain quoted spelling of the same text is the same key.
        assert_eq!(run_of(&site, &[quoted(text).as_bytes()]).await, ran, "{text}");
    }
    for lines in &refused {
        let shown: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        assert_eq!(run_of(&site, lines).await, None, "{shown:?}");
    }
    let distinct: BTreeSet<_> = read.iter().map(|(_, text)| text).collect();
    assert_eq!(site.effects.count(), distinct.len(), "each key ran once");
}

/// Guards the second `lines.next()` in `key::read`, which counts over all headers.
#[tokio::test]
async fn an_alias_is_the_same_key_and_both_together_are_refused() {
    let site = site(|layer| layer.key_headers([IDEMPOTENCY_KEY, IDEMPOTENT_TOKEN])).await;
    let ask = || Ask::post("/work").by("shop/ann");
    let first = ask().key("k-1").send(site.address).await;
    assert_eq!((first.status, first.line("idempotency-key")), (201, Some("k-1")));
    let alias = ask().line("idempotent-token", "\"k-1\"").send(site.address).await;
    assert!(alias.is_replay());
    assert_eq!(alias.line("idempotent-token"), Some("\"k-1\""), "echoed as it was sent");
    let both = ask().key("k-1").line("idempotent-token", "k-1").send(site.address).await;
    assert_eq!((both.status, both.code().as_str()), (400, "key_invalid"));
    assert_eq!(site.effects.count(), 1);
}

/// Guards `Settings::guards`.
#[tokio::test]
async fn methods_and_optional_keys_decide_what_is_guarded() {
    let required = site(|layer| layer).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        for _ in 0..2 {
            let answer = Ask::of(method, "/work").key("k-1").send_headless(required.address).await;
            assert_eq!(answer, 201, "{method} passes, with a key and without a caller");
        }
    }
    assert_eq!(required.effects.count(), 10);
    for method in ["POST", "PATCH"] {
        let refused = Ask::of(method, "/work").by("shop/ann").send(required.address).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "key_missing"), "{method}");
    }

    let optional = site(|layer| layer.key(KeyRule::Optional)).await;
    for _ in 0..2 {
        let answer = Ask::post("/work").send(optional.address).await;
        assert_eq!((answer.status, answer.line("idempotency-key")), (201, None));
    }
    assert_eq!(optional.effects.count(), 2, "without a key nothing is guarded");
    let refused = Ask::post("/work").key("k-1").send(optional.address).await;
    assert_eq!(refused.code(), "scope_required", "a key is never ignored");
}

/// Guards the name in `key::missing`.
#[tokio::test]
async fn a_missing_key_is_asked_for_by_the_operations_own_header() {
    let name = HeaderName::from_static("x-idempotency-key");
    let site = site(|layer| layer.key_headers([name]).key_bytes_min(8)).await;
    let refused = Ask::post("/work").by("shop/ann").key("ignored-header").send(site.address).await;
    assert_eq!(refused.code(), "key_missing");
    assert!(refused.text().contains("`x-idempotency-key`"), "{}", refused.text());
    let short = Ask::post("/work").by("shop/ann").line("x-idempotency-key", "1234567");
    let refused = short.send(site.address).await;
    assert_eq!(refused.code(), "key_invalid");
    assert!(!refused.text().contains("1234567"), "a problem never repeats a key");
}
