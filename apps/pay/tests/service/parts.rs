//! The service in a process of its own, so that it can be killed: a test starts its own program
//! again and lets it serve.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
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

/// A process that serves.
pub(crate) struct Part(Child);

impl Part {
    /// Starts `test` of this program again and waits until it listens.
    pub(crate) fn start(test: &str, config: &Path) -> Self {
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
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
