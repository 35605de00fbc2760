//! `hapax sim`: a payment channel to test against.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::{end::End, log, output, serve};
use hapax_sim::{Account, Config};

/// The name of the simulator's configuration.
pub(crate) const SIM_CONFIG: &str = "sim.toml";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    channel: Channel,
}

#[derive(clap::Subcommand)]
enum Channel {
    /// Alipay: precreate, page pay, query, close, refund, signed callbacks, and faults at will
    #[command(after_help = "Example: hapax sim alipay --dir shop --time-scale 3600")]
    Alipay(AlipayArgs),
}

#[derive(clap::Args)]
struct AlipayArgs {
    /// The directory that `hapax init --dev` made
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Address to listen on instead of the configured one; port 0 takes a free one
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Decides what chance does
    #[arg(long)]
    seed: Option<u64>,
    /// The schedule of callbacks is divided by this; 3600 makes an hour a second
    #[arg(long)]
    time_scale: Option<f64>,
}

/// The simulator's configuration, as it stands in its file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) private_key_file: PathBuf,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default = "SimConfig::real_time")]
    pub(crate) time_scale: f64,
    pub(crate) accounts: Vec<SimAccount>,
}

/// One merchant account at the simulator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimAccount {
    pub(crate) app_id: String,
    pub(crate) seller_id: String,
    pub(crate) public_key_file: PathBuf,
}

impl SimConfig {
    fn real_time() -> f64 {
        1.0
    }
}

pub(crate) async fn run(args: Args) -> End {
    let Channel::Alipay(args) = args.channel;
    log::start();
    match alipay(args).await {
        Ok(()) => End::Fine,
        Err(end) => end,
    }
}

async fn alipay(args: AlipayArgs) -> Result<(), End> {
    let simulator = hapax_sim::bind(config(&args)?).await.map_err(anyhow::Error::from)?;
    output::line(format!("http://{}", simulator.local_addr()))?;
    simulator.serve(serve::told_to_stop()).await.map_err(anyhow::Error::from)?;
    Ok(())
}

fn config(args: &AlipayArgs) -> anyhow::Result<Config> {
    let file = args.dir.join(SIM_CONFIG);
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let stored: SimConfig = toml::from_str(&read(&file)?)
        .with_context(|| format!("the configuration {} cannot be used", file.display()))?;
    let mut accounts = Vec::new();
    for account in stored.accounts {
        let key = read(&args.dir.join(&account.public_key_file))?;
        accounts.push(Account::with_key(account.app_id, account.seller_id, key));
    }
    let first = accounts.first().context("`accounts` is empty; add a merchant account")?.clone();
    let mut config = Config::new(read(&args.dir.join(&stored.private_key_file))?, first);
    config.accounts = accounts;
    config.listen = args.listen.unwrap_or(stored.listen);
    config.seed = args.seed.unwrap_or(stored.seed);
    config.time_scale = args.time_scale.unwrap_or(stored.time_scale);
    Ok(config)
}
