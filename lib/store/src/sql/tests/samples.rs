//! A value for each placeholder of each statement, as they come in production.

use bytes::Bytes;

use crate::sql::dialect::Bind;

const CLAIMS: &str = r#"[{"id":"{id}","nonce":"{nonce}","scope":"tenant","tenant":"shop",
"subject":"","operation":"shop.order","key":"1001","class":1,"prints":"","lease":15000,
"retake_after":0,"attempts_max":5,"caller":"worker"}]"#;
const STEPS: &str = r#"[{"id":"{id}","epoch":1,"nonce":"{nonce}","bytes":"00","lease":15000,
"keep":1,"grace":1,"memory":1,"actor":"worker","note":""}]"#;

fn json(text: &str) -> Bind {
    Bind::Text(text.replace("{id}", &"ab".repeat(32)).replace("{nonce}", &"cd".repeat(16)))
}

fn octets(count: usize) -> Bind {
    Bind::Bytes(Bytes::from(vec![0xAB; count]))
}

/// Rows and age of a purge that finds a few.
const PURGE: [Bind; 2] = [Bind::Int(1000), Bind::Int(0)];

/// The values of the statement that is called so; `None` for one that only reads the clock, counts
/// whole tables or asks for the schema.
pub(in crate::sql) fn binds(name: &str) -> Option<Vec<Bind>> {
    let (id, token) = (|| octets(16), || octets(16));
    let page = |status: Option<&str>| {
        let status = Bind::MaybeText(status.map(str::to_owned));
        vec![octets(32), Bind::Int(0), Bind::Int(101), Bind::MaybeText(None), status]
    };
    Some(match name {
        "CLAIM_INSERT" | "CLAIM_REUSE" | "CLAIM_RETAKE" => vec![json(CLAIMS)],
        "RENEW" | "CHECKPOINT" | "COMPLETE" | "DOUBT" | "RELEASE" | "SETTLE_COMPLETED"
        | "SETTLE_OPEN" => vec![json(STEPS)],
        "LOOK" => vec![json(r#"["{id}"]"#)],
        "SCAN" => page(None),
        "SCAN_UNFINISHED" => page(Some("running")),
        "HISTORY" => vec![octets(32), Bind::Int(1000)],
        "OUTBOX_SEND" => {
            vec![id(), Bind::from("order.paid"), Bind::from("1001"), octets(9), Bind::Int(0)]
        }
        "OUTBOX_DUE" => Vec::new(),
        "OUTBOX_CLAIM" => vec![Bind::Int(100), Bind::Int(30_000), token()],
        "OUTBOX_ACK" => vec![id(), token()],
        "OUTBOX_RETRY" => vec![id(), token(), Bind::Int(1000), Bind::Int(1)],
        "OUTBOX_BURY" => vec![id(), token(), Bind::from("gone")],
        "OUTBOX_REPLAY" => vec![id(), Bind::from("operator"), Bind::from("fixed")],
        "OUTBOX_JOURNAL" => vec![id(), Bind::Int(1000)],
        "OUTBOX_LETTER" => vec![id()],
        "OUTBOX_LETTERS" | "OUTBOX_BURIED" => vec![Bind::Int(0), Bind::Int(100)],
        "PURGE"
        | "JOURNAL_PURGE"
        | "OUTBOX_PURGE"
        | "OUTBOX_JOURNAL_PURGE"
        | "INBOX_PURGE"
        | "LOCK_PURGE" => PURGE.to_vec(),
        "INBOX_ONCE" => vec![Bind::from("benefit"), id()],
        "LOCK_LOOK" => vec![octets(32)],
        "LOCK_ACQUIRE" | "LOCK_RENEW" => vec![octets(32), token(), Bind::Int(10_000)],
        "LOCK_RELEASE" => vec![octets(32), token()],
        "TRANSITION_WRITE" => {
            let words = ["payment", "pay_1", "created", "paid", "moved", "worker"];
            let mut binds: Vec<Bind> = words.map(Bind::from).into();
            binds.insert(2, Bind::Int(1));
            binds
        }
        "TRANSITIONS" => {
            vec![Bind::from("payment"), Bind::from("pay_1"), Bind::Int(0), Bind::Int(100)]
        }
        "NOW" | "OUTBOX_DEPTH" | "SCHEMA_EXISTS" | "SCHEMA_APPLIED" => return None,
        other => panic!("{other} is a statement without values"),
    })
}
