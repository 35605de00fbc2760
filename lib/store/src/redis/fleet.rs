//! The servers of the store: one, or all masters of a cluster, and the way to each slot.
//!
//! A call is sent again only if the server said that it did not take it: to another server
//! (MOVED, ASK), or after teaching it the script (NOSCRIPT).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{Cmd, ConnectionAddr, ConnectionInfo, Value};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{
    node::{Claimant, Node, Unanswered},
    script::Script,
    slot::{self, SLOTS},
};
use crate::error::{Error, Kind};
use hapax_core::{Clock, SystemClock};

/// Servers that one call is sent on to: one that knows better, and one that a slot is on the way
/// to. More is a cluster that does not agree with itself.
const HOPS_MAX: usize = 5;
/// Whoever has just drawn the map again draws it no sooner than after this: every failed call
/// asks for it.
const MAP_PAUSE: Duration = Duration::from_millis(100);

/// All servers of the store.
pub(super) struct Fleet {
    seeds: Vec<ConnectionInfo>,
    answer_max: Duration,
    /// By address.
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    map: Option<Map>,
    first: Arc<Node>,
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
}

/// Who has which slot.
struct Map {
    owners: RwLock<Vec<Option<Arc<Node>>>>,
    is_being_drawn: AtomicBool,
}

impl Fleet {
    /// Finds the servers behind `seeds`: the first one that answers says what they are.
    pub(super) async fn find(
        seeds: Vec<ConnectionInfo>,
        answer_max: Duration,
    ) -> Result<Arc<Self>, Error> {
        let mut nodes = HashMap::new();
        let mut found = Err(Error::new(Kind::Invalid, "find Redis without an address"));
        for seed in &seeds {
            let node = Arc::new(Node::new(seed.clone(), answer_max)?);
            nodes.insert(seed.addr().to_string(), Arc::clone(&node));
            found = match is_cluster(&node).await {
                Ok(is_cluster) => {
                    found = Ok((node, is_cluster));
                    break;
                }
                Err(error) => Err(error),
            };
        }
        let (first, is_cluster) = found?;
        let map = is_cluster
            .then(|| Map { owners: RwLock::new(vec![None; SLOTS]), is_being_drawn: false.into() });
        let fleet = Arc::new(Self {
            seeds,
            answer_max,
            nodes: Mutex::new(nodes),
            map,
            first,
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        });
        if fleet.map.is_some() {
            fleet.draw().await?;
        }
        Ok(fleet)
    }

    /// Whether it is a cluster.
    pub(super) fn is_cluster(&self) -> bool {
        self.map.is_some()
    }

