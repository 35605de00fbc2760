//! What each method does and answers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::Call;
use super::response::Answer;
use crate::clock::{after, beijing, end_of_beijing_day, parse_beijing, parse_beijing_minute};
use crate::faults::{CloseRefusal, Method};
use crate::money::Fen;
use crate::trade::{Ask, Ending, Event, Pace, Phase, Refusal, Terms};
use crate::world::{Asked, NotShown, Opening, Product, Record, Repeat, Shown, TradeIx, World};

/// Lengths by the channel's papers.
const NUMBER_MAX: usize = 64;
const SUBJECT_MAX: usize = 256;
const BODY_MAX: usize = 128;
const PASSBACK_MAX: usize = 512;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a trade can be paid if the call does not say, and at most.
const EXPIRY_MAX: Duration = Duration::from_secs(15 * 24 * 60 * 60);

/// How long a code can be scanned if the call does not say.
const CODE_LIFE: Duration = Duration::from_secs(2 * 60 * 60);

/// What a call came to.
pub(super) enum Outcome {
    Answer(Answer),
    /// A page for the buyer's browser.
    Checkout(Shown),
    /// A code; the answer waits for the notices of `shown`.
    Code {
        answer: Answer,
        shown: Shown,
    },
}

/// The members of `biz_content` that any of the methods reads; others are ignored, as the channel
/// does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Biz<'a> {
    out_trade_no: Option<String>,
    trade_no: Option<String>,
    out_request_no: Option<String>,
    #[serde(borrow)]
    total_amount: Option<&'a RawValue>,
    #[serde(borrow)]
    refund_amount: Option<&'a RawValue>,
    subject: Option<String>,
    body: Option<String>,
    seller_id: Option<String>,
    product_code: Option<String>,
    passback_params: Option<String>,
    time_expire: Option<String>,
    timeout_express: Option<String>,
    qr_code_timeout_express: Option<String>,
}

/// The merchant's number of the trade that a call is about, if it can be told.
pub(super) fn out_trade_no(world: &World, call: &Call) -> Option<String> {
    let biz: Biz<'_> = serde_json::from_str(&call.biz).ok()?;
    let known = world.find(&asked(call, &biz)).and_then(|ix| world.record(ix));
    known.map(|record| record.out_trade_no.clone()).or(biz.out_trade_no)
}

/// Carries out a call. With `later`, a refund is done only after that time.
pub(super) fn carry_out(
    world: &mut World,
    call: &Call,
    later: Option<Duration>,
    now: Timestamp,
) -> Outcome {
    let biz: Biz<'_> = match serde_json::from_str(&call.biz) {
        Ok(biz) => biz,
        Err(error) => {
            let why = format!("biz_content不是合法的JSON对象: {error}");
            let sub_code = "isv.invalid-parameter".to_owned();
            return Outcome::Answer(Answer::invalid_argument(sub_code, why));
        }
    };
    match call.method {
        Method::Precreate | Method::PagePay | Method::WapPay => show(world, call, &biz, now),
        Method::Query => Outcome::Answer(query(world, call, &biz, now)),
        Method::Close => Outcome::Answer(close(world, call, &biz, now)),
        Method::Cancel => Outcome::Answer(cancel(world, call, &biz, now)),
        Method::Refund => Outcome::Answer(refund(world, call, &biz, later, now)),
        Method::RefundQuery => Outcome::Answer(refund_query(world, call, &biz)),
    }
}

fn show(world: &mut World, call: &Call, biz: &Biz<'_>, now: Timestamp) -> Outcome {
    let opening = match opening(call, biz, now) {
        Ok(opening) => opening,
        Err(why) => return Outcome::Answer(parameter(&why)),
    };
    let number = opening.out_trade_no.clone();
    // What nobody scanned yet can't start with its time already over.
    let known = world.by_out_trade_no(Some(&call.merchant.app_id), &number);
    let phase = known.and_then(|ix| world.record(ix)).map(|record| record.trade.phase);
    if matches!(phase, None | Some(Phase::Intent)) && opening.terms.expires_at <= now {
        return Outcome::Answer(parameter("time_expire已过"));
    }
    match world.show(opening, now) {
        Ok(shown) if call.method.is_page() => Outcome::Checkout(shown),
        Ok(shown) => {
            let code = world.page(&shown.token);
            let answer = Answer::done().with("out_trade_no", number).with("qr_code", code);
            Outcome::Code { answer, shown }
        }
        Err(NotShown::Refused(refusal)) => {
            Outcome::Answer(refused(refusal, call.method).with("out_trade_no", number))
        }
        Err(NotShown::Full) => {
            Outcome::Answer(Answer::unavailable("the simulator is full of trades; start it again"))
        }
    }
}

