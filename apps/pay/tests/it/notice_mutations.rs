//! Twenty thousand broken, forged and rearranged notices: no panic, and none of them believed.

use form_urlencoded::byte_serialize;

use crate::stage::{
    Dice, alipay_key, app_key, case, decoded_base64, notice_body, notice_of, paid_but, protocol,
    scratch, text,
};
use hapax_pay::channel::{
    Mismatch, Notice, Received, Refused,
    alipay::{PrivateKey, Protocol},
};

const SEED: u64 = 20_261_001;
const MUTATIONS: usize = 20_000;

#[test]
fn no_mutated_notice_is_believed() {
    let protocol = protocol();
    let forger = app_key();
    let originals = originals();
    let notices: Vec<_> = originals.iter().map(|body| judge(&protocol, body).unwrap()).collect();
    let mut dice = Dice::seeded(SEED);
    let (mut same, mut hidden, mut untrusted) = (0, 0, 0);

    for round in 0..MUTATIONS {
        let index = dice.below(originals.len());
        let original = &originals[index];
        let body = mutated(&mut dice, original, &originals, &forger);
        match judge(&protocol, &body) {
            Ok(notice) => {
                same += 1;
                let shown = String::from_utf8_lossy(&body);
                assert_eq!(meaning(&body), meaning(original), "seed {SEED}, {round}: {shown}");
                assert_eq!(notice, notices[index], "seed {SEED}, round {round}: {shown}");
            }
            Err(Refused::Quarantined { mismatch: Mismatch::Hidden(_), .. }) => hidden += 1,
            Err(Refused::Untrusted(_)) => untrusted += 1,
            Err(other) => panic!("seed {SEED}, round {round}: signed and judged {other:?}"),
        }
    }
    // Proof that the mutations reached each end: kept their meaning, hid a field, were forged.
    assert!(same > 500, "{same}");
    assert!(hidden > 200, "{hidden}");
    assert!(untrusted > 10_000, "{untrusted}");
}

#[test]
fn no_noise_is_believed() {
    let protocol = protocol();
    let mut dice = Dice::seeded(SEED);
    for _ in 0..MUTATIONS {
        let length = dice.below(300);
        let noise: Vec<u8> = (0..length).map(|_| dice.byte()).collect();
        assert!(judge(&protocol, &noise).is_err());
    }
}

fn judge(protocol: &Protocol, body: &[u8]) -> Result<Notice, Refused> {
    protocol.verify_notice(Received { query: None, body })
}

fn originals() -> Vec<Vec<u8>> {
    let published = ["notify_v1_utf8", "notify_v1_plus_as_space", "notify_v1_gbk"]
        .map(|name| text(case(name), "body").to_owned());
    let refund = notice_of(&[
        ("refund_fee", Some("8.03")),
        ("gmt_refund", Some("2026-10-01 09:00:00.123")),
        ("out_biz_no", Some("HPX_R_0001")),
    ]);
    let closed = notice_of(&[("trade_status", Some("TRADE_CLOSED")), ("gmt_payment", None)]);
    let keeping = notice_body(&alipay_key(), &paid_but(&[("body", Some(""))]), &[]);
    published.into_iter().chain([refund, closed, keeping]).map(String::into_bytes).collect()
}

