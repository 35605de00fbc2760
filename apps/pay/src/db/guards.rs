//! Each guard that is one statement, alone: with it exactly one wins, without it the duplicate
//! really appears. Nothing here takes a lock, looks first, or asks for a key.

use std::sync::Arc;

use sqlx::AssertSqlSafe;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::{
    Conn, Sql, Tx,
    benefits::{self, Benefit, Effect},
    checks::CHECKS,
    conn, migrator,
    orders::{self, Round},
    payments::{self, NewPayment, Payment},
    refunds::NewRefund,
    sql,
};
use crate::{
    benefit::{self, Code},
    channel::{Frozen, PaymentNo, RefundNo, Subject, Way},
    error::Error,
    ledger::{self, refunds::Requested},
    money::{Amount, Currency},
    order::{ChannelKind, Content, OrderId},
    payment::Status,
    refund::Origin,
};
use hapax::{Tenant, Timestamp, sql::SqliteStore};

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Books without a service.
struct Shelf {
    sql: Sql,
    tenant: Tenant,
    order_id: OrderId,
    _home: TempDir,
}

impl Shelf {
    async fn open() -> Arc<Self> {
        let home = tempfile::tempdir().unwrap();
        let sql = SqliteStore::open(home.path().join("pay.db")).await.unwrap();
        sql.migrate(migrator()).await.unwrap();
        let (tenant, order_id) = (Tenant::parse("shop").unwrap(), OrderId::parse("1001").unwrap());
        Arc::new(Self { sql, tenant, order_id, _home: home })
    }

    fn round(&self) -> Round<'_> {
        Round { tenant: &self.tenant, order_id: &self.order_id, round: 1 }
    }

    /// Runs a statement on the writer's connection.
    async fn run(&self, statement: &'static str) {
        let run = async move |mut tx: Tx| {
            sqlx::raw_sql(statement).execute(conn(&mut tx)).await?;
            Ok::<_, Error>(())
        };
        self.sql.write("test.run", run).await.unwrap();
    }

    /// The names of what breaks this invariant.
    async fn broken(&self, invariant: &str) -> Vec<String> {
        let (_, statement) = CHECKS.iter().find(|(name, _)| *name == invariant).unwrap();
        let mut reader = self.sql.readers().acquire().await.unwrap();
        sqlx::query_scalar(*statement).bind(20).fetch_all(&mut *reader).await.unwrap()
    }

    /// Writes an attempt down as if nobody else could: no lock, no look, no key.
    async fn open_attempt(&self, number: usize) -> bool {
        let (tenant, order_id) = (self.tenant.clone(), self.order_id.clone());
        let open = async move |mut tx: Tx| {
            let at = Round { tenant: &tenant, order_id: &order_id, round: 1 };
            let content = content();
            orders::insert(conn(&mut tx), at, &content, NOW).await?;
            let attempt = orders::next_attempt(conn(&mut tx), at, NOW).await?.unwrap();
            let new = NewPayment {
                payment_no: &PaymentNo::parse(&format!("P{number}")).unwrap(),
                at,
                attempt,
                channel: ChannelKind::Alipay,
                way: Way::Code,
                amount: content.amount,
                currency: content.currency,
                subject: &content.subject,
                frozen: &Frozen::from_bytes(b"frozen".to_vec()),
                expires_at: NOW,
                next_check_at: NOW,
            };
            payments::insert(conn(&mut tx), &new, NOW).await
        };
        self.sql.write("test.open", open).await.unwrap()
    }

    async fn payment(&self) -> Payment {
        let mut reader = self.sql.readers().acquire().await.unwrap();
        payments::find(&mut reader, &PaymentNo::parse("P0").unwrap()).await.unwrap().unwrap()
    }
}

fn content() -> Content {
    Content {
        amount: Amount::parse("100.00", Currency::Cny).unwrap(),
        currency: Currency::Cny,
        subject: Subject::parse("One month").unwrap(),
        benefits: [Code::parse("vip").unwrap()].into(),
    }
}

/// All at once; says how many succeeded.
async fn crowd<W>(workers: usize, work: impl Fn(usize) -> W) -> usize
where
    W: Future<Output = bool> + Send + 'static,
{
    let mut crowd = JoinSet::new();
    for worker in 0..workers {
        crowd.spawn(work(worker));
    }
    crowd.join_all().await.into_iter().filter(|won| *won).count()
}

