//! The service in a process of its own, so that it can be killed: a test starts its own program
//! again and lets it serve.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    clock::soon,
    shop::Shop,
    stage::{Running, Setup, Stage},
};
use hapax_pay::{Service, config::Config};

/// Names the configuration in the environment of a part.
const CONFIG: &str = "HAPAX_PAY_PART";
/// What a part says when it listens; all other lines are the test runner's.
const LISTENING: &str = "part listens";

/// The configuration that this process is to serve, if it is a part.
pub(crate) fn part() -> Option<PathBuf> {
    env::var_os(CONFIG).map(PathBuf::from)
}

/// Serves until it is killed, or until whoever started it is gone.
pub(crate) fn serve(config: &Path) {
    play(async {
        let service = Service::open(Config::read(config).unwrap(), None).await.unwrap();
        println!("{LISTENING}");
        let orphaned = tokio::task::spawn_blocking(|| {
            let mut rest = Vec::new();
            drop(std::io::stdin().read_to_end(&mut rest));
        });
        service.serve(async move { drop(orphaned.await) }).await.unwrap();
    });
}

/// Runs a test.
pub(crate) fn play(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// A stage whose service is a process of its own, at the address where it will always be.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    part: Part,
    test: &'static str,
}

impl Scene {
    pub(crate) async fn open(test: &'static str, setup: Setup) -> Self {
        let mut stage = setup.open().await;
        let address = stage.service.address;
        let config = stage.config_at(address);
        stage.service.tell();
        stage.service.ended().await;
        let part = Part::start(test, &config);
        let scene = Self { stage, part, test };
        scene.serves().await;
        scene
    }

    /// Waits until the process answers.
    async fn serves(&self) {
        let url = format!("http://{}/livez", self.stage.service.address);
        soon("the process answers", || async {
            let answer = self.stage.http.get(&url).send().await.ok()?;
            answer.status().is_success().then_some(())
        })
        .await;
    }

    /// Kills the process and starts another one at once.
    pub(crate) async fn kill(self) -> Self {
        let Self { stage, part, test } = self;
        part.kill();
        let part = Part::start(test, &stage.config_at(stage.service.address));
        let scene = Self { stage, part, test };
        scene.serves().await;
        scene
    }

    /// Kills the process and goes on in this one.
    pub(crate) async fn kill_for_good(self) -> Stage {
        let Self { mut stage, part, .. } = self;
        part.kill();
        let config = stage.config_at(stage.service.address);
        stage.service = Running::open(config).await;
        stage
    }

    /// A value of the process in memory, in bytes, by its name in `/proc`.
    pub(crate) fn memory(&self, name: &str) -> usize {
        let Part(child) = &self.part;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() * 1024
    }

    pub(crate) fn shop(&self) -> Shop {
        self.stage.shop()
    }
}

/// A process that serves.
struct Part(Child);

impl Part {
    /// Starts `test` of this program again and waits until it listens.
    fn start(test: &str, config: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CONFIG, config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = lines.map_while(Result::ok).any(|line| line.contains(LISTENING));
        assert!(listens, "the part {test} ended before it listened");
        Self(child)
    }

    /// Kills it as the system does, without a word.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