fn opening(call: &Call, biz: &Biz<'_>, now: Timestamp) -> Result<Opening, String> {
    let out_trade_no = number(biz.out_trade_no.as_deref(), "out_trade_no")?;
    if out_trade_no.contains('-') {
        return Err("out_trade_no只能有字母、数字和下划线".to_owned());
    }
    let total = amount(biz.total_amount, "total_amount")?;
    let subject = biz.subject.clone().filter(|subject| !subject.is_empty());
    let subject = subject.ok_or("缺少subject")?;
    let longest = [
        ("subject", Some(&subject), SUBJECT_MAX),
        ("body", biz.body.as_ref(), BODY_MAX),
        ("passback_params", biz.passback_params.as_ref(), PASSBACK_MAX),
    ];
    for (name, value, max) in longest {
        if value.is_some_and(|value| value.chars().count() > max) {
            return Err(format!("{name}超过{max}个字符"));
        }
    }
    if biz.seller_id.as_deref().is_some_and(|seller| seller != &*call.merchant.seller_id) {
        return Err("seller_id与签约商户不符".to_owned());
    }
    let product = product(call.method, biz.product_code.as_deref())?;
    let (scan_until, expires_at) = times(biz, product, now)?;
    Ok(Opening {
        app_id: Arc::clone(&call.merchant.app_id),
        seller_id: Arc::clone(&call.merchant.seller_id),
        out_trade_no,
        product,
        terms: Terms { total, subject, body: biz.body.clone(), scan_until, expires_at },
        charset: call.charset,
        notify_url: call.notify_url.clone(),
        return_url: call.return_url.clone(),
        passback: biz.passback_params.clone(),
    })
}

fn product(method: Method, code: Option<&str>) -> Result<Product, String> {
    let (product, codes): (_, &[_]) = match method {
        Method::PagePay => (Product::Page, &["FAST_INSTANT_TRADE_PAY"]),
        Method::WapPay => (Product::Wap, &["QUICK_WAP_WAY", "QUICK_WAP_PAY"]),
        _ => (Product::Precreate, &["FACE_TO_FACE_PAYMENT", "QR_CODE_OFFLINE"]),
    };
    match code {
        Some(code) if codes.contains(&code) => Ok(product),
        None if product == Product::Precreate => Ok(product),
        _ => Err(format!("product_code应为{}", codes.join("或"))),
    }
}

/// Until when the code can be scanned and the trade be paid.
fn times(
    biz: &Biz<'_>,
    product: Product,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), String> {
    let expires_at = match (&biz.time_expire, &biz.timeout_express) {
        (Some(text), _) => parse_beijing(text)
            .or_else(|| parse_beijing_minute(text).filter(|_| product == Product::Wap))
            .ok_or_else(|| format!("time_expire格式错误: {text}"))?,
        (None, Some(text)) => span(text, "timeout_express", now)?,
        (None, None) => after(now, EXPIRY_MAX),
    };
    if expires_at > after(now, EXPIRY_MAX) {
        return Err("最晚付款时间不能超过15天".to_owned());
    }
    let scan_until = match &biz.qr_code_timeout_express {
        Some(text) => span(text, "qr_code_timeout_express", now)?,
        None if product == Product::Precreate => after(now, CODE_LIFE),
        None => expires_at,
    };
    Ok((std::cmp::min(scan_until, expires_at), expires_at))
}

/// Reads `90m`, `2h`, `15d` or `1c` (the end of today).
fn span(text: &str, name: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong = || format!("{name}应为1m～15d或1c: {text}");
    if text == "1c" {
        return Ok(end_of_beijing_day(now));
    }
    let mut digits = text.chars();
    let unit = match digits.next_back() {
        Some('m') => Duration::from_secs(60),
        Some('h') => Duration::from_secs(60 * 60),
        Some('d') => DAY,
        _ => return Err(wrong()),
    };
    let digits = digits.as_str();
    let canonical = !digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count: u32 = digits.parse().ok().filter(|_| canonical).ok_or_else(wrong)?;
    let span = unit.checked_mul(count).filter(|span| *span <= EXPIRY_MAX).ok_or_else(wrong)?;
    Ok(after(now, span))
}

