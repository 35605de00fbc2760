//! `/qr/{token}`: the page behind a code, for people. It works without JavaScript.

use std::fmt::{self, Write as _};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use qrcode::QrCode;
use qrcode::render::svg;

use crate::channel::Channel;
use crate::clock::{beijing, shifted};
use crate::notify::return_address;
use crate::trade::{Arrival, Refusal};
use crate::wire;

/// Nothing but what the page itself brings; its forms go home; nobody frames it.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("page.css");

/// Deliveries that the page lists; the truth has them all.
const LISTED: usize = 50;

/// How often the page looks for news, in seconds.
const REFRESH: u32 = 2;

pub(crate) fn routes() -> Router<Channel> {
    Router::new()
        .route("/qr/style.css", get(|| std::future::ready(style())))
        .route("/qr/{token}", get(|State(c), token| std::future::ready(show(&c, token))))
        .route(
            "/qr/{token}/scan",
            post(|State(c), t| std::future::ready(press(&c, t, &Press::Scan))),
        )
        .route("/qr/{token}/pay", post(|State(c), t| std::future::ready(press(&c, t, &Press::Pay))))
}

/// The page of a call that was refused, for the buyer whose browser made it.
pub(crate) fn refusal(code: &str, why: &str) -> Response {
    let mut body = String::new();
    let written = write!(
        body,
        "<h1>This payment can't be made</h1>\
         <p>The channel refused the merchant's request.</p>\
         <p><code>{}</code></p><p class=\"why\">{}</p>",
        Text(code),
        Text(why)
    );
    html(StatusCode::BAD_REQUEST, "Refused", &body, None, written)
}

enum Press {
    Scan,
    Pay,
}

fn press(channel: &Channel, Path(token): Path<String>, press: &Press) -> Response {
    let pressed = channel.step(|world, now| {
        let ix = world.by_token(&token)?;
        Some(match press {
            Press::Scan => world.scan(ix, None, now),
            Press::Pay => world.pay(ix, None, Arrival::InTime, now),
        })
    });
    match pressed {
        None => unknown(),
        Some(Ok(())) => {
            let back = format!("/qr/{token}");
            (StatusCode::SEE_OTHER, [(LOCATION, back)]).into_response()
        }
        Some(Err(refusal)) => checkout(channel, &token, Some(refusal)),
    }
}

fn show(channel: &Channel, Path(token): Path<String>) -> Response {
    checkout(channel, &token, None)
}

fn checkout(channel: &Channel, token: &str, refused: Option<Refusal>) -> Response {
    let now = channel.now();
    let found = channel.look(|world| {
        let ix = world.by_token(token)?;
        let record = world.record(ix)?;
        Some(Shown {
            trade: world.trade_view(ix)?,
            subject: record.trade.terms.subject.clone(),
            amount: record.trade.terms.total.to_string(),
            deliveries: world.deliveries_of(record),
            back: return_address(&channel.parts().signer, record, now).ok().flatten(),
        })
    });
    let Some(shown) = found else { return unknown() };
    let mut body = String::new();
    let written = shown.write(&mut body, token, refused);
    let status = if refused.is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    html(status, "Checkout", &body, Some(token), written)
}

struct Shown {
    trade: wire::Trade,
    subject: String,
    amount: String,
    deliveries: Vec<wire::Delivery>,
    back: Option<String>,
}

impl Shown {
    fn write(&self, out: &mut String, token: &str, refused: Option<Refusal>) -> fmt::Result {
        let trade = &self.trade;
        write!(out, "<h1>{}</h1><p class=\"amount\">¥ {}</p>", Text(&self.subject), self.amount)?;
        if let Some(refusal) = refused {
            write!(out, "<p class=\"why\" role=\"alert\">Not done: {}.</p>", refusal.sentence())?;
        }
        self.write_buttons(out, token)?;
        write!(out, "<h2>Trade</h2><dl>")?;
        term(out, "State", plain_words(&trade.status))?;
        term(out, "trade_status", &trade.status)?;
        term(out, "out_trade_no", &trade.out_trade_no)?;
        term(out, "trade_no", trade.trade_no.as_deref().unwrap_or("none until it is scanned"))?;
        term(out, "app_id", &trade.app_id)?;
        term(out, "Pay until", &time(trade.expires_at_ms))?;
        if trade.refunded_fen > 0 {
            let refunded = format!("{} fen in {} refunds", trade.refunded_fen, trade.refunds.len());
            term(out, "Refunded", &refunded)?;
        }
        write!(out, "</dl>")?;
        self.write_deliveries(out)
    }

