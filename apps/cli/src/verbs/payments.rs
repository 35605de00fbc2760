//! `hapax payments`: look, and ask the channel.

use clap::{Args, Subcommand};

use super::{place::Place, sheet::Sheet};
use crate::{end::End, log};
use hapax_pay::operator::{
    PaymentCheck, PaymentDetail, PaymentLine, PaymentPage, RefundLine, Said, TransitionLine,
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List payments, in the order of their numbers
    #[command(after_help = "Example: hapax payments list --status waiting")]
    List(ListArgs),
    /// Show everything about one payment
    #[command(after_help = "Example: hapax payments show P0190a1b2c3d4")]
    Show(ShowArgs),
    /// Ask the channel where a payment stands, and book what it says
    #[command(after_help = "Example: hapax payments check P0190a1b2c3d4")]
    Check(CheckArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Only this status: created, waiting, closing, closed, paid or failed
    #[arg(long, value_name = "WORD")]
    status: Option<String>,
    /// Only numbers after this one
    #[arg(long, value_name = "NO")]
    after: Option<String>,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The payment's number
    #[arg(value_name = "NO")]
    payment_no: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The payment's number
    #[arg(value_name = "NO")]
    payment_no: String,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(verb: Verb) -> Result<(), End> {
    match verb {
        Verb::List(args) => list(&args).await,
        Verb::Show(args) => show(&args).await,
        Verb::Check(args) => check(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), End> {
    let ListArgs { status, after, limit, place } = args;
    let after = after.as_deref().unwrap_or_default();
    let page = place
        .work(async |office| Ok(office.payments(status.as_deref(), after, *limit).await?))
        .await?;
    place.answer(&page, table)?;
    if page.payments.is_empty() {
        place.say_none("no such payments");
    }
    place.say_more(page.next.as_ref());
    Ok(())
}

fn table(page: &PaymentPage) -> String {
    let head =
        ["NO", "STATUS", "AMOUNT", "CURRENCY", "TENANT", "ORDER", "ROUND", "SURPLUS", "CREATED"];
    let mut sheet = Sheet::new(&head);
    for line in &page.payments {
        sheet.row([
            &line.payment_no,
            line.status,
            &line.amount,
            line.currency,
            &line.tenant,
            &line.order_id,
            &line.round.to_string(),
            yes_or_no(line.surplus),
            &line.created_at,
        ]);
    }
    sheet.to_string()
}

async fn show(args: &ShowArgs) -> Result<(), End> {
    let place = &args.place;
    let payment = place.work(async |office| Ok(office.payment(&args.payment_no).await?)).await?;
    place.answer(&payment.ok_or_else(missing)?, sheet)
}

fn sheet(payment: &PaymentDetail) -> String {
    let mut facts = facts(&payment.line);
    facts
        .fact("channel's no", payment.trade_no.as_deref())
        .row(["expires", &payment.expires_at])
        .fact("paid", payment.paid_at.as_deref())
        .row(["reserved", &payment.reserved])
        .row(["refunded", &payment.refunded]);
    let mut refunds = Sheet::new(&["NO", "AMOUNT", "STATUS", "BY", "FAILURE"]).titled("refunds");
    for RefundLine { refund_no, amount, status, origin, failure } in &payment.refunds {
        refunds.row([refund_no, amount, status, origin, failure.as_deref().unwrap_or_default()]);
    }
    let mut moves = Sheet::new(&["AT", "VERSION", "FROM", "TO", "EVENT"]).titled("transitions");
    for TransitionLine { at, version, from, to, event } in &payment.transitions {
        moves.row([at, &version.to_string(), from, to, event]);
    }
    format!("{facts}{refunds}{moves}")
}

fn facts(line: &PaymentLine) -> Sheet {
    let mut facts = Sheet::facts();
    facts
        .row(["no", &line.payment_no])
        .row(["status", line.status])
        .row(["tenant", &line.tenant])
        .row(["order", &line.order_id])
        .row(["round", &line.round.to_string()])
        .row(["amount", &format!("{} {}", line.amount, line.currency)])
        .row(["surplus", yes_or_no(line.surplus)])
        .row(["created", &line.created_at]);
    facts
}

async fn check(args: &CheckArgs) -> Result<(), End> {
    // What the channel really said is told by the service's own log lines.
    log::start();
    let place = &args.place;
    let checked = place.work(async |office| Ok(office.check(&args.payment_no).await?)).await?;
    let checked = checked.ok_or_else(missing)?;
    place.answer(&checked, told)?;
    match checked.channel {
        Said::Unpaid | Said::NotSeen | Said::Booked => Ok(()),
        Said::Unknown => Err(End::failed(
            "the channel gave no answer that can be believed, as logged above; nothing was changed",
        )),
    }
}

fn told(checked: &PaymentCheck) -> String {
    let PaymentCheck { channel, status_before, payment } = checked;
    let mut sheet = Sheet::facts();
    sheet
        .row(["no", &payment.payment_no])
        .row(["channel says", channel.as_str()])
        .row(["status before", status_before])
        .row(["status now", payment.status]);
    sheet.to_string()
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn missing() -> End {
    End::NotFound("there is no such payment".to_owned())
}
