//! `hapax keys`: look, release, settle, purge.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{consent::Consent, place::Place, sheet::Sheet};
use crate::{end::End, output};
use hapax_pay::{
    CREATE_OPERATION, PRINCIPAL,
    operator::{Judged, KeyDetail, KeyFilter, KeyLine, KeyName, KeyPage, Office, Ruling},
};

/// Hex digits of an id that people are shown in a list; any unique beginning is enough to ask.
const SHOWN_DIGITS: usize = 16;
/// Records of one transaction of a purge: it holds the writer for some milliseconds.
const PURGE_ROWS: u32 = 500;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List keys, in the order of their ids
    #[command(after_help = "Example: hapax keys list --status unknown")]
    List(ListArgs),
    /// Show everything about one key
    #[command(after_help = "Examples: hapax keys show 7d6487a8\n          \
                            hapax keys show --tenant shop --key order-1001")]
    Show(ShowArgs),
    /// Decide that an attempt surely did nothing: its key is free again
    #[command(after_help = "Example: hapax keys release 7d6487a8 --epoch 1790812800000 \
                            --reason 'the channel has no such trade'")]
    Release(ReleaseArgs),
    /// Decide that an attempt did its work: repeats get this answer
    #[command(after_help = "Example: hapax keys settle 7d6487a8 --epoch 1790812800000 \
                            --status 201 --body '{\"payment_no\":\"P1\"}' \
                            --reason 'paid, see ticket 7'")]
    Settle(SettleArgs),
    /// Remove records that count as absent; no request can notice it
    #[command(after_help = "Example: hapax keys purge --rows 100000")]
    Purge(PurgeArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Only this operation, such as payment.create
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Only this status: running, abandoned, unknown, open, completed or expired
    #[arg(long, value_name = "WORD")]
    status: Option<String>,
    /// Only ids after this one
    #[arg(long, value_name = "ID")]
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
    /// The id, or its first digits
    #[arg(required_unless_present = "key", conflicts_with_all = ["tenant", "key"])]
    id: Option<String>,
    /// Whose key it is
    #[arg(long, value_name = "NAME", requires = "key")]
    tenant: Option<String>,
    /// The key as its caller sent it
    #[arg(long, value_name = "TEXT", requires = "tenant")]
    key: Option<String>,
    /// Who sent it
    #[arg(long, value_name = "NAME", default_value = PRINCIPAL, requires = "key")]
    principal: String,
    /// What was to be done
    #[arg(long, value_name = "NAME", default_value = CREATE_OPERATION, requires = "key")]
    operation: String,
    #[command(flatten)]
    place: Place,
}

