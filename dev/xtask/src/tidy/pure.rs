//! The deciding modules compute; they do no I/O, read no clock and are not async.

use super::finding::Finding;
use super::lexer::Kind;
use super::rust::Source;
use super::tree::Tree;

/// Modules that only compute, by crate.
const PURE: &[(&str, &str)] =
    &[("hapax-core", "decide"), ("hapax-core", "record"), ("hapax-pay", "payment")];
/// Words that no computation needs.
const IMPURE: &[&str] = &[
    "Instant",
    "SystemTime",
    "async",
    "await",
    "fs",
    "getrandom",
    "net",
    "process",
    "reqwest",
    "sqlx",
    "thread",
    "tokio",
];
/// Modules of this crate that take `&mut Tx` run inside a database transaction.
const TRANSACTIONAL: &str = "hapax-pay";
/// What must not be called while a transaction holds its locks.
const OUTSIDE: &[&str] = &["TcpStream", "UdpSocket", "hyper", "redis", "reqwest"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, module) in PURE {
        let Some(member) = tree.graph.member(name) else { continue };
        let (file, folder) =
            (format!("{}/src/{module}.rs", member.dir), format!("{}/src/{module}/", member.dir));
        let mut seen = false;
        for (path, source) in tree.sources().filter(|(p, _)| *p == file || p.starts_with(&folder)) {
            seen = true;
            let told = |word: &str| format!("`{word}` in a module that only computes: move it out");
            findings.extend(words(path, source, IMPURE, told));
        }
        if !seen {
            let message = format!("is gone: {name} decides in the pure module `{module}`");
            findings.push(Finding::new(&file, 1, message));
        }
    }
    if let Some(member) = tree.graph.member(TRANSACTIONAL) {
        let held = tree.sources().filter(|(path, source)| member.holds(path) && takes_tx(source));
        for (path, source) in held {
            let told = |word: &str| format!("`{word}` in a module that runs inside a transaction");
            findings.extend(words(path, source, OUTSIDE, told));
        }
    }
    findings
}

fn words(
    path: &str,
    source: &Source,
    banned: &[&str],
    told: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let code = source.code.iter().filter(|code| !code.in_test && code.token.kind == Kind::Word);
    code.filter(|code| banned.contains(&code.token.text.as_str()))
        .map(|code| Finding::new(path, code.token.line, told(&code.token.text)))
        .collect()
}

fn takes_tx(source: &Source) -> bool {
    let all = 0..source.code.len();
    all.into_iter().any(|at| source.reads(at, &["&", "mut", "Tx"]))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("lib/core/src/decide.rs", ""), ("lib/core/src/record.rs", "")];
        all.extend_from_slice(files);
        let graph = members(&[("hapax-core", "lib/core", &[]), ("hapax-pay", "apps/pay", &[])]);
        places(&find(&Tree::of(&all).with(graph)))
    }

    #[test]
    fn modules_that_only_compute_pass() {
        let payment = "// async is a word\nfn apply(now: u64) -> &'static str { \"async\" }\n\
            #[cfg(test)]\nmod tests { async fn f() {} }\n";
        assert!(found(&[("apps/pay/src/payment.rs", payment)]).is_empty());
        assert!(found(&[("apps/pay/src/payment/apply.rs", payment)]).is_empty());
    }

    #[test]
    fn a_clock_or_an_await_in_a_deciding_module_is_found() {
        let payment =
            "fn apply() {\n  let now = std::time::SystemTime::now();\n}\nasync fn f() {}\n";
        let expected = ["apps/pay/src/payment.rs:2", "apps/pay/src/payment.rs:4"];
        assert_eq!(found(&[("apps/pay/src/payment.rs", payment)]), expected);
    }

    #[test]
    fn a_deciding_module_that_is_gone_is_found() {
        assert_eq!(found(&[]), ["apps/pay/src/payment.rs:1"]);
    }

    #[test]
    fn a_network_call_in_a_transaction_module_is_found() {
        let db = "use reqwest::Client;\nfn f(tx: &mut Tx<Sqlite>) {}\n";
        let files = [("apps/pay/src/payment.rs", ""), ("apps/pay/src/db/orders.rs", db)];
        assert_eq!(found(&files), ["apps/pay/src/db/orders.rs:1"]);

        let flow = "use reqwest::Client;\nfn f(mut tx: Tx<Sqlite>) {}\n";
        let files = [("apps/pay/src/payment.rs", ""), ("apps/pay/src/flow.rs", flow)];
        assert!(found(&files).is_empty());
    }
}
