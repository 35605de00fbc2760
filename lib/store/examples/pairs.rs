//! Scratch: claim+complete pairs per second.
use bytes::Bytes;
use hapax_core::*;
use hapax_store::SqliteStore;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

#[tokio::main]
async fn main() {
    let secs: u64 = std::env::args().nth(1).map_or(4, |s| s.parse().unwrap());
    for callers in [1usize, 16, 64, 256] {
        let dir = tempfile::tempdir_in("/work/main/target").unwrap();
        let sql = SqliteStore::open(dir.path().join("h.db")).await.unwrap();
        let hapax = Hapax::new(Arc::new(sql.clone()));
        let op = hapax.declare("bench.pair", Policy::new(Effect::Opaque)).unwrap();
        let until = Instant::now() + Duration::from_secs(secs);
        let mut set = tokio::task::JoinSet::new();
        for caller in 0..callers {
            let op = op.clone();
            set.spawn(async move {
                let mut n = 0u64;
                while Instant::now() < until {
                    let call = op.business(
                        Tenant::parse("t").unwrap(),
                        BusinessKey::of(&[&caller.to_string(), &n.to_string()]).unwrap(),
                    );
                    match call.begin().await.unwrap() {
                        Begin::Run(lease) => lease
                            .complete(Outcome::Value(Bytes::from(vec![7u8; 200])))
                            .await
                            .unwrap(),
                        other => panic!("{other:?}"),
                    }
                    n += 1;
                }
                n
            });
        }
        let mut pairs = 0;
        while let Some(n) = set.join_next().await {
            pairs += n.unwrap();
        }
        println!("c{callers}: fresh pairs/s {}", pairs / secs);
        // replay
        let until = Instant::now() + Duration::from_secs(2);
        let mut set = tokio::task::JoinSet::new();
        for caller in 0..callers {
            let op = op.clone();
            set.spawn(async move {
                let mut n = 0u64;
                while Instant::now() < until {
                    let call = op.business(
                        Tenant::parse("t").unwrap(),
                        BusinessKey::of(&[&caller.to_string(), &(n % 10).to_string()]).unwrap(),
                    );
                    assert!(matches!(call.begin().await.unwrap(), Begin::Replay(_)));
                    n += 1;
                }
                n
            });
        }
        let mut replays = 0;
        while let Some(n) = set.join_next().await {
            replays += n.unwrap();
        }
        println!("c{callers}: replays/s {}", replays / 2);
        sql.close().await;
    }
}