fn query(world: &mut World, call: &Call, biz: &Biz<'_>, now: Timestamp) -> Answer {
    let ix = match one_trade(world, call, biz) {
        Ok(ix) => ix,
        Err(wrong) => return wrong,
    };
    let Some(record) = ix.and_then(|ix| world.query(ix, now)) else {
        // As the channel does: amounts of zero, but no total and no status.
        let mut answer = Answer::failed("ACQ.TRADE_NOT_EXIST")
            .with("buyer_pay_amount", "0.00")
            .with("invoice_amount", "0.00");
        answer = echo(answer, biz);
        return answer.with("point_amount", "0.00").with("receipt_amount", "0.00");
    };
    let trade = &record.trade;
    let total = trade.terms.total.to_string();
    let paid = trade.paid_at.map_or_else(|| "0.00".to_owned(), |_| total.clone());
    let mut answer = Answer::done()
        .with("buyer_logon_id", "sim***@example.com")
        .with("buyer_pay_amount", paid.clone())
        .with("buyer_user_id", trade.buyer.clone().unwrap_or_default())
        .with("invoice_amount", paid.clone())
        .with("out_trade_no", record.out_trade_no.clone())
        .with("point_amount", "0.00")
        .with("receipt_amount", paid);
    if let Some(paid_at) = trade.paid_at {
        answer = answer.with("send_pay_date", beijing(paid_at));
    }
    answer
        .with("total_amount", total)
        .with("trade_no", record.trade_no.clone().unwrap_or_default())
        .with("trade_status", trade.phase.trade_status())
}

fn close(world: &mut World, call: &Call, biz: &Biz<'_>, now: Timestamp) -> Answer {
    let ix = match one_trade(world, call, biz) {
        Ok(Some(ix)) => ix,
        Ok(None) => return echo(refused(Refusal::NotExist, call.method), biz),
        Err(wrong) => return wrong,
    };
    let closed = world.close(ix, now);
    let refusal = world.close_refusal();
    match (closed, world.record(ix)) {
        (Ok(()), Some(record)) => numbers(Answer::done(), record),
        (Err(Refusal::Status), Some(record)) => {
            // Which code a paid trade is refused with can be chosen; a closed one has but this.
            let paid = record.trade.phase.is_paid();
            let code = if paid { refusal } else { CloseRefusal::TradeStatusError };
            Answer::failed(code.sub_code()).with("out_trade_no", record.out_trade_no.clone())
        }
        (Err(refusal), _) => echo(refused(refusal, call.method), biz),
        (Ok(()), None) => echo(refused(Refusal::NotExist, call.method), biz),
    }
}

fn cancel(world: &mut World, call: &Call, biz: &Biz<'_>, now: Timestamp) -> Answer {
    let nothing_done = Answer::done().with("retry_flag", "N");
    let ix = match one_trade(world, call, biz) {
        Ok(Some(ix)) => ix,
        Ok(None) => return echo(nothing_done, biz),
        Err(wrong) => return wrong,
    };
    let before = world.record(ix).map(|record| record.trade.phase);
    if let Err(refusal) = world.change(ix, Event::Cancel, now) {
        return echo(refused(refusal, call.method), biz);
    }
    let Some(record) = world.record(ix) else { return echo(nothing_done, biz) };
    let action = match (before, record.trade.phase) {
        (Some(Phase::Waiting), Phase::Closed(Ending::Cancel)) => Some("close"),
        (Some(Phase::Success), _) => Some("refund"),
        _ => None,
    };
    let answer = match action {
        Some(action) => Answer::done().with("action", action).with("retry_flag", "N"),
        None => nothing_done,
    };
    numbers(answer, record)
}

fn refund(
    world: &mut World,
    call: &Call,
    biz: &Biz<'_>,
    later: Option<Duration>,
    now: Timestamp,
) -> Answer {
    let request_no =
        biz.out_request_no.as_deref().map(|no| number(Some(no), "out_request_no")).transpose();
    let (request_no, amount) = match (request_no, amount(biz.refund_amount, "refund_amount")) {
        (Ok(request_no), Ok(amount)) => (request_no, amount),
        (Err(why), _) | (_, Err(why)) => return parameter(&why),
    };
    let ix = match one_trade(world, call, biz) {
        Ok(Some(ix)) => ix,
        Ok(None) => return echo(refused(Refusal::NotExist, call.method), biz),
        Err(wrong) => return wrong,
    };
    let fallback_no = world.record(ix).map(|r| r.out_trade_no.clone()).unwrap_or_default();
    let number = request_no.clone().unwrap_or_else(|| fallback_no.clone());
    let ask = Ask { request_no, fallback_no, amount, pace: Pace::Now };
    let repeat = match world.refund(ix, ask, later, now) {
        Ok(repeat) => repeat,
        Err(refusal) => return echo(refused(refusal, call.method), biz),
    };
    let Some(record) = world.record(ix) else {
        return echo(refused(Refusal::NotExist, call.method), biz);
    };
    let settled_at = record.trade.refund_of(&number).and_then(|refund| refund.settled_at);
    let changed = repeat == Repeat::First && settled_at.is_some();
    let mut answer = Answer::done()
        .with("buyer_logon_id", "sim***@example.com")
        .with("buyer_user_id", record.trade.buyer.clone().unwrap_or_default())
        .with("fund_change", if changed { "Y" } else { "N" });
    if let Some(at) = settled_at {
        answer = answer.with("gmt_refund_pay", beijing(at));
    }
    numbers(answer, record).with("refund_fee", record.trade.refunded().to_string())
}

