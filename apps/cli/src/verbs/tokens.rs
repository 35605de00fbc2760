//! `hapax tokens`: issue one by hand, tell what one is worth.

use std::io;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{place::Place, sheet::Sheet};
use crate::end::End;
use hapax_pay::operator::{TokenCheck, TokenIssue, TokenUse};

/// Longest line that can hold a token.
const LINE_BYTES_MAX: u64 = 4096;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Issue a one-time token for the payment of an order
    #[command(after_help = "Example: hapax tokens issue --tenant shop --order 1001 --user ann \
                            --session s1")]
    Issue(IssueArgs),
    /// Tell what a token is worth; nothing is used up
    #[command(after_help = "Example: hapax tokens check hx1.3f9a… --tenant shop --order 1001 \
                            --user ann --session s1\n\
                            Exit code 4 if the service would refuse it.")]
    Check(CheckArgs),
}

/// What a token is for.
#[derive(Args)]
struct For {
    /// Whose order it is
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The order that is paid with it
    #[arg(long, value_name = "ORDER_ID")]
    order: String,
    /// Who may use it
    #[arg(long, value_name = "NAME")]
    user: String,
    /// In which session
    #[arg(long, value_name = "TEXT")]
    session: String,
}

impl From<For> for TokenUse {
    fn from(used_for: For) -> Self {
        let For { tenant, order, user, session } = used_for;
        Self { tenant, order_id: order, user, session }
    }
}

#[derive(Args)]
pub(crate) struct IssueArgs {
    #[command(flatten)]
    used_for: For,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The token; `-` reads it from standard input, where no list of processes shows it
    token: String,
    #[command(flatten)]
    used_for: For,
    #[command(flatten)]
    place: Place,
}

/// A token for the user.
#[derive(Serialize)]
struct Issued {
    token: String,
    expires_at: String,
}

pub(super) async fn run(verb: Verb) -> Result<(), End> {
    match verb {
        Verb::Issue(args) => issue(args).await,
        Verb::Check(args) => check(args).await,
    }
}

async fn issue(args: IssueArgs) -> Result<(), End> {
    let IssueArgs { used_for, place } = args;
    let used_for = TokenUse::from(used_for);
    let issued = place.work(async |office| Ok(office.issue_token(&used_for).await?)).await?;
    match issued {
        TokenIssue::Token { token, expires_at } => {
            let issued = Issued { token, expires_at };
            place.answer(&issued, |Issued { token, .. }| format!("{token}\n"))
        }
        TokenIssue::Unfinished => Err(End::Conflict(
            "a payment of this order is being created; ask again when it is decided".to_owned(),
        )),
    }
}

async fn check(args: CheckArgs) -> Result<(), End> {
    let CheckArgs { token, used_for, place } = args;
    let used_for = TokenUse::from(used_for);
    let token = if token == "-" { read_line()? } else { token };
    let checked =
        place.work(async |office| Ok(office.check_token(&token, &used_for).await?)).await?;
    place.answer(&checked, facts)?;
    match checked.key {
        Some(_) => Ok(()),
        None => Err(End::Conflict(format!("the token is {}", checked.verdict))),
    }
}

fn facts(checked: &TokenCheck) -> String {
    let mut sheet = Sheet::facts();
    let used = checked.key.as_ref().map(|_| checked.used.unwrap_or("no"));
    sheet.row(["token", checked.verdict]).fact("key", checked.key.as_deref()).fact("used", used);
    sheet.to_string()
}

fn read_line() -> Result<String, End> {
    let mut line = String::new();
    let mut input = io::Read::take(io::stdin(), LINE_BYTES_MAX);
    io::Read::read_to_string(&mut input, &mut line).map_err(anyhow::Error::from)?;
    Ok(line.trim().to_owned())
}