/// Which attempt is judged.
#[derive(Args)]
struct Attempt {
    /// The id, or its first digits
    id: String,
    /// The epoch that `keys show` told: an attempt that has moved on is not judged
    #[arg(long, value_name = "N")]
    epoch: i64,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    attempt: Attempt,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct SettleArgs {
    #[command(flatten)]
    attempt: Attempt,
    /// HTTP status of the answer
    #[arg(long, value_name = "CODE")]
    status: u16,
    /// JSON text of the answer
    #[arg(long, value_name = "JSON")]
    body: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct PurgeArgs {
    /// Most records to remove
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    rows: u32,
    #[command(flatten)]
    place: Place,
}

/// What became of a judged key.
#[derive(Serialize)]
struct Settled {
    id: String,
    status: &'static str,
    epoch: i64,
}

/// What a purge removed.
#[derive(Serialize)]
struct Purged {
    purged: u32,
}

pub(super) async fn run(verb: Verb) -> Result<(), End> {
    match verb {
        Verb::List(args) => list(args).await,
        Verb::Show(args) => show(args).await,
        Verb::Release(ReleaseArgs { attempt, place }) => {
            let effect = "release: the key is free; the next request with it runs from the start";
            judge(&place, &attempt, &Ruling::NothingHappened, effect).await
        }
        Verb::Settle(SettleArgs { attempt, status, body, place }) => {
            let effect = "settle: every repeat gets this answer, for ever; nothing runs";
            judge(&place, &attempt, &Ruling::Happened { status, body }, effect).await
        }
        Verb::Purge(args) => purge(&args).await,
    }
}

async fn list(args: ListArgs) -> Result<(), End> {
    let ListArgs { operation, status, after, limit, place } = args;
    let filter = KeyFilter { operation, status, after, limit };
    let page = place.work(async |office| Ok(office.keys(&filter).await?)).await?;
    place.answer(&page, table)?;
    if page.keys.is_empty() {
        place.say_none("no such keys");
    }
    place.say_more(page.next.as_ref());
    Ok(())
}

fn table(page: &KeyPage) -> String {
    let mut sheet = Sheet::new(&[
        "ID",
        "STATUS",
        "OPERATION",
        "TENANT",
        "SUBJECT",
        "KEY",
        "ATTEMPTS",
        "CREATED",
    ]);
    for line in &page.keys {
        let short: String = line.id.chars().take(SHOWN_DIGITS).collect();
        sheet.row([
            &short,
            line.status,
            &line.operation,
            &line.tenant,
            &line.subject,
            &line.key,
            &line.attempts.to_string(),
            &line.created_at,
        ]);
    }
    sheet.to_string()
}

async fn show(args: ShowArgs) -> Result<(), End> {
    let ShowArgs { id, tenant, key, principal, operation, place } = args;
    let name = match (id, tenant, key) {
        (Some(id), ..) => KeyName::Id(id),
        (None, Some(tenant), Some(key)) => KeyName::Sent { tenant, principal, operation, key },
        (None, ..) => {
            return Err(End::Usage("name a key: by its id, or by --tenant and --key".into()));
        }
    };
    let found = place.work(async |office| find(office, &name).await).await?;
    place.answer(&found, sheet)
}

async fn find(office: &Office, name: &KeyName) -> Result<KeyDetail, End> {
    office.key(name).await?.ok_or_else(|| End::NotFound("there is no such key".to_owned()))
}

fn sheet(key: &KeyDetail) -> String {
    let mut history = Sheet::new(&["AT", "EVENT", "EPOCH", "BY", "NOTE"]).titled("history");
    for line in &key.history {
        let epoch = line.epoch.to_string();
        history.row([&line.at, line.event, &epoch, &line.actor, &line.note]);
    }
    format!("{}{history}", facts(key))
}

fn facts(key: &KeyDetail) -> Sheet {
    let KeyLine { id, tenant, subject, operation, key: text, status, attempts, created_at } =
        &key.line;
    let answer = key.answer_status.map(|status| status.to_string());
    let mut sheet = Sheet::facts();
    sheet
        .row(["id", id])
        .row(["tenant", tenant])
        .fact("subject", Some(subject.as_str()).filter(|subject| !subject.is_empty()))
        .row(["operation", operation])
        .row(["key", text])
        .row(["status", status])
        .row(["class", &format!("{}: {}", key.class, key.class_means)])
        .row(["epoch", &key.epoch.to_string()])
        .row(["attempts", &attempts.to_string()])
        .row(["caller", &key.caller])
        .row(["created", created_at])
        .fact("lease until", key.lease_until.as_deref())
        .fact("settle from", key.settle_from.as_deref())
        .fact("completed", key.completed_at.as_deref())
        .fact("expires", key.expires_at.as_deref())
        .fact("answer", answer.as_deref());
    sheet
}

async fn judge(place: &Place, attempt: &Attempt, ruling: &Ruling, effect: &str) -> Result<(), End> {
    let Attempt { id, epoch, consent } = attempt;
    let settled = place
        .work(async |office| {
            let key = find(office, &KeyName::Id(id.clone())).await?;
            output::say(format!("{}{effect}", facts(&key)));
            consent.ask("Is that so?")?;
            let id = &key.line.id;
            let judged = office.rule(id, *epoch, ruling, &consent.by, &consent.reason).await?;
            let epoch = settled(judged, id)?;
            let status = match ruling {
                Ruling::NothingHappened => "open",
                Ruling::Happened { .. } => "completed",
            };
            Ok(Settled { id: id.clone(), status, epoch })
        })
        .await?;
    place.answer(&settled, |Settled { id, status, epoch }| {
        format!("{id} is {status} at epoch {epoch}\n")
    })
}

/// The fence that a ruling left, or why it was refused.
fn settled(judged: Judged, id: &str) -> Result<i64, End> {
    let refusal = match judged {
        Judged::Settled { epoch } => return Ok(epoch),
        Judged::Missing => return Err(End::NotFound("there is no such key".to_owned())),
        Judged::Over { status } => format!("the key is {status}: nothing is left to decide"),
        Judged::MovedOn { epoch } => format!(
            "another attempt took over since, at epoch {epoch}; look again with \
             `hapax keys show {id}`"
        ),
        Judged::Alive { until } => format!(
            "its holder is alive until {until} at least; wait for it, or stop it and decide then"
        ),
        Judged::Quiet { until } => {
            format!("its holder has only just died and may yet finish; decide from {until} on")
        }
    };
    Err(End::Conflict(refusal))
}

async fn purge(args: &PurgeArgs) -> Result<(), End> {
    let place = &args.place;
    let purged = place
        .work(async |office| {
            let mut purged = 0;
            while purged < args.rows {
                let rows = std::cmp::min(PURGE_ROWS, args.rows - purged);
                match office.purge_keys(u16::try_from(rows).unwrap_or(u16::MAX)).await? {
                    0 => break,
                    removed => purged += u32::from(removed),
                }
            }
            Ok(Purged { purged })
        })
        .await?;
    place.answer(&purged, |Purged { purged }| format!("{purged} records removed\n"))
}
