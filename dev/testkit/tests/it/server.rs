//! Private servers: they start, are killed, keep what they acknowledged, and leave nothing.

use hapax_testkit::{MariaDb, Postgres, Redis, is_running};
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _};

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
