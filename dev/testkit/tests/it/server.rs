//! Private servers: they start, are killed, keep what they acknowledged, and leave nothing.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _};

use hapax_testkit::{MariaDb, Postgres, Proxy, Redis, is_running, proxy::Mode};

#[tokio::test]
async fn postgres_keeps_its_rows_over_a_kill() {
    let server = Postgres::start().await.unwrap();
    let mut session = PgConnection::connect(&server.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    session.execute("INSERT INTO kept VALUES (7)").await.unwrap();
    let pid = server.pid().unwrap();

    server.kill().await.unwrap();
    assert!(!is_running(pid));
    assert_eq!(server.pid(), None);
    session.execute("SELECT 1").await.unwrap_err();

    server.restart().await.unwrap();
    let mut session = PgConnection::connect(&server.url()).await.unwrap();
    let row = session.fetch_one("SELECT n FROM kept").await.unwrap();
    assert_eq!(row.get::<i32, _>(0), 7);
}

#[tokio::test]
async fn mariadb_keeps_its_rows_over_a_kill() {
    let server = MariaDb::start().await.unwrap();
    let mut session = MySqlConnection::connect(&server.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    session.execute("INSERT INTO kept VALUES (7)").await.unwrap();
    let pid = server.pid().unwrap();

    server.kill().await.unwrap();
    assert!(!is_running(pid));
    session.execute("SELECT 1").await.unwrap_err();

    server.restart().await.unwrap();
    let mut session = MySqlConnection::connect(&server.url()).await.unwrap();
    let row = session.fetch_one("SELECT n FROM kept").await.unwrap();
    assert_eq!(row.get::<i32, _>(0), 7);
}

#[tokio::test]
async fn redis_keeps_its_keys_over_a_kill() {
    let server = Redis::start().await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut session = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("SET").arg("kept").arg(7).query_async(&mut session).await.unwrap();
    let pid = server.pid().unwrap();

    server.kill().await.unwrap();
    assert!(!is_running(pid));

    server.restart().await.unwrap();
    let mut session = client.get_multiplexed_async_connection().await.unwrap();
    let kept: i64 = redis::cmd("GET").arg("kept").query_async(&mut session).await.unwrap();
    assert_eq!(kept, 7);
}

#[tokio::test]
async fn a_setting_reaches_the_server() {
    let server = Redis::with(&[("maxmemory-policy", "allkeys-lru")]).await.unwrap();
    let client = redis::Client::open(server.url()).unwrap();
    let mut session = client.get_multiplexed_async_connection().await.unwrap();
    let mut ask = redis::cmd("CONFIG");
    let answer: Vec<String> =
        ask.arg("GET").arg("maxmemory-policy").query_async(&mut session).await.unwrap();
    assert_eq!(answer, ["maxmemory-policy", "allkeys-lru"]);
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_in_the_words_of_its_log() {
    let error = Redis::with(&[("maxmemory-policy", "never")]).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("maxmemory-policy") && text.contains("Redis ended with"), "{text}");
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let (one, other) = (Postgres::start().await.unwrap(), Redis::start().await.unwrap());
    let pids = [one.pid().unwrap(), other.pid().unwrap()];
    let dir = one.dir().to_owned();
    assert!(dir.exists() && pids.into_iter().all(is_running));
    // A held server must not outlive its handle either.
    one.stop().unwrap();
    drop((one, other));

    assert!(!dir.exists());
    assert!(!pids.into_iter().any(is_running));
}

#[tokio::test]
async fn a_held_server_answers_nothing_until_it_goes_on() {
    let server = Postgres::start().await.unwrap();
    let mut session = PgConnection::connect(&server.url()).await.unwrap();

    server.stop().unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(300), session.fetch_one("SELECT 1"));
    assert!(asked.await.is_err(), "it answered");

    server.cont().unwrap();
    // The answer to the first question was on its way; a new session has none in it.
    let mut session = PgConnection::connect(&server.url()).await.unwrap();
    session.fetch_one("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_replica_behind_a_black_hole_loses_what_its_master_acknowledged() {
    let master = Redis::start().await.unwrap();
    let link = Proxy::before(&master.url()).unwrap();
    let replica = Redis::replica_of(link.port()).await.unwrap();
    master.ask(&["SET", "copied", "1"]).await.unwrap();
    replica.catch_up(&master).await.unwrap();

    link.set(Mode::BlackHole);
    assert_eq!(master.ask(&["SET", "lost", "1"]).await.unwrap(), "OK");
    master.kill().await.unwrap();
    replica.ask(&["REPLICAOF", "NO", "ONE"]).await.unwrap();

    assert_eq!(replica.ask(&["GET", "copied"]).await.unwrap(), "1");
    assert_eq!(replica.ask(&["GET", "lost"]).await.unwrap(), "");
}
