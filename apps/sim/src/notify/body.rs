//! The bodies that are posted, genuine and forged.

use jiff::Timestamp;

use crate::channel::Parts;
use crate::charset::Charset;
use crate::clock::beijing;
use crate::error::Error;
use crate::faults::{Change, NoticeFault};
use crate::form::{Params, PlusInSign, Signed};
use crate::keys::Signer;
use crate::money::Fen;
use crate::world::{Notice, Record};

/// A body ready to be posted.
#[derive(Clone, Debug)]
pub(super) struct Posting {
    pub(super) body: String,
    pub(super) charset: Charset,
    /// The faults that shaped it.
    pub(super) forms: Vec<&'static str>,
}

/// A delivery that a merchant should take, whatever its form.
pub(super) fn genuine(
    parts: &Parts,
    notice: &Notice,
    faults: &[NoticeFault],
    now: Timestamp,
) -> Result<Posting, Error> {
    let has = |fault: NoticeFault| faults.contains(&fault);
    let charset = if has(NoticeFault::Gbk) { Charset::Gbk } else { notice.charset };
    let mut forms: Vec<_> = [
        NoticeFault::Gbk,
        NoticeFault::SignTypeSigned,
        NoticeFault::EmptySigned,
        NoticeFault::EmptyUnsigned,
        NoticeFault::PlusRaw,
        NoticeFault::ExtraFields,
    ]
    .iter()
    .filter(|fault| faults.contains(fault))
    .map(NoticeFault::label)
    .collect();

    let mut params = content(notice, charset, now);
    if has(NoticeFault::ExtraFields) {
        params.push("biz_scene_2027", charset.encode("新字段 50% & a=b+c"));
        params.push("z_ext_info", "{\"k\":\"v\"}");
    }
    if has(NoticeFault::ZeroRefund) && notice.change == Change::Paid {
        params.push("refund_fee", "0.00");
        params.push("gmt_close", beijing(now));
        forms.push(NoticeFault::ZeroRefund.label());
    }
    if has(NoticeFault::EmptySigned) {
        params.push("discount_amount", "");
    }
    params.push("sign_type", "RSA2");
    let signed =
        if has(NoticeFault::SignTypeSigned) { Signed::NoticeWithSignType } else { Signed::Notice };
    let sign = parts.signer.sign(&params.canonical(signed))?;
    if has(NoticeFault::EmptyUnsigned) {
        params.push("mdiscount_amount", "");
    }
    params.push("sign", sign);
    let plus = if has(NoticeFault::PlusRaw) { PlusInSign::Raw } else { PlusInSign::Escaped };
    Ok(Posting { body: params.encode(plus), charset, forms })
}

/// A request that a merchant must not take.
pub(super) fn hostile(
    parts: &Parts,
    notice: &Notice,
    fault: &NoticeFault,
    now: Timestamp,
) -> Result<Posting, Error> {
    let charset = notice.charset;
    let mut params = content(notice, charset, now);
    let total = notice.field("total_amount");
    let dearer = Fen::parse_payable(total).unwrap_or_default().plus(Fen::ONE).to_string();
    match fault {
        NoticeFault::WrongAmount => params.set("total_amount", dearer.clone()),
        NoticeFault::WrongSeller => params.set("seller_id", "2088999999999999"),
        NoticeFault::WrongApp => {
            params.set("app_id", "2026999999999999");
            params.set("auth_app_id", "2026999999999999");
        }
        NoticeFault::ReturnReplay => {
            params = return_params(notice.return_method, &Bought::of_notice(notice), charset, now);
        }
        _ => {}
    }
    if matches!(fault, NoticeFault::WrongAmount | NoticeFault::WrongSeller | NoticeFault::WrongApp)
    {
        // Well signed and of its own: to know the genuine notice must not be enough to take it.
        params.set("notify_id", format!("{}9", notice.notify_id));
    }
    let signer = if *fault == NoticeFault::ForgedKey { &parts.stranger } else { &parts.signer };
    if *fault != NoticeFault::Unsigned {
        sign(&mut params, signer)?;
    }
    if *fault == NoticeFault::Tampered {
        params.set("total_amount", dearer);
    }
    let mut body = params.encode(PlusInSign::Escaped);
    if *fault == NoticeFault::DuplicateKey {
        body.push_str("&total_amount=0.01");
    }
    Ok(Posting { body, charset, forms: vec![fault.label()] })
}

/// Where the buyer's browser goes after paying: the merchant's page with signed parameters.
pub(crate) fn return_address(
    signer: &Signer,
    record: &Record,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    let Some(url) = record.return_url.as_deref().filter(|_| record.trade.phase.is_paid()) else {
        return Ok(None);
    };
    let bought = Bought::of_record(record);
    let mut params = return_params(record.product.return_method(), &bought, record.charset, now);
    sign(&mut params, signer)?;
    let joint = if url.contains('?') { '&' } else { '?' };
    Ok(Some(format!("{url}{joint}{}", params.encode(PlusInSign::Escaped))))
}

/// What the return page is told of a trade.
struct Bought<'a> {
    app_id: &'a str,
    seller_id: &'a str,
    out_trade_no: &'a str,
    trade_no: &'a str,
    total: String,
}

impl<'a> Bought<'a> {
    fn of_notice(notice: &'a Notice) -> Self {
        Self {
            app_id: &notice.app_id,
            seller_id: &notice.seller_id,
            out_trade_no: &notice.out_trade_no,
            trade_no: notice.field("trade_no"),
            total: notice.field("total_amount").to_owned(),
        }
    }

    fn of_record(record: &'a Record) -> Self {
        Self {
            app_id: &record.app_id,
            seller_id: &record.seller_id,
            out_trade_no: &record.out_trade_no,
            trade_no: record.trade_no.as_deref().unwrap_or_default(),
            total: record.trade.terms.total.to_string(),
        }
    }
}

fn content(notice: &Notice, charset: Charset, now: Timestamp) -> Params {
    let mut params = Params::default();
    for (name, value) in &notice.fields {
        params.push(name, charset.encode(value));
    }
    params.push("charset", charset.name());
    params.push("notify_time", beijing(now));
    params
}

fn return_params(method: &str, bought: &Bought<'_>, charset: Charset, now: Timestamp) -> Params {
    let mut params = Params::default();
    params.push("charset", charset.name());
    params.push("out_trade_no", bought.out_trade_no);
    params.push("method", method);
    params.push("total_amount", bought.total.as_str());
    params.push("trade_no", bought.trade_no);
    params.push("auth_app_id", bought.app_id);
    params.push("version", "1.0");
    params.push("app_id", bought.app_id);
    params.push("seller_id", bought.seller_id);
    params.push("timestamp", beijing(now));
    params
}

fn sign(params: &mut Params, signer: &Signer) -> Result<(), Error> {
    params.push("sign_type", "RSA2");
    let sign = signer.sign(&params.canonical(Signed::Notice))?;
    params.push("sign", sign);
    Ok(())
}