/// What a body says to a reader who knows nothing of ours: its filled parameters, decoded.
/// `alipay_cert_sn` is no part of it: it names a certificate and stands outside the signature.
fn meaning(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs: Vec<_> = body
        .split(|byte| *byte == b'&')
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let value = decoded(pair.get(at + 1..).unwrap_or_default());
            (decoded(&pair[..at]), value)
        })
        .filter(|(key, value)| !value.is_empty() && key != b"alipay_cert_sn")
        .map(|(key, value)| {
            let sign = String::from_utf8_lossy(&value).replace(' ', "+");
            let value = if key == b"sign" { decoded_base64(&sign).unwrap() } else { value };
            (key, value)
        })
        .collect();
    pairs.sort();
    pairs
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let hex = text.get(at + 1..at + 3).and_then(|hex| str::from_utf8(hex).ok());
        match (text[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

fn mutated(
    dice: &mut Dice,
    original: &[u8],
    originals: &[Vec<u8>],
    forger: &PrivateKey,
) -> Vec<u8> {
    let mut body = original.to_vec();
    for _ in 0..=dice.below(2) {
        body = match dice.below(10) {
            0..3 => {
                scratch(dice, &mut body);
                body
            }
            3 => rearranged(dice, &body),
            4 => respelt(dice, &body),
            5 => merged(dice, &body),
            6 => changed(dice, &body),
            7 => resigned(dice, &body, originals, forger),
            8 => extended(dice, &body),
            _ => recharged(dice, &body),
        };
    }
    body
}

type Pair = (Vec<u8>, Vec<u8>);

fn pairs(body: &[u8]) -> Vec<Pair> {
    body.split(|byte| *byte == b'&')
        .map(|pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let mut next = || parts.next().unwrap_or_default().to_vec();
            (next(), next())
        })
        .collect()
}

fn joined(pairs: &[Pair]) -> Vec<u8> {
    let pairs: Vec<_> =
        pairs.iter().map(|(key, value)| [key.as_slice(), b"=", value].concat()).collect();
    pairs.join(&b'&')
}

/// Another order; the same meaning.
fn rearranged(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let mut pairs = pairs(body);
    for last in (1..pairs.len()).rev() {
        pairs.swap(last, dice.below(last + 1));
    }
    joined(&pairs)
}

/// A value with every byte spelt as `%XX`; the same meaning.
fn respelt(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let mut pairs = pairs(body);
    let at = dice.below(pairs.len());
    pairs[at].1 =
        decoded(&pairs[at].1).iter().flat_map(|b| format!("%{b:02x}").into_bytes()).collect();
    joined(&pairs)
}

/// Two parameters that are neighbours in the signed text passed off as one.
fn merged(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let mut pairs = pairs(body);
    let outside = |key: &[u8]| key == b"sign" || key == b"sign_type";
    pairs.sort();
    let at = dice.below(pairs.len());
    let next = (at + 1) % pairs.len();
    if at + 1 == pairs.len() || outside(&pairs[at].0) || outside(&pairs[next].0) {
        return joined(&pairs);
    }
    let (key, value) = pairs.remove(next);
    pairs[at].1.extend([b"%26".as_slice(), &key, b"%3D", &value].concat());
    joined(&pairs)
}

/// A parameter gone, doubled, or with the value of another.
fn changed(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let mut pairs = pairs(body);
    let (at, other) = (dice.below(pairs.len()), dice.below(pairs.len()));
    match dice.below(3) {
        0 => drop(pairs.remove(at)),
        1 => pairs.push(pairs[at].clone()),
        _ => pairs[at].1 = pairs[other].1.clone(),
    }
    joined(&pairs)
}

/// Another signature: none, a piece, that of another notice, or one by another key.
fn resigned(dice: &mut Dice, body: &[u8], originals: &[Vec<u8>], forger: &PrivateKey) -> Vec<u8> {
    let sign = match dice.below(4) {
        0 => Vec::new(),
        1 => b"AAAA".to_vec(),
        2 => {
            let other = pairs(&originals[dice.below(originals.len())]);
            other.into_iter().find(|(key, _)| key == b"sign").map(|(_, sign)| sign).unwrap()
        }
        _ => byte_serialize(forger.sign(body).unwrap().as_bytes()).collect::<String>().into(),
    };
    let mut pairs = pairs(body);
    pairs.retain(|(key, _)| key != b"sign");
    pairs.push((b"sign".to_vec(), sign));
    joined(&pairs)
}

/// A parameter more, at times an empty one, which means nothing.
fn extended(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let keys = ["refund_fee", "gmt_refund", "extra", "a", "zz", "alipay_cert_sn", "total_amount"];
    let values = ["", "", "0.01", "88.80", "x%26y%3Dz"];
    [body, b"&", dice.pick(&keys).as_bytes(), b"=", dice.pick(&values).as_bytes()].concat()
}

/// Another charset, algorithm, status or amount.
fn recharged(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let changes: [(&[u8], &[u8]); 8] = [
        (b"charset", b"GBK"),
        (b"charset", b"utf-16"),
        (b"charset", b"utf-8"),
        (b"sign_type", b"RSA"),
        (b"sign_type", b"none"),
        (b"trade_status", b"TRADE_SUCCESS"),
        (b"total_amount", b"0.01"),
        (b"total_amount", b"88.8"),
    ];
    let (key, value) = dice.pick(&changes);
    let mut pairs = pairs(body);
    for pair in pairs.iter_mut().filter(|(name, _)| name == key) {
        pair.1 = value.to_vec();
    }
    joined(&pairs)
}
