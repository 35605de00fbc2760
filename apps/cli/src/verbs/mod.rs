//! The operator's verbs.

use clap::Subcommand;

use crate::end::End;

#[derive(Subcommand)]
pub(crate) enum Verb {}

pub(crate) async fn run(verb: Verb) -> End {
    match verb {}
}
