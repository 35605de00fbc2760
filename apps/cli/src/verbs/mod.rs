//! The operator's verbs. They work on the service's own database, beside a running service.
//!
//! Invariant: what cannot be taken back needs a reason, says what it means, and asks on a terminal
//! or needs `--yes` (`nothing_is_done_without_a_yes`).

mod completions;
mod consent;
mod keys;
mod migrate;
mod outbox;
mod payments;
mod place;
mod sheet;
mod tokens;
mod verify;

use clap::Subcommand;

use crate::end::End;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Look at keys; release or settle one that nobody can finish
    #[command(subcommand)]
    Keys(keys::Verb),
    /// Issue a one-time token by hand, or tell what one is worth
    #[command(subcommand)]
    Tokens(tokens::Verb),
    /// Look at messages that have not arrived; send buried ones again
    #[command(subcommand)]
    Outbox(outbox::Verb),
    /// Look at payments; ask the channel about one
    #[command(subcommand)]
    Payments(payments::Verb),
    /// Look at the schema of the database, or bring it up
    #[command(subcommand)]
    Migrate(migrate::Verb),
    /// Recount effects against records and name every invariant that is broken
    Verify(verify::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

pub(crate) async fn run(verb: Verb) -> End {
    let ended = match verb {
        Verb::Keys(verb) => keys::run(verb).await,
        Verb::Tokens(verb) => tokens::run(verb).await,
        Verb::Outbox(verb) => outbox::run(verb).await,
        Verb::Payments(verb) => payments::run(verb).await,
        Verb::Migrate(verb) => migrate::run(verb).await,
        Verb::Verify(args) => verify::run(&args).await,
        Verb::Completions(args) => completions::run(&args),
    };
    match ended {
        Ok(()) => End::Fine,
        Err(end) => end,
    }
}
