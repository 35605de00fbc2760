//! Where a verb works and how it answers.

use std::path::PathBuf;

use serde::Serialize;

use crate::{end::End, output};
use hapax_pay::{config::Config, operator::Office};

/// The flags of every verb.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The configuration; `HAPAX__…` variables go over it
    #[arg(
        long,
        value_name = "FILE",
        env = "HAPAX_CONFIG",
        hide_env_values = true,
        default_value = "hapax.toml"
    )]
    config: PathBuf,
    /// Answer with one JSON document
    #[arg(long)]
    json: bool,
}

impl Place {
    /// The configuration.
    pub(super) fn config(&self) -> Result<Config, End> {
        Ok(Config::read(&self.config)?)
    }

    /// Opens the database, works, and closes it whatever came of the work.
    pub(super) async fn work<T>(
        &self,
        work: impl AsyncFnOnce(&Office) -> Result<T, End>,
    ) -> Result<T, End> {
        let office = Office::open(&self.config()?).await?;
        let done = work(&office).await;
        office.close().await;
        done
    }

    /// Prints the answer: as JSON, or as `people` read it.
    pub(super) fn answer<T: Serialize>(
        &self,
        answer: &T,
        people: impl FnOnce(&T) -> String,
    ) -> Result<(), End> {
        if !self.json {
            return output::print(&people(answer));
        }
        output::json(answer)
    }

    /// Tells people that a page has a successor; programs read it in the document.
    pub(super) fn say_more(&self, next: Option<impl std::fmt::Display>) {
        if let Some(next) = next.filter(|_| !self.json) {
            output::say(format!("more: --after {next}"));
        }
    }

    /// Tells people that there is nothing; programs read an empty list.
    pub(super) fn say_none(&self, nothing: &str) {
        if !self.json {
            output::say(nothing);
        }
    }
}
