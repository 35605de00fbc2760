//! The stage: a real simulator, the real service on a file of its own, and two merchants.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusHandle;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    books::Books,
    channel::{Channel, KEYS, NORTH_APP, NORTH_SELLER, SOUTH_APP, SOUTH_SELLER, schedule},
    clock::{soon, soon_is},
    receiver::Receiver,
    shop::{Answer, Shop, client},
};
use hapax_pay::{Service, config::Config, operator::Office};

pub(crate) const NORTH_KEY: &str = "north-api-key-0123456789abcdefghijkl";
pub(crate) const SOUTH_KEY: &str = "south-api-key-0123456789abcdefghijkl";
pub(crate) const NORTH_NOTICES: &str = "north-notices-0123456789abcdefghijkl";

/// How a stage differs from the usual one.
pub(crate) struct Setup {
    periods: BTreeMap<&'static str, String>,
    late_money: &'static str,
    notice_gap_ms: u64,
    tolerance: Duration,
    tokens_per_minute: u32,
    north_seller: &'static str,
    public_url: Option<SocketAddr>,
}

impl Setup {
    /// Everything happens soon, and what nobody waits for hardly ever.
    pub(crate) fn new() -> Self {
        let periods = [
            ("lease", "3s"),
            ("wait", "300ms"),
            ("sweep", "20ms"),
            ("complete", "100ms"),
            ("purge", "1h"),
            ("expiry", "15m"),
            ("expiry_min", "1s"),
            ("expiry_grace", "200ms"),
            ("watch", "1h"),
            ("checks", "20ms,50ms,100ms"),
            ("refund_ask_after", "60ms"),
            ("resend", "20ms"),
            ("resend_max", "100ms"),
            ("probe", "20ms"),
            ("probe_max", "100ms"),
            ("channel_timeout", "1s"),
            ("notice_timeout", "1s"),
            ("drain", "10s"),
        ];
        Self {
            periods: periods.map(|(name, span)| (name, span.to_owned())).into(),
            late_money: "refund",
            notice_gap_ms: 40,
            tolerance: Duration::from_secs(900),
            tokens_per_minute: 1000,
            north_seller: NORTH_SELLER,
            public_url: None,
        }
    }

    pub(crate) fn period(mut self, name: &'static str, span: &str) -> Self {
        self.periods.insert(name, span.to_owned());
        self
    }

    /// Nothing is asked of the channel but by request: only callbacks bring news.
    pub(crate) fn callbacks_only(self) -> Self {
        self.period("checks", "1h")
    }

    pub(crate) fn late_money(self, policy: &'static str) -> Self {
        Self { late_money: policy, ..self }
    }

    /// The gap between two deliveries of a notice.
    pub(crate) fn notice_gap_ms(self, notice_gap_ms: u64) -> Self {
        Self { notice_gap_ms, ..self }
    }

    /// How old a signature may be for the channel.
    pub(crate) fn tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    pub(crate) fn tokens_per_minute(self, tokens_per_minute: u32) -> Self {
        Self { tokens_per_minute, ..self }
    }

    /// What north believes to be its number as a seller.
    pub(crate) fn north_seller(self, north_seller: &'static str) -> Self {
        Self { north_seller, ..self }
    }

    /// Where the channel sends its notices, if not to the service itself.
    pub(crate) fn public_url(self, address: SocketAddr) -> Self {
        Self { public_url: Some(address), ..self }
    }

    pub(crate) async fn open(self) -> Stage {
        let home = tempfile::tempdir().unwrap();
        let channel = Channel::open(schedule(self.notice_gap_ms), self.tolerance).await;
        let (north, south) = (Receiver::open().await, Receiver::open().await);
        write_secrets(home.path());
        let setup = Written {
            setup: self,
            channel: channel.address,
            north: north.address,
            south: south.address,
        };
        let config = setup.write(home.path(), "127.0.0.1:0".parse().unwrap());
        let service = Running::open(config).await;
        let books = Books::open(&home.path().join("pay.db"));
        Stage { home, channel, north, south, setup, books, service, http: client() }
    }
}

/// A set-up with the addresses of everybody in it.
struct Written {
    setup: Setup,
    channel: SocketAddr,
    north: SocketAddr,
    south: SocketAddr,
}

