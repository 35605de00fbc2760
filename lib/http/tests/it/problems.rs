//! Every problem as it goes over the wire.

use axum::{Router, response::IntoResponse, routing::any};

use crate::{site::listen, wire::Ask};
use hapax_http::{Code, Idempotent, Problem};

/// Guards the table in `problem.rs`.
#[tokio::test]
async fn every_problem_is_as_documented() {
    let mut golden = Vec::new();
    for code in Code::ALL {
        let response = Problem::new(code).into_response();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(said["status"], status.as_u16(), "{code:?}");
        assert_eq!(headers.get("content-type").unwrap(), "application/problem+json");
        golden.push(String::from_utf8(body.to_vec()).unwrap());
    }
    insta::assert_snapshot!(golden.join("\n"));
}

/// Guards the table in the README against the one in the code.
#[test]
fn the_readme_names_every_code_of_the_wire_contract() {
    let readme = include_str!("../../README.md");
    // These two say that the service was put together wrongly, or are of the status routes.
    let elsewhere = ["not_guarded", "operation_unknown", "key_unknown", "answer_unreadable"];
    for code in Code::ALL.map(Code::as_str) {
        assert!(elsewhere.contains(&code) || readme.contains(&format!("`{code}`")), "{code}");
    }
}

/// A handler that counts on the layer does not run without it.
#[tokio::test]
async fn a_handler_outside_of_the_layer_says_so() {
    let guarded = async |_: Idempotent| "never";
    let either = async |turn: Option<Idempotent>| format!("{}", turn.is_some());
    let router = Router::new().route("/guarded", any(guarded)).route("/either", any(either));
    let (address, _server) = listen(router).await;
    let refused = Ask::post("/guarded").send(address).await;
    assert_eq!((refused.status, refused.code().as_str()), (500, "not_guarded"));
    assert_eq!(Ask::post("/either").send(address).await.text(), "false");
}
