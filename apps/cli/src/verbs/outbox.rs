//! `hapax outbox`: what has not arrived, what was given up, and sending it again.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{
    consent::Consent,
    place::Place,
    sheet::{Sheet, printable},
};
use crate::{end::End, output};
use hapax_pay::operator::{LetterDetail, LetterLine, LetterPage, Office, Replayed, Which};

/// Messages that are looked at together.
const PAGE_ROWS: u16 = 500;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List messages that have not arrived, in the order in which they were written
    #[command(after_help = "Example: hapax outbox list --buried")]
    List(ListArgs),
    /// Show what a message says and what became of it
    #[command(after_help = "Example: hapax outbox show 0f1e2d3c4b5a69788796a5b4c3d2e1f0")]
    Show(ShowArgs),
    /// Send a message again that was given up, under the same id
    #[command(after_help = "Example: hapax outbox replay --all-buried \
                            --reason 'the shop has repaired its endpoint'")]
    Replay(ReplayArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Only those that were given up
    #[arg(long)]
    buried: bool,
    /// Only those after this sequence number
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: i64,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// 32 hex digits, as `outbox list` shows them
    id: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// 32 hex digits, as `outbox list` shows them
    #[arg(required_unless_present = "all_buried", conflicts_with = "all_buried")]
    id: Option<String>,
    /// Every message that was given up
    #[arg(long)]
    all_buried: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    place: Place,
}

/// Which messages leave again.
#[derive(Serialize)]
struct Sent {
    replayed: Vec<String>,
}

pub(super) async fn run(verb: Verb) -> Result<(), End> {
    match verb {
        Verb::List(args) => list(&args).await,
        Verb::Show(args) => show(&args).await,
        Verb::Replay(args) => replay(&args).await,
    }
}

async fn list(args: &ListArgs) -> Result<(), End> {
    let place = &args.place;
    let which = if args.buried { Which::Buried } else { Which::All };
    let page =
        place.work(async |office| Ok(office.letters(which, args.after, args.limit).await?)).await?;
    place.answer(&page, table)?;
    if page.messages.is_empty() {
        place.say_none("no such messages");
    }
    place.say_more(page.next);
    Ok(())
}

fn table(page: &LetterPage) -> String {
    let head = ["SEQUENCE", "ID", "TOPIC", "KEY", "ATTEMPTS", "WRITTEN", "BURIED BECAUSE"];
    let mut sheet = Sheet::new(&head);
    for line in &page.messages {
        let LetterLine { id, sequence, topic, key, attempts, created_at, buried } = line;
        sheet.row([
            &sequence.to_string(),
            id,
            topic,
            key,
            &attempts.to_string(),
            created_at,
            buried.as_deref().unwrap_or_default(),
        ]);
    }
    sheet.to_string()
}

async fn show(args: &ShowArgs) -> Result<(), End> {
    let place = &args.place;
    let letter = place.work(async |office| Ok(office.letter(&args.id).await?)).await?;
    place.answer(&letter.ok_or_else(missing)?, sheet)
}

fn sheet(letter: &LetterDetail) -> String {
    let LetterLine { id, sequence, topic, key, attempts, created_at, buried } = &letter.line;
    let mut facts = Sheet::facts();
    facts
        .row(["id", id])
        .row(["sequence", &sequence.to_string()])
        .row(["topic", topic])
        .row(["key", key])
        .row(["attempts", &attempts.to_string()])
        .row(["written", created_at])
        .fact("buried because", buried.as_deref());
    let mut history = Sheet::new(&["AT", "EVENT", "BY", "REASON"]).titled("history");
    for line in &letter.history {
        history.row([&line.at, &line.event, &line.actor, &line.reason]);
    }
    let payload = printable(&letter.payload.to_string());
    format!("{facts}payload\n  {payload}\n{history}")
}

async fn replay(args: &ReplayArgs) -> Result<(), End> {
    let ReplayArgs { id, consent, place, .. } = args;
    let replayed = place
        .work(async |office| match id {
            Some(id) => replay_one(office, id, consent).await,
            None => replay_buried(office, consent).await,
        })
        .await?;
    place.answer(&Sent { replayed }, |Sent { replayed }| {
        replayed.iter().map(|id| format!("{id} leaves again\n")).collect()
    })
}

async fn replay_one(office: &Office, id: &str, consent: &Consent) -> Result<Vec<String>, End> {
    let letter = office.letter(id).await?.ok_or_else(missing)?;
    if letter.line.buried.is_none() {
        return Err(on_its_way());
    }
    output::say(sheet(&letter).trim_end());
    consent.ask("Send it again? Its receiver knows the id and does nothing twice.")?;
    match office.replay(id, &consent.by, &consent.reason).await? {
        Replayed::Sent => Ok(vec![letter.line.id]),
        Replayed::OnItsWay => Err(on_its_way()),
        Replayed::Missing => Err(missing()),
    }
}

/// Each message that is buried now is sent again once: one that is buried anew meanwhile stays
/// behind the place that was reached.
async fn replay_buried(office: &Office, consent: &Consent) -> Result<Vec<String>, End> {
    let count = office.buried().await?;
    if count == 0 {
        output::say("no message is buried");
        return Ok(Vec::new());
    }
    consent.ask(&format!("Send {count} buried messages again?"))?;
    let (mut after, mut replayed) = (0, Vec::new());
    loop {
        let page = office.letters(Which::Buried, after, PAGE_ROWS).await?;
        for line in page.messages {
            after = line.sequence;
            match office.replay(&line.id, &consent.by, &consent.reason).await? {
                Replayed::Sent => replayed.push(line.id),
                // Somebody else was faster.
                Replayed::OnItsWay | Replayed::Missing => {}
            }
        }
        if page.next.is_none() {
            return Ok(replayed);
        }
    }
}

fn missing() -> End {
    let sentence = "there is no such message: it has arrived, or was never written";
    End::NotFound(sentence.to_owned())
}

fn on_its_way() -> End {
    End::Conflict("the message was not given up: it is on its way".to_owned())
}
