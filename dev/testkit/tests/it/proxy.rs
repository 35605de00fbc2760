//! Faults happen to exactly the requests that they are armed for.

use std::time::Duration;

use redis::AsyncCommands as _;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _,
};

use hapax_testkit::{
    Proxy, Redis, mariadb, postgres,
    proxy::{Fate, Mode, commits, scripts},
    redis as fresh_redis,
};

/// Longer than any answer of a local server takes.
const SILENCE: Duration = Duration::from_millis(400);
/// Longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn exactly_one_commit_of_postgres_loses_its_answer() {
    let database = postgres().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = PgConnection::connect(&proxy.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    proxy.next(Fate::AnswerLost, commits);

    let mut work = session.begin().await.unwrap();
    sqlx::query("INSERT INTO kept VALUES ($1)").bind(1).execute(&mut *work).await.unwrap();
    work.commit().await.unwrap_err();

    assert_eq!((proxy.swallowed(), proxy.happened(), proxy.armed()), (1, 1, 0));
    let mut again = PgConnection::connect(&proxy.url()).await.unwrap();
    let mut work = again.begin().await.unwrap();
    work.execute("INSERT INTO kept VALUES (2)").await.unwrap();
    work.commit().await.unwrap();
    let row = again.fetch_one("SELECT count(*) FROM kept").await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 2);
    assert_eq!(proxy.swallowed(), 1);
}

#[tokio::test]
async fn exactly_one_commit_of_mariadb_loses_its_answer() {
    let database = mariadb().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = MySqlConnection::connect(&proxy.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    proxy.next(Fate::AnswerLost, commits);

    let mut work = session.begin().await.unwrap();
    sqlx::query("INSERT INTO kept VALUES (?)").bind(1).execute(&mut *work).await.unwrap();
    work.commit().await.unwrap_err();

    assert_eq!((proxy.swallowed(), proxy.happened(), proxy.armed()), (1, 1, 0));
    let mut again = MySqlConnection::connect(&proxy.url()).await.unwrap();
    let mut work = again.begin().await.unwrap();
    work.execute("INSERT INTO kept VALUES (2)").await.unwrap();
    work.commit().await.unwrap();
    let row = again.fetch_one("SELECT count(*) FROM kept").await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 2);
    assert_eq!(proxy.swallowed(), 1);
}

