//! Redis Cluster: one that a run shares, and private ones that a test may hurt.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::{
    Redis, clock,
    port::Port,
    proxy::{Proxy, Tally},
    resp::ask,
    server::blocking,
    shared::SharedCluster,
    topology,
};

/// A fail-over takes the node time-out and an election; a loaded machine takes longer.
const FAIL_OVER_LIMIT: Duration = Duration::from_secs(30);
/// Milliseconds within which one batch of keys moves.
const MOVE_MS: &str = "5000";

/// The Redis Cluster of this run: keys of other tests are in it too, so use names of your own.
///
/// # Errors
///
/// Fails with one sentence and the end of a node's log if it cannot be started.
pub async fn redis_cluster() -> Result<SharedCluster> {
    blocking(SharedCluster::hold).await
}

/// A private Redis Cluster: three masters and a replica of each.
///
/// A node that nobody hears for a second is replaced by its replica.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    proxies: Vec<Proxy>,
}

impl RedisCluster {
    /// Starts six nodes and joins them.
    ///
    /// # Errors
    ///
    /// Fails with the end of a node's log if it does not answer.
    pub async fn start() -> Result<Self> {
        blocking(|| Self::launch(&[], |_| Ok(None))).await
    }

    /// As [`start`](Self::start), with settings for each node.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn with(settings: &[(&str, &str)]) -> Result<Self> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(owned).collect();
        blocking(move || Self::launch(&settings, |_| Ok(None))).await
    }

    /// As [`start`](Self::start), with a proxy before each node: nodes tell clients the proxies'
    /// ports, so that all of a client's traffic crosses them, and replication too.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn proxied() -> Result<Self> {
        blocking(|| {
            Self::launch(&[], |port| Proxy::before(&format!("redis://127.0.0.1:{port}/")).map(Some))
        })
        .await
    }

    fn launch(
        settings: &[(String, String)],
        proxy: impl Fn(u16) -> Result<Option<Proxy>>,
    ) -> Result<Self> {
        let (mut nodes, mut proxies) = (Vec::new(), Vec::new());
        for _ in 0..topology::NODES {
            let port = Port::take()?;
            let mut settings = [topology::settings(), settings.to_vec()].concat();
            if let Some(proxy) = proxy(port.number)? {
                settings.push(("cluster-announce-port".to_owned(), proxy.port().to_string()));
                proxies.push(proxy);
            }
            nodes.push(Redis::launch(port, &settings)?);
        }
        let cluster = Self { nodes, proxies };
        topology::join(&cluster.ports())?;
        Ok(cluster)
    }

    /// The nodes; at the start the first three are masters, and the replica of `n` is `n + 3`.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The proxies in the order of the nodes; none without [`proxied`](Self::proxied).
    #[must_use]
    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Where a client begins: all nodes, through their proxies if there are any.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            self.nodes.iter().map(Redis::url).collect()
        } else {
            self.proxies.iter().map(Proxy::url).collect()
        }
    }

    /// What crossed all proxies since the last reset.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.proxies.iter().map(Proxy::tally).sum()
    }

    /// Which node is the master of a key now, as the others see it.
    ///
    /// # Errors
    ///
    /// Fails if no running node knows a master for it.
    pub async fn master_of(&self, key: &str) -> Result<usize> {
        let (ports, key) = (self.running(), key.to_owned());
        let id = blocking(move || {
            let port = *ports.first().context("no node runs")?;
            let slot = slot_of(port, &key)?;
            owner(&ask(port, &["CLUSTER", "NODES"])?, slot).context("nobody has the slot")
        })
        .await?;
        self.index_of(id).await
    }

    /// Moves the slot of a key, with all keys in it, to another master.
    ///
    /// # Errors
    ///
    /// Fails if a node refuses; the slot may then be half moved.
    pub async fn move_slot_of(&self, key: &str, to: usize) -> Result<()> {
        let from = self.master_of(key).await?;
        ensure!(from != to, "the node has the slot already");
        let port = |at: usize| self.nodes.get(at).map(Redis::port).context("no such node");
        let (from, to, key, all) = (port(from)?, port(to)?, key.to_owned(), self.running());
        blocking(move || {
            let slot = slot_of(from, &key)?.to_string();
            let (from_id, to_id) =
                (ask(from, &["CLUSTER", "MYID"])?, ask(to, &["CLUSTER", "MYID"])?);
            ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
            ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])?;
            loop {
                let keys = ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
                if keys.is_empty() {
                    break;
                }
                let port = to.to_string();
                let begin = ["MIGRATE", "127.0.0.1", &port, "", "0", MOVE_MS, "KEYS"];
                ask(from, &begin.into_iter().chain(keys.lines()).collect::<Vec<_>>())?;
            }
            // The new owner first: nobody is left without one if we end here.
            let rest = all.into_iter().filter(|port| *port != to && *port != from);
            for port in [to, from].into_iter().chain(rest) {
                // Replicas learn it from their masters.
                if ask(port, &["ROLE"])?.starts_with("master") {
                    ask(port, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id])?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Lets a replica take over from its master in good order: no write is lost.
    ///
    /// # Errors
    ///
    /// Fails if the node is no replica or is not elected.
    pub async fn hand_over_to(&self, replica: usize) -> Result<()> {
        let port = self.nodes.get(replica).map(Redis::port).context("no such node")?;
        blocking(move || ask(port, &["CLUSTER", "FAILOVER"]).map(drop)).await?;
        self.wait_for_master(replica).await
    }

    /// Waits until a node is a master, for example after its own was killed.
    ///
    /// # Errors
    ///
    /// Fails if it is not elected within half a minute.
    pub async fn wait_for_master(&self, node: usize) -> Result<()> {
        let port = self.nodes.get(node).map(Redis::port).context("no such node")?;
        blocking(move || {
            clock::wait_for("the election of a master", FAIL_OVER_LIMIT, || {
                Ok(ask(port, &["ROLE"])?.starts_with("master").then_some(()))
            })
        })
        .await
    }

    /// Waits until the nodes that run agree and each replica among them follows its master.
    ///
    /// # Errors
    ///
    /// Fails if they do not within a minute.
    pub async fn settle(&self) -> Result<()> {
        let ports = self.running();
        blocking(move || topology::settle(&ports)).await
    }

    fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Redis::port).collect()
    }

    fn running(&self) -> Vec<u16> {
        let nodes = self.nodes.iter();
        nodes.filter(|node| node.pid().is_some()).map(Redis::port).collect()
    }

    async fn index_of(&self, id: String) -> Result<usize> {
        let nodes: Vec<(usize, u16)> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.pid().is_some())
            .map(|(at, node)| (at, node.port()))
            .collect();
        blocking(move || {
            for (at, port) in nodes {
                if ask(port, &["CLUSTER", "MYID"])? == id {
                    return Ok(at);
                }
            }
            anyhow::bail!("the master of the slot does not run")
        })
        .await
    }
}

