//! Pages of records: every key is met, the smallest ids after the last page are kept.
//!
//! Redis keeps no order of its keys. One page costs a SCAN of all masters and a look at each
//! record that may still be on it; nothing is blocked meanwhile.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join_all};
use redis::Value;

use super::{node::Node, store::RedisStore};
use crate::error::{Error, Kind};
use hapax_core::{
    Id, Record, Timestamp,
    store::{Page, Scan},
};

/// Keys that a server goes through at once: some tenths of a millisecond.
const KEYS_AT_ONCE: u32 = 500;

pub(super) async fn page(store: &RedisStore, scan: &Scan) -> Result<Page, Error> {
    // Whatever is there: it tells the time.
    let now = store.look_at(Id::from_stored([0; 32])).await?.now;
    let parts = store.shared().fleet.masters().into_iter().map(|master| async move {
        let mut part = Part::new(scan, now);
        part.fill(store, &master).await.map(|()| part)
    });
    let mut all = Part::new(scan, now);
    for part in try_join_all(parts).await? {
        all.take(part);
    }
    let more = all.records.len() > all.limit;
    let (ids, records): (Vec<_>, Vec<_>) = all.records.into_iter().take(all.limit).unzip();
    Ok(Page { records, now: all.now, next: ids.last().copied().filter(|_| more) })
}

/// The smallest ids that were met so far, one more than the page has.
struct Part<'a> {
    scan: &'a Scan,
    limit: usize,
    records: BTreeMap<Id, Record>,
    now: Timestamp,
}

impl<'a> Part<'a> {
    fn new(scan: &'a Scan, now: Timestamp) -> Self {
        let limit = usize::from(scan.limit);
        Self { scan, limit, records: BTreeMap::new(), now }
    }

    async fn fill(&mut self, store: &RedisStore, master: &Node) -> Result<(), Error> {
        let mut cursor = "0".to_owned();
        loop {
            let (next, keys) = keys(store, master, &cursor).await?;
            let wanted = keys.into_iter().filter(|id| self.may_have(*id));
            for found in join_all(wanted.map(|id| store.look_at(id))).await {
                let found = found?;
                self.now = std::cmp::max(self.now, found.now);
                if let Some(record) = found.record {
                    self.meet(std::sync::Arc::unwrap_or_clone(record));
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Whether a record of this id would be kept.
    fn may_have(&self, id: Id) -> bool {
        let is_after = self.scan.after.is_none_or(|after| id > after);
        let is_full = self.records.len() > self.limit;
        is_after && (!is_full || self.records.last_key_value().is_some_and(|(last, _)| id < *last))
    }

    fn meet(&mut self, record: Record) {
        let Scan { operation, status, .. } = self.scan;
        if status.is_none_or(|status| record.status(self.now) == status)
            && operation.as_ref().is_none_or(|name| record.identity.operation() == name)
        {
            self.records.insert(record.identity.id(), record);
            if self.records.len() > self.limit + 1 {
                self.records.pop_last();
            }
        }
    }

    fn take(&mut self, part: Self) {
        self.now = std::cmp::max(self.now, part.now);
        for record in part.records.into_values() {
            self.meet(record);
        }
    }
}

/// The ids of some keys of a server, and where the next ones begin.
async fn keys(store: &RedisStore, master: &Node, cursor: &str) -> Result<(String, Vec<Id>), Error> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(store.pattern()).arg("COUNT").arg(KEYS_AT_ONCE);
    let told = master.ask(&scan).await?;
    let (next, keys): (String, Vec<String>) = understood(told)?;
    let ids = keys.iter().filter_map(|key| {
        let tag = key.split_once(":{")?.1.strip_suffix('}')?;
        Id::parse(tag).ok()
    });
    Ok((next, ids.collect()))
}

impl RedisStore {
    /// What the keys of records look like. Locks have another tail.
    fn pattern(&self) -> String {
        let literal = |letter: char| match letter {
            '*' | '?' | '[' | ']' | '\\' | '^' => format!("\\{letter}"),
            letter => letter.to_string(),
        };
        let namespace: String = self.shared().namespace.chars().map(literal).collect();
        format!("{namespace}:{{*}}")
    }
}

fn understood<T: redis::FromRedisValue>(told: Value) -> Result<T, Error> {
    redis::from_redis_value(told)
        .map_err(|cause| Error::caused(Kind::Corrupt, "read the answer of Redis", cause))
}
