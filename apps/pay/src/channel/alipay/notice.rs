//! Notices: first verified, then read, and read only from what was verified.
//!
//! Two variants are in use: `trade_status_sync` leaves `sign_type` out of the signed text, others
//! keep it; some senders keep empty values, some drop them. Every variant needs the channel's
//! signature, so trying them all weakens nothing.

use encoding_rs::{Encoding, GB18030, GBK, UTF_8};

use super::{
    account::Account,
    answer::{CURRENCY, trade_status},
    form::Form,
    key::Verifier,
};
use crate::{
    beijing::Moment,
    channel::{Event, Mismatch, Notice, Received, Refused, TradeStatus, Untrusted},
    money::{Amount, Sum},
};

/// No id or number of Alipay's is longer; theirs have 64 at most.
const ID_BYTES_MAX: usize = 128;

/// All parameters of a notice that are known today.
///
/// The signed text joins `key=value` without escaping, so `a=1` and `b=2` could be passed off as
/// one value `1&b=2` under the same signature. A value that holds one of these is such a case.
const KNOWN: &[&str] = &[
    "app_id",
    "auth_app_id",
    "bank_ack_time",
    "body",
    "buyer_id",
    "buyer_logon_id",
    "buyer_open_id",
    "buyer_pay_amount",
    "charset",
    "dback_amount",
    "dback_status",
    "fund_bill_list",
    "gmt_close",
    "gmt_create",
    "gmt_payment",
    "gmt_refund",
    "invoice_amount",
    "notify_id",
    "notify_time",
    "notify_type",
    "out_biz_no",
    "out_trade_no",
    "passback_params",
    "point_amount",
    "receipt_amount",
    "refund_fee",
    "seller_email",
    "seller_id",
    "send_back_fee",
    "sign",
    "sign_type",
    "subject",
    "total_amount",
    "trade_no",
    "trade_status",
    "version",
    "voucher_detail_list",
];

pub(super) fn verify(received: Received<'_>, account: &Account) -> Result<Notice, Refused> {
    let form = authentic(received, account.verifier()).map_err(Refused::Untrusted)?;
    read(&form, account)
}

/// The parameters of a body that the channel signed.
fn authentic(received: Received<'_>, verifier: &Verifier) -> Result<Form, Untrusted> {
    if received.query.is_some_and(|query| !query.is_empty()) {
        return Err(Untrusted::QueryString);
    }
    let form = Form::parse(received.body)?;
    charset(&form)?;
    if form.bytes("sign_type") != Some(b"RSA2") {
        return Err(Untrusted::OtherAlgorithm);
    }
    if let (Some(pinned), Some(named)) = (verifier.pinned_serial(), form.bytes("alipay_cert_sn"))
        && named != pinned.as_bytes()
    {
        return Err(Untrusted::OtherCertificate);
    }
    let signature = repaired(form.bytes("sign").unwrap_or_default());
    let signed = |(left_out, empty): &Variant| {
        verifier.key().verifies(&signed_text(&form, left_out, *empty), &signature)
    };
    if variants(&form).iter().any(signed) { Ok(form) } else { Err(Untrusted::Forged) }
}

/// A signature whose `+` a relay forgot to escape; base64 has no blanks.
fn repaired(signature: &[u8]) -> Vec<u8> {
    signature.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect()
}

/// Parameters that the signed text leaves out, and what becomes of empty values.
type Variant = (&'static [&'static str], Empty);

#[derive(Clone, Copy)]
enum Empty {
    Kept,
    Dropped,
}

/// The variants that make a difference to `form`, likeliest first.
fn variants(form: &Form) -> Vec<Variant> {
    let mut left_out: Vec<&[&str]> = vec![&["sign", "sign_type"], &["sign"]];
    if form.bytes("alipay_cert_sn").is_some() {
        left_out.push(&["sign", "sign_type", "alipay_cert_sn"]);
        left_out.push(&["sign", "alipay_cert_sn"]);
    }
    let mut empty = vec![Empty::Kept];
    if form.pairs().any(|(_, value)| value.is_empty()) {
        empty.push(Empty::Dropped);
    }
    left_out.iter().flat_map(|names| empty.iter().map(|empty| (*names, *empty))).collect()
}

fn signed_text(form: &Form, left_out: &[&str], empty: Empty) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in form.pairs() {
        let dropped = matches!(empty, Empty::Dropped) && value.is_empty();
        if dropped || left_out.iter().any(|name| name.as_bytes() == key) {
            continue;
        }
        if !text.is_empty() {
            text.push(b'&');
        }
        text.extend_from_slice(key);
        text.push(b'=');
        text.extend_from_slice(value);
    }
    text
}

