//! Verified slice → what it says.
//!
//! An answer to something else is refused: [`Head::concerns`] compares the numbers that are named,
//! and each reader demands that they are named where something was done.

use serde::Deserialize;

use super::biz::Question;
use crate::{
    beijing::Moment,
    channel::{Cause, PayData, RefundSeen, RefundTaken, Said, Trade, TradeSeen, TradeStatus},
    money::{Amount, Currency, Sum},
};

/// The currency of all amounts in answers and notices.
pub(super) const CURRENCY: Currency = Currency::Cny;

/// The part that every answer has.
#[derive(Deserialize)]
pub(super) struct Head {
    code: Option<String>,
    msg: Option<String>,
    sub_code: Option<String>,
    sub_msg: Option<String>,
    out_trade_no: Option<String>,
    out_request_no: Option<String>,
}

impl Head {
    pub(super) fn read(slice: &str) -> Result<Self, Cause> {
        parse(slice)
    }

    pub(super) fn code(&self) -> &str {
        self.code.as_deref().unwrap_or_default()
    }

    pub(super) fn sub_code(&self) -> &str {
        self.sub_code.as_deref().unwrap_or_default()
    }

    /// The most specific code and sentence.
    pub(super) fn said(self) -> Said {
        let code = filled(self.sub_code).or(self.code).unwrap_or_default();
        let text = filled(self.sub_msg).or(self.msg).unwrap_or_default();
        Said::new(&code, &text)
    }

    /// Refuses an answer that names another payment or refund; not every answer names them.
    pub(super) fn concerns(&self, question: &Question) -> Result<(), Cause> {
        let differs = |named: &Option<String>, asked: Option<&String>| {
            let named = named.as_ref().filter(|number| !number.is_empty());
            named.zip(asked).is_some_and(|(named, asked)| named != asked)
        };
        let astray = differs(&self.out_trade_no, Some(&question.payment_no))
            || differs(&self.out_request_no, question.refund_no.as_ref());
        if astray { Err(Cause::Astray) } else { Ok(()) }
    }
}

pub(super) fn prepared(slice: &str) -> Result<PayData, Cause> {
    #[derive(Deserialize)]
    struct Answer {
        out_trade_no: Option<String>,
        qr_code: Option<String>,
    }
    let answer: Answer = parse(slice)?;
    present(answer.out_trade_no, "no out_trade_no")?;
    present(answer.qr_code, "no qr_code").map(PayData::Code)
}

pub(super) fn trade(slice: &str) -> Result<TradeSeen, Cause> {
    #[derive(Deserialize)]
    struct Answer {
        out_trade_no: Option<String>,
        trade_no: Option<String>,
        trade_status: Option<String>,
        total_amount: Option<String>,
        send_pay_date: Option<String>,
    }
    let answer: Answer = parse(slice)?;
    present(answer.out_trade_no, "no out_trade_no")?;
    let status = present(answer.trade_status, "no trade_status")?;
    let amount = present(answer.total_amount, "no total_amount")?;
    Ok(TradeSeen::Found(Trade {
        trade_no: present(answer.trade_no, "no trade_no")?,
        status: trade_status(&status).ok_or(Cause::Unreadable("an unknown trade_status"))?,
        amount: Amount::parse(&amount, CURRENCY)
            .map_err(|_| Cause::Unreadable("an unreadable total_amount"))?,
        paid_at: answer.send_pay_date.and_then(|text| Moment::parse_beijing(&text).ok()),
    }))
}

pub(super) fn closed(slice: &str) -> Result<(), Cause> {
    #[derive(Deserialize)]
    struct Answer {
        out_trade_no: Option<String>,
    }
    present(parse::<Answer>(slice)?.out_trade_no, "no out_trade_no").map(drop)
}

pub(super) fn refunded(slice: &str) -> Result<RefundTaken, Cause> {
    #[derive(Deserialize)]
    struct Answer {
        out_trade_no: Option<String>,
        fund_change: Option<String>,
        refund_fee: Option<String>,
    }
    let answer: Answer = parse(slice)?;
    present(answer.out_trade_no, "no out_trade_no")?;
    if answer.fund_change.as_deref() != Some("Y") {
        return Ok(RefundTaken::Ask);
    }
    let total = present(answer.refund_fee, "no refund_fee")?;
    let refunded =
        Sum::parse(&total, CURRENCY).map_err(|_| Cause::Unreadable("an unreadable refund_fee"))?;
    Ok(RefundTaken::Moved { refunded })
}

/// That the query ran proves nothing: an unknown refund is answered with success and no data.
pub(super) fn refund(slice: &str) -> Result<RefundSeen, Cause> {
    #[derive(Deserialize)]
    struct Answer {
        out_trade_no: Option<String>,
        out_request_no: Option<String>,
        trade_no: Option<String>,
        refund_amount: Option<String>,
        refund_status: Option<String>,
        gmt_refund_pay: Option<String>,
    }
    let answer: Answer = parse(slice)?;
    let (Some(_), Some(_), Some(amount)) =
        (filled(answer.trade_no), filled(answer.out_request_no), filled(answer.refund_amount))
    else {
        return Ok(RefundSeen::Missing);
    };
    present(answer.out_trade_no, "no out_trade_no")?;
    if !matches!(filled(answer.refund_status).as_deref(), None | Some("REFUND_SUCCESS")) {
        return Err(Cause::Unreadable("an unknown refund_status"));
    }
    Ok(RefundSeen::Made {
        amount: Amount::parse(&amount, CURRENCY)
            .map_err(|_| Cause::Unreadable("an unreadable refund_amount"))?,
        made_at: answer.gmt_refund_pay.and_then(|text| Moment::parse_beijing(&text).ok()),
    })
}

/// The status that answers and notices call `name`.
pub(super) fn trade_status(name: &str) -> Option<TradeStatus> {
    match name {
        "WAIT_BUYER_PAY" => Some(TradeStatus::Waiting),
        "TRADE_SUCCESS" => Some(TradeStatus::Paid),
        "TRADE_FINISHED" => Some(TradeStatus::Finished),
        "TRADE_CLOSED" => Some(TradeStatus::Closed),
        _ => None,
    }
}

fn parse<'a, T: Deserialize<'a>>(slice: &'a str) -> Result<T, Cause> {
    serde_json::from_str(slice).map_err(|_| Cause::Unreadable("a node of another shape"))
}

fn filled(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

fn present(value: Option<String>, missing: &'static str) -> Result<String, Cause> {
    filled(value).ok_or(Cause::Unreadable(missing))
}
