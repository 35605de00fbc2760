//! PostgreSQL.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::{Engine, Home, word, words};
use crate::process;

/// Where Debian keeps the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The state that the server writes into its file of process number and port.
const READY: &str = "ready";

/// PostgreSQL.
#[derive(Debug)]
pub struct PostgresEngine;

impl Engine for PostgresEngine {
    const NAME: &'static str = "PostgreSQL";
    const SLUG: &'static str = "postgres";
    const PACKAGE: &'static str = "postgresql";
    const ACCOUNT: Option<&'static str> = Some("postgres");
    const VARIABLE: &'static str = "HAPAX_TEST_POSTGRES";
    // At once, but its shared memory is given back: after SIGKILL it stays until a restart.
    const END: Signal = Signal::QUIT;

    fn programs() -> Option<Vec<PathBuf>> {
        let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let mut numbered: Vec<(u32, PathBuf)> = versions
            .filter_map(|entry| {
                Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
            })
            .collect();
        numbered.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        let dirs: Vec<PathBuf> = numbered.into_iter().map(|(_, dir)| dir).collect();
        Some(vec![process::find("initdb", &dirs)?, process::find("postgres", &dirs)?])
    }

    fn prepare(programs: &[PathBuf], home: &Home) -> Result<Vec<Vec<String>>> {
        let mut line = vec![word(programs.first().context("no initdb")?)?];
        line.extend(["-D".to_owned(), word(&home.data())?]);
        line.extend(words("-U hapax --auth=trust --no-sync -E UTF8 --locale=C.UTF-8"));
        Ok(vec![line])
    }

    fn serve(programs: &[PathBuf], home: &Home) -> Result<Vec<String>> {
        let mut line = vec![word(programs.last().context("no postgres")?)?];
        line.extend(["-D".to_owned(), word(&home.data())?]);
        line.extend(words(&format!("-h 127.0.0.1 -p {} -k", home.port)));
        // No socket in the file system.
        line.push(String::new());
        line.extend(words("-c max_connections=400 -c shared_buffers=64MB"));
        Ok(line)
    }

    fn setting(name: &str, value: &str) -> Vec<String> {
        vec!["-c".to_owned(), format!("{name}={value}")]
    }

    fn is_ready(home: &Home, pid: u32) -> bool {
        let state = fs::read_to_string(home.data().join("postmaster.pid")).unwrap_or_default();
        // A server that was killed leaves its file.
        let own = state.lines().next().is_some_and(|line| line == pid.to_string());
        own && state.lines().nth(7).is_some_and(|line| line.trim() == READY)
    }

    fn url(port: u16) -> String {
        format!("postgres://hapax@127.0.0.1:{port}/postgres")
    }
}