impl Redis {
    /// Starts a replica of the Redis on a loopback port (its own or that of a proxy before it), and
    /// waits until it has its master's keys.
    ///
    /// # Errors
    ///
    /// Fails if it does not start or does not reach its master.
    pub async fn replica_of(port: u16) -> Result<Self> {
        let replica = Self::with(&[("replicaof", &format!("127.0.0.1 {port}"))]).await?;
        let own = replica.port();
        blocking(move || {
            clock::wait_for("the copy of a replica", FAIL_OVER_LIMIT, || {
                let state = topology::fields(&ask(own, &["INFO", "replication"])?);
                let up = state.get("master_link_status").is_some_and(|status| status == "up");
                Ok(up.then_some(()))
            })
        })
        .await?;
        Ok(replica)
    }

    /// Waits until this replica has everything that its master did so far.
    ///
    /// # Errors
    ///
    /// Fails if it does not get there within half a minute.
    pub async fn catch_up(&self, master: &Self) -> Result<()> {
        let (own, master) = (self.port(), master.port());
        blocking(move || {
            let offset = |port: u16, name: &str| -> Result<u64> {
                let state = topology::fields(&ask(port, &["INFO", "replication"])?);
                Ok(state.get(name).with_context(|| format!("no {name}"))?.parse()?)
            };
            let due = offset(master, "master_repl_offset")?;
            clock::wait_for("the copy of a replica", FAIL_OVER_LIMIT, || {
                Ok((offset(own, "slave_repl_offset")? >= due).then_some(()))
            })
        })
        .await
    }

    /// Sends one command on a connection of its own and returns the answer as text, lists as lines.
    ///
    /// # Errors
    ///
    /// Fails if it does not run or refuses.
    pub async fn ask(&self, words: &[&str]) -> Result<String> {
        let (port, words) =
            (self.port(), words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        blocking(move || ask(port, &words.iter().map(String::as_str).collect::<Vec<_>>())).await
    }
}

fn slot_of(port: u16, key: &str) -> Result<u16> {
    Ok(ask(port, &["CLUSTER", "KEYSLOT", key])?.parse()?)
}

/// The id of the master that has the slot, from `CLUSTER NODES`.
fn owner(nodes: &str, slot: u16) -> Option<String> {
    let mut lines = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|line| {
        let mut ranges = line.iter().skip(8).filter_map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some(from.parse::<u16>().ok()?..=to.parse::<u16>().ok()?)
        });
        line.get(2).is_some_and(|flags| !flags.contains("fail"))
            && ranges.any(|r| r.contains(&slot))
    })?;
    line.first().map(|id| (*id).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_slot_is_read_from_the_list_of_nodes() {
        let nodes = "a 127.0.0.1:1@2 master,fail - 0 0 1 connected 0-99\n\
            b 127.0.0.1:1@2 myself,master - 0 0 1 connected 5 7-9 [8->-c]\n";
        for (slot, expected) in [(5, Some("b")), (8, Some("b")), (10, None), (0, None)] {
            assert_eq!(owner(nodes, slot).as_deref(), expected, "{slot}");
        }
    }
}
