//! The answers of the gateway, as text and as signed bytes.
//!
//! Invariant: what is signed is exactly the bytes of the node that stand in the answer
//! (`answers_have_the_form_of_the_vectors`).

use crate::charset::Charset;
use crate::error::Error;
use crate::faults::{CallFault, Method};
use crate::keys::Signer;

/// The content of an answer's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    code: Code,
    sub: Option<(String, String)>,
    fields: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Success,
    Unavailable,
    MissingArguments,
    InvalidArguments,
    BusinessFailed,
}

impl Answer {
    pub(super) fn done() -> Self {
        Self { code: Code::Success, sub: None, fields: Vec::new() }
    }

    /// 40004 with a code of the trade product.
    pub(super) fn failed(sub_code: &str) -> Self {
        Self::failed_because(sub_code, sub_msg(sub_code))
    }

    pub(super) fn failed_because(sub_code: &str, why: impl Into<String>) -> Self {
        Self::with_code(Code::BusinessFailed, sub_code.to_owned(), why.into())
    }

    /// 20000: whether anything was done, the caller can't know.
    pub(super) fn unavailable(why: &str) -> Self {
        Self::with_code(Code::Unavailable, "isp.unknow-error".to_owned(), why.to_owned())
    }

    pub(super) fn missing_argument(sub_code: String, why: String) -> Self {
        Self::with_code(Code::MissingArguments, sub_code, why)
    }

    pub(super) fn invalid_argument(sub_code: String, why: String) -> Self {
        Self::with_code(Code::InvalidArguments, sub_code, why)
    }

    /// Adds a member at the end of the node.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub(super) fn code(&self) -> &'static str {
        self.code.number()
    }

    pub(super) fn sub_code(&self) -> Option<&str> {
        self.sub.as_ref().map(|(code, _)| code.as_str())
    }

    pub(super) fn sub_msg(&self) -> Option<&str> {
        self.sub.as_ref().map(|(_, msg)| msg.as_str())
    }

    /// The node as JSON text. `/` is escaped, as the channel does it.
    fn node(&self) -> String {
        let mut members = vec![("code", self.code.number()), ("msg", self.code.message())];
        if let Some((code, msg)) = &self.sub {
            members.extend([("sub_code", code.as_str()), ("sub_msg", msg.as_str())]);
        }
        members.extend(self.fields.iter().map(|(name, value)| (*name, value.as_str())));
        let members: Vec<_> = members
            .into_iter()
            .map(|(name, value)| format!("{}:{}", json(name), json(value)))
            .collect();
        format!("{{{}}}", members.join(","))
    }

    fn with_code(code: Code, sub_code: String, sub_msg: String) -> Self {
        Self { code, sub: Some((sub_code, sub_msg)), fields: Vec::new() }
    }
}

/// How an answer is signed.
pub(super) struct Seal<'a> {
    pub(super) signer: &'a Signer,
    pub(super) stranger: &'a Signer,
    pub(super) alipay_cert_sn: Option<&'a str>,
    pub(super) charset: Charset,
}

/// The whole answer to a method, spoiled by `fault` if that is of the kind.
pub(super) fn signed(
    answer: &Answer,
    method: Method,
    seal: &Seal<'_>,
    fault: Option<&CallFault>,
) -> Result<Vec<u8>, Error> {
    let name = format!("{}_response", method.name().replace('.', "_"));
    let inner = fault == Some(&CallFault::InnerSign);
    let node = if inner {
        answer.clone().with("sign", "bm90IHRoZSBzaWduYXR1cmU=").node()
    } else {
        answer.node()
    };
    let node = seal.charset.encode(&node);
    let signer = if fault == Some(&CallFault::WrongSign) { seal.stranger } else { seal.signer };
    let mut text = format!("{{\"{name}\":").into_bytes();
    text.extend(&node);
    if let Some(sn) = seal.alipay_cert_sn {
        text.extend(format!(",\"alipay_cert_sn\":\"{sn}\"").bytes());
    }
    if fault != Some(&CallFault::NoSign) {
        text.extend(format!(",\"sign\":\"{}\"", signer.sign(&node)?).bytes());
    }
    if fault == Some(&CallFault::NodeTwice) {
        let lie = r#"{"code":"10000","trade_status":"TRADE_SUCCESS","total_amount":"0.01"}"#;
        text.extend(format!(",\"{name}\":{lie}").bytes());
    }
    text.push(b'}');
    Ok(text)
}

/// The answer to a call that did not get as far as its signature; it has none either.
pub(super) fn unsigned(answer: &Answer, charset: Charset) -> Vec<u8> {
    charset.encode(&format!("{{\"error_response\":{}}}", answer.node()))
}

