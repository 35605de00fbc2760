//! Twenty thousand broken and rearranged answers, half of them to a query and half to a close:
//! no panic, and none of them believed.

use crate::stage::{Dice, app_key, case, now, payment_no, protocol, scratch, signed_answer, text};
use hapax_pay::channel::{Call, Meaning, Refusal, TradeSeen};

const SEED: u64 = 20_261_002;
const MUTATIONS: usize = 10_000;

#[test]
fn no_mutated_answer_is_believed() {
    let protocol = protocol();
    let frozen = protocol.freeze_query(&payment_no(), now()).unwrap();
    let original = case("response_query_paid");
    let truth = protocol.read_query(&frozen, text(original, "raw").as_bytes());
    assert!(matches!(truth, Call::Done(TradeSeen::Found(_))));
    let mut dice = Dice::seeded(SEED);
    let (mut same, mut unknown) = (0, 0);

    for round in 0..MUTATIONS {
        let raw = mutated(&mut dice, text(original, "raw"), text(original, "signed"));
        match protocol.read_query(&frozen, &raw) {
            Call::Unknown(_) => unknown += 1,
            believed => {
                same += 1;
                assert_eq!(believed, truth, "seed {SEED}, {round}: {}", shown(&raw));
            }
        }
    }
    assert!(same > 500, "{same}");
    assert!(unknown > 5_000, "{unknown}");
}

#[test]
fn no_mutated_refusal_is_believed() {
    let protocol = protocol();
    let frozen = protocol.freeze_close(&payment_no(), now()).unwrap();
    let original = case("response_close_status_error");
    let truth = protocol.read_close(&frozen, text(original, "raw").as_bytes());
    assert!(matches!(truth, Call::Refused(Refusal { meaning: Meaning::Ask, .. })));
    let mut dice = Dice::seeded(SEED);

    for round in 0..MUTATIONS {
        let raw = mutated(&mut dice, text(original, "raw"), text(original, "signed"));
        match protocol.read_close(&frozen, &raw) {
            Call::Unknown(_) => {}
            believed => assert_eq!(believed, truth, "seed {SEED}, {round}: {}", shown(&raw)),
        }
    }
}

fn shown(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

fn mutated(dice: &mut Dice, raw: &str, signed: &str) -> Vec<u8> {
    let mut out = raw.to_owned().into_bytes();
    for _ in 0..=dice.below(2) {
        match dice.below(8) {
            0..3 => scratch(dice, &mut out),
            3 => loosened(dice, &mut out),
            4 => extended(dice, &mut out),
            5 => out = swapped(dice, &shown(&out)).into_bytes(),
            6 => out = shown(&out).replace(signed, &rewritten(dice, signed)).into_bytes(),
            _ => out = forged(dice, raw, signed),
        }
    }
    out
}

/// Blanks where JSON allows them outside the node; the same meaning.
fn loosened(dice: &mut Dice, raw: &mut Vec<u8>) {
    let blank = *dice.pick(b" \n\t");
    let after_colon = raw.iter().position(|byte| *byte == b':').map_or(0, |at| at + 1);
    let at = *dice.pick(&[0, raw.len(), after_colon]);
    raw.insert(at, blank);
}

/// One more member in front or behind.
fn extended(dice: &mut Dice, raw: &mut Vec<u8>) {
    let members = [
        r#""extra":1"#,
        r#""sign":"AAAA""#,
        r#""error_response":{"code":"40004"}"#,
        r#""alipay_trade_query_response":{"code":"10000","total_amount":"0.01"}"#,
        r#""alipay_trade_close_response":{"code":"10000"}"#,
    ];
    let member = dice.pick(&members);
    if dice.below(2) == 0 {
        let at = usize::from(!raw.is_empty());
        raw.splice(at..at, format!("{member},").into_bytes());
    } else {
        raw.pop();
        raw.extend(format!(",{member}}}").into_bytes());
    }
}

/// Pieces of text exchanged, of the kind a forger would like.
fn swapped(dice: &mut Dice, raw: &str) -> String {
    let (from, to) = dice.pick(&[
        ("88.80", "0.01"),
        ("TRADE_SUCCESS", "TRADE_CLOSED"),
        ("HPX_0001", "HPX_0002"),
        ("ACQ.TRADE_STATUS_ERROR", "ACQ.TRADE_NOT_EXIST"),
        ("40004", "10000"),
        ("\"sign\"", "\"sing\""),
        ("\\/", "/"),
    ]);
    raw.replacen(from, to, 1)
}

/// The same JSON value in other text, which the signature does not cover.
fn rewritten(dice: &mut Dice, signed: &str) -> String {
    match dice.below(3) {
        0 => format!("{signed} "),
        1 => signed.replacen(':', ": ", 1),
        _ => signed.replacen("\"code\"", "\"c\\u006fde\"", 1),
    }
}

/// The whole answer signed anew by somebody else.
fn forged(dice: &mut Dice, raw: &str, signed: &str) -> Vec<u8> {
    let (node, _) = raw[2..].split_once('"').unwrap();
    let content = if dice.below(2) == 0 { signed.to_owned() } else { swapped(dice, signed) };
    signed_answer(&app_key(), node, &content).into_bytes()
}
