//! `hapax migrate`: the schema of the database.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{place::Place, sheet::Sheet};
use crate::end::End;
use hapax_pay::operator::{self, SchemaLine};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List the steps of the schema, and which of them the database has
    #[command(after_help = "Example: hapax migrate info --json")]
    Info(Only),
    /// Take the steps that are missing; makes the database if there is none
    #[command(after_help = "Example: hapax migrate up --config shop/hapax.toml")]
    Up(Only),
    /// Print the SQL that `up` would run
    #[command(after_help = "Example: hapax migrate dry-run > review.sql")]
    DryRun(Only),
}

#[derive(Args)]
pub(crate) struct Only {
    #[command(flatten)]
    place: Place,
}

/// The steps of the schema.
#[derive(Serialize)]
struct Schema {
    steps: Vec<SchemaLine>,
}

/// The steps that ran.
#[derive(Serialize)]
struct Ran {
    ran: Vec<SchemaLine>,
}

/// The steps that would run.
#[derive(Serialize)]
struct Plan<'a> {
    would_run: Vec<Script<'a>>,
}

/// One step with its statements.
#[derive(Serialize)]
struct Script<'a> {
    part: &'a str,
    version: i64,
    name: &'a str,
    sql: &'a str,
}

pub(super) async fn run(verb: Verb) -> Result<(), End> {
    match verb {
        Verb::Info(Only { place }) => info(&place).await,
        Verb::Up(Only { place }) => up(&place).await,
        Verb::DryRun(Only { place }) => dry_run(&place).await,
    }
}

async fn info(place: &Place) -> Result<(), End> {
    let steps = operator::migrations(&place.config()?).await?;
    place.answer(&Schema { steps }, |Schema { steps }| {
        let mut sheet = Sheet::new(&["PART", "VERSION", "NAME", "APPLIED"]);
        for SchemaLine { part, version, name, applied, .. } in steps {
            let applied = if *applied { "yes" } else { "no" };
            sheet.row([part, &version.to_string(), name, applied]);
        }
        sheet.to_string()
    })
}

async fn up(place: &Place) -> Result<(), End> {
    let ran = operator::migrate(&place.config()?).await?;
    let ran = Ran { ran };
    place.answer(&ran, |Ran { ran }| {
        let line = |step: &SchemaLine| {
            let SchemaLine { part, version, name, .. } = step;
            format!("{part} {version} {name}\n")
        };
        ran.iter().map(line).collect()
    })?;
    if ran.ran.is_empty() {
        place.say_none("the schema is current");
    }
    Ok(())
}

async fn dry_run(place: &Place) -> Result<(), End> {
    let steps = operator::migrations(&place.config()?).await?;
    let missing = steps.iter().filter(|step| !step.applied);
    let would_run = missing.map(|step| {
        let SchemaLine { part, version, name, sql, .. } = step;
        Script { part, version: *version, name, sql }
    });
    let plan = Plan { would_run: would_run.collect() };
    place.answer(&plan, |Plan { would_run }| {
        let text = |script: &Script<'_>| {
            let Script { part, version, name, sql } = script;
            format!("-- {part} {version} {name}\n{}\n\n", sql.trim_end())
        };
        would_run.iter().map(text).collect()
    })?;
    if plan.would_run.is_empty() {
        place.say_none("the schema is current");
    }
    Ok(())
}
