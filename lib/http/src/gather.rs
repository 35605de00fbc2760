//! Collects an answer up to the bound of what is stored, and lets larger ones through.
//!
//! Invariant: never more than the bound and one frame is held, and no byte of an answer is lost
//! or changed, whether it is stored or passes (`answers_around_the_bound_arrive_whole`).

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, header::CONTENT_TYPE, response::Parts};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::{
    outcome::Streamed,
    replay::{About, Writer},
};
use hapax_core::Outcome;

/// An answer, and what is stored for it: the answer itself, or a tombstone while it passes on.
pub(crate) struct Gathered {
    pub(crate) outcome: Outcome,
    pub(crate) response: Response<Body>,
}

/// Collects what can be stored; `None` if the body broke off before that was known.
pub(crate) async fn gather(
    about: &About<'_>,
    response: Response<Body>,
    bytes_max: usize,
) -> Option<Gathered> {
    let (mut parts, mut body) = response.into_parts();
    let streams = parts.extensions.remove::<Streamed>().is_some() || is_stream(&parts.headers);
    let hint = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if streams || hint > bytes_max {
        return Some(pass(about, parts, body));
    }
    let Some(mut writer) = about.begin(parts.status, &parts.headers, hint) else {
        return Some(pass(about, parts, body));
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.ok()?;
        match frame.data_ref() {
            Some(chunk) if writer.body_bytes() + chunk.len() <= bytes_max => writer.push(chunk),
            // Too large, or trailers, which a stored answer has no place for.
            _ => return Some(pass(about, parts, resume(writer, frame, body))),
        }
    }
    let (whole, body) = writer.finish();
    let response = Response::from_parts(parts, Body::from(body));
    Some(Gathered { outcome: Outcome::Value(whole), response })
}

fn pass(about: &About<'_>, parts: Parts, body: Body) -> Gathered {
    let outcome = about.tombstone(parts.status, &parts.headers);
    Gathered { outcome, response: Response::from_parts(parts, body) }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = text.and_then(|text| text.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/event-stream")
}

fn resume(writer: Writer, frame: Frame<Bytes>, rest: Body) -> Body {
    let begun = Some(writer.abandon()).filter(|begun| !begun.is_empty());
    let begun = begun.into_iter().map(Frame::data).chain([frame]).collect();
    Body::new(Resumed { begun, rest })
}

/// A body whose first frames were read already.
struct Resumed {
    begun: VecDeque<Frame<Bytes>>,
    rest: Body,
}

impl HttpBody for Resumed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match self.begun.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let lengths = self.begun.iter().filter_map(Frame::data_ref).map(Bytes::len);
        let begun = u64::try_from(lengths.sum::<usize>()).unwrap_or(u64::MAX);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(begun));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(begun));
        }
        hint
    }
}
