//! `/gateway.do`: what merchants call.

mod methods;
mod request;
mod response;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use jiff::Timestamp;

use self::methods::{Outcome, carry_out, out_trade_no};
use self::request::{Call, Rejected, Rules, read};
use self::response::{Answer, Seal, signed, unsigned};
use crate::channel::Channel;
use crate::clock::Clock;
use crate::error::Error;
use crate::faults::{CallFault, ms};
use crate::form::{BadForm, Params};
use crate::page;
use crate::server::HangUp;
use crate::wire;
use crate::world::World;

/// A call has a few kilobytes; nobody needs more.
const BODY_MAX: usize = 64 * 1024;

/// How long a caller may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pieces of an answer that drips.
const DRIP_BYTES: usize = 32;

/// How long half an answer stands before its connection breaks.
const BREAK_PAUSE: Duration = Duration::from_millis(20);

/// What the log tells of a request.
#[derive(Debug, Default)]
struct Note {
    method: Option<String>,
    out_trade_no: Option<String>,
    answer: Option<Answer>,
    fault: Option<CallFault>,
}

/// Serves one request of a merchant or of a buyer's browser.
///
/// # Cancellation
/// A caller that goes away takes nothing back: a call that has arrived is carried out.
pub(crate) async fn serve(
    State(channel): State<Channel>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let start = channel.now();
    let params = params(&channel, request).await;
    let parts = channel.parts();
    let work = answer(channel.clone(), params, start, peer);
    let work = parts.cut.clone().run_until_cancelled_owned(work);
    // Nobody answers if the work was cut at the end of the simulator, or panicked.
    parts.tasks.spawn(work).await.ok().flatten().unwrap_or_else(HangUp::response)
}

async fn answer(
    channel: Channel,
    params: Result<Params, Response>,
    start: Timestamp,
    peer: SocketAddr,
) -> Response {
    let mut note = Note::default();
    let response = match params {
        Ok(params) => match params.get("service") {
            Some(service) => old_service(&channel, service, &params),
            None => call(&channel, &params, &mut note).await,
        },
        Err(refusal) => refusal,
    };
    let now = channel.now();
    channel.step(|world, _| world.log(line(note, start, now, peer)));
    response
}

