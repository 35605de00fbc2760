//! The one executable of Hapax. Roles are subcommands; data goes to stdout, all else to stderr.

mod demo;
mod end;
mod init;
mod log;
mod output;
mod serve;
mod sim;
mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::end::End;

/// However often a request, callback, message or job is repeated, the business outcome is the same
/// one outcome.
#[derive(Parser)]
#[command(name = "hapax", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = end::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play the whole story: service, simulated channel and attackers, then audit the books
    Demo(demo::Args),
    /// Make keys, a configuration and a tenant
    Init(init::Args),
    /// Run the payment service
    Serve(serve::Args),
    /// Run a simulated payment channel
    Sim(sim::Args),
    #[command(flatten)]
    Verb(verbs::Verb),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One TLS provider, chosen before anything can choose another.
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        return End::failed("another TLS provider was installed before ours").report();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => return End::failed(format!("the runtime does not start: {why}")).report(),
    };
    runtime.block_on(run(cli.command)).report()
}

async fn run(command: Command) -> End {
    match command {
        Command::Demo(args) => demo::run(args).await,
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(args).await,
        Command::Sim(args) => sim::run(args).await,
        Command::Verb(verb) => verbs::run(verb).await,
    }
}
