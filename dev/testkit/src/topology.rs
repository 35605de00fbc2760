//! How nodes become a Redis Cluster: three masters that share the slots, three replicas.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};

use crate::{clock, port::BUS, resp::ask};

/// Masters; each has one replica.
pub(crate) const MASTERS: usize = 3;
/// Nodes in all.
pub(crate) const NODES: usize = 2 * MASTERS;
/// Slots of every Redis Cluster.
const SLOTS: usize = 16_384;
/// Nodes find each other within some seconds, also on a loaded machine.
const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// What a node of a cluster is started with.
pub(crate) fn settings() -> Vec<(String, String)> {
    let pairs = [("cluster-enabled", "yes"), ("cluster-node-timeout", "1000")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Joins the nodes on these ports; the first half are masters.
pub(crate) fn join(ports: &[u16]) -> Result<()> {
    let (masters, replicas) = ports.split_at_checked(MASTERS).context("too few nodes")?;
    let first = *masters.first().context("no nodes")?;
    for (at, master) in masters.iter().enumerate() {
        let from = (SLOTS * at / MASTERS).to_string();
        let to = (SLOTS * (at + 1) / MASTERS - 1).to_string();
        // Masters that meet with the same epoch would have to agree on new ones first.
        ask(*master, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])?;
        ask(*master, &["CLUSTER", "ADDSLOTSRANGE", &from, &to])?;
    }
    for other in ports.iter().skip(1) {
        let bus = (*other + BUS).to_string();
        ask(first, &["CLUSTER", "MEET", "127.0.0.1", &other.to_string(), &bus])?;
    }
    for port in ports {
        wait_for(*port, "cluster_known_nodes", &ports.len().to_string())?;
    }
    for (master, replica) in masters.iter().zip(replicas) {
        let id = ask(*master, &["CLUSTER", "MYID"])?;
        ask(*replica, &["CLUSTER", "REPLICATE", &id])?;
    }
    settle(ports)
}

/// Waits until all nodes see the whole cluster and each replica follows its master.
pub(crate) fn settle(ports: &[u16]) -> Result<()> {
    for port in ports {
        wait_for(*port, "cluster_state", "ok")?;
    }
    clock::wait_for("the replication of a Redis Cluster", JOIN_LIMIT, || {
        let mut replicas = 0;
        for port in ports {
            let state = fields(&ask(*port, &["INFO", "replication"])?);
            let is = |name: &str, value: &str| state.get(name).is_some_and(|found| found == value);
            if is("role", "slave") && !is("master_link_status", "up") {
                return Ok(None);
            }
            replicas += usize::from(is("role", "slave"));
        }
        // The roles are told to everybody by gossip.
        let told = |port: &u16| -> Result<bool> {
            let nodes = ask(*port, &["CLUSTER", "NODES"])?;
            Ok(nodes.lines().filter(|line| line.contains("slave")).count() == replicas)
        };
        let all = ports.iter().map(told).collect::<Result<Vec<bool>>>()?;
        Ok((replicas > 0 && all.into_iter().all(|told| told)).then_some(()))
    })
}

/// `name:value` lines as a map.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn wait_for(port: u16, name: &str, value: &str) -> Result<()> {
    clock::wait_for(&format!("{name} {value} of a Redis Cluster"), JOIN_LIMIT, || {
        let state = fields(&ask(port, &["CLUSTER", "INFO"])?);
        Ok(state.get(name).is_some_and(|found| found == value).then_some(()))
    })
}
