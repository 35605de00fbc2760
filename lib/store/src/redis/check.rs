//! What a server must be before a store opens on it.
//!
//! INFO tells all of it, also where a provider forbids CONFIG.

use std::{collections::HashMap, fmt};

use super::{fleet::Fleet, node::Node};
use crate::error::{Error, Kind};

/// The oldest server: scripts that are refused as a whole come with 7.0.
const VERSION_MIN: (u32, u32) = (7, 0);

/// What the caller accepts knowingly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accepted {
    pub(super) eviction: bool,
    pub(super) no_persistence: bool,
    pub(super) no_replica_quorum: bool,
}

/// Looks at every server that has records.
pub(super) async fn check(fleet: &Fleet, accepted: Accepted) -> Result<(), Error> {
    for master in fleet.masters() {
        let told = ask(&master).await?;
        judge(&Facts::read(&told), fleet.is_cluster(), accepted).map_err(|refusal| {
            let refusal = Unfit { server: master.info().addr().to_string(), refusal };
            Error::caused(Kind::Invalid, "open the Redis store", refusal)
        })?;
    }
    Ok(())
}

async fn ask(master: &Node) -> Result<String, Error> {
    let told = master.ask(&redis::cmd("INFO")).await?;
    redis::from_redis_value(told)
        .map_err(|cause| Error::caused(Kind::Corrupt, "ask Redis what it is", cause))
}

/// Why a server will not do, in one sentence.
#[derive(Debug)]
struct Unfit {
    server: String,
    refusal: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server at {} {}", self.server, self.refusal)
    }
}

impl std::error::Error for Unfit {}

/// What a server says about itself.
struct Facts<'a>(HashMap<&'a str, &'a str>);

impl<'a> Facts<'a> {
    fn read(info: &'a str) -> Self {
        Self(info.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    fn says(&self, field: &str) -> &'a str {
        self.0.get(field).copied().unwrap_or("")
    }

    fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.says("redis_version").split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

fn judge(facts: &Facts<'_>, is_cluster: bool, accepted: Accepted) -> Result<(), String> {
    let is_valkey = facts.says("server_name") == "valkey";
    if !is_valkey && facts.version().is_none_or(|version| version < VERSION_MIN) {
        let version = facts.says("redis_version");
        return Err(format!("is Redis {version}; upgrade it to 7.0 or later"));
    }
    if facts.says("role") == "slave" {
        return Err("is a replica; give the address of its master".to_owned());
    }
    let policy = facts.says("maxmemory_policy");
    let is_accepted = policy.starts_with("volatile-") && accepted.eviction;
    if policy != "noeviction" && !is_accepted {
        return Err(format!(
            "evicts records when it is full (maxmemory-policy {policy}), and an evicted record \
             runs again; set `maxmemory-policy noeviction`"
        ));
    }
    if facts.says("aof_enabled") != "1" && !accepted.no_persistence {
        return Err("forgets all records when it restarts; set `appendonly yes`, or accept it by \
                    `RedisOpening::accept_no_persistence`"
            .to_owned());
    }
    // This field is there only if min-replicas-to-write is not 0.
    let waits_for_replicas = !facts.says("min_slaves_good_slaves").is_empty();
    let has_replicas = !matches!(facts.says("connected_slaves"), "" | "0");
    if (has_replicas || is_cluster) && !waits_for_replicas && !accepted.no_replica_quorum {
        return Err("takes writes while no replica follows, and a fail-over loses them; set \
                    `min-replicas-to-write 1`, or accept it by \
                    `RedisOpening::accept_no_replica_quorum`"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\n\
        maxmemory_policy:noeviction\r\naof_enabled:1\r\nconnected_slaves:0\r\n";

    fn judged(changes: &[(&str, &str)], is_cluster: bool, accepted: Accepted) -> String {
        let changes: String = changes.iter().map(|(k, v)| format!("{k}:{v}\r\n")).collect();
        let info = format!("{SOUND}{changes}");
        judge(&Facts::read(&info), is_cluster, accepted).err().unwrap_or_default()
    }

    const NOTHING: Accepted =
        Accepted { eviction: false, no_persistence: false, no_replica_quorum: false };

    #[test]
    fn a_sound_server_is_taken() {
        assert_eq!(judged(&[], false, NOTHING), "");
        let quorum = [("connected_slaves", "1"), ("min_slaves_good_slaves", "1")];
        assert_eq!(judged(&quorum, true, NOTHING), "");
    }

    #[test]
    fn an_old_redis_is_refused_and_any_valkey_is_taken() {
        for version in ["6.2.14", "2.8.0", "", "x"] {
            let told = judged(&[("redis_version", version)], false, NOTHING);
            assert!(told.contains("upgrade it to 7.0"), "{version}: {told}");
        }
        for version in ["7.0.0", "7.2.4", "8.4.0", "10.0.0"] {
            assert_eq!(judged(&[("redis_version", version)], false, NOTHING), "");
        }
        let valkey = [("server_name", "valkey"), ("redis_version", "")];
        assert_eq!(judged(&valkey, false, NOTHING), "");
    }

    #[test]
    fn each_refusal_says_what_to_change_and_each_consent_counts_for_itself() {
        let evicts = [("maxmemory_policy", "volatile-lru")];
        let forgets = [("aof_enabled", "0")];
        let alone = [("connected_slaves", "2")];
        for (flaw, cure, accepted) in [
            (evicts, "maxmemory-policy noeviction", Accepted { eviction: true, ..NOTHING }),
            (forgets, "appendonly yes", Accepted { no_persistence: true, ..NOTHING }),
            (alone, "min-replicas-to-write 1", Accepted { no_replica_quorum: true, ..NOTHING }),
        ] {
            let told = judged(&flaw, false, NOTHING);
            assert!(told.contains(cure), "{told}");
            assert_eq!(judged(&flaw, false, accepted), "");
            let flipped = Accepted {
                eviction: !accepted.eviction,
                no_persistence: !accepted.no_persistence,
                no_replica_quorum: !accepted.no_replica_quorum,
            };
            assert!(judged(&flaw, false, flipped).contains(cure), "another consent is none");
        }
        assert!(judged(&[], true, NOTHING).contains("min-replicas-to-write 1"), "a cluster");
        assert!(judged(&[("role", "slave")], false, NOTHING).contains("is a replica"));
    }

    #[test]
    fn what_evicts_any_key_is_refused_whatever_is_accepted() {
        let all = Accepted { eviction: true, no_persistence: true, no_replica_quorum: true };
        for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random", ""] {
            let told = judged(&[("maxmemory_policy", policy)], false, all);
            assert!(told.contains("noeviction"), "{policy}: {told}");
        }
    }
}
