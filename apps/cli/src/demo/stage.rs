//! The stage: a directory, two child processes, and what they are told.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    init::{self, CONFIG, NewTenant, Setup},
    sim::SIM_CONFIG,
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
    directory: PathBuf,
    config: Config,
    service: Process,
    simulator: Process,
}

struct Process {
    child: Child,
    url: String,
}

impl Stage {
    /// Makes keys and configuration in a directory, and starts both there.
    pub(super) async fn set(
        directory: &Path,
        seed: u64,
        merchant: &Merchant,
    ) -> anyhow::Result<Self> {
        let tenants = TENANTS.map(|name| NewTenant {
            name: name.to_owned(),
            notice_url: Some(merchant.address(name)),
        });
        let setup = Setup { directory, tenants: &tenants, is_dev: true };
        let mut config = init::make(&setup)?;
        let simulator = start_simulator(directory, seed).await?;
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
        init::write_config(&directory.join(CONFIG), &config)?;
        let service = start_service(directory).await?;
        Ok(Self { directory: directory.to_owned(), config, service, simulator })
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
        self.service = start_service(&self.directory).await?;
        Ok(())
    }

    /// Tells both to stop and says how the service ended.
    pub(super) async fn stop(mut self) -> Option<ExitStatus> {
        let ended = self.service.stop().await;
        self.simulator.stop().await;
        ended
    }
}

impl Process {
    async fn stop(&mut self) -> Option<ExitStatus> {
        if let Some(id) = self.child.id() {
            let told = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
            if told.is_err() {
                // Without the tool there is only the hard way.
                self.child.start_kill().ok()?;
            }
        }
        // What does not end in time is killed on drop.
        tokio::time::timeout(STOP_MAX, self.child.wait()).await.ok()?.ok()
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

async fn start_simulator(directory: &Path, seed: u64) -> anyhow::Result<Process> {
    let mut command = this_executable()?;
    command.args(["sim", "alipay", "--listen", "127.0.0.1:0", "--dir"]).arg(directory);
    command.args(["--seed", &seed.to_string(), "--time-scale", &TIME_SCALE.to_string()]);
    debug_assert!(directory.join(SIM_CONFIG).exists(), "init writes it for development");
    start(command, &directory.join("sim.log")).await.context("the simulator does not start")
}

async fn start_service(directory: &Path) -> anyhow::Result<Process> {
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
async fn start(mut command: Command, log: &Path) -> anyhow::Result<Process> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
    let mut child = command.stderr(Stdio::from(log.try_clone()?)).spawn()?;
    let Some(stdout) = child.stdout.take() else { bail!("its output cannot be read") };
    let mut lines = BufReader::new(stdout).lines();
    // Dropping the wait loses the child too: it is killed on drop.
    let said = tokio::time::timeout(START_MAX, lines.next_line()).await;
    match said.context("it took too long")?? {
        Some(url) if url.starts_with("http://") => Ok(Process { child, url }),
        _ => bail!("it ended at once; its log says why"),
    }
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
