use serde::{Deserialize, Serialize};

use super::{When, check_wait};

/// A rule for calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRule {
    /// What goes wrong.
    pub fault: CallFault,
    /// Only for this method; otherwise for every method that the fault fits.
    #[serde(default)]
    pub method: Option<Method>,
    /// When it goes wrong.
    #[serde(default)]
    pub when: When,
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CallFault {
    /// The connection closes; nothing was done.
    DropRequest,
    /// The call is done, then the connection closes without an answer.
    DropAnswer,
    /// The call waits before it is done.
    #[expect(missing_docs, reason = "milliseconds, as the name says")]
    DelayRequest { ms: u64 },
    /// The call is done, then the answer waits.
    #[expect(missing_docs, reason = "milliseconds, as the name says")]
    DelayAnswer { ms: u64 },
    /// Code 20000, "service unavailable".
    Unavailable {
        /// Whether the call was done all the same.
        done: bool,
    },
    /// `ACQ.SYSTEM_ERROR`.
    SystemError {
        /// Whether the call was done all the same.
        done: bool,
    },
    /// Refused with this `sub_code`, and not done.
    Refused {
        /// For instance `ACQ.SELLER_BALANCE_NOT_ENOUGH`.
        sub_code: String,
    },
    /// Done; the answer is signed with a key that nobody trusts.
    WrongSign,
    /// Done; the answer has no signature.
    NoSign,
    /// Done; a second, unsigned node of the same name follows the signature.
    NodeTwice,
    /// Done; the signed node holds a member called `sign` itself. The signature is good.
    InnerSign,
    /// Done; the answer is cut short, in a complete HTTP message.
    CutBody,
    /// Done; the connection breaks in the middle of the answer.
    BrokenBody,
    /// A proxy answers 502 with HTML.
    BadGateway {
        /// Whether the call was done all the same.
        done: bool,
    },
    /// Done; the answer comes in small pieces with a pause before each.
    #[expect(missing_docs, reason = "milliseconds, as the name says")]
    SlowDrip { pause_ms: u64 },
    /// A refund is accepted with `fund_change=N` and done later.
    #[expect(missing_docs, reason = "milliseconds, as the name says")]
    RefundLater { ms: u64 },
}

/// A method of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each variant is the name on the wire")]
pub enum Method {
    #[serde(rename = "alipay.trade.precreate")]
    Precreate,
    #[serde(rename = "alipay.trade.page.pay")]
    PagePay,
    #[serde(rename = "alipay.trade.wap.pay")]
    WapPay,
    #[serde(rename = "alipay.trade.query")]
    Query,
    #[serde(rename = "alipay.trade.close")]
    Close,
    #[serde(rename = "alipay.trade.cancel")]
    Cancel,
    #[serde(rename = "alipay.trade.refund")]
    Refund,
    #[serde(rename = "alipay.trade.fastpay.refund.query")]
    RefundQuery,
}

impl CallRule {
    pub(super) fn check(&self) -> Result<(), String> {
        self.when.check()?;
        match &self.fault {
            CallFault::DelayRequest { ms }
            | CallFault::DelayAnswer { ms }
            | CallFault::SlowDrip { pause_ms: ms }
            | CallFault::RefundLater { ms } => check_wait(*ms)?,
            CallFault::Refused { sub_code } if sub_code.is_empty() || sub_code.len() > 64 => {
                return Err("sub_code needs 1 to 64 characters".to_owned());
            }
            _ => {}
        }
        match self.method {
            Some(method) if !self.fault.fits(method) => {
                Err(format!("{} does not fit {}", self.fault.label(), method.name()))
            }
            _ => Ok(()),
        }
    }
}

impl CallFault {
    /// The name under which `/_sim/truth` counts it.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::DropRequest => "drop_request",
            Self::DropAnswer => "drop_answer",
            Self::DelayRequest { .. } => "delay_request",
            Self::DelayAnswer { .. } => "delay_answer",
            Self::Unavailable { .. } => "unavailable",
            Self::SystemError { .. } => "system_error",
            Self::Refused { .. } => "refused",
            Self::WrongSign => "wrong_sign",
            Self::NoSign => "no_sign",
            Self::NodeTwice => "node_twice",
            Self::InnerSign => "inner_sign",
            Self::CutBody => "cut_body",
            Self::BrokenBody => "broken_body",
            Self::BadGateway { .. } => "bad_gateway",
            Self::SlowDrip { .. } => "slow_drip",
            Self::RefundLater { .. } => "refund_later",
        }
    }

    /// A page has no signed answer to spoil, and only refunds can be done later.
    pub(crate) fn fits(&self, method: Method) -> bool {
        match self {
            Self::DropRequest
            | Self::DropAnswer
            | Self::DelayRequest { .. }
            | Self::DelayAnswer { .. }
            | Self::BadGateway { .. } => true,
            Self::RefundLater { .. } => method == Method::Refund,
            _ => !method.is_page(),
        }
    }

    /// Whether the call is carried out.
    pub(crate) fn does_the_call(&self) -> bool {
        match self {
            Self::DropRequest | Self::Refused { .. } => false,
            Self::Unavailable { done } | Self::SystemError { done } | Self::BadGateway { done } => {
                *done
            }
            _ => true,
        }
    }
}

impl Method {
    pub(crate) const ALL: [Self; 8] = [
        Self::Precreate,
        Self::PagePay,
        Self::WapPay,
        Self::Query,
        Self::Close,
        Self::Cancel,
        Self::Refund,
        Self::RefundQuery,
    ];

    /// The name on the wire, for instance `alipay.trade.query`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Precreate => "alipay.trade.precreate",
            Self::PagePay => "alipay.trade.page.pay",
            Self::WapPay => "alipay.trade.wap.pay",
            Self::Query => "alipay.trade.query",
            Self::Close => "alipay.trade.close",
            Self::Cancel => "alipay.trade.cancel",
            Self::Refund => "alipay.trade.refund",
            Self::RefundQuery => "alipay.trade.fastpay.refund.query",
        }
    }

    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().as_bytes() == name)
    }

    /// Whether a browser makes the call and sees a page.
    pub(crate) fn is_page(self) -> bool {
        matches!(self, Self::PagePay | Self::WapPay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_names_are_those_of_serde() {
        for method in Method::ALL {
            let text = serde_json::to_value(method).unwrap();
            assert_eq!(text, method.name());
            assert_eq!(Method::parse(method.name().as_bytes()), Some(method));
        }
    }
}
