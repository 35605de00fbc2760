//! What a call costs on a server: statements and round trips as they cross the wire, bytes of the
//! server's log, and flushes of it.
//!
//! The server is one of the test's own, since log and flushes are the whole server's. It works in
//! the background too, so the bytes are the least of several calls.

use std::{any::Any, collections::BTreeMap, time::Duration};

use crate::{
    engine::{Conn, Engine, connect, on_each_server},
    ledger::{order, ordering, policy},
    stage::{Stage, key, tenant, value},
};
use hapax_core::{Begin, Operation};
use hapax_store::{MySql, Postgres, Sql};
use hapax_testkit::{MariaDb, Postgres as PostgresServer, Proxy};

on_each_server! {
    a_call_costs_so_many_round_trips_bytes_and_flushes
}

/// The bytes are the least of so many calls.
const TRIES: usize = 5;
/// Calls whose flushes are counted.
const CALLS: i64 = 20;
/// Pools hand a connection back some moments after its use, and the driver pings it then.
const HANDED_BACK: Duration = Duration::from_millis(100);
/// PostgreSQL tells the flushes of a connection when it ends.
const TOLD: Duration = Duration::from_millis(700);

trait Costly: Engine {
    /// What the proxy calls a claim and a completion that commit by themselves.
    const CLAIM: &'static str;
    const COMPLETE: &'static str;
    /// Bytes that a fresh call adds to the log, and one whose effect is a row: measured, and a
    /// fifth above. Nothing else may come near.
    const FRESH_BYTES_MAX: i64;
    const ORDER_BYTES_MAX: i64;

    /// A server that leaves its log alone.
    fn server() -> impl Future<Output = (String, Box<dyn Any + Send + Sync>)> + Send;

    /// Bytes of the log.
    fn log(conn: &mut Conn<Self>) -> impl Future<Output = i64> + Send;

    /// Flushes of the log.
    fn flushes(conn: &mut Conn<Self>) -> impl Future<Output = i64> + Send;
}

impl Costly for Postgres {
    const CLAIM: &'static str = "claim_insert";
    const COMPLETE: &'static str = "complete";
    // 1,512 and 1,712 on version 15.
    const FRESH_BYTES_MAX: i64 = 1_800;
    const ORDER_BYTES_MAX: i64 = 2_050;

    async fn server() -> (String, Box<dyn Any + Send + Sync>) {
        let quiet =
            [("autovacuum", "off"), ("checkpoint_timeout", "1h"), ("full_page_writes", "off")];
        let server = PostgresServer::with(&quiet).await.unwrap();
        (server.url(), Box::new(server))
    }

    async fn log(conn: &mut Conn<Self>) -> i64 {
        let log = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        Self::number(conn, log).await.unwrap()
    }

    async fn flushes(conn: &mut Conn<Self>) -> i64 {
        Self::number(conn, "SELECT wal_sync FROM pg_stat_wal").await.unwrap()
    }
}

async fn status(conn: &mut Conn<MySql>, name: &str) -> i64 {
    let ask = format!(
        "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status
         WHERE variable_name = '{name}'"
    );
    MySql::number(conn, &ask).await.unwrap()
}

impl Costly for MySql {
    // The text of a change begins with START TRANSACTION and ends with COMMIT.
    const CLAIM: &'static str = "START";
    const COMPLETE: &'static str = "START";
    // 1,640 to 1,648 and 1,756 to 1,767 on MariaDB 10.11.
    const FRESH_BYTES_MAX: i64 = 1_970;
    const ORDER_BYTES_MAX: i64 = 2_110;

    async fn server() -> (String, Box<dyn Any + Send + Sync>) {
        let server = MariaDb::start().await.unwrap();
        (server.url(), Box::new(server))
    }

    async fn log(conn: &mut Conn<Self>) -> i64 {
        status(conn, "innodb_lsn_current").await
    }

    async fn flushes(conn: &mut Conn<Self>) -> i64 {
        status(conn, "innodb_data_fsyncs").await
    }
}

async fn call(order: &Operation, text: &str) {
    match order.business(tenant(), key(text)).begin().await.unwrap() {
        Begin::Run(lease) => lease.complete(value("done")).await.unwrap(),
        Begin::Replay(_) | Begin::Busy { .. } => {}
        other => panic!("{other:?}"),
    }
}

/// What one call cost.
#[derive(Debug, PartialEq)]
struct Cost {
    statements: BTreeMap<String, u64>,
    round_trips: u64,
    bytes: i64,
}

struct Site<E: Costly> {
    proxy: Proxy,
    sql: Sql<E>,
    operation: Operation,
    meter: Conn<E>,
}