/// Reads the parameters from the query and the body together.
async fn params(channel: &Channel, request: Request) -> Result<Params, Response> {
    let (parts, body) = request.into_parts();
    let clock = channel.parts().clock;
    let body = match clock.within(BODY_TIMEOUT, to_bytes(body, BODY_MAX)).await {
        None => return Err(plain(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
        Some(Err(_)) => {
            return Err(plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is over 64 KiB or broken"));
        }
        Some(Ok(body)) => body,
    };
    let query = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
    query.and_then(|query| query.join(Params::parse(&body)?)).map_err(|bad: BadForm| {
        let answer = Answer::invalid_argument("isv.invalid-parameter".to_owned(), bad.to_string());
        json(unsigned(&answer, crate::charset::Charset::Utf8))
    })
}

/// `notify_verify`: whether a notice is the channel's own and still unanswered.
fn old_service(channel: &Channel, service: &[u8], params: &Params) -> Response {
    let text = |name| String::from_utf8_lossy(params.get(name).unwrap_or_default()).into_owned();
    if service != b"notify_verify" {
        return plain(StatusCode::NOT_FOUND, "the only service is notify_verify");
    }
    let (id, partner) = (text("notify_id"), text("partner"));
    let open = channel.look(|world| world.is_open_notice(&id, &partner));
    plain(StatusCode::OK, if open { "true" } else { "false" })
}

async fn call(channel: &Channel, params: &Params, note: &mut Note) -> Response {
    let parts = channel.parts();
    let rules = Rules {
        merchants: &parts.merchants,
        tolerance: parts.timestamp_tolerance,
        now: channel.now(),
    };
    let call = match read(params, &rules) {
        Ok(call) => call,
        Err(rejected) => {
            note.method = rejected.method.map(|method| method.name().to_owned());
            note.answer = Some(rejected.answer.clone());
            return reject(channel, &rejected);
        }
    };
    note.method = Some(call.method.name().to_owned());
    let (number, fault) = channel.step(|world, _| draw(world, &call));
    note.out_trade_no = number;
    note.fault.clone_from(&fault);
    match fault {
        Some(CallFault::DropRequest) => return HangUp::response(),
        Some(CallFault::DelayRequest { ms: wait }) => parts.clock.sleep(ms(wait)).await,
        _ => {}
    }
    let outcome = act(channel, &call, fault.as_ref()).await;
    if let Outcome::Answer(answer) | Outcome::Code { answer, .. } = &outcome {
        note.answer = Some(answer.clone());
    }
    match render(channel, &call, outcome, fault.as_ref()) {
        Ok(response) => send(parts.clock, response, fault.as_ref()).await,
        Err(error) => {
            tracing::error!(error = %error, "an answer could not be signed");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be signed")
        }
    }
}

fn draw(world: &mut World, call: &Call) -> (Option<String>, Option<CallFault>) {
    let number = out_trade_no(world, call);
    let fault = world.take_call(call.method, number.as_deref().unwrap_or_default());
    (number, fault)
}

/// Carries the call out, unless its fault forbids that, and finds what is to be said.
async fn act(channel: &Channel, call: &Call, fault: Option<&CallFault>) -> Outcome {
    let later = match fault {
        Some(CallFault::RefundLater { ms: wait }) => Some(ms(*wait)),
        _ => None,
    };
    let wanted = fault.is_none_or(CallFault::does_the_call);
    let done = wanted.then(|| channel.step(|world, now| carry_out(world, call, later, now)));
    if let Some(Outcome::Code { shown, .. } | Outcome::Checkout(shown)) = &done {
        for notify_id in &shown.notices_first {
            let patience = channel.parts().notify_timeout;
            channel.wait_until(patience, |world| world.was_tried(notify_id)).await;
        }
    }
    match (fault, done) {
        (Some(CallFault::Unavailable { .. }), _) => {
            Outcome::Answer(Answer::unavailable("系统繁忙"))
        }
        (Some(CallFault::SystemError { .. }), _) => {
            Outcome::Answer(Answer::failed("ACQ.SYSTEM_ERROR"))
        }
        (Some(CallFault::Refused { sub_code }), _) => Outcome::Answer(Answer::failed(sub_code)),
        (_, Some(done)) => done,
        // Only a 502 that did nothing comes here, and it shows its own page.
        (_, None) => Outcome::Answer(Answer::unavailable("系统繁忙")),
    }
}

fn render(
    channel: &Channel,
    call: &Call,
    outcome: Outcome,
    fault: Option<&CallFault>,
) -> Result<Response, Error> {
    let parts = channel.parts();
    let answer = match outcome {
        Outcome::Checkout(shown) => {
            let page = channel.look(|world| world.page(&shown.token));
            return Ok(see_other(&page));
        }
        Outcome::Answer(answer) if call.method.is_page() => return Ok(refusal_page(&answer)),
        Outcome::Answer(answer) | Outcome::Code { answer, .. } => answer,
    };
    let serials = call.merchant.serials.as_ref();
    let seal = Seal {
        signer: &parts.signer,
        stranger: &parts.stranger,
        alipay_cert_sn: serials.map(|serials| serials.alipay.as_str()),
        charset: call.charset,
    };
    Ok(json(signed(&answer, call.method, &seal, fault)?))
}

/// Answers a call that was not taken; signed only if the app and its method are known.
fn reject(channel: &Channel, rejected: &Rejected) -> Response {
    let parts = channel.parts();
    let answer = &rejected.answer;
    let Some(method) = rejected.method else {
        return json(unsigned(answer, rejected.charset));
    };
    if method.is_page() {
        return refusal_page(answer);
    }
    let merchant = rejected.app_id.as_ref().and_then(|app_id| parts.merchants.get(app_id));
    let serials = merchant.and_then(|merchant| merchant.serials.as_ref());
    let seal = Seal {
        signer: &parts.signer,
        stranger: &parts.stranger,
        alipay_cert_sn: serials.map(|serials| serials.alipay.as_str()),
        charset: rejected.charset,
    };
    signed(answer, method, &seal, None).map_or_else(
        |error| {
            tracing::error!(error = %error, "a refusal could not be signed");
            json(unsigned(answer, rejected.charset))
        },
        json,
    )
}

/// Sends an answer, or what its fault leaves of it.
async fn send(clock: Clock, response: Response, fault: Option<&CallFault>) -> Response {
    match fault {
        Some(CallFault::DropAnswer) => HangUp::response(),
        Some(CallFault::DelayAnswer { ms: wait }) => {
            clock.sleep(ms(*wait)).await;
            response
        }
        Some(CallFault::BadGateway { .. }) => bad_gateway(),
        Some(CallFault::CutBody) => rewrite(response, |text| Body::from(half(&text))).await,
        Some(CallFault::BrokenBody) => broken(clock, response).await,
        Some(CallFault::SlowDrip { pause_ms }) => {
            let pause = ms(*pause_ms);
            rewrite(response, |text| drip(clock, pause, text)).await
        }
        _ => response,
    }
}

async fn rewrite(response: Response, change: impl FnOnce(Bytes) -> Body) -> Response {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    // The body is one of ours, complete and in memory.
    let text = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(parts, change(text))
}

/// Announces the whole answer, sends half of it, and breaks the connection.
async fn broken(clock: Clock, response: Response) -> Response {
    let mut length = 0;
    let mut response = rewrite(response, |text| {
        length = text.len();
        let half = half(&text);
        let pieces = stream::unfold(Some(half), move |rest| async move {
            if let Some(half) = rest {
                return Some((Ok(half), None));
            }
            // Without a pause, the head of the answer would break off too.
            clock.sleep(BREAK_PAUSE).await;
            Some((Err(std::io::Error::other("broken by a fault")), None))
        });
        Body::from_stream(pieces)
    })
    .await;
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn drip(clock: Clock, pause: Duration, text: Bytes) -> Body {
    let pieces = stream::unfold(text, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        clock.sleep(pause).await;
        let piece = rest.split_to(std::cmp::min(DRIP_BYTES, rest.len()));
        Some((Ok::<_, Infallible>(piece), rest))
    });
    Body::from_stream(pieces)
}

fn half(text: &Bytes) -> Bytes {
    text.slice(..text.len() / 2)
}

/// JSON under the content type that the real gateway gives it.
fn json(text: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "text/html;charset=utf-8")], text).into_response()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    (status, [(CONTENT_TYPE, "text/plain;charset=utf-8")], text).into_response()
}

fn see_other(address: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response()
}

fn bad_gateway() -> Response {
    let html = "<html><head><title>502 Bad Gateway</title></head>\
                <body><center><h1>502 Bad Gateway</h1></center></body></html>";
    (StatusCode::BAD_GATEWAY, [(CONTENT_TYPE, "text/html")], html).into_response()
}

fn refusal_page(answer: &Answer) -> Response {
    let code = answer.sub_code().unwrap_or_else(|| answer.code());
    page::refusal(code, answer.sub_msg().unwrap_or_default())
}

fn line(note: Note, start: Timestamp, now: Timestamp, peer: SocketAddr) -> wire::Request {
    let took = now.as_millisecond() - start.as_millisecond();
    let answer = note.answer.as_ref();
    wire::Request {
        at_ms: start.as_millisecond(),
        took_ms: u64::try_from(took).unwrap_or_default(),
        peer: peer.to_string(),
        method: note.method,
        out_trade_no: note.out_trade_no,
        code: answer.map(|answer| answer.code().to_owned()),
        sub_code: answer.and_then(Answer::sub_code).map(str::to_owned),
        fault: note.fault.map(|fault| fault.label().to_owned()),
    }
}
