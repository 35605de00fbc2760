//! `hapax serve`: the payment service, until it is told to stop.

use std::{net::SocketAddr, path::PathBuf, pin::pin};

use futures_util::future::select;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::TaskTracker;

use crate::{end::End, log, output};
use hapax_pay::{Service, config::Config};

#[derive(clap::Args)]
#[command(after_help = "Example: HAPAX__LISTEN=0.0.0.0:8080 hapax serve --config shop/hapax.toml")]
pub(crate) struct Args {
    /// The configuration; `HAPAX__…` variables go over it, flags over both
    #[arg(long, env = "HAPAX_CONFIG", default_value = "hapax.toml")]
    config: PathBuf,
    /// Address to listen on; port 0 takes a free one
    #[arg(long)]
    listen: Option<SocketAddr>,
}

pub(crate) async fn run(args: Args) -> End {
    log::start();
    let mut config = match Config::read(&args.config) {
        Ok(config) => config,
        Err(why) => return why.into(),
    };
    config.listen = args.listen.unwrap_or(config.listen);
    // Without a recorder `/metrics` answers 404, and everything else works.
    let metrics = PrometheusBuilder::new().install_recorder().ok();
    let service = match Service::open(config, metrics).await {
        Ok(service) => service,
        Err(error) => return error.into(),
    };
    if let Err(end) = output::line(format!("http://{}", service.address())) {
        return end;
    }
    match service.serve(told_to_stop()).await {
        Ok(()) => End::Fine,
        Err(error) => error.into(),
    }
}

/// Completes at the first SIGTERM or SIGINT. A second one ends the process at once.
pub(crate) async fn told_to_stop() {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
        tracing::error!("signals cannot be heard; stop the process by force");
        return std::future::pending().await;
    };
    either(&mut terminate, &mut interrupt).await;
    output::say("stopping; once more to stop at once");
    // The tracker is dropped and the task lives on: it ends with the process.
    TaskTracker::new().spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        #[expect(clippy::exit, reason = "the operator insists")]
        std::process::exit(1);
    });
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    let (terminate, interrupt) = (terminate.recv(), interrupt.recv());
    // A signal is a flag: dropping the other wait loses nothing.
    let _first = select(pin!(terminate), pin!(interrupt)).await;
}
