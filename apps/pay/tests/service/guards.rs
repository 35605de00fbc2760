//! With the other layers taken away, each guard alone keeps the verdict; without it the verdict
//! breaks. Taken away by schema, by rows, or by what stands between two sockets, never by a
//! switch in the service. The guards that are single statements are proved beside them, in
//! `src/db/guards.rs`.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::Duration,
};

use axum::{Router, body::Bytes as Body, extract::State, routing::post};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    clock::{soon, soon_is},
    shop::{no, order},
    stage::{Setup, Stage},
};
use hapax::{
    Begin, Effect, Hapax, Kind, Lease, Outcome, Policy, Principal, RequestKey, Tenant, TestClock,
    Timestamp,
    sql::SqliteStore,
    store::{Answer, Capabilities, Entry, Fault, Found, Page, Scan, Step, Store},
};
use hapax_pay::CREATE_OPERATION;
use hapax_sim::wire;

const GRANTED_ONCE: &str = "each benefit was granted at most once";

// ---- The inbox row ---------------------------------------------------------------------------

/// Delivers a benefit message three times. The state machine is blind (a benefit that was granted
/// looks due again), and so is the outbox; `forget` takes the inbox row away too.
async fn deliver_three_times(forget: bool) -> (i64, bool) {
    let stage = Stage::open().await;
    let shop = stage.shop();
    stage
        .books
        .run(
            "CREATE TABLE copies AS SELECT id, topic, key_text, payload FROM hapax_outbox; \
             CREATE TRIGGER copy AFTER INSERT ON hapax_outbox WHEN NEW.topic = 'benefit' BEGIN \
             INSERT INTO copies VALUES (NEW.id, NEW.topic, NEW.key_text, NEW.payload); END; \
             CREATE TRIGGER blind AFTER UPDATE OF status ON pay_benefits \
             WHEN NEW.status = 'granted' BEGIN UPDATE pay_benefits SET status = 'due'; END",
        )
        .await;
    if forget {
        stage
            .books
            .run(
                "CREATE TRIGGER forgets AFTER INSERT ON hapax_inbox BEGIN \
                 DELETE FROM hapax_inbox WHERE message = NEW.message; END",
            )
            .await;
    }
    let payment = no(&shop.buy("1001").await);
    stage.channel.pay(&payment).await;
    let sent = || async { stage.books.count("hapax_outbox", "topic = 'benefit'").await };
    soon_is("it was granted", 1, || async { stage.books.count("copies", "1").await }).await;
    soon_is("it was delivered", 0, sent).await;
    stage.books.run("DROP TRIGGER copy").await;
    for _ in 0..2 {
        stage
            .books
            .run(
                "INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, \
                 created_at) SELECT id, topic, key_text, payload, 0, 0, 0 FROM copies",
            )
            .await;
        soon_is("it was delivered again", 0, sent).await;
    }
    let (grants, _) = stage.books.effects(&payment).await;
    let is_sound = !stage.broken().await.iter().any(|(invariant, _)| invariant == GRANTED_ONCE);
    (grants, is_sound)
}

#[tokio::test]
async fn the_inbox_row_alone_keeps_a_repeated_message_from_granting_twice() {
    assert_eq!(deliver_three_times(false).await, (1, true));
    assert_eq!(deliver_three_times(true).await, (3, false));
}

// ---- The fence -------------------------------------------------------------------------------

/// A store that takes the last word of any attempt for that of the current one.
struct Unfenced(SqliteStore);

impl Store for Unfenced {
    fn apply(&self, steps: Vec<Step>) -> BoxFuture<'static, Vec<Answer>> {
        let store = self.0.clone();
        Box::pin(async move {
            let mut bent = Vec::new();
            for step in steps {
                bent.push(match step {
                    Step::Complete { mut fence, outcome, retention } => {
                        let found = store.look(vec![fence.id]).await.remove(0).unwrap();
                        let record = found.record.unwrap();
                        (fence.epoch, fence.nonce) = (record.epoch, record.nonce);
                        Step::Complete { fence, outcome, retention }
                    }
                    step => step,
                });
            }
            store.apply(bent).await
        })
    }

    fn look(&self, ids: Vec<hapax::Id>) -> BoxFuture<'static, Vec<Result<Found, Fault>>> {
        self.0.look(ids)
    }

    fn changed(&self, id: hapax::Id) -> BoxFuture<'static, ()> {
        self.0.changed(id)
    }

    fn scan(&self, query: Scan) -> BoxFuture<'static, Result<Page, Fault>> {
        self.0.scan(query)
    }

    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        self.0.purge(rows)
    }

    fn history(&self, id: hapax::Id) -> BoxFuture<'static, Result<Vec<Entry>, Fault>> {
        self.0.history(id)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}

fn create(hapax: &Hapax) -> hapax::Operation {
    let policy = Policy::new(Effect::Keyed { window: Duration::from_secs(600) });
    hapax.declare(CREATE_OPERATION, policy.lease(Duration::from_millis(100))).unwrap()
}

