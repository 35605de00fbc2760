//! Scratch: claim+complete pairs per second, against sqlx per request, interleaved.
use bytes::Bytes;
use hapax_core::*;
use hapax_store::SqliteStore;
use std::{future::Future, sync::Arc, sync::atomic::{AtomicU64, Ordering}, time::{Duration, Instant}};

static SERIAL: AtomicU64 = AtomicU64::new(0);

fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<u64>().unwrap() + f[12].parse::<u64>().unwrap()) * 10
}

async fn slice<F, W>(callers: usize, span: Duration, one: F) -> (u64, u64)
where F: Fn(u64) -> W + Clone + Send + Sync + 'static, W: Future<Output = ()> + Send {
    let until = Instant::now() + span;
    let cpu = cpu_ms();
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let one = one.clone();
        set.spawn(async move {
            let mut n = 0u64;
            while Instant::now() < until { one(SERIAL.fetch_add(1, Ordering::Relaxed)).await; n += 1; }
            n
        });
    }
    let mut total = 0;
    while let Some(n) = set.join_next().await { total += n.unwrap(); }
    (total, cpu_ms() - cpu)
}

#[tokio::main]
async fn main() {
    let rounds: u32 = std::env::args().nth(1).map_or(3, |s| s.parse().unwrap());
    let dir = tempfile::tempdir_in(std::env::args().nth(2).unwrap_or("/work/main/target".into())).unwrap();
    let sql = SqliteStore::open(dir.path().join("h.db")).await.unwrap();
    let hapax = Hapax::new(Arc::new(sql.clone()));
    let op = hapax.declare("bench.pair", Policy::new(Effect::Opaque)).unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("raw.db")).create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal).synchronous(sqlx::sqlite::SqliteSynchronous::Full);
    let raw = sqlx::pool::PoolOptions::<sqlx::Sqlite>::new().max_connections(4).test_before_acquire(false).connect_with(options).await.unwrap();
    sqlx::raw_sql("CREATE TABLE r (id BLOB NOT NULL PRIMARY KEY, key TEXT NOT NULL, state INTEGER NOT NULL, nonce BLOB NOT NULL, epoch INTEGER NOT NULL, outcome BLOB) STRICT").execute(&raw).await.unwrap();
    for callers in [1usize, 16, 64, 256] {
        let (mut h, mut hc, mut r, mut rc, mut p, mut pc) = (0, 0, 0, 0, 0, 0);
        let span = Duration::from_millis(1500);
        for _ in 0..rounds {
            let op2 = op.clone();
            let (n, c) = slice(callers, span, move |serial| {
                let op = op2.clone();
                async move {
                    let call = op.business(Tenant::parse("t").unwrap(), BusinessKey::of(&[&serial.to_string()]).unwrap());
                    match call.begin().await.unwrap() {
                        Begin::Run(lease) => lease.complete(Outcome::Value(Bytes::from(vec![7u8; 200]))).await.unwrap(),
                        other => panic!("{other:?}"),
                    }
                }
            }).await;
            h += n; hc += c;
            let raw2 = raw.clone();
            let (n, c) = slice(callers, span, move |serial| {
                let raw = raw2.clone();
                async move {
                    let mut id = [0u8; 32];
                    id[..8].copy_from_slice(&serial.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
                    let mut tx = raw.begin_with("BEGIN IMMEDIATE").await.unwrap();
                    sqlx::query("INSERT INTO r (id, key, state, nonce, epoch) VALUES (?1, ?2, 1, ?3, 1) ON CONFLICT DO NOTHING")
                        .bind(&id[..]).bind(serial.to_string()).bind(&id[..16]).execute(&mut *tx).await.unwrap();
                    tx.commit().await.unwrap();
                    let mut tx = raw.begin_with("BEGIN IMMEDIATE").await.unwrap();
                    sqlx::query("UPDATE r SET state = 2, outcome = ?2 WHERE id = ?1 AND nonce = ?3 AND state = 1")
                        .bind(&id[..]).bind(vec![7u8; 200]).bind(&id[..16]).execute(&mut *tx).await.unwrap();
                    tx.commit().await.unwrap();
                }
            }).await;
            r += n; rc += c;
            let op3 = op.clone();
            let top = SERIAL.load(Ordering::Relaxed);
            let (n, c) = slice(callers, Duration::from_millis(700), move |serial| {
                let op = op3.clone();
                async move {
                    let call = op.business(Tenant::parse("t").unwrap(), BusinessKey::of(&[&(serial % top.min(100)).to_string()]).unwrap());
                    drop(call.begin().await.unwrap());
                }
            }).await;
            p += n; pc += c;
        }
        let secs = f64::from(rounds) * 1.5;
        println!("c{callers}: hapax {:.0} pairs/s ({:.0} us CPU), sqlx {:.0} pairs/s ({:.0} us CPU), ratio {:.2}; replay {:.0}/s ({:.0} us CPU)",
            h as f64 / secs, hc as f64 * 1000.0 / h as f64, r as f64 / secs, rc as f64 * 1000.0 / r as f64, h as f64 / r as f64,
            p as f64 / (f64::from(rounds) * 0.7), pc as f64 * 1000.0 / p as f64);
    }
}
