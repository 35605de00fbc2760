//! A payment service and its channel in a few hundred lines, in memory, for one merchant's test.
//!
//! Deliberately naive: one lock around everything, callbacks by function call. It can be killed
//! and started again on the same port with the same memory, as a service on a disk.

mod channel;
mod clock;
mod desk;
mod flaw;
mod money;
mod notices;
mod service;
mod shop;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use tokio::runtime::{Builder, Runtime};

use hapax_storm::{Manner, Merchant, Mischief, Plan, Report, Shares, Tenant};

pub(crate) use self::clock::sleep;
pub(crate) use self::flaw::Flaw;
pub(crate) use self::shop::Shop;

const TENANTS: [&str; 3] = ["apple", "berry", "cherry"];

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Toy(Arc<Mutex<Shop>>);

impl Toy {
    pub(crate) fn shop(&self) -> MutexGuard<'_, Shop> {
        let mut shop = self.0.lock().unwrap();
        shop.tick(clock::now_ms());
        shop
    }
}

/// The toy at work, and the merchant who is told.
pub(crate) struct Stage {
    pub(crate) toy: Toy,
    pub(crate) merchant: Merchant,
    service: Option<Runtime>,
    service_at: SocketAddr,
    channel_at: SocketAddr,
    channel: Option<Runtime>,
}

impl Stage {
    pub(crate) async fn set(flaw: Flaw) -> Self {
        let manner = Manner { failures: 0.2, hold: Duration::from_millis(150) };
        let merchant = Merchant::open(1, manner).await.unwrap();
        let (channel_socket, channel_at) = listen("127.0.0.1:0".parse().unwrap());
        let (service_socket, service_at) = listen("127.0.0.1:0".parse().unwrap());
        let addresses = TENANTS.map(|name| (name.to_owned(), merchant.address(name)));
        let shop = Shop::new(flaw, channel_at, addresses);
        let toy = Toy(Arc::new(Mutex::new(shop)));
        let channel = Some(serve(channel_socket, channel::routes().with_state(toy.clone())));
        let mut stage = Self { toy, merchant, service: None, service_at, channel_at, channel };
        stage.start_with(service_socket);
        stage
    }

    /// Ends the service in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        if let Some(service) = self.service.take() {
            service.shutdown_background();
        }
    }

    /// Starts it again, on the same port and with the same memory.
    pub(crate) fn start(&mut self) {
        let (socket, _) = listen(self.service_at);
        self.start_with(socket);
    }

    fn start_with(&mut self, socket: TcpListener) {
        let runtime = serve(socket, service::routes().with_state(self.toy.clone()));
        runtime.spawn(notices::carry(self.toy.clone()));
        self.service = Some(runtime);
    }

    /// A plan whose every story happens within seconds.
    pub(crate) fn plan(&self) -> Plan {
        let tenant = |name: &str| Tenant {
            name: name.to_owned(),
            api_key: format!("key-of-{name}"),
            notice_secret: Some(format!("secret-of-{name}")),
        };
        let tenants = TENANTS.map(tenant).to_vec();
        let service = format!("http://{}", self.service_at);
        let channel = format!("http://{}", self.channel_at);
        let mut plan = Plan::new(service, channel, tenants);
        plan.orders = 24;
        plan.shares = Shares { conflicts: 0.5, shadows: 0.5, ..Shares::default() };
        plan.mischief = Mischief::default();
        plan.pace.expiry_short = Duration::from_secs(1);
        plan.pace.deadline = Duration::from_secs(20);
        plan.marks = Vec::new();
        plan
    }

    /// Attacks with a plan and no control.
    pub(crate) async fn attack(&self, plan: Plan) -> Report {
        let control = hapax_storm::Control::new();
        hapax_storm::run(plan, &self.merchant, &control, |_| ()).await.unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.kill();
        if let Some(channel) = self.channel.take() {
            channel.shutdown_background();
        }
    }
}

fn listen(at: SocketAddr) -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind(at).unwrap();
    socket.set_nonblocking(true).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// Serves on a runtime of its own, so that it can end as a process does.
fn serve(socket: TcpListener, app: Router) -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.spawn(async move {
        let socket = tokio::net::TcpListener::from_std(socket).unwrap();
        axum::serve(socket, app).await.unwrap();
    });
    runtime
}
