//! From parameters to a call that is surely the app's.
//!
//! Invariant: nothing is done for a call whose signature was not verified over exactly the decoded
//! bytes that came (`a_changed_byte_is_refused_with_the_text_that_was_verified`).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::response::Answer;
use crate::charset::Charset;
use crate::clock::parse_beijing;
use crate::config::{Merchant, Merchants};
use crate::faults::Method;
use crate::form::{Params, Signed};

/// Length of a `notify_url` or `return_url`, by the channel's papers.
const URL_MAX: usize = 256;

/// A verified call.
pub(super) struct Call {
    pub(super) merchant: Arc<Merchant>,
    pub(super) method: Method,
    pub(super) charset: Charset,
    /// The JSON text of `biz_content`.
    pub(super) biz: String,
    pub(super) notify_url: Option<String>,
    pub(super) return_url: Option<String>,
}

/// A call that is not carried out.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) answer: Answer,
    /// Known if the call got as far as its signature; then the answer is signed.
    pub(super) method: Option<Method>,
    pub(super) app_id: Option<String>,
    pub(super) charset: Charset,
}

/// What the calls are judged by.
pub(super) struct Rules<'a> {
    pub(super) merchants: &'a Merchants,
    pub(super) tolerance: Option<Duration>,
    pub(super) now: Timestamp,
}

pub(super) fn read(params: &Params, rules: &Rules<'_>) -> Result<Call, Rejected> {
    let mut rejected =
        Rejected { answer: Answer::done(), method: None, app_id: None, charset: Charset::Utf8 };
    match verify(params, rules, &mut rejected) {
        Ok(call) => Ok(call),
        Err(answer) => Err(Rejected { answer, ..rejected }),
    }
}

fn verify(params: &Params, rules: &Rules<'_>, known: &mut Rejected) -> Result<Call, Answer> {
    let app_id = text(params, "app_id").ok_or_else(|| missing("app-id", "缺少AppID参数"))?;
    let merchant = rules
        .merchants
        .get(&app_id)
        .ok_or_else(|| invalid("app-id", "无效的AppID参数".to_owned()))?;
    let name = params.get("method").ok_or_else(|| missing("method", "缺少方法名参数"))?;
    let method = Method::parse(name)
        .ok_or_else(|| invalid("method", "不存在的方法名: 模拟器没有这个接口".to_owned()))?;
    // As the channel does: who does not say gets GBK.
    let charset = params
        .get("charset")
        .map_or(Some(Charset::Gbk), Charset::parse)
        .ok_or_else(|| invalid("charset", "字符集错误".to_owned()))?;
    known.charset = charset;
    let kind =
        params.get("sign_type").ok_or_else(|| missing("signature-type", "缺少签名类型参数"))?;
    if kind != b"RSA2" {
        return Err(invalid("signature-type", "无效签名类型: 只支持RSA2".to_owned()));
    }
    let sign = params.get("sign").ok_or_else(|| missing("signature", "缺少签名参数"))?;
    known.method = Some(method);
    known.app_id = Some(app_id);
    let signed = params.canonical(Signed::Request);
    if !merchant.verifier.accepts(&signed, sign) {
        let shown = charset
            .decode(&signed)
            .unwrap_or_else(|| String::from_utf8_lossy(&signed).into_owned());
        let why = "验签出错，建议检查签名字符串或签名私钥与应用公钥是否匹配，\
                   网关生成的验签字符串为：";
        return Err(invalid("signature", format!("{why}{shown}")));
    }
    check_serials(params, merchant)?;
    check_common(params, rules)?;
    let url = |name| checked_url(params, name);
    let biz = params
        .get("biz_content")
        .ok_or_else(|| invalid("parameter", "缺少biz_content参数".to_owned()))?;
    let biz = charset
        .decode(biz)
        .ok_or_else(|| invalid("parameter", "biz_content与charset不符".to_owned()))?;
    Ok(Call {
        merchant: Arc::clone(merchant),
        method,
        charset,
        biz,
        notify_url: url("notify_url")?,
        return_url: url("return_url")?,
    })
}

fn check_common(params: &Params, rules: &Rules<'_>) -> Result<(), Answer> {
    let version = params.get("version").ok_or_else(|| missing("version", "缺少版本参数"))?;
    if version != b"1.0" {
        return Err(invalid("parameter", "version应为1.0".to_owned()));
    }
    if params.get("format").is_some_and(|format| !format.eq_ignore_ascii_case(b"json")) {
        return Err(invalid("format", "无效的数据格式: 只支持JSON".to_owned()));
    }
    let stated = text(params, "timestamp").ok_or_else(|| missing("timestamp", "缺少时间戳参数"))?;
    let at = parse_beijing(&stated).ok_or_else(|| {
        invalid("timestamp", format!("非法的时间戳参数: {stated}，应为yyyy-MM-dd HH:mm:ss"))
    })?;
    let off = at.duration_since(rules.now).unsigned_abs();
    if rules.tolerance.is_some_and(|tolerance| off > tolerance) {
        let why = format!("非法的时间戳参数: {stated}与网关时间相差太大，应为GMT+8");
        return Err(invalid("timestamp", why));
    }
    Ok(())
}

fn check_serials(params: &Params, merchant: &Merchant) -> Result<(), Answer> {
    let Some(serials) = &merchant.serials else { return Ok(()) };
    for (name, expected) in [("app_cert_sn", &serials.app), ("alipay_root_cert_sn", &serials.roots)]
    {
        match params.get(name) {
            Some(sn) if sn == expected.as_bytes() => {}
            Some(_) => {
                return Err(invalid(&name.replace('_', "-"), format!("{name}不匹配")));
            }
            None => return Err(missing(&name.replace('_', "-"), &format!("缺少{name}参数"))),
        }
    }
    Ok(())
}

fn checked_url(params: &Params, name: &str) -> Result<Option<String>, Answer> {
    let Some(bytes) = params.get(name) else { return Ok(None) };
    let url = String::from_utf8_lossy(bytes).into_owned();
    let web = url.starts_with("http://") || url.starts_with("https://");
    if url.len() > URL_MAX || !web || url.contains(char::is_whitespace) {
        let why = format!("{name}应为http(s)地址，且不超过{URL_MAX}个字符");
        return Err(invalid("parameter", why));
    }
    Ok(Some(url))
}

fn text(params: &Params, name: &str) -> Option<String> {
    params.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn missing(what: &str, why: &str) -> Answer {
    Answer::missing_argument(format!("isv.missing-{what}"), why.to_owned())
}

fn invalid(what: &str, why: String) -> Answer {
    Answer::invalid_argument(format!("isv.invalid-{what}"), why)
}