    fn write_buttons(&self, out: &mut String, token: &str) -> fmt::Result {
        let status = self.trade.status.as_str();
        if matches!(status, "INTENT" | "WAIT_BUYER_PAY")
            && let Some(code) = qr(&self.trade.page)
        {
            write!(
                out,
                "<figure>{code}<figcaption>{}</figcaption></figure>",
                Text(&self.trade.page)
            )?;
        }
        write!(out, "<div class=\"buttons\">")?;
        if status == "INTENT" {
            button(out, token, "scan", "Scan 扫码")?;
        }
        if matches!(status, "INTENT" | "WAIT_BUYER_PAY") {
            button(out, token, "pay", "Pay 付款")?;
        }
        if let Some(back) = &self.back {
            write!(out, "<a href=\"{}\">Back to the merchant 返回商户</a>", Text(back))?;
        }
        write!(out, "</div>")
    }

    fn write_deliveries(&self, out: &mut String) -> fmt::Result {
        write!(out, "<h2>Notices to the merchant</h2>")?;
        if self.deliveries.is_empty() {
            return write!(out, "<p>None was sent so far.</p>");
        }
        write!(
            out,
            "<table><thead><tr><th>Time<th>Status<th>Delivery<th>Form<th>Outcome<th>Answer\
             </tr></thead><tbody>"
        )?;
        for delivery in self.deliveries.iter().rev().take(LISTED) {
            let answer = match delivery.http_status {
                Some(status) => format!("{status} {}", delivery.answer),
                None => delivery.answer.clone(),
            };
            write!(
                out,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{:?}<td>{}</tr>",
                time(delivery.at_ms),
                Text(&delivery.trade_status),
                delivery.attempt,
                Text(&delivery.form),
                delivery.outcome,
                Text(&answer)
            )?;
        }
        write!(out, "</tbody></table>")
    }
}

/// Text that may come from anybody, made harmless for HTML.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

fn term(out: &mut String, name: &str, value: &str) -> fmt::Result {
    write!(out, "<dt>{}</dt><dd>{}</dd>", Text(name), Text(value))
}

fn button(out: &mut String, token: &str, verb: &str, label: &str) -> fmt::Result {
    write!(
        out,
        "<form method=\"post\" action=\"/qr/{}/{verb}\"><button>{label}</button></form>",
        Text(token)
    )
}

fn plain_words(status: &str) -> &'static str {
    match status {
        "INTENT" => "The code is shown; nobody scanned it. The channel knows no trade yet.",
        "WAIT_BUYER_PAY" => "Scanned; waiting for the buyer to pay.",
        "TRADE_SUCCESS" => "Paid.",
        "TRADE_FINISHED" => "Paid, and the refund window is over.",
        _ => "Closed.",
    }
}

fn time(ms: i64) -> String {
    beijing(shifted(jiff::Timestamp::UNIX_EPOCH, ms))
}

/// The code as SVG, to be set into HTML.
fn qr(address: &str) -> Option<String> {
    let code = QrCode::new(address).ok()?;
    let svg = code.render::<svg::Color<'_>>().min_dimensions(240, 240).build();
    // The renderer writes a whole XML document; HTML wants the element only.
    svg.find("<svg").and_then(|start| svg.get(start..)).map(str::to_owned)
}

fn unknown() -> Response {
    let body = "<h1>No such code</h1><p>The simulator keeps its trades in memory; \
                it may have been started again since the code was made.</p>";
    html(StatusCode::NOT_FOUND, "Unknown", body, None, Ok(()))
}

fn html(
    status: StatusCode,
    title: &str,
    body: &str,
    refresh: Option<&str>,
    written: fmt::Result,
) -> Response {
    if written.is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    // Asks for the page itself, so that a reload never posts a form again.
    let refresh = refresh.map_or_else(String::new, |token| {
        format!("<meta http-equiv=\"refresh\" content=\"{REFRESH};url=/qr/{}\">", Text(token))
    });
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{refresh}\
         <title>{title} · Alipay simulator</title><link rel=\"stylesheet\" href=\"/qr/style.css\">\
         </head><body><header>Alipay simulator · no real money</header><main>{body}</main></body>\
         </html>"
    );
    let mut response = (status, page).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn style() -> Response {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_can_not_become_markup() {
        let text = Text("<script>alert(\"1\")</script> & 'x'").to_string();
        assert_eq!(text, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;");
    }

    #[test]
    fn the_code_is_an_svg_element_of_its_own() {
        let svg = qr("http://127.0.0.1:1/qr/0123456789abcdef").unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert!(qr(&"x".repeat(10_000)).is_none(), "too long for any code");
    }
}