/// The call that a tenant makes with the key `k1`.
fn call(create: &hapax::Operation, tenant: &str) -> hapax::Call {
    let tenant = Tenant::parse(tenant).unwrap();
    let merchant = Principal::parse("merchant").unwrap();
    create.request(tenant, merchant, RequestKey::parse("k1").unwrap())
}

/// The answer that a client is given by an attempt: its own, unless the store says otherwise.
async fn answer(lease: Lease, own: &'static str) -> Option<&'static str> {
    match lease.complete(Outcome::Value(Bytes::from_static(own.as_bytes()))).await {
        Ok(()) => Some(own),
        Err(error) => {
            assert_eq!(error.kind(), Kind::Fenced, "{error:?}");
            None
        }
    }
}

/// A holder whose clock stands still renews nothing and is taken over; then both speak.
async fn both_attempts_speak(store: Arc<dyn Store>) -> usize {
    let stalled = Hapax::on(Arc::clone(&store))
        .clock(Arc::new(TestClock::at(Timestamp::from_millis(0))))
        .build();
    let lively = Hapax::new(store);
    let (stalled, lively) = (create(&stalled), create(&lively));
    let Begin::Run(first) = call(&stalled, "north").begin().await.unwrap() else {
        panic!("the first")
    };
    let second = soon("the lease lapses", || async {
        match call(&lively, "north").begin().await.unwrap() {
            Begin::Run(lease) => Some(lease),
            _ => None,
        }
    })
    .await;
    // The zombie first: whoever asked it must not be told what others are not told.
    let given = [answer(first, "the first").await, answer(second, "the second").await];
    let Begin::Replay(_) = call(&lively, "north").begin().await.unwrap() else {
        panic!("it is done")
    };
    given.into_iter().flatten().collect::<HashSet<_>>().len()
}

#[tokio::test]
async fn the_fence_alone_keeps_a_zombie_from_answering() {
    let home = tempfile::tempdir().unwrap();
    let fenced = SqliteStore::open(home.path().join("fenced.db")).await.unwrap();
    assert_eq!(both_attempts_speak(Arc::new(fenced)).await, 1, "one key, one answer");
    let unfenced = SqliteStore::open(home.path().join("unfenced.db")).await.unwrap();
    assert_eq!(both_attempts_speak(Arc::new(Unfenced(unfenced))).await, 2, "two answers");
}

/// A request is taken over and judged between the moment it chose its number and the moment it
/// writes its attempt down, as if its process had been asleep for longer than the lease.
#[tokio::test]
async fn a_request_that_was_taken_over_opens_nothing() {
    let stage = Setup::new().period("complete", "1h").open().await;
    let shop = stage.shop();
    // What the completer's ruling "nothing happened" leaves of a record.
    stage
        .books
        .run(
            "CREATE TRIGGER judge AFTER UPDATE OF checkpoint ON hapax_records \
             WHEN NEW.state = 1 AND NEW.checkpoint IS NOT NULL BEGIN \
             UPDATE hapax_records SET state = 4, epoch = epoch + 1, nonce = randomblob(16), \
             prints = x'', checkpoint = NULL, reuse_at = 0 WHERE id = NEW.id; END",
        )
        .await;
    let problem = shop.create("k1", &order("1001")).await.refused(503, "unavailable");
    assert_eq!((&problem["retryable"], &problem["reuse_key"]), (&json!(true), &json!(true)));
    assert_eq!(stage.books.count("pay_payments", "1").await, 0, "its key was given back");
    assert_eq!(stage.channel.totals().await.trades, 0);
    stage.books.run("DROP TRIGGER judge").await;
    // The key is free, also for another request.
    let mut other = order("1001");
    other["amount"] = json!("1.00");
    assert_eq!(shop.create("k1", &other).await.is(201)["amount"], "1.00");
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
}

// ---- The fingerprint -------------------------------------------------------------------------

/// What a key that was used for order 1001 says to a request for order 1002.
async fn asks_for_another_order(forget: bool) -> (u16, Option<String>) {
    let stage = Stage::open().await;
    let shop = stage.shop();
    shop.create("k1", &order("1001")).await.is(201);
    if forget {
        // As if the record did not know what was asked: it has the print of the other request.
        shop.create("k2", &order("1002")).await.is(201);
        stage
            .books
            .run(
                "UPDATE hapax_records SET prints = (SELECT prints FROM hapax_records \
                 WHERE key_text = 'k2') WHERE key_text = 'k1'",
            )
            .await;
    }
    let answer = shop.create("k1", &order("1002")).await;
    let answered = answer.json()["order_id"].as_str().map(str::to_owned);
    (answer.status, answered)
}

#[tokio::test]
async fn the_fingerprint_alone_keeps_a_key_from_answering_for_another_request() {
    assert_eq!(asks_for_another_order(false).await, (422, None));
    let wrong = (201, Some("1001".to_owned()));
    assert_eq!(asks_for_another_order(true).await, wrong, "asked for 1002, told of 1001");
}

// ---- The scope in the id ---------------------------------------------------------------------

fn id_of(tenant: &str) -> String {
    let hapax = Hapax::new(Arc::new(hapax::store::MemoryStore::new()));
    call(&create(&hapax), tenant).id().hex()
}

/// Both tenants use one key for their own order 1001; says whose payment south is shown.
async fn two_tenants_use_one_key(without_scope: bool) -> (i64, bool) {
    let stage = Stage::open().await;
    let north = no(&stage.shop().create("k1", &order("1001")).await.is(201));
    if without_scope {
        // As if the id were made without the tenant: what north stored is found by south.
        let (north, south) = (id_of("north"), id_of("south"));
        let sql = format!("UPDATE hapax_records SET id = x'{south}' WHERE id = x'{north}'");
        stage.books.run(sql).await;
        assert_eq!(stage.books.count("hapax_records", &format!("id = x'{south}'")).await, 1);
    }
    let south = no(&stage.other_shop().create("k1", &order("1001")).await.is(201));
    (stage.books.count("pay_payments", "1").await, south == north)
}

#[tokio::test]
async fn the_scope_in_the_id_alone_keeps_tenants_apart() {
    assert_eq!(two_tenants_use_one_key(false).await, (2, false));
    assert_eq!(two_tenants_use_one_key(true).await, (1, true), "south is shown north's payment");
}

// ---- `success` only after settle -------------------------------------------------------------

/// Stands between channel and service. A hasty one acknowledges whatever arrives.
struct Relay {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Passing {
    to: Arc<std::sync::Mutex<String>>,
    is_hasty: bool,
    has_passed: Arc<AtomicBool>,
    http: reqwest::Client,
}

impl Relay {
    async fn open(passing: Passing) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/v1/notify/alipay", post(pass)).with_state(passing);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, _tasks: tasks }
    }
}

async fn pass(State(passing): State<Passing>, body: Body) -> String {
    let to = passing.to.lock().unwrap().clone();
    let answer = passing.http.post(to).body(body).send().await.unwrap().text().await.unwrap();
    passing.has_passed.store(true, Ordering::SeqCst);
    if passing.is_hasty { "success".to_owned() } else { answer }
}

/// Whether a payment is lost whose first callbacks could not be booked. No sweep looks for it.
async fn is_lost(is_hasty: bool) -> bool {
    let passing = Passing {
        to: Arc::default(),
        is_hasty,
        has_passed: Arc::default(),
        http: crate::shop::client(),
    };
    let relay = Relay::open(passing.clone()).await;
    let stage = Setup::new().callbacks_only().public_url(relay.address).open().await;
    *passing.to.lock().unwrap() = format!("http://{}/v1/notify/alipay", stage.service.address);
    let payment = no(&stage.shop().buy("1001").await);
    stage.books.break_on("UPDATE ON pay_notices").await;
    stage.channel.pay(&payment).await;
    soon("a callback could not be booked", || async {
        passing.has_passed.load(Ordering::SeqCst).then_some(())
    })
    .await;
    stage.books.mend().await;
    // From here on the channel is satisfied and sends nothing more.
    stage.channel.acknowledged(&payment).await;
    let deliveries = stage.channel.deliveries(&payment).await;
    let last = deliveries.last().unwrap();
    assert_eq!(last.outcome, wire::Outcome::Success);
    assert_eq!(stage.channel.trade(&payment).await.paid_fen, 8880);
    stage.books.status(&payment).await != "paid"
}

#[tokio::test]
async fn success_only_after_settle_alone_keeps_a_payment_from_being_lost() {
    assert!(!is_lost(false).await);
    assert!(is_lost(true).await, "acknowledged, never sent again, and not in the books");
}

/// All the early layers are gone at once: keys forgotten, locks always free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_keys_and_locks_an_order_still_has_one_live_attempt() {
    let stage = Stage::open().await;
    stage
        .books
        .run(
            "CREATE TRIGGER no_lock AFTER INSERT ON hapax_locks BEGIN UPDATE hapax_locks \
             SET owner = NULL, held_until = 0 WHERE name = NEW.name; END; \
             CREATE TRIGGER no_lock_again AFTER UPDATE OF owner ON hapax_locks \
             WHEN NEW.owner IS NOT NULL BEGIN UPDATE hapax_locks \
             SET owner = NULL, held_until = 0 WHERE name = NEW.name; END",
        )
        .await;
    let mut crowd = JoinSet::new();
    for number in 0..60 {
        let shop = stage.shop();
        crowd.spawn(async move {
            let answer = shop.settle(&format!("k{number}"), &order("1001")).await;
            assert!(matches!(answer.status, 200 | 201), "{answer:?}");
            no(&answer.json())
        });
    }
    let payments: HashSet<_> = crowd.join_all().await.into_iter().collect();
    assert_eq!(payments.len(), 1, "{payments:?}");
    assert_eq!(stage.books.count("pay_payments", "1").await, 1);
    assert_eq!(stage.channel.totals().await.trades, 1);
    assert_eq!(json!(stage.broken().await), json!([]));
}
