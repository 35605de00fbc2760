//! Keeps the shared servers of tests running: `hapax-servers [NAME]...`.
//!
//! Prints `VARIABLE=URL` for each and then `ready`; they stay until its input ends. Some seconds
//! later they are gone, unless tests use them.

use std::io::{self, Read as _, Write as _};

use anyhow::{Context as _, Result, bail};

use hapax_testkit::{
    engine::{Engine, MariaDbEngine, PostgresEngine, RedisEngine},
    shared::{Shared, SharedCluster},
};

/// What is started if nothing is named.
const ALL: [&str; 4] = ["postgres", "mariadb", "redis", "redis-cluster"];

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let named = if named.is_empty() { ALL.map(str::to_owned).to_vec() } else { named };
    let mut held: Vec<Box<dyn Send>> = Vec::new();
    let mut out = io::stdout();
    for name in &named {
        let (line, server) = match name.as_str() {
            "postgres" => hold::<PostgresEngine>()?,
            "mariadb" => hold::<MariaDbEngine>()?,
            "redis" => hold::<RedisEngine>()?,
            "redis-cluster" => {
                let cluster = SharedCluster::hold()?;
                let line = format!("{}={}", SharedCluster::VARIABLE, cluster.urls().join(","));
                (line, Box::new(cluster) as Box<dyn Send>)
            }
            other => bail!("{other} is no server of tests: name some of {}", ALL.join(", ")),
        };
        writeln!(out, "{line}").context("nobody reads where the servers are")?;
        held.push(server);
    }
    writeln!(out, "ready").context("nobody reads where the servers are")?;
    io::stdin().read_to_end(&mut Vec::new()).context("failed to wait for the end")?;
    drop(held);
    Ok(())
}

fn hold<E: Engine>() -> Result<(String, Box<dyn Send>)> {
    let server = Shared::<E>::hold()?;
    Ok((format!("{}={}", E::VARIABLE, server.url()), Box::new(server)))
}