    /// Every server that has records.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let Some(map) = &self.map else { return vec![Arc::clone(&self.first)] };
        let mut masters: Vec<Arc<Node>> = Vec::new();
        for owner in map.owners.read().unwrap_or_else(PoisonError::into_inner).iter().flatten() {
            if !masters.iter().any(|known| Arc::ptr_eq(known, owner)) {
                masters.push(Arc::clone(owner));
            }
        }
        masters
    }

    /// Runs `call` of `script` on the owner of the slot of `tag`.
    pub(super) async fn run(
        self: &Arc<Self>,
        tag: &str,
        script: &Script,
        call: &Cmd,
    ) -> Result<Value, Error> {
        let slot = if self.is_cluster() { slot::of(tag.as_bytes()) } else { 0 };
        let mut node = self.owner(slot)?;
        let mut claimant = Claimant::Owner;
        for _ in 0..HOPS_MAX {
            match node.call(call, claimant).await {
                Ok(value) => return Ok(value),
                Err(Unanswered::Unknown) => node.load(script).await?,
                Err(Unanswered::Moved(address)) if self.is_cluster() => {
                    node = self.node(&address, node.info())?;
                    claimant = Claimant::Owner;
                    self.note(slot, &node);
                    self.draw_soon();
                }
                Err(Unanswered::Ask(address)) if self.is_cluster() => {
                    node = self.node(&address, node.info())?;
                    claimant = Claimant::Importer;
                }
                Err(Unanswered::Moved(_) | Unanswered::Ask(_)) => {
                    let op = "call a Redis that has become a cluster; open the store again";
                    return Err(Error::new(Kind::Unavailable, op));
                }
                Err(Unanswered::Failed(error)) => {
                    self.draw_soon();
                    return Err(error);
                }
            }
        }
        Err(Error::new(Kind::Unavailable, "follow a Redis Cluster that sends us round"))
    }

    fn owner(self: &Arc<Self>, slot: usize) -> Result<Arc<Node>, Error> {
        let Some(map) = &self.map else { return Ok(Arc::clone(&self.first)) };
        let owners = map.owners.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(owner)) = owners.get(slot) {
            return Ok(Arc::clone(owner));
        }
        drop(owners);
        self.draw_soon();
        Err(Error::new(Kind::Unavailable, "find the server of a slot that no server has"))
    }

    /// The server at `address`, which another one named.
    fn node(&self, address: &str, namer: &ConnectionInfo) -> Result<Arc<Node>, Error> {
        let addr = place(address, namer.addr()).ok_or_else(|| {
            Error::new(Kind::Unavailable, "read the address that a Redis Cluster sends us to")
        })?;
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(&addr.to_string()) {
            return Ok(Arc::clone(node));
        }
        let key = addr.to_string();
        let node = Arc::new(Node::new(namer.clone().set_addr(addr), self.answer_max)?);
        nodes.insert(key, Arc::clone(&node));
        Ok(node)
    }

    fn note(&self, slot: usize, owner: &Arc<Node>) {
        let Some(map) = &self.map else { return };
        let mut owners = map.owners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = owners.get_mut(slot) {
            *place = Some(Arc::clone(owner));
        }
    }

    /// Draws the map again in the background, unless somebody does or has just done so.
    fn draw_soon(self: &Arc<Self>) {
        let Some(map) = &self.map else { return };
        if map.is_being_drawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let fleet = Arc::clone(self);
        let drawing = async move {
            if let Err(error) = fleet.draw().await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "no server of the Redis Cluster told who has which slot");
            }
            SystemClock.sleep(MAP_PAUSE).await;
            if let Some(map) = &fleet.map {
                map.is_being_drawn.store(false, Ordering::Release);
            }
        };
        self.tasks.spawn_on(drawing, &self.runtime);
    }

    /// Asks the known servers in turn who has which slot.
    async fn draw(&self) -> Result<(), Error> {
        let Some(map) = &self.map else { return Ok(()) };
        let mut error = Error::new(Kind::Unavailable, "find a server of the Redis Cluster");
        for node in self.known()? {
            let mut slots = redis::cmd("CLUSTER");
            slots.arg("SLOTS");
            let drawn = match node.ask(&slots).await {
                Ok(answer) => self.drawn(&answer, node.info()),
                Err(error) => Err(error),
            };
            match drawn {
                Ok(owners) => {
                    *map.owners.write().unwrap_or_else(PoisonError::into_inner) = owners;
                    return Ok(());
                }
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    /// Owners first, then every other server that was ever named.
    fn known(&self) -> Result<Vec<Arc<Node>>, Error> {
        let mut known = self.masters();
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.extend(nodes.into_values());
        for seed in &self.seeds {
            known.push(self.node(&seed.addr().to_string(), seed)?);
        }
        let mut distinct: Vec<Arc<Node>> = Vec::with_capacity(known.len());
        for node in known {
            if !distinct.iter().any(|other| Arc::ptr_eq(other, &node)) {
                distinct.push(node);
            }
        }
        Ok(distinct)
    }

    fn drawn(
        &self,
        answer: &Value,
        namer: &ConnectionInfo,
    ) -> Result<Vec<Option<Arc<Node>>>, Error> {
        let ranges = ranges(answer)
            .ok_or_else(|| Error::new(Kind::Corrupt, "read who has which slot of the cluster"))?;
        let mut owners = vec![None; SLOTS];
        for Range { first, last, address } in ranges {
            let owner = self.node(&address, namer)?;
            for place in owners.iter_mut().take(last + 1).skip(first) {
                *place = Some(Arc::clone(&owner));
            }
        }
        Ok(owners)
    }
}

async fn is_cluster(node: &Node) -> Result<bool, Error> {
    let mut info = redis::cmd("INFO");
    info.arg("cluster");
    let told = node.ask(&info).await?;
    let told: String = redis::from_redis_value(told)
        .map_err(|cause| Error::caused(Kind::Corrupt, "ask Redis what it is", cause))?;
    Ok(told.lines().any(|line| line.trim() == "cluster_enabled:1"))
}

struct Range {
    first: usize,
    last: usize,
    address: String,
}

/// Reads the answer to CLUSTER SLOTS: of each range its ends and its first server, the master.
fn ranges(answer: &Value) -> Option<Vec<Range>> {
    let ranges = answer.as_sequence()?.iter().map(|range| {
        let range = range.as_sequence()?;
        let master = range.get(2)?.as_sequence()?;
        let host: Option<String> = redis::from_redis_value_ref(master.first()?).ok()?;
        let port: u16 = redis::from_redis_value_ref(master.get(1)?).ok()?;
        Some(Range {
            first: redis::from_redis_value_ref(range.first()?).ok()?,
            last: redis::from_redis_value_ref(range.get(1)?).ok()?,
            address: format!("{}:{port}", host.unwrap_or_default()),
        })
    });
    ranges.collect()
}

/// Reads `host:port`, reached as its namer is. Without a host it is the namer's.
fn place(address: &str, namer: &ConnectionAddr) -> Option<ConnectionAddr> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = |of_namer: &String| match host {
        "" | "?" => of_namer.clone(),
        host => host.to_owned(),
    };
    match namer {
        ConnectionAddr::Tcp(of_namer, _) => Some(ConnectionAddr::Tcp(host(of_namer), port)),
        ConnectionAddr::TcpTls { host: of_namer, insecure, tls_params, .. } => {
            Some(ConnectionAddr::TcpTls {
                host: host(of_namer),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            })
        }
        // A socket in the file system leads to no other server.
        ConnectionAddr::Unix(_) | _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_host_is_where_its_namer_is() {
        let namer = ConnectionAddr::Tcp("10.0.0.1".to_owned(), 7000);
        let at = |address| place(address, &namer).map(|place| place.to_string());
        assert_eq!(at(":7001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(at("?:7001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(at("redis-2.local:7001").as_deref(), Some("redis-2.local:7001"));
        assert_eq!(at("fd00::1:7001").as_deref(), Some("fd00::1:7001"));
        assert_eq!(at("nowhere"), None);
    }
}