fn refund_query(world: &World, call: &Call, biz: &Biz<'_>) -> Answer {
    let number = match number(biz.out_request_no.as_deref(), "out_request_no") {
        Ok(number) => number,
        Err(why) => return parameter(&why),
    };
    let ix = match one_trade(world, call, biz) {
        Ok(ix) => ix,
        Err(wrong) => return wrong,
    };
    let record = ix.and_then(|ix| world.record(ix));
    let Some(record) = record.filter(|record| record.trade.phase != Phase::Intent) else {
        return echo(refused(Refusal::NotExist, call.method), biz);
    };
    // 10000 says only that the question was answered: an unknown refund has no data, and neither
    // has one that is still to be done.
    let refund = record.trade.refund_of(&number);
    match refund.and_then(|refund| refund.settled_at.map(|at| (refund, at))) {
        None => Answer::done(),
        Some((refund, at)) => numbers(Answer::done(), record)
            .with("gmt_refund_pay", beijing(at))
            .with("out_request_no", number)
            .with("refund_amount", refund.amount.to_string())
            .with("refund_status", "REFUND_SUCCESS")
            .with("total_amount", record.trade.terms.total.to_string()),
    }
}

/// The trade that is meant, if it exists; an answer if none is named.
fn one_trade(world: &World, call: &Call, biz: &Biz<'_>) -> Result<Option<TradeIx>, Answer> {
    if biz.out_trade_no.is_none() && biz.trade_no.is_none() {
        return Err(parameter("out_trade_no和trade_no不能同时为空"));
    }
    Ok(world.find(&asked(call, biz)))
}

fn asked<'a>(call: &'a Call, biz: &'a Biz<'_>) -> Asked<'a> {
    Asked {
        app_id: &call.merchant.app_id,
        trade_no: biz.trade_no.as_deref(),
        out_trade_no: biz.out_trade_no.as_deref(),
    }
}

fn number(text: Option<&str>, name: &str) -> Result<String, String> {
    let text = text.ok_or_else(|| format!("缺少{name}"))?;
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if text.is_empty() || text.len() > NUMBER_MAX || !plain {
        return Err(format!("{name}应为1～{NUMBER_MAX}个字母、数字、下划线或连字符"));
    }
    Ok(text.to_owned())
}

/// An amount as a string or a bare number; its text is what counts.
fn amount(raw: Option<&RawValue>, name: &str) -> Result<Fen, String> {
    let raw = raw.ok_or_else(|| format!("缺少{name}"))?.get();
    let text = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(raw);
    Fen::parse_payable(text).ok_or_else(|| format!("{name}应为0.01～100000000.00，最多两位小数"))
}

fn parameter(why: &str) -> Answer {
    Answer::failed_because("ACQ.INVALID_PARAMETER", format!("参数无效: {why}"))
}

fn refused(refusal: Refusal, method: Method) -> Answer {
    let sub_code = match refusal {
        Refusal::NotExist => "ACQ.TRADE_NOT_EXIST",
        Refusal::Status => "ACQ.TRADE_STATUS_ERROR",
        Refusal::HasSuccess => "ACQ.TRADE_HAS_SUCCESS",
        Refusal::HasClosed => "ACQ.TRADE_HAS_CLOSE",
        Refusal::HasFinished if method == Method::Cancel => "ACQ.REASON_TRADE_STATUS_INVALID",
        Refusal::HasFinished => "ACQ.TRADE_HAS_FINISHED",
        Refusal::Inconsistent => "ACQ.CONTEXT_INCONSISTENT",
        Refusal::Discordant => "ACQ.DISCORDANT_REPEAT_REQUEST",
        Refusal::OverRefund => "ACQ.REASON_TRADE_REFUND_FEE_ERR",
        Refusal::NotWhole => "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL",
        Refusal::TooManyRefunds | Refusal::Overdue | Refusal::OtherBuyer => {
            return Answer::failed_because("SIM.REFUSED", refusal.sentence());
        }
    };
    Answer::failed(sub_code)
}

/// Repeats the number that the call gave.
fn echo(answer: Answer, biz: &Biz<'_>) -> Answer {
    match &biz.out_trade_no {
        Some(number) => answer.with("out_trade_no", number.clone()),
        None => answer,
    }
}

fn numbers(answer: Answer, record: &Record) -> Answer {
    let answer = answer.with("out_trade_no", record.out_trade_no.clone());
    match &record.trade_no {
        Some(number) => answer.with("trade_no", number.clone()),
        None => answer,
    }
}
