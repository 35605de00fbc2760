//! MariaDB.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::Signal;

use super::{Engine, Home, greeting, word, words};
use crate::process;

/// Run by the server before it takes connections. No password: it listens on loopback only.
const ACCOUNTS: &str = "CREATE DATABASE IF NOT EXISTS hapax;
CREATE USER IF NOT EXISTS hapax@'127.0.0.1';
GRANT ALL ON *.* TO hapax@'127.0.0.1' WITH GRANT OPTION;
";
/// The version of the protocol, first byte of the first packet's body.
const PROTOCOL: u8 = 10;

/// MariaDB.
#[derive(Debug)]
pub struct MariaDbEngine;

impl Engine for MariaDbEngine {
    const NAME: &'static str = "MariaDB";
    const SLUG: &'static str = "mariadb";
    const PACKAGE: &'static str = "mariadb-server";
    const ACCOUNT: Option<&'static str> = Some("mysql");
    const VARIABLE: &'static str = "HAPAX_TEST_MARIADB";
    const END: Signal = Signal::KILL;

    fn programs() -> Option<Vec<PathBuf>> {
        Some(vec![process::find("mariadb-install-db", &[])?, process::find("mariadbd", &[])?])
    }

    fn prepare(programs: &[PathBuf], home: &Home) -> Result<Vec<Vec<String>>> {
        let accounts = home.dir.join("accounts.sql");
        fs::write(accounts, ACCOUNTS).context("failed to write the accounts of MariaDB")?;
        let mut line = vec![word(programs.first().context("no mariadb-install-db")?)?];
        line.extend(["--no-defaults".to_owned(), format!("--datadir={}", word(&home.data())?)]);
        line.extend(words("--auth-root-authentication-method=normal --skip-test-db"));
        // Only while it is made: what it holds then can be made again.
        line.extend(words("--innodb-flush-method=nosync --innodb-log-file-size=16M"));
        Ok(vec![line])
    }

    fn serve(programs: &[PathBuf], home: &Home) -> Result<Vec<String>> {
        let mut line = vec![word(programs.last().context("no mariadbd")?)?];
        let dir = word(&home.dir)?;
        line.extend(["--no-defaults".to_owned(), format!("--datadir={}", word(&home.data())?)]);
        line.extend([
            format!("--socket={dir}/socket"),
            format!("--pid-file={dir}/server.pid"),
            format!("--init-file={dir}/accounts.sql"),
            format!("--port={}", home.port),
        ]);
        line.extend(words(
            "--skip-networking=0 --bind-address=127.0.0.1 --skip-name-resolve --max-connections=400
             --character-set-server=utf8mb4 --innodb-flush-log-at-trx-commit=1
             --innodb-log-file-size=16M --innodb-buffer-pool-size=64M",
        ));
        Ok(line)
    }

    fn setting(name: &str, value: &str) -> Vec<String> {
        vec![format!("--{name}={value}")]
    }

    fn is_ready(home: &Home, _pid: u32) -> bool {
        greeting(home.port, b"", 5).is_some_and(|packet| packet.get(4) == Some(&PROTOCOL))
    }

    fn url(port: u16) -> String {
        format!("mysql://hapax@127.0.0.1:{port}/hapax")
    }
}
