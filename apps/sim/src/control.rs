//! `/_sim/…`: the strings behind the stage, for callers on this machine only.

use std::future::ready;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::channel::Channel;
use crate::faults::{Faults, RaceRule};
use crate::notify;
use crate::trade::{Arrival, Event, Refusal};
use crate::wire;
use crate::world::{Filter, TradeIx, World};

/// A thousand rules fit.
const BODY_MAX: usize = 1024 * 1024;

pub(crate) fn routes() -> Router<Channel> {
    Router::new()
        .route("/_sim/scan", post(|State(c), Asked(body)| ready(scan(&c, body))))
        .route("/_sim/pay", post(|State(c), Asked(body)| ready(pay(&c, body))))
        .route("/_sim/finish", post(|State(c), Asked(body)| ready(end(&c, &body, Event::Finish))))
        .route("/_sim/expire", post(|State(c), Asked(body)| ready(end(&c, &body, Event::Expire))))
        .route("/_sim/faults", get(|State(c)| ready(faults(&c))))
        .route("/_sim/faults", post(|State(c), Asked(body)| ready(set_faults(&c, body))))
        .route("/_sim/hook", post(|State(c), Asked(body)| ready(hook(&c, body))))
        .route("/_sim/notify/resend", post(resend))
        .route("/_sim/truth", get(|State(c), query| ready(truth(&c, query))))
        .route("/_sim/log", get(|State(c)| ready(log(&c))))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(only_this_machine))
}

/// Refuses whoever is not on the loopback interface.
async fn only_this_machine(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    if peer.ip().to_canonical().is_loopback() {
        next.run(request).await
    } else {
        refuse(StatusCode::FORBIDDEN, "/_sim is for callers on this machine; call 127.0.0.1")
    }
}

/// A JSON body; refused with a sentence that says what is wrong with it.
struct Asked<T>(T);

impl<T: DeserializeOwned> FromRequest<Channel> for Asked<T> {
    type Rejection = Response;

    async fn from_request(request: Request, channel: &Channel) -> Result<Self, Response> {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        // A form on some web page can't send this type, so it can't pull our strings.
        if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
            let how = "send JSON with the header content-type: application/json";
            return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, how));
        }
        let body = Bytes::from_request(request, channel).await.map_err(|_| {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 1 MiB or broken")
        })?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            refuse(StatusCode::BAD_REQUEST, format!("the body does not fit: {error}"))
        })
    }
}

fn scan(channel: &Channel, body: wire::Scan) -> Response {
    let wire::Scan { out_trade_no, app_id, buyer_id } = body;
    on_trade(channel, app_id.as_deref(), &out_trade_no, |world, ix, now| {
        world.scan(ix, buyer_id, now)
    })
}

fn pay(channel: &Channel, body: wire::Pay) -> Response {
    let wire::Pay { out_trade_no, app_id, buyer_id, late } = body;
    let arrival = if late { Arrival::Late } else { Arrival::InTime };
    on_trade(channel, app_id.as_deref(), &out_trade_no, |world, ix, now| {
        world.pay(ix, buyer_id, arrival, now)
    })
}

fn end(channel: &Channel, body: &wire::Pick, event: Event) -> Response {
    on_trade(channel, body.app_id.as_deref(), &body.out_trade_no, |world, ix, now| {
        world.change(ix, event, now)
    })
}

/// Does something to one trade and shows the trade afterwards.
fn on_trade(
    channel: &Channel,
    app_id: Option<&str>,
    out_trade_no: &str,
    work: impl FnOnce(&mut World, TradeIx, Timestamp) -> Result<(), Refusal>,
) -> Response {
    channel.step(|world, now| {
        let Some(ix) = world.by_out_trade_no(app_id, out_trade_no) else {
            let which = format!("no trade has the out_trade_no {out_trade_no}; make it first");
            return refuse(StatusCode::NOT_FOUND, which);
        };
        match work(world, ix, now) {
            Ok(()) => json(&world.trade_view(ix)),
            Err(refusal) => refuse(StatusCode::CONFLICT, refusal.sentence()),
        }
    })
}

fn faults(channel: &Channel) -> Response {
    json(&channel.look(World::faults))
}

fn set_faults(channel: &Channel, rules: Faults) -> Response {
    if let Err(problem) = rules.check() {
        return refuse(StatusCode::BAD_REQUEST, problem);
    }
    channel.step(|world, _| {
        world.set_faults(rules);
        json(&world.faults())
    })
}

fn hook(channel: &Channel, race: RaceRule) -> Response {
    channel.step(|world, _| match world.add_race(race) {
        Ok(()) => json(&world.faults()),
        Err(problem) => refuse(StatusCode::BAD_REQUEST, problem),
    })
}

async fn resend(State(channel): State<Channel>, Asked(body): Asked<wire::Resend>) -> Response {
    let Some(notice) = channel.look(|world| world.notice(&body.notify_id)) else {
        let which = format!("no notice has the notify_id {}; see /_sim/truth", body.notify_id);
        return refuse(StatusCode::NOT_FOUND, which);
    };
    let acknowledged = notify::resend(&channel, &notice).await;
    json(&wire::Resent { acknowledged })
}

/// The query of `/_sim/truth`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    out_trade_no: Option<String>,
    deliveries: Option<bool>,
}

fn truth(channel: &Channel, query: Result<Query<Wanted>, QueryRejection>) -> Response {
    match query {
        Ok(Query(Wanted { out_trade_no, deliveries })) => {
            let filter = Filter { out_trade_no, deliveries: deliveries.unwrap_or(true) };
            let now = channel.now();
            json(&channel.look(|world| world.truth(&filter, now)))
        }
        Err(_) => refuse(
            StatusCode::BAD_REQUEST,
            "the query may have out_trade_no=… and deliveries=true or false",
        ),
    }
}

fn log(channel: &Channel) -> Response {
    json(&channel.look(World::requests))
}

fn json(body: &impl serde::Serialize) -> Response {
    axum::Json(body).into_response()
}

fn refuse(status: StatusCode, error: impl Into<String>) -> Response {
    (status, axum::Json(wire::Refused { error: error.into() })).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    async fn status_for(peer: &str) -> StatusCode {
        let app: Router = Router::new()
            .route("/_sim/truth", get(|| ready("truth")))
            .layer(from_fn(only_this_machine));
        let peer: SocketAddr = peer.parse().unwrap();
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "/_sim/truth".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        app.oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn only_callers_on_this_machine_pull_the_strings() {
        for local in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(status_for(local).await, StatusCode::OK, "{local}");
        }
        for remote in ["192.0.2.1:1", "10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
            assert_eq!(status_for(remote).await, StatusCode::FORBIDDEN, "{remote}");
        }
    }
}