impl Written {
    fn write(&self, home: &Path, listen: SocketAddr) -> PathBuf {
        let Setup { late_money, tokens_per_minute, north_seller, .. } = &self.setup;
        let mut text = format!(
            "listen = \"{listen}\"\ndatabase = \"sqlite:pay.db\"\nlate_money = \"{late_money}\"\n\
             [tokens]\nsecret_file = \"tokens.secret\"\nper_minute = {tokens_per_minute}\n\
             [periods]\n"
        );
        if let Some(address) = self.setup.public_url {
            text.insert_str(0, &format!("public_url = \"http://{address}\"\n"));
        }
        for (name, span) in &self.setup.periods {
            match *name {
                "checks" => {
                    let spans = span.split(',').map(|span| format!("\"{span}\""));
                    let spans = spans.collect::<Vec<_>>().join(", ");
                    writeln!(text, "checks = [{spans}]").unwrap();
                }
                name => writeln!(text, "{name} = \"{span}\"").unwrap(),
            }
        }
        for (name, app, seller, notices) in [
            ("north", NORTH_APP, *north_seller, self.north),
            ("south", SOUTH_APP, SOUTH_SELLER, self.south),
        ] {
            let channel = self.channel;
            write!(
                text,
                "[[tenants]]\nname = \"{name}\"\napi_key_file = \"{name}.key\"\n\
                 notice_url = \"http://{notices}/notices\"\n\
                 notice_secret_file = \"{name}.notices\"\n\
                 [tenants.alipay]\ngateway = \"http://{channel}/gateway.do\"\n\
                 app_id = \"{app}\"\nseller_id = \"{seller}\"\n\
                 app_private_key_file = \"{name}.pem\"\nalipay_public_key_file = \"alipay.pub\"\n"
            )
            .unwrap();
        }
        let file = home.join("hapax.toml");
        fs::write(&file, text).unwrap();
        file
    }
}

fn write_secrets(home: &Path) {
    let keys = &*KEYS;
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).unwrap();
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    for (file, text) in [
        ("tokens.secret", &*secret),
        ("north.key", NORTH_KEY),
        ("south.key", SOUTH_KEY),
        ("north.notices", NORTH_NOTICES),
        ("south.notices", "south-notices-0123456789abcdefghijkl"),
        ("north.pem", &keys.north.private_pkcs8),
        ("south.pem", &keys.south.private_pkcs8),
        ("alipay.pub", &keys.channel.public_spki),
    ] {
        let path = home.join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// One instance of the service.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    tasks: JoinSet<Result<(), hapax_pay::Error>>,
}

impl Running {
    pub(crate) async fn open(config: PathBuf) -> Self {
        Self::open_with(config, None).await
    }

    /// An instance that shows what this recorder counted.
    pub(crate) async fn open_with(config: PathBuf, metrics: Option<PrometheusHandle>) -> Self {
        Self::start_with(Config::read(&config).unwrap(), metrics).await
    }

    /// An instance with just this configuration.
    pub(crate) async fn start(config: Config) -> Self {
        Self::start_with(config, None).await
    }

    async fn start_with(config: Config, metrics: Option<PrometheusHandle>) -> Self {
        let service = Service::open(config, metrics).await.unwrap();
        let address = service.address();
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(service.serve(async move { drop(stopped.await) }));
        Self { address, stop: Some(stop), tasks }
    }

    /// Tells it to stop.
    pub(crate) fn tell(&mut self) {
        drop(self.stop.take());
    }

    /// Tells it to stop and waits until it has drained.
    pub(crate) async fn stop(mut self) {
        self.tell();
        self.ended().await;
    }

    /// Waits until it has drained.
    pub(crate) async fn ended(&mut self) {
        let ended = tokio::time::timeout(Duration::from_secs(15), self.tasks.join_next()).await;
        ended.expect("it stops in time").unwrap().unwrap().unwrap();
    }
}

/// Everything that a test plays on.
pub(crate) struct Stage {
    pub(crate) home: TempDir,
    pub(crate) channel: Channel,
    pub(crate) north: Receiver,
    pub(crate) south: Receiver,
    setup: Written,
    pub(crate) books: Books,
    pub(crate) service: Running,
    pub(crate) http: reqwest::Client,
}

impl Stage {
    pub(crate) async fn open() -> Self {
        Setup::new().open().await
    }

    /// The tenant north.
    pub(crate) fn shop(&self) -> Shop {
        self.shop_at(self.service.address)
    }

    /// The tenant north at another instance.
    pub(crate) fn shop_at(&self, address: SocketAddr) -> Shop {
        Shop::new(&self.http, address, NORTH_KEY)
    }

    /// The tenant south.
    pub(crate) fn other_shop(&self) -> Shop {
        Shop::new(&self.http, self.service.address, SOUTH_KEY)
    }

