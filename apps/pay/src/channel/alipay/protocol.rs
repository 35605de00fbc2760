//! The whole protocol without I/O: freeze requests, read answers, verify notices.
//!
//! Pure: the same bytes give the same verdict, wherever they come from and whenever.

use super::{
    account::Account,
    answer::{self, Head},
    biz::{self, Method, Question},
    notice,
    response::{self, Node},
    verdict::{Verdict, judge},
    wire::Params,
};
use crate::{
    beijing::Moment,
    channel::{
        Call, Cause, Frozen, Meaning, Notice, PayData, PaymentNo, Purchase, Received, Refund,
        RefundNo, RefundSeen, RefundTaken, Refusal, Refused, TradeSeen, Unfit, Way,
    },
    money::Currency,
};

/// Alipay's protocol for one account.
#[derive(Debug)]
pub struct Protocol {
    account: Account,
}

impl Protocol {
    /// Speaks for `account`.
    pub const fn new(account: Account) -> Self {
        Self { account }
    }

    /// The account.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// Freezes the request that prepares `purchase`.
    pub fn freeze_purchase(&self, purchase: &Purchase, now: Moment) -> Result<Frozen, Unfit> {
        takes(purchase.currency)?;
        if purchase.expires_at <= now {
            return Err(Unfit::Expired);
        }
        if notice::hidden_in(purchase.subject.as_str().as_bytes()).is_some() {
            return Err(Unfit::SubjectAmbiguous);
        }
        let return_url = match purchase.way {
            Way::Page => self.account.return_url.as_deref().unwrap_or_default(),
            Way::Code => "",
        };
        let params = self
            .common(Method::paying(purchase.way), now)
            .with("notify_url", &self.account.notify_url)
            .with("return_url", return_url);
        self.freeze(params, biz::purchase(purchase))
    }

    /// Whether `frozen` is for the buyer's browser to send.
    pub fn is_page(frozen: &Frozen) -> bool {
        Question::recall(frozen).is_some_and(|question| question.method == Method::PagePay)
    }

    /// Freezes the request that makes `refund`.
    pub fn freeze_refund(&self, refund: &Refund, now: Moment) -> Result<Frozen, Unfit> {
        takes(refund.currency)?;
        self.freeze(self.common(Method::Refund, now), biz::refund(refund))
    }

    /// Freezes the question where a payment stands.
    pub fn freeze_query(&self, payment_no: &PaymentNo, now: Moment) -> Result<Frozen, Unfit> {
        self.freeze(self.common(Method::Query, now), biz::payment(payment_no))
    }

    /// Freezes the request that closes an unpaid payment.
    pub fn freeze_close(&self, payment_no: &PaymentNo, now: Moment) -> Result<Frozen, Unfit> {
        self.freeze(self.common(Method::Close, now), biz::payment(payment_no))
    }

    /// Freezes the question whether a refund was made.
    pub fn freeze_refund_query(
        &self,
        payment_no: &PaymentNo,
        refund_no: &RefundNo,
        now: Moment,
    ) -> Result<Frozen, Unfit> {
        let content = biz::refund_query(payment_no, refund_no);
        self.freeze(self.common(Method::RefundQuery, now), content)
    }

    /// Reads the answer to a frozen purchase.
    pub fn read_prepare(&self, frozen: &Frozen, raw: &[u8]) -> Call<PayData> {
        self.read(frozen, Method::Precreate, raw, answer::prepared)
    }

    /// Reads the answer to a frozen query.
    pub fn read_query(&self, frozen: &Frozen, raw: &[u8]) -> Call<TradeSeen> {
        match self.read(frozen, Method::Query, raw, answer::trade) {
            Call::Refused(Refusal { meaning: Meaning::NotSeen, .. }) => {
                Call::Done(TradeSeen::Missing)
            }
            told @ (Call::Done(_) | Call::Refused(_) | Call::Unknown(_)) => told,
        }
    }

    /// Reads the answer to a frozen close.
    pub fn read_close(&self, frozen: &Frozen, raw: &[u8]) -> Call<()> {
        self.read(frozen, Method::Close, raw, answer::closed)
    }

    /// Reads the answer to a frozen refund.
    pub fn read_refund(&self, frozen: &Frozen, raw: &[u8]) -> Call<RefundTaken> {
        self.read(frozen, Method::Refund, raw, answer::refunded)
    }

    /// Reads the answer to a frozen refund query.
    pub fn read_refund_query(&self, frozen: &Frozen, raw: &[u8]) -> Call<RefundSeen> {
        self.read(frozen, Method::RefundQuery, raw, answer::refund)
    }

    /// Reads a notice, after verifying it.
    pub fn verify_notice(&self, received: Received<'_>) -> Result<Notice, Refused> {
        notice::verify(received, &self.account)
    }

    fn common(&self, method: Method, now: Moment) -> Params {
        let params = Params::new()
            .with("app_id", &self.account.app_id)
            .with("method", method.name())
            .with("format", "JSON")
            .with("charset", "utf-8")
            .with("sign_type", "RSA2")
            .with("timestamp", &now.beijing())
            .with("version", "1.0");
        self.account.keys.name_in(params)
    }

    fn freeze(&self, params: Params, content: serde_json::Result<String>) -> Result<Frozen, Unfit> {
        let content = content.map_err(|_| Unfit::Signing)?;
        let wire = params
            .with("biz_content", &content)
            .signed(&self.account.keys.app)
            .ok_or(Unfit::Signing)?;
        Ok(Frozen::from_bytes(wire.into_bytes()))
    }

    fn read<T>(
        &self,
        frozen: &Frozen,
        method: Method,
        raw: &[u8],
        done: fn(&str) -> Result<T, Cause>,
    ) -> Call<T> {
        let Some(question) = Question::recall(frozen).filter(|q| q.method == method) else {
            return Call::Unknown(Cause::Unsendable);
        };
        let node = match response::open(raw, &method.node(), self.account.verifier()) {
            Ok(node) => node,
            Err(cause) => return Call::Unknown(cause),
        };
        verdict(node, &question).and_then(|slice| done(slice).into())
    }
}

/// What a verified node amounts to; where the call ran, its text.
fn verdict<'a>(node: Node<'a>, question: &Question) -> Call<&'a str> {
    let (Node::Answer(slice) | Node::Error(slice)) = node;
    let head = match Head::read(slice) {
        Ok(head) => head,
        Err(cause) => return Call::Unknown(cause),
    };
    if let Err(cause) = head.concerns(question) {
        return Call::Unknown(cause);
    }
    match (judge(question.method, head.code(), head.sub_code()), node) {
        (Verdict::Done, Node::Answer(slice)) => Call::Done(slice),
        (Verdict::Done, Node::Error(_)) => {
            Call::Unknown(Cause::Unreadable("an error that claims success"))
        }
        (Verdict::Refused(meaning), _) => Call::Refused(Refusal { meaning, said: head.said() }),
        (Verdict::Undecided, _) => Call::Unknown(Cause::Undecided(head.said())),
        (Verdict::Unlisted, _) => Call::Unknown(Cause::Unlisted(head.said())),
        (Verdict::TurnedAway, _) => Call::Unknown(Cause::TurnedAway(head.said())),
    }
}

const fn takes(currency: Currency) -> Result<(), Unfit> {
    match currency {
        Currency::Cny => Ok(()),
    }
}
