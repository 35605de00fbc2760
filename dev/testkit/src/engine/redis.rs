//! Redis.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::{Engine, Home, greeting, word, words};
use crate::process;

/// Redis.
#[derive(Debug)]
pub struct RedisEngine;

impl Engine for RedisEngine {
    const NAME: &'static str = "Redis";
    const SLUG: &'static str = "redis";
    const PACKAGE: &'static str = "redis-server";
    const ACCOUNT: Option<&'static str> = None;
    const VARIABLE: &'static str = "HAPAX_TEST_REDIS";
    const END: Signal = Signal::KILL;

    fn programs() -> Option<Vec<PathBuf>> {
        Some(vec![process::find("redis-server", &[])?])
    }

    fn prepare(_programs: &[PathBuf], home: &Home) -> Result<Vec<Vec<String>>> {
        fs::create_dir(home.data()).context("failed to make the directory of Redis")?;
        Ok(Vec::new())
    }

    fn serve(programs: &[PathBuf], home: &Home) -> Result<Vec<String>> {
        let mut line = vec![word(programs.first().context("no redis-server")?)?];
        line.extend(["--dir".to_owned(), word(&home.data())?]);
        line.extend(words(&format!("--port {} --bind 127.0.0.1 --daemonize no", home.port)));
        line.extend(words("--appendonly yes --appendfsync always --maxmemory-policy noeviction"));
        // Whose it is can be read from its command line, as of every other server.
        line.extend(words("--set-proc-title no"));
        // A replica gets its copy at once instead of after five seconds.
        line.extend(words("--repl-diskless-sync-delay 0"));
        // No snapshots, the log goes to the standard output.
        line.extend(["--save".to_owned(), String::new(), "--logfile".to_owned(), String::new()]);
        Ok(line)
    }

    fn setting(name: &str, value: &str) -> Vec<String> {
        // Several words are several values; no word is one empty value.
        let values = if value.is_empty() { vec![String::new()] } else { words(value) };
        [vec![format!("--{name}")], values].concat()
    }

    fn is_ready(home: &Home, _pid: u32) -> bool {
        greeting(home.port, b"PING\r\n", 7).is_some_and(|answer| answer == b"+PONG\r\n")
    }

    fn url(port: u16) -> String {
        format!("redis://127.0.0.1:{port}/")
    }
}