impl<E: Costly> Site<E> {
    async fn open(&mut self, warm: usize) {
        let opening = E::at(&self.proxy.url()).steps(1).business(1).readers(1);
        self.sql = E::open(&opening).await.unwrap();
        self.operation = ordering(&self.sql, policy());
        for item in 0..warm {
            call(&self.operation, &format!("warm/{item}")).await;
            order(&self.sql, &self.operation, 1_000 + item).await.unwrap();
        }
    }

    /// What the cheapest of several calls cost.
    async fn least(&mut self, work: impl AsyncFn(&Sql<E>, &Operation, usize)) -> Cost {
        let mut costs = Vec::new();
        for at in 0..TRIES {
            tokio::time::sleep(HANDED_BACK).await;
            self.proxy.reset();
            let before = E::log(&mut self.meter).await;
            work(&self.sql, &self.operation, at).await;
            let bytes = E::log(&mut self.meter).await - before;
            tokio::time::sleep(HANDED_BACK).await;
            let tally = self.proxy.tally();
            assert_eq!(tally.prepares, 0, "everything was prepared");
            costs.push(Cost { statements: tally.requests, round_trips: tally.round_trips, bytes });
        }
        println!("{costs:?}");
        let least = costs.into_iter().min_by_key(|cost| cost.bytes);
        least.unwrap()
    }

    /// Counts the flushes of calls on connections that end with them.
    async fn flushes(&mut self, work: impl AsyncFn(&Sql<E>, &Operation, usize)) -> i64 {
        self.sql.close().await;
        tokio::time::sleep(TOLD).await;
        let before = E::flushes(&mut self.meter).await;
        self.open(0).await;
        for at in 0..usize::try_from(CALLS).unwrap() {
            work(&self.sql, &self.operation, at).await;
        }
        self.sql.close().await;
        tokio::time::sleep(TOLD).await;
        E::flushes(&mut self.meter).await - before
    }
}

fn statements(expected: &[&str]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in expected {
        *counts.entry((*name).to_owned()).or_default() += 1;
    }
    counts
}

async fn a_call_costs_so_many_round_trips_bytes_and_flushes<E: Costly>() {
    let (url, _server) = E::server().await;
    let stage = Stage::<E>::on(url.clone(), Box::new(())).await.with_orders().await;
    let (sql, operation) = (stage.other().await, stage.operation(policy()));
    let (proxy, meter) = (Proxy::before(&url).unwrap(), connect::<E>(&url).await);
    let mut site = Site::<E> { proxy, sql, operation, meter };

    // The claim commits and the completion commits; a repeat does neither.
    let first = async |_: &Sql<E>, order: &Operation, at| call(order, &format!("once/{at}")).await;
    // The server flushes for itself too, but far less often.
    let two = 2 * CALLS..=2 * CALLS + CALLS / 2;
    let flushes = site.flushes(first).await;
    assert!(two.contains(&flushes), "{flushes} flushes of {CALLS} fresh calls");
    let ordered = async |sql: &Sql<E>, operation: &Operation, at| {
        order(sql, operation, 2_000 + at).await.unwrap();
    };
    let flushes = site.flushes(ordered).await;
    assert!(two.contains(&flushes), "{flushes} flushes of {CALLS} orders");
    let flushes = site.flushes(first).await;
    assert!(flushes <= CALLS / 2, "{flushes} flushes of {CALLS} replays");

    site.open(8).await;
    // A connection that is handed back is pinged, which nobody waits for.
    let fresh = async |_: &Sql<E>, order: &Operation, at| call(order, &format!("fresh/{at}")).await;
    let cost = site.least(fresh).await;
    assert_eq!(cost.statements, statements(&["look", E::CLAIM, E::COMPLETE]));
    assert_eq!(cost.round_trips, 3 + 3, "three, and three connections");
    assert!((1..=E::FRESH_BYTES_MAX).contains(&cost.bytes), "{cost:?}");

    let ordered = async |sql: &Sql<E>, operation: &Operation, at| {
        order(sql, operation, at).await.unwrap();
    };
    let cost = site.least(ordered).await;
    let seven = ["look", E::CLAIM, "begin", "INSERT", "witness_release", "complete", "COMMIT"];
    assert_eq!(cost.statements, statements(&seven));
    assert_eq!(cost.round_trips, 7 + 3, "seven, and three connections");
    assert!((1..=E::ORDER_BYTES_MAX).contains(&cost.bytes), "{cost:?}");

    // Of a key that another process works on; in this one a duplicate costs nothing at all.
    let busy = stage.operation(policy()).business(tenant(), key("busy"));
    let Begin::Run(_held) = busy.begin().await.unwrap() else { panic!("it is fresh") };
    for repeated in ["fresh/0", "busy"] {
        let cost = site.least(async |_, order, _| call(order, repeated).await).await;
        assert_eq!(cost.statements, statements(&["look"]), "{repeated}");
        assert_eq!((cost.round_trips, cost.bytes), (1 + 1, 0), "{repeated}");
    }
}
