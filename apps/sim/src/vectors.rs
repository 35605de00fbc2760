//! The test vectors, for unit tests.

use serde_json::Value;

pub(crate) fn key(name: &str) -> String {
    all()["keys"][name].as_str().expect("the vectors hold the key").to_owned()
}

pub(crate) fn case(name: &str) -> Value {
    let found = list().into_iter().find(|case| case["name"] == name);
    found.expect("the vectors hold the case")
}

pub(crate) fn cases(kind: &str) -> impl Iterator<Item = Value> {
    list().into_iter().filter(move |case| case["kind"] == kind)
}

fn list() -> Vec<Value> {
    all()["cases"].as_array().expect("the vectors hold a list").clone()
}

fn all() -> Value {
    let text = include_str!("../tests/vectors/payments.json");
    serde_json::from_str(text).expect("the vectors are JSON")
}