async fn open_twenty_attempts(shelf: &Arc<Shelf>) -> usize {
    crowd(20, |number| {
        let shelf = Arc::clone(shelf);
        async move { shelf.open_attempt(number).await }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slot_alone_keeps_an_order_from_two_live_attempts() {
    const ONE_LIVE: &str = "an order has at most one attempt that can still be paid";
    let shelf = Shelf::open().await;
    assert_eq!(open_twenty_attempts(&shelf).await, 1);
    assert_eq!(shelf.broken(ONE_LIVE).await, [""; 0]);

    let shelf = Shelf::open().await;
    shelf.run("DROP INDEX pay_payments_slot").await;
    assert_eq!(open_twenty_attempts(&shelf).await, 20, "without it each request has its own");
    assert_eq!(shelf.broken(ONE_LIVE).await, ["shop/1001"]);
}

/// Moves on from what was read, as the production statement does or as a mutant of it.
async fn pay(conn: &mut Conn, payment: &Payment, statement: &'static str) -> Result<bool, Error> {
    let done = sqlx::query(statement)
        .bind(payment.payment_no.as_str())
        .bind(payment.status.as_str())
        .bind(payment.version)
        .bind(Status::Paid.as_str())
        .bind(NOW.as_millis())
        .bind(None::<i64>)
        .execute(conn)
        .await?;
    Ok(super::is_one(&done))
}

/// Twenty callbacks that all read the payment before any of them paid it; each winner grants.
async fn twenty_callbacks_grant(shelf: &Arc<Shelf>, statement: &'static str) -> usize {
    shelf.open_attempt(0).await;
    let read = Arc::new(shelf.payment().await);
    let benefit = Arc::new(Benefit {
        tenant: shelf.tenant.clone(),
        order_id: shelf.order_id.clone(),
        round: 1,
        code: Code::parse("vip").unwrap(),
        payment_no: read.payment_no.clone(),
        status: benefit::Status::Due,
        version: 1,
    });
    crowd(20, |_| {
        let (shelf, read, benefit) = (Arc::clone(shelf), Arc::clone(&read), Arc::clone(&benefit));
        async move {
            let work = async move |mut tx: Tx| {
                let won = pay(conn(&mut tx), &read, statement).await?;
                if won {
                    let effect = Effect::Grant;
                    benefits::record_effect(conn(&mut tx), &benefit, effect, "m", NOW).await?;
                }
                Ok::<_, Error>(won)
            };
            shelf.sql.write("test.pay", work).await.unwrap()
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compare_and_set_alone_keeps_a_payment_from_being_paid_twice() {
    const GRANTED_ONCE: &str = "each benefit was granted at most once";
    let shelf = Shelf::open().await;
    assert_eq!(twenty_callbacks_grant(&shelf, sql::MOVE_PAYMENT).await, 1);
    assert_eq!(shelf.broken(GRANTED_ONCE).await, [""; 0]);

    let shelf = Shelf::open().await;
    let blind =
        mutant(sql::MOVE_PAYMENT, "AND status = ?2 AND version = ?3", "AND ?2 <> '' AND ?3");
    assert_eq!(twenty_callbacks_grant(&shelf, blind).await, 20, "everybody believes to be first");
    assert_eq!(shelf.broken(GRANTED_ONCE).await, ["shop/1001/1 vip"]);
}

/// The condition that says which attempt pays for an order: two attempts, both paid.
#[tokio::test]
async fn paid_by_alone_keeps_an_order_from_being_paid_by_two() {
    let shelf = Shelf::open().await;
    let statements =
        [(sql::PAY_ORDER, 1), (mutant(sql::PAY_ORDER, "AND paid_by IS NULL", "AND true"), 2)];
    for (statement, winners) in statements {
        shelf.run("DELETE FROM pay_payments; DELETE FROM pay_orders").await;
        shelf.open_attempt(0).await;
        let mut won = 0;
        for by in ["P0", "P1"] {
            let at = (shelf.tenant.clone(), shelf.order_id.clone());
            let pay = async move |mut tx: Tx| {
                let done = sqlx::query(statement)
                    .bind(at.0.as_str())
                    .bind(at.1.as_str())
                    .bind(1)
                    .bind(by)
                    .bind(NOW.as_millis())
                    .execute(conn(&mut tx))
                    .await?;
                Ok::<_, Error>(super::is_one(&done))
            };
            won += u32::from(shelf.sql.write("test.pay", pay).await.unwrap());
        }
        assert_eq!(won, winners, "{statement}");
    }
}

/// Fifty refunds of 3.00 on 100.00, each of them sure that enough is left.
async fn fifty_reserves(shelf: &Arc<Shelf>, statement: &'static str) -> (usize, i64) {
    shelf.open_attempt(0).await;
    shelf.run("UPDATE pay_payments SET status = 'paid'").await;
    let won = crowd(50, |_| {
        let shelf = Arc::clone(shelf);
        async move {
            let reserve = async move |mut tx: Tx| {
                let query = sqlx::query(statement).bind("P0").bind(300);
                let done = query.bind(NOW.as_millis()).execute(conn(&mut tx)).await?;
                Ok::<_, Error>(super::is_one(&done))
            };
            shelf.sql.write("test.reserve", reserve).await.unwrap_or(false)
        }
    })
    .await;
    (won, shelf.payment().await.reserved.minor())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reserve_alone_keeps_refunds_within_the_payment() {
    let shelf = Shelf::open().await;
    assert_eq!(fifty_reserves(&shelf, sql::RESERVE).await, (33, 9900));

    // Without the condition, the constraint of the table is the last line.
    let careless =
        mutant(sql::RESERVE, "AND reserved + max(refunded, given_back) + ?2 <= amount", "AND true");
    let shelf = Shelf::open().await;
    assert_eq!(fifty_reserves(&shelf, careless).await, (33, 9900));

    // Without both, more is given back than was paid.
    let shelf = Shelf::open().await;
    shelf.run("PRAGMA ignore_check_constraints = ON").await;
    assert_eq!(fifty_reserves(&shelf, careless).await, (50, 15000));
}

/// Two sweepers, the first of which was thought dead: only the second has a word.
#[tokio::test]
async fn the_token_of_a_lease_alone_keeps_a_late_sweeper_from_speaking() {
    let shelf = Shelf::open().await;
    shelf.open_attempt(0).await;
    let lease = async |token: &'static [u8], now: Timestamp| {
        let lease = async move |mut tx: Tx| {
            let until = now.plus(std::time::Duration::from_millis(100));
            payments::lease(conn(&mut tx), token, until, 10, now).await
        };
        shelf.sql.write("test.lease", lease).await.unwrap().len()
    };
    let speak = async |token: &'static [u8], statement: &'static str| {
        let speak = async move |mut tx: Tx| {
            let query = sqlx::query(statement).bind("P0").bind(token).bind(None::<i64>);
            Ok::<_, Error>(super::is_one(&query.execute(conn(&mut tx)).await?))
        };
        shelf.sql.write("test.checked", speak).await.unwrap()
    };
    assert_eq!(lease(b"first", NOW).await, 1);
    assert_eq!(lease(b"second", NOW).await, 0, "it is leased");
    let lapsed = NOW.plus(std::time::Duration::from_millis(100));
    assert_eq!(lease(b"second", lapsed).await, 1, "the lease has lapsed");
    assert!(!speak(b"first", sql::CHECKED_PAYMENT).await);
    assert!(speak(b"second", sql::CHECKED_PAYMENT).await);
    assert!(!speak(b"second", sql::CHECKED_PAYMENT).await, "its word is spoken");
    let deaf = mutant(sql::CHECKED_PAYMENT, "AND check_token = ?2", "AND ?2 IS NOT NULL");
    assert!(speak(b"first", deaf).await, "without it anybody says when to ask next");
}

/// A claim that changed in one respect, and the clause that sees it.
#[tokio::test]
async fn each_clause_of_a_claim_alone_keeps_an_older_attempt_from_writing() {
    let shelf = Shelf::open().await;
    shelf
        .run(
            "INSERT INTO hapax_records (id, scope, tenant, subject, operation, key_text, class, \
             state, epoch, nonce, prints, lease_until, attempts, caller, created_at, format) \
             VALUES (zeroblob(32), 'tenant', 'shop', '', 'payment.create', 'k', 2, 1, 7, \
             zeroblob(16), x'', 0, 1, 'process 7', 0, 1)",
        )
        .await;
    let is_held = async |statement: &'static str| {
        let mut reader = shelf.sql.readers().acquire().await.unwrap();
        let query = sqlx::query(statement).bind(vec![0; 32]).bind(7).bind(vec![0; 16]);
        query.fetch_optional(&mut *reader).await.unwrap().is_some()
    };
    assert!(is_held(sql::CLAIM).await);
    for (change, back, guard, instead) in [
        ("id = unhex(printf('%064d', 1))", "id = zeroblob(32)", "id = ?1", "?1 <> ''"),
        ("epoch = 8", "epoch = 7", "AND epoch = ?2", "AND ?2"),
        (
            "nonce = unhex(printf('%032d', 1))",
            "nonce = zeroblob(16)",
            "AND nonce = ?3",
            "AND ?3 <> ''",
        ),
        ("state = 4", "state = 1", "AND state = 1", ""),
    ] {
        let set = |change: &str| &*format!("UPDATE hapax_records SET {change}").leak();
        shelf.run(set(change)).await;
        assert!(!is_held(sql::CLAIM).await, "{change}");
        assert!(is_held(mutant(sql::CLAIM, guard, instead)).await, "{guard}");
        shelf.run(set(back)).await;
    }
    assert!(is_held(sql::CLAIM).await);
}

/// Handler, repeat and sweep all want to ask the channel for one refund: one does, and the others
/// are told so, which is no failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_who_want_to_ask_for_a_refund_one_does_and_none_fails() {
    let shelf = Shelf::open().await;
    shelf.open_attempt(0).await;
    shelf.run("UPDATE pay_payments SET status = 'paid'").await;
    let payment = shelf.payment().await;
    let new = NewRefund {
        tenant: shelf.tenant.clone(),
        refund_no: RefundNo::parse("R1").unwrap(),
        payment_no: payment.payment_no.clone(),
        amount: payment.amount,
        currency: payment.currency,
        reason: String::new(),
        origin: Origin::Merchant,
    };
    let request =
        async move |mut tx: Tx| ledger::refunds::request(&mut tx, &payment, &new, NOW).await;
    let requested = shelf.sql.write("test.request", request).await.unwrap();
    let Requested::New(refund) = requested else { panic!("{requested:?}") };
    let refund = Arc::new(refund);
    let asked = crowd(20, |_| {
        let (shelf, refund) = (Arc::clone(&shelf), Arc::clone(&refund));
        async move {
            let ask = async move |mut tx: Tx| {
                let frozen = Frozen::from_bytes(b"frozen".to_vec());
                let which = (&refund.tenant, &refund.refund_no);
                ledger::refunds::asked(&mut tx, which, &frozen, NOW, NOW).await
            };
            shelf.sql.write("test.asked", ask).await.unwrap().is_some()
        }
    })
    .await;
    assert_eq!(asked, 1);
}

/// Twenty transactions that all find the benefit due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_benefit_alone_keeps_it_from_falling_due_twice() {
    let shelf = Shelf::open().await;
    shelf.open_attempt(0).await;
    let due = async |shelf: &Arc<Shelf>| {
        crowd(20, |_| {
            let shelf = Arc::clone(shelf);
            async move {
                let there = Arc::clone(&shelf);
                let due = async move |mut tx: Tx| {
                    let (code, by) = (Code::parse("vip").unwrap(), PaymentNo::parse("P0").unwrap());
                    benefits::insert(conn(&mut tx), there.round(), &code, &by, NOW).await
                };
                shelf.sql.write("test.due", due).await.unwrap_or(false)
            }
        })
        .await
    };
    assert_eq!(due(&shelf).await, 1);
    // The same table, built without its key.
    shelf
        .run(
            "CREATE TABLE keyless AS SELECT * FROM pay_benefits WHERE false; \
             DROP TABLE pay_benefits; ALTER TABLE keyless RENAME TO pay_benefits",
        )
        .await;
    let insert = mutant(
        sql::INSERT_BENEFIT,
        "ON CONFLICT (tenant, order_id, round, benefit) DO NOTHING",
        "",
    );
    let rows = crowd(20, |_| {
        let shelf = Arc::clone(&shelf);
        async move {
            let there = Arc::clone(&shelf);
            let due = async move |mut tx: Tx| {
                let query = sqlx::query(insert).bind(there.tenant.as_str());
                let query = query.bind(there.order_id.as_str()).bind(1).bind("vip").bind("P0");
                let done = query.bind(NOW.as_millis()).execute(conn(&mut tx)).await?;
                Ok::<_, Error>(super::is_one(&done))
            };
            shelf.sql.write("test.due", due).await.unwrap()
        }
    })
    .await;
    assert_eq!(rows, 20);
}

/// The production statement with one guard taken out; it must have been in.
fn mutant(statement: &'static str, guard: &str, instead: &str) -> &'static str {
    assert!(statement.contains(guard), "the statement has no {guard}");
    // A few bytes of a test.
    let bent: &'static str = statement.replacen(guard, instead, 1).leak();
    bent
}

/// Keeps the helper honest: the bent text is what runs.
#[test]
fn a_mutant_lacks_its_guard() {
    let bent = mutant(sql::RESERVE, "status = 'paid'", "true");
    assert!(!bent.contains("status = 'paid'"));
    let _is_sql = AssertSqlSafe(bent);
}
