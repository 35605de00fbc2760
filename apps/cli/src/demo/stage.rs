//! The stage: a directory, two child processes, and what they are told.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    init::{self, CONFIG, NewTenant, SIM_CONFIG, Setup},
    output,
};
use hapax_pay::config::{Bounds, Config, Periods, Span};
use hapax_storm::Merchant;

/// A child must say within this time where it listens.
const START_MAX: Duration = Duration::from_secs(20);
/// A child that is told to stop must be gone within this time.
const STOP_MAX: Duration = Duration::from_secs(10);
/// An hour of the channel's schedule in one second.
const TIME_SCALE: f64 = 3600.0;
/// The tenants of the demo.
const TENANTS: [&str; 2] = ["demo", "other"];

/// Service and simulator, with everything that they need.
pub(super) struct Stage {
    directory: TempDir,
    config: Config,
    service: Player,
    simulator: Player,
}

struct Player {
    child: Child,
    url: String,
}

impl Stage {
    /// Makes keys and configuration, and starts both.
    pub(super) async fn set(seed: u64, merchant: &Merchant) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("hapax-demo-").tempdir()?;
        let tenants = TENANTS.map(|name| NewTenant {
            name: name.to_owned(),
            notice_url: Some(merchant.address(name)),
        });
        let setup = Setup { directory: directory.path(), tenants: &tenants, is_dev: true };
        let mut config = init::make(&setup)?;
        let simulator = start_simulator(directory.path(), seed).await?;
        let port = free_port()?;
        config.listen = (Ipv4Addr::LOCALHOST, port).into();
        config.periods = periods();
        config.bounds = Bounds { checks_at_once: 32, sends_at_once: 32, ..Bounds::default() };
        config.tokens.per_minute = 100_000;
        for tenant in &mut config.tenants {
            if let Some(alipay) = &mut tenant.alipay {
                alipay.gateway = format!("{}/gateway.do", simulator.url);
            }
        }
        init::write_config(&directory.path().join(CONFIG), &config)?;
        let service = start_service(directory.path()).await?;
        Ok(Self { directory, config, service, simulator })
    }

    pub(super) fn service(&self) -> &str {
        &self.service.url
    }

    pub(super) fn simulator(&self) -> &str {
        &self.simulator.url
    }

    /// The database of the service.
    pub(super) fn database(&self) -> anyhow::Result<PathBuf> {
        Ok(self.config.sqlite_file()?)
    }

    /// The merchants, as the attacker knows them.
    pub(super) fn tenants(&self) -> Vec<hapax_storm::Tenant> {
        let read =
            |file: &Path| std::fs::read_to_string(self.config.resolve(file)).unwrap_or_default();
        let tenant = |tenant: &hapax_pay::config::Tenant| hapax_storm::Tenant {
            name: tenant.name.clone(),
            api_key: read(&tenant.api_key_file),
            notice_secret: tenant.notice_secret_file.as_deref().map(read),
        };
        self.config.tenants.iter().map(tenant).collect()
    }

    /// Kills the service without a word and starts it again on the same port and data.
    pub(super) async fn kill_and_restart(&mut self, dead: Duration) -> anyhow::Result<()> {
        self.service.child.kill().await.context("the service cannot be killed")?;
        pause(dead).await;
        self.service = start_service(self.directory.path()).await?;
        Ok(())
    }

    /// Tells both to stop and says how the service ended.
    pub(super) async fn strike(mut self) -> Option<ExitStatus> {
        let ended = stop(&mut self.service.child).await;
        stop(&mut self.simulator.child).await;
        ended
    }

    /// Leaves both up until somebody interrupts.
    pub(super) async fn keep(mut self) -> anyhow::Result<()> {
        let key = self.tenants().into_iter().next().map(|tenant| tenant.api_key);
        output::line(format!("export HAPAX={}", self.service.url));
        output::line(format!("export KEY={}", key.unwrap_or_default()));
        output::line(format!("export SIM={}", self.simulator.url));
        output::say(format!("everything is in {}", self.directory.path().display()));
        output::say("interrupt to stop");
        crate::serve::told_to_stop().await;
        stop(&mut self.service.child).await;
        stop(&mut self.simulator.child).await;
        Ok(())
    }
}

/// The periods of a day in half a minute.
fn periods() -> Periods {
    let ms = |millis| Span(Duration::from_millis(millis));
    Periods {
        lease: ms(2_000),
        wait: ms(1_000),
        expiry: ms(600_000),
        expiry_min: ms(1_000),
        expiry_grace: ms(500),
        // Longer than the storm: a buyer may come late and his callback be lost for good.
        watch: ms(120_000),
        checks: vec![ms(100), ms(250), ms(500), ms(1_000)],
        refund_ask_after: ms(300),
        sweep: ms(50),
        complete: ms(200),
        purge: ms(1_000),
        resend: ms(200),
        resend_max: ms(2_000),
        probe: ms(200),
        probe_max: ms(2_000),
        channel_timeout: ms(2_000),
        notice_timeout: ms(1_500),
        drain: ms(5_000),
        ..Periods::default()
    }
}

/// A port that is free now, kept for the service over its restarts.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}

async fn start_simulator(directory: &Path, seed: u64) -> anyhow::Result<Player> {
    let mut command = this_executable()?;
    command.args(["sim", "alipay", "--listen", "127.0.0.1:0", "--dir"]).arg(directory);
    command.args(["--seed", &seed.to_string(), "--time-scale", &TIME_SCALE.to_string()]);
    debug_assert!(directory.join(SIM_CONFIG).exists(), "init writes it for development");
    start(command, &directory.join("sim.log")).await.context("the simulator does not start")
}

async fn start_service(directory: &Path) -> anyhow::Result<Player> {
    let mut command = this_executable()?;
    command.arg("serve").arg("--config").arg(directory.join(CONFIG));
    start(command, &directory.join("service.log")).await.context("the service does not start")
}

fn this_executable() -> anyhow::Result<Command> {
    let executable = std::env::current_exe().context("this executable cannot be found")?;
    let mut command = Command::new(executable);
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped());
    // The children read the configuration that was written for them and nothing else.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HAPAX_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Starts a child and waits until it says where it listens.
async fn start(mut command: Command, log: &Path) -> anyhow::Result<Player> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    let mut child = command.stderr(Stdio::from(log.try_clone()?)).spawn()?;
    let Some(stdout) = child.stdout.take() else { bail!("its output cannot be read") };
    let mut lines = BufReader::new(stdout).lines();
    // Dropping the wait loses the child too: it is killed on drop.
    let said = tokio::time::timeout(START_MAX, lines.next_line()).await;
    match said.context("it took too long")?? {
        Some(url) if url.starts_with("http://") => Ok(Player { child, url }),
        _ => bail!("it ended at once; its log says why"),
    }
}

async fn stop(child: &mut Child) -> Option<ExitStatus> {
    if let Some(id) = child.id() {
        let told = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
        if told.is_err() {
            // Without the tool there is only the hard way.
            child.start_kill().ok()?;
        }
    }
    // What does not end in time is killed on drop.
    tokio::time::timeout(STOP_MAX, child.wait()).await.ok()?.ok()
}

/// The time of this process, for deadlines.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "the demo's own clock")]
pub(super) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