    /// One more instance on the same database.
    pub(crate) async fn another(&self) -> Running {
        Running::open(self.setup.write(self.home.path(), "127.0.0.1:0".parse().unwrap())).await
    }

    /// Stops the service, changes the set-up, and starts it again at the same address.
    pub(crate) async fn restart_with(mut self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let address = self.service.address;
        self.service.stop().await;
        self.setup.setup = change(self.setup.setup);
        let config = self.setup.write(self.home.path(), address);
        self.service = Running::open(config).await;
        self
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.home.path().join("pay.db")
    }

    /// The configuration, to listen where a killed instance did.
    pub(crate) fn config_at(&self, address: SocketAddr) -> PathBuf {
        self.setup.write(self.home.path(), address)
    }

    /// Sends a callback as the channel would.
    pub(crate) async fn notify(&self, body: impl Into<reqwest::Body>) -> Answer {
        let url = format!("http://{}/v1/notify/alipay", self.service.address);
        let request = self
            .http
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded; charset=utf-8")
            .body(body);
        Answer::read(request.send().await.unwrap()).await.unwrap()
    }

    /// Sends a callback and says whether it was taken: exactly `success` or exactly `failure`.
    pub(crate) async fn is_taken(&self, body: impl Into<reqwest::Body>) -> bool {
        let answer = self.notify(body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        match &answer.body[..] {
            b"success" => true,
            b"failure" => false,
            other => panic!("{:?}", String::from_utf8_lossy(other)),
        }
    }

    /// The recount of the operator: every broken invariant, with examples.
    pub(crate) async fn broken(&self) -> Vec<(String, Vec<String>)> {
        let config = Config::read(&self.home.path().join("hapax.toml")).unwrap();
        let office = Office::open(&config).await.unwrap();
        let verified = office.verify().await.unwrap();
        office.close().await;
        let broken = verified.broken.into_iter();
        broken.map(|it| (it.invariant.to_owned(), it.examples)).collect()
    }

    /// Waits until nothing is on its way, then counts against the channel's truth: every trade
    /// that was paid is in force with its benefit, or given back in full without it.
    pub(crate) async fn audit(&self) {
        self.is_quiet().await;
        assert_eq!(self.broken().await, [], "the books are sound");
        for trade in self.channel.truth().await.trades {
            let no = &trade.out_trade_no;
            let books = self
                .books
                .text(format!(
                    "SELECT concat_ws('|', status, surplus, amount, max(refunded, given_back)) \
                     FROM pay_payments WHERE payment_no = '{no}'"
                ))
                .await;
            let fields: Vec<_> = books.split('|').collect();
            let [status, surplus, amount, refunded] = fields[..] else { panic!("{no}: {books}") };
            assert_eq!(status == "paid", trade.paid_fen > 0, "{no}: {books}, {trade:?}");
            if trade.paid_fen == 0 {
                continue;
            }
            assert_eq!(amount, trade.paid_fen.to_string(), "{no}: {trade:?}");
            assert_eq!(refunded, trade.refunded_fen.to_string(), "{no}: {trade:?}");
            assert!(trade.refunds.iter().all(|refund| refund.times == 1), "{trade:?}");
            if surplus == "1" {
                assert_eq!(trade.refunded_fen, trade.paid_fen, "{no}: surplus goes back");
                continue;
            }
            let promised = self
                .books
                .number(format!(
                    "SELECT json_array_length(o.benefits) FROM pay_orders o JOIN pay_payments p \
                     USING (tenant, order_id, round) WHERE p.payment_no = '{no}'"
                ))
                .await;
            let (grants, revokes) = self.books.effects(no).await;
            let live = if trade.refunded_fen < trade.paid_fen { promised } else { 0 };
            assert_eq!(grants - revokes, live, "{no}: benefits follow the money");
        }
    }

    /// Waits until every message was sent and every refund is over.
    pub(crate) async fn is_quiet(&self) {
        soon_is("nothing is on its way", 0, || async {
            self.books
                .number(
                    "SELECT (SELECT count(*) FROM hapax_outbox) + (SELECT count(*) FROM \
                     pay_refunds WHERE status IN ('reserved', 'sent')) + (SELECT count(*) FROM \
                     pay_benefits WHERE status IN ('due', 'revoke_due'))",
                )
                .await
        })
        .await;
    }

    /// Waits until the merchant north was told this about an order.
    pub(crate) async fn told(&self, order_id: &str, kind: &str) {
        soon(&format!("{order_id} was told {kind}"), || async {
            self.north.told(order_id).iter().any(|told| told == kind).then_some(())
        })
        .await;
    }
}