#[tokio::test]
async fn exactly_one_script_of_redis_loses_its_answer() {
    let (server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
    assert_eq!(script.key("n").invoke_async::<i64>(&mut session).await.unwrap(), 1);
    proxy.next(Fate::AnswerLost, scripts);

    script.key("n").invoke_async::<i64>(&mut session).await.unwrap_err();

    assert_eq!((proxy.swallowed(), proxy.happened(), proxy.armed()), (1, 1, 0));
    assert_eq!(server.ask(&["GET", "n"]).await.unwrap(), "2");
    let mut session = redis_session(&proxy).await;
    assert_eq!(script.key("n").invoke_async::<i64>(&mut session).await.unwrap(), 3);
}

#[tokio::test]
async fn a_prepared_statement_is_known_by_its_text_in_postgres() {
    let database = postgres().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = PgConnection::connect(&proxy.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    let add = "-- add\nINSERT INTO kept VALUES ($1)";
    sqlx::query(add).bind(1).execute(&mut session).await.unwrap();
    proxy.reset();
    sqlx::query(add).bind(2).execute(&mut session).await.unwrap();

    // The second time it is prepared already.
    let tally = proxy.tally();
    assert_eq!((tally.of("add"), tally.total()), (1, 1), "{tally:?}");
    assert_eq!((tally.prepares, tally.round_trips), (0, 1), "{tally:?}");

    // It commits by itself, and nobody is told.
    proxy.next(Fate::AnswerLost, |request| request.kind == "add");
    sqlx::query(add).bind(3).execute(&mut session).await.unwrap_err();
    let mut again = PgConnection::connect(database.url()).await.unwrap();
    let row = again.fetch_one("SELECT count(*) FROM kept").await.unwrap();
    assert_eq!((row.get::<i64, _>(0), proxy.swallowed()), (3, 1));
}

#[tokio::test]
async fn a_prepared_statement_is_known_by_its_text_in_mariadb() {
    let database = mariadb().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = MySqlConnection::connect(&proxy.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    let add = "-- add\nINSERT INTO kept VALUES (?)";
    sqlx::query(add).bind(1).execute(&mut session).await.unwrap();
    proxy.reset();
    sqlx::query(add).bind(2).execute(&mut session).await.unwrap();

    let tally = proxy.tally();
    assert_eq!((tally.of("add"), tally.total()), (1, 1), "{tally:?}");
    assert_eq!((tally.prepares, tally.round_trips), (0, 1), "{tally:?}");

    proxy.next(Fate::AnswerLost, |request| request.kind == "add");
    sqlx::query(add).bind(3).execute(&mut session).await.unwrap_err();
    let mut again = MySqlConnection::connect(database.url()).await.unwrap();
    let row = again.fetch_one("SELECT count(*) FROM kept").await.unwrap();
    assert_eq!((row.get::<i64, _>(0), proxy.swallowed()), (3, 1));
}

#[tokio::test]
async fn a_lost_request_never_reaches_the_server() {
    let database = postgres().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = PgConnection::connect(&proxy.url()).await.unwrap();
    session.execute("CREATE TABLE kept (n int)").await.unwrap();
    proxy.next(Fate::RequestLost, |request| request.text.contains("INSERT INTO kept"));

    let add = sqlx::query("INSERT INTO kept VALUES ($1)").bind(1);
    add.execute(&mut session).await.unwrap_err();

    assert_eq!((proxy.happened(), proxy.swallowed()), (1, 0));
    let mut again = PgConnection::connect(database.url()).await.unwrap();
    let row = again.fetch_one("SELECT count(*) FROM kept").await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 0);
}

#[tokio::test]
async fn an_unanswered_request_is_done_and_an_unheard_one_is_not() {
    for (fate, done) in [(Fate::Unanswered, "1"), (Fate::Unheard, "")] {
        let (server, proxy) = redis_behind_a_proxy().await;
        let mut session = redis_session(&proxy).await;
        proxy.next(fate, |request| request.kind == "SET");

        let asked = tokio::time::timeout(SILENCE, session.set::<_, _, ()>("n", 1)).await;

        assert!(asked.is_err() && proxy.happened() == 1, "{fate:?} was answered");
        assert_eq!(server.ask(&["GET", "n"]).await.unwrap(), done, "{fate:?}");
    }
}

#[tokio::test]
async fn answers_before_the_lost_one_arrive() {
    let (server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    proxy.next(Fate::AnswerLost, |request| request.text == "SET second 1");

    // One connection, all three on their way at once.
    let mut others = [session.clone(), session.clone()];
    let [third, second] = &mut others;
    let (first, second, third) = tokio::join!(
        session.set::<_, _, ()>("first", 1),
        second.set::<_, _, ()>("second", 1),
        third.set::<_, _, ()>("third", 1),
    );

    first.unwrap();
    assert!(second.is_err() && third.is_err() && proxy.swallowed() == 1);
    assert_eq!(server.ask(&["GET", "second"]).await.unwrap(), "1");
}

#[tokio::test]
async fn a_torn_answer_is_an_error_and_a_late_request_is_not() {
    let database = mariadb().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = MySqlConnection::connect(&proxy.url()).await.unwrap();
    proxy.next(Fate::Late(SILENCE), |request| request.text.contains("'late'"));
    let begun = tokio::time::Instant::now();
    session.execute("SELECT 'late'").await.unwrap();
    assert!(begun.elapsed() >= SILENCE);

    proxy.next(Fate::Torn(3), |request| request.text.contains("'torn'"));
    session.execute("SELECT 'torn'").await.unwrap_err();
    assert_eq!((proxy.happened(), proxy.swallowed(), proxy.armed()), (2, 1, 0));
}

#[tokio::test]
async fn a_black_hole_keeps_what_it_got_and_gives_it_back() {
    let (_server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    proxy.set(Mode::BlackHole);
    let mut asked = Box::pin(session.set::<_, _, ()>("n", 1));
    assert!(tokio::time::timeout(SILENCE, &mut asked).await.is_err(), "something passed");

    proxy.set(Mode::Pass);

    asked.await.unwrap();
    assert_eq!(session.get::<_, Option<i64>>("n").await.unwrap(), Some(1));
}

#[tokio::test]
async fn who_is_refused_comes_in_again_later() {
    let (server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    proxy.set(Mode::Refuse);
    session.set::<_, _, ()>("n", 1).await.unwrap_err();
    let client = redis::Client::open(proxy.url()).unwrap();
    assert!(client.get_multiplexed_async_connection().await.is_err());
    proxy.set(Mode::Pass);
    redis_session(&proxy).await;

    // A dead server looks the same, and comes back behind the same proxy.
    server.kill().await.unwrap();
    assert!(client.get_multiplexed_async_connection().await.is_err());
    server.restart().await.unwrap();
    redis_session(&proxy).await;
}

#[tokio::test]
async fn a_cut_ends_connections_and_a_slow_line_does_not() {
    let (_server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    proxy.set(Mode::Slow(Duration::from_millis(50)));
    let begun = tokio::time::Instant::now();
    session.set::<_, _, ()>("n", 1).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100), "both directions are slow");

    proxy.set(Mode::Pass);
    proxy.cut();
    session.set::<_, _, ()>("n", 1).await.unwrap_err();
}

#[tokio::test]
async fn round_trips_and_commands_are_counted() {
    let (_server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    proxy.reset();
    for n in 0..3 {
        session.set::<_, _, ()>("n", n).await.unwrap();
    }
    let _: () = redis::pipe().get("n").get("m").query_async(&mut session).await.unwrap();

    let tally = proxy.tally();
    assert_eq!((tally.of("SET"), tally.of("GET"), tally.total()), (3, 2, 5), "{tally:?}");
    assert_eq!(tally.round_trips, 4, "{tally:?}");
    assert!(tally.bytes_up > 0 && tally.bytes_down > 0 && tally.connections == 0);
}

#[tokio::test]
async fn large_statements_and_answers_pass_whole() {
    let long = "x".repeat(3_000_000);
    let select = format!("SELECT '{long}'");
    let database = postgres().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = PgConnection::connect(&proxy.url()).await.unwrap();
    let row = session.fetch_one(AssertSqlSafe(select.clone())).await.unwrap();
    assert_eq!(row.get::<String, _>(0), long);

    let database = mariadb().await.unwrap();
    let proxy = Proxy::before(database.url()).unwrap();
    let mut session = MySqlConnection::connect(&proxy.url()).await.unwrap();
    let row = session.fetch_one(AssertSqlSafe(select)).await.unwrap();
    assert_eq!(row.get::<String, _>(0), long);

    let (_server, proxy) = redis_behind_a_proxy().await;
    let mut session = redis_session(&proxy).await;
    session.set::<_, _, ()>("long", &long).await.unwrap();
    assert_eq!(session.get::<_, String>("long").await.unwrap(), long);
}

async fn redis_behind_a_proxy() -> (Redis, Proxy) {
    let server = fresh_redis().await.unwrap();
    let proxy = Proxy::before(&server.url()).unwrap();
    (server, proxy)
}

async fn redis_session(proxy: &Proxy) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(proxy.url()).unwrap();
    // The client's own half second is too short for a busy machine.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}