fn read(form: &Form, account: &Account) -> Result<Notice, Refused> {
    let Some(notify_id) = id(form, "notify_id") else {
        return Err(Refused::Untrusted(Untrusted::NotANotice));
    };
    if form.bytes("notify_type").is_none() || form.bytes("trade_status").is_none() {
        return Err(Refused::Untrusted(Untrusted::NotANotice));
    }
    told(form, account)
        .map_err(|mismatch| Refused::Quarantined { notify_id: notify_id.to_owned(), mismatch })
}

fn told(form: &Form, account: &Account) -> Result<Notice, Mismatch> {
    addressed(form, account)?;
    let status = form.text("trade_status").and_then(trade_status).ok_or(Mismatch::Status)?;
    let fit = |name| id(form, name).map(str::to_owned).ok_or(Mismatch::Field(name));
    let money = Money::read(form)?;
    Ok(Notice {
        notify_id: fit("notify_id")?,
        payment_no: fit("out_trade_no")?,
        trade_no: fit("trade_no")?,
        event: money.event(status, form)?,
        amount: money.amount,
        refunded: money.refunded,
        refund_no: id(form, "out_biz_no").map(str::to_owned),
        paid_at: form.text("gmt_payment").and_then(|text| Moment::parse_beijing(text).ok()),
        subject: shown(form, "subject"),
    })
}

/// Refuses a notice that can be read in two ways, or is not for us.
fn addressed(form: &Form, account: &Account) -> Result<(), Mismatch> {
    if let Some(name) = form.pairs().find_map(|(_, value)| hidden_in(value)) {
        return Err(Mismatch::Hidden(name));
    }
    if form.text("notify_type") != Some("trade_status_sync") {
        return Err(Mismatch::Kind);
    }
    if form.text("app_id") != Some(&account.app_id) {
        return Err(Mismatch::App);
    }
    if form.text("seller_id") != Some(&account.seller_id) {
        return Err(Mismatch::Seller);
    }
    Ok(())
}

/// The known parameter whose text stands inside `value`.
pub(super) fn hidden_in(value: &[u8]) -> Option<&'static str> {
    let mut starts = value.split(|byte| *byte == b'&').skip(1);
    let names = |start: &[u8], name: &str| {
        start.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    starts.find_map(|start| KNOWN.iter().copied().find(|name| names(start, name)))
}

/// The amounts that decide.
struct Money {
    amount: Amount,
    refunded: Sum,
}

impl Money {
    fn read(form: &Form) -> Result<Self, Mismatch> {
        let unreadable = |name| move |_| Mismatch::Field(name);
        let amount = form.text("total_amount").unwrap_or_default();
        let amount = Amount::parse(amount, CURRENCY).map_err(unreadable("total_amount"))?;
        let refunded = match form.bytes("refund_fee") {
            Some(fee) => Sum::parse(&String::from_utf8_lossy(fee), CURRENCY)
                .map_err(unreadable("refund_fee"))?,
            None => Sum::ZERO,
        };
        Ok(Self { amount, refunded })
    }

    /// What happened, by status and amounts. That `refund_fee` or `gmt_close` is *there* proves
    /// nothing: Alipay's own example of a payment has both.
    fn event(&self, status: TradeStatus, form: &Form) -> Result<Event, Mismatch> {
        if self.refunded > Sum::from(self.amount) {
            return Err(Mismatch::RefundAbovePayment);
        }
        let about_refund = ["gmt_refund", "out_biz_no"].iter().any(|n| form.bytes(n).is_some());
        match (self.refunded.amount(), status) {
            (Some(refunded), _) if refunded == self.amount => Ok(Event::RefundedInFull),
            (Some(_), _) => Ok(Event::RefundedInPart),
            (None, _) if about_refund => Err(Mismatch::RefundWithoutAmount),
            (None, TradeStatus::Waiting) => Ok(Event::Waiting),
            (None, TradeStatus::Paid) => Ok(Event::Paid),
            (None, TradeStatus::Finished) => Ok(Event::Finished),
            (None, TradeStatus::Closed) => Ok(Event::Closed),
        }
    }
}

/// A value that may serve as a key: short and of visible ASCII.
fn id<'a>(form: &'a Form, name: &str) -> Option<&'a str> {
    form.text(name)
        .filter(|text| text.len() <= ID_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic()))
}

/// The charset that the notice names; UTF-8 if it names none.
///
/// The channel writes UTF-8 or GBK. In another charset people would be shown other text.
fn charset(form: &Form) -> Result<&'static Encoding, Untrusted> {
    let Some(label) = form.bytes("charset") else { return Ok(UTF_8) };
    Encoding::for_label(label)
        .filter(|charset| [UTF_8, GBK, GB18030].contains(charset))
        .ok_or(Untrusted::ForeignCharset)
}

/// A value for people to read.
fn shown(form: &Form, name: &str) -> String {
    let charset = charset(form).unwrap_or(UTF_8);
    charset.decode(form.bytes(name).unwrap_or_default()).0.into_owned()
}
