//! One database a test.

use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, Row as _};

use hapax_testkit::{Database, mariadb, postgres};

#[tokio::test]
async fn each_test_has_a_postgres_database_of_its_own() {
    let (one, other) = (postgres().await.unwrap(), postgres().await.unwrap());
    let mut in_one = PgConnection::connect(one.url()).await.unwrap();
    let mut in_other = PgConnection::connect(other.url()).await.unwrap();

    in_one.execute("CREATE TABLE mine (n int)").await.unwrap();
    in_other.execute("CREATE TABLE mine (n int)").await.unwrap();

    let row = in_one.fetch_one("SHOW fsync").await.unwrap();
    assert_eq!(row.get::<String, _>(0), "on");
}

#[tokio::test]
async fn a_dropped_database_is_gone_in_postgres() {
    let kept = postgres().await.unwrap();
    let gone = postgres().await.unwrap();
    let (name, url) = (gone.name().to_owned(), gone.url().to_owned());
    let _left_open = PgConnection::connect(&url).await.unwrap();
    drop(gone);

    assert!(PgConnection::connect(&url).await.is_err(), "{name} is still there");
    PgConnection::connect(kept.url()).await.unwrap();
}

#[tokio::test]
async fn each_test_has_a_mariadb_database_of_its_own() {
    let (one, other) = (mariadb().await.unwrap(), mariadb().await.unwrap());
    let mut in_one = MySqlConnection::connect(one.url()).await.unwrap();
    let mut in_other = MySqlConnection::connect(other.url()).await.unwrap();

    in_one.execute("CREATE TABLE mine (n int)").await.unwrap();
    in_other.execute("CREATE TABLE mine (n int)").await.unwrap();

    let row = in_one.fetch_one("SELECT @@innodb_flush_log_at_trx_commit").await.unwrap();
    assert_eq!(row.get::<u64, _>(0), 1);
}

#[tokio::test]
async fn a_dropped_database_is_gone_in_mariadb() {
    let gone = mariadb().await.unwrap();
    let url = gone.url().to_owned();
    drop(MySqlConnection::connect(&url).await.unwrap());
    drop(gone);

    assert!(MySqlConnection::connect(&url).await.is_err(), "{url} is still there");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_one_clear_error() {
    let error = Database::on("postgres://hapax@127.0.0.1:1/postgres").await.unwrap_err();
    assert!(error.to_string().contains("failed to make a test's database"), "{error}");
}