impl Code {
    fn number(self) -> &'static str {
        match self {
            Self::Success => "10000",
            Self::Unavailable => "20000",
            Self::MissingArguments => "40001",
            Self::InvalidArguments => "40002",
            Self::BusinessFailed => "40004",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Unavailable => "Service Currently Unavailable",
            Self::MissingArguments => "Missing Required Arguments",
            Self::InvalidArguments => "Invalid Arguments",
            Self::BusinessFailed => "Business Failed",
        }
    }
}

fn json(text: &str) -> String {
    // Inside JSON text a slash stands only in strings.
    serde_json::Value::from(text).to_string().replace('/', "\\/")
}

fn sub_msg(sub_code: &str) -> &'static str {
    match sub_code {
        "ACQ.TRADE_NOT_EXIST" => "交易不存在",
        "ACQ.TRADE_STATUS_ERROR" => "交易状态不合法",
        "ACQ.REASON_TRADE_STATUS_INVALID" => "交易状态异常",
        "ACQ.REASON_ILLEGAL_STATUS" => "交易状态异常，非待支付状态下不支持关单操作",
        "ACQ.TRADE_HAS_SUCCESS" => "交易已被支付",
        "ACQ.TRADE_HAS_CLOSE" => "交易已经关闭",
        "ACQ.TRADE_HAS_FINISHED" => "交易已完结",
        "ACQ.CONTEXT_INCONSISTENT" => "交易信息被篡改",
        "ACQ.DISCORDANT_REPEAT_REQUEST" => "不一致的请求",
        "ACQ.REASON_TRADE_REFUND_FEE_ERR" => "退款金额无效",
        "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL" => "撤销或退款金额与订单金额不一致",
        "ACQ.SYSTEM_ERROR" => "系统错误",
        "ACQ.INVALID_PARAMETER" => "参数无效",
        "ACQ.SELLER_BALANCE_NOT_ENOUGH" => "卖家余额不足",
        "ACQ.REASON_TRADE_BEEN_FREEZEN" => "交易已被冻结",
        _ => "业务处理失败",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn seal<'a>(signer: &'a Signer, sn: Option<&'a str>) -> Seal<'a> {
        Seal { signer, stranger: signer, alipay_cert_sn: sn, charset: Charset::Utf8 }
    }

    fn alipay() -> Signer {
        Signer::from_pem(&vectors::key("alipay_private_pkcs8")).unwrap()
    }

    #[test]
    fn answers_have_the_form_of_the_vectors() {
        let signer = alipay();
        let number = "2026100122001400000000000001";
        let paid = Answer::done()
            .with("out_trade_no", "HPX_0001")
            .with("total_amount", "88.80")
            .with("trade_no", number)
            .with("trade_status", "TRADE_SUCCESS")
            .with("subject", "a\"}{b")
            .with("qr", "https://qr.example/x");
        let closed = Answer::done().with("out_trade_no", "HPX_0001").with("trade_no", number);
        let refused = Answer::failed("ACQ.TRADE_STATUS_ERROR").with("out_trade_no", "HPX_0001");
        let sn = Some("0123456789abcdef0123456789abcdef");
        let twice = Some(&CallFault::NodeTwice);
        for (name, answer, method, sn, fault) in [
            ("response_query_paid", &paid, Method::Query, None, None),
            ("response_cert_mode", &closed, Method::Close, sn, None),
            ("response_close_status_error", &refused, Method::Close, None, None),
            ("response_duplicate_node", &paid, Method::Query, None, twice),
        ] {
            let text = signed(answer, method, &seal(&signer, sn), fault).unwrap();
            let expected = vectors::case(name);
            assert_eq!(String::from_utf8(text).unwrap(), expected["raw"], "{name}");
        }
        let unknown =
            Answer::invalid_argument("isv.invalid-app-id".to_owned(), "无效的AppID参数".to_owned());
        let expected = vectors::case("response_error_without_sign");
        let text = String::from_utf8(unsigned(&unknown, Charset::Utf8)).unwrap();
        assert_eq!(text, expected["raw"]);
    }

    #[test]
    fn a_gbk_answer_is_signed_over_its_gbk_bytes() {
        let signer = alipay();
        let seal = Seal { charset: Charset::Gbk, ..seal(&signer, None) };
        let answer = Answer::failed("ACQ.TRADE_NOT_EXIST");
        let bytes = signed(&answer, Method::Query, &seal, None).unwrap();
        let text = Charset::Gbk.decode(&bytes).unwrap();
        assert!(text.contains("交易不存在"), "{text}");
        assert!(text.contains(&signer.sign(&Charset::Gbk.encode(&answer.node())).unwrap()));
    }
}
