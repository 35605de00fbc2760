//! The verbs beside the real service, with a simulated channel that is asked over HTTP.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Stdio},
};

use serde_json::{Value, json};
use sqlx::Connection;
use tokio::{sync::oneshot, task::JoinSet};

use crate::stage::{Said, Stage};
use hapax_sim::{Account, Config, bind};

/// A set-up as `hapax init --dev` makes it, with its channel on a free port.
struct Shop {
    stage: Stage,
    channel: SocketAddr,
    closing: Option<oneshot::Sender<()>>,
    tasks: JoinSet<()>,
    http: reqwest::Client,
    api_key: String,
}

impl Shop {
    async fn open() -> Self {
        let stage = Stage::bare();
        let made = stage.hapax(&["init", "--dev", "dev"]);
        assert_eq!(made.code, 0, "{made:?}");
        let read = |file: &str| fs::read_to_string(stage.path("dev").join(file)).unwrap();
        let sim: toml::Table = read("sim.toml").parse().unwrap();
        let account = sim["accounts"][0].clone();
        let field = |name: &str| account[name].as_str().unwrap().to_owned();
        let account =
            Account::with_key(field("app_id"), field("seller_id"), read(&field("public_key_file")));
        let private_key = read(sim["private_key_file"].as_str().unwrap());
        let simulator = bind(Config::new(private_key, account)).await.unwrap();
        let channel = simulator.local_addr();
        let (closing, closed) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            simulator.serve(async move { drop(closed.await) }).await.unwrap();
        });
        let config = read("hapax.toml");
        let gateway = format!("http://{channel}/gateway.do");
        let config = config.replace("http://127.0.0.1:8090/gateway.do", &gateway);
        assert!(config.contains(&gateway), "{config}");
        fs::write(stage.path("dev/hapax.toml"), config).unwrap();
        let api_key = read("keys/demo.api-key");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { stage, channel, closing: Some(closing), tasks, http, api_key }
    }

    fn hapax(&self, args: &[&str]) -> Said {
        self.stage.hapax(&[args, &["--config", "dev/hapax.toml"]].concat())
    }

    fn serve(&self) -> Service {
        let args = ["serve", "--config", "dev/hapax.toml", "--listen", "127.0.0.1:0"];
        let mut child = self.stage.command(&args).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Service { child, base: line.trim().to_owned() }
    }

    async fn pay_for(&self, service: &Service, header: (&str, &str), order: &str) -> Value {
        let body = json!({"order_id": order, "amount": "88.80", "currency": "CNY",
            "subject": "One month", "benefits": ["vip_month"], "user": "ann", "session": "s1"});
        let answer = self
            .http
            .post(format!("{}/v1/payments", service.base))
            .bearer_auth(&self.api_key)
            .header(header.0, header.1)
            .json(&body)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 201);
        answer.json().await.unwrap()
    }

    async fn buyer(&self, act: &str, payment_no: &str) {
        let url = format!("http://{}/_sim/{act}", self.channel);
        let answer =
            self.http.post(url).json(&json!({"out_trade_no": payment_no})).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    async fn close_channel(&mut self) {
        drop(self.closing.take());
        while self.tasks.join_next().await.is_some() {}
    }
}

struct Service {
    child: Child,
    base: String,
}

impl Service {
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Already gone if the test came to its end.
        drop(self.child.kill());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_channel_says_is_booked_through_the_one_success_flow() {
    let mut shop = Shop::open().await;
    let service = shop.serve();
    let created = shop.pay_for(&service, ("Idempotency-Key", "order-1001"), "1001").await;
    service.kill();
    let no = created["payment_no"].as_str().unwrap();
    let check = |shop: &Shop| shop.hapax(&["payments", "check", no, "--json"]);
    let told = |said: &Said| {
        let told = said.json();
        [&told["channel"], &told["status_before"], &told["status"]].map(Value::clone)
    };
    assert_eq!(told(&check(&shop)), ["not_seen", "waiting", "waiting"]);
    shop.buyer("scan", no).await;
    assert_eq!(told(&check(&shop)), ["unpaid", "waiting", "waiting"]);
    shop.buyer("pay", no).await;
    assert_eq!(told(&check(&shop)), ["booked", "waiting", "paid"]);
    assert_eq!(told(&check(&shop)), ["booked", "paid", "paid"], "once is once");

    let payment = shop.hapax(&["payments", "show", no, "--json"]).json();
    assert_eq!((&payment["amount"], &payment["surplus"]), (&json!("88.80"), &json!(false)));
    assert!(payment["trade_no"].is_string() && payment["paid_at"].is_string(), "{payment}");
    let outbox = shop.hapax(&["outbox", "list", "--json"]).json();
    let topics: Vec<_> = outbox["messages"].as_array().unwrap().iter().collect();
    assert!(topics.iter().any(|message| message["topic"] == "benefit"), "{outbox}");
    let key = ["keys", "show", "--tenant", "demo", "--key", "order-1001", "--json"];
    assert_eq!(shop.hapax(&key).json()["answer_status"], 201);
    let said = shop.hapax(&["verify"]);
    assert_eq!(said.code, 0, "{said:?}");

    let text = shop.hapax(&["payments", "check", no]);
    assert!(text.out.contains("channel says   booked"), "{text:?}");
    shop.close_channel().await;
    let said = shop.hapax(&["payments", "check", no]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("the channel did not tell"), "its reason is logged: {said:?}");
    assert!(said.err.contains("nothing was changed"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_from_the_operator_creates_one_payment_and_is_known_as_used() {
    let shop = Shop::open().await;
    let service = shop.serve();
    let bound = ["--tenant", "demo", "--order", "1002", "--user", "ann", "--session", "s1"];
    let issued = shop.hapax(&[&["tokens", "issue"], &bound[..]].concat());
    let token = issued.out.trim();
    let check =
        |shop: &Shop| shop.hapax(&[&["tokens", "check", token, "--json"], &bound[..]].concat());
    assert_eq!(check(&shop).json()["used"], Value::Null);
    let first = shop.pay_for(&service, ("Idempotent-Token", token), "1002").await;
    let again = shop.pay_for(&service, ("Idempotent-Token", token), "1002").await;
    assert_eq!(first, again);
    let used = check(&shop).json();
    assert_eq!((&used["verdict"], &used["used"]), (&json!("fresh"), &json!("completed")));
    // Past its life it still finds what it started, for a while.
    let mut conn = sqlx::SqliteConnection::connect_with(
        &sqlx::sqlite::SqliteConnectOptions::new().filename(shop.stage.path("dev/hapax.db")),
    )
    .await
    .unwrap();
    let ahead = "UPDATE hapax_clock SET latest = latest + 31 * 60 * 1000";
    sqlx::query(ahead).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    let late = check(&shop).json();
    assert_eq!((&late["verdict"], &late["used"]), (&json!("late"), &json!("completed")));
    service.kill();
}
