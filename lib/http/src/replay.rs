//! A response as it is stored, and as it is given again.
//!
//! Invariant: a replay has the status, the bytes and the allowed header lines of the first answer
//! in their order; what was written by any released version can be read by every later one
//! (`the_first_format_is_read_for_ever`, `a_replay_is_the_first_answer`).
//!
//! Format 1: `[format | 0 | status u16 | given_at i64 | lines u16]`, then for each line
//! `[name_len u16 | name | value_len u16 | value]`, then the raw body; integers are big-endian.
//! A reader of format 1 refuses what a newer one wrote, with 503: another instance can read it.

use axum::body::Body;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION,
        CONTENT_TYPE, ETAG, LAST_MODIFIED, LINK, LOCATION,
    },
};

use crate::{date, header};
use hapax_core::{OUTCOME_BYTES_MAX, Outcome, REFERENCE_BYTES_MAX, Timestamp};

static LOCATION_NAME: HeaderName = LOCATION;
static ORIGINAL_REQUEST_ID: HeaderName = header::ORIGINAL_REQUEST_ID;

const FORMAT: u8 = 1;
/// Bytes before the first line.
const FIXED_BYTES: usize = 14;
/// Largest head: more header lines than this are no answer to keep.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Headers that are part of an answer; all others belong to one transfer, one session or one
/// client.
static KEPT: [HeaderName; 9] = [
    CONTENT_TYPE,
    CONTENT_LANGUAGE,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    LOCATION,
    CONTENT_LOCATION,
    ETAG,
    LAST_MODIFIED,
    LINK,
];

/// Headers that are never given again, whatever an operation asks for: secrets, framing, and what
/// is true of one moment or one client only.
static NEVER: [HeaderName; 19] = [
    http::header::SET_COOKIE,
    http::header::AUTHORIZATION,
    http::header::WWW_AUTHENTICATE,
    http::header::PROXY_AUTHENTICATE,
    http::header::PROXY_AUTHORIZATION,
    http::header::CONNECTION,
    http::header::CONTENT_LENGTH,
    http::header::TRANSFER_ENCODING,
    http::header::TE,
    http::header::TRAILER,
    http::header::UPGRADE,
    http::header::DATE,
    http::header::SERVER,
    http::header::AGE,
    http::header::RETRY_AFTER,
    CACHE_CONTROL,
    header::IDEMPOTENCY_KEY,
    header::REPLAYED,
    header::ORIGINAL_DATE,
];

/// Whether an operation may ask for the header to be kept.
pub(crate) fn may_keep(name: &HeaderName) -> bool {
    !NEVER.contains(name) && !name.as_str().starts_with("proxy-") && name != "keep-alive"
}

/// What is written about an answer besides the answer itself.
pub(crate) struct About<'a> {
    /// Headers to keep besides the usual ones.
    pub(crate) kept: &'a [HeaderName],
    pub(crate) given_at: Timestamp,
    pub(crate) request_id: Option<&'a HeaderValue>,
}

impl About<'_> {
    fn keeps(&self, name: &HeaderName) -> bool {
        KEPT.contains(name) || self.kept.contains(name)
    }

    /// Begins a stored answer; `None` if its head is too large to keep.
    pub(crate) fn begin(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body_bytes: usize,
    ) -> Option<Writer> {
        let lines = headers.iter().filter(|(name, _)| self.keeps(name));
        let original = self.request_id.map(|id| (&ORIGINAL_REQUEST_ID, id));
        let head = encode_head(status, self.given_at, lines.chain(original), body_bytes)?;
        Some(Writer { head_bytes: head.len(), buffer: head })
    }

    /// What is kept of an answer that is not kept: its status and where its result is.
    pub(crate) fn tombstone(&self, status: StatusCode, headers: &HeaderMap) -> Outcome {
        let location = headers.get(&LOCATION).map(|place| (&LOCATION_NAME, place));
        let whole = encode_head(status, self.given_at, location.into_iter(), 0);
        let reference = whole
            .filter(|head| head.len() <= REFERENCE_BYTES_MAX)
            .or_else(|| encode_head(status, self.given_at, std::iter::empty(), 0));
        Outcome::Tombstone(reference.unwrap_or_default().freeze())
    }

    /// A whole answer as it is stored.
    pub(crate) fn whole(&self, response: &Response<Bytes>, bytes_max: usize) -> Outcome {
        let (status, headers, body) = (response.status(), response.headers(), response.body());
        let writer = self.begin(status, headers, body.len());
        match writer.filter(|_| body.len() <= bytes_max) {
            Some(mut writer) => {
                writer.push(body);
                Outcome::Value(writer.finish().0)
            }
            None => self.tombstone(status, headers),
        }
    }
}

fn encode_head<'a>(
    status: StatusCode,
    given_at: Timestamp,
    lines: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
    body_bytes: usize,
) -> Option<BytesMut> {
    let mut head = BytesMut::with_capacity(FIXED_BYTES + 128 + body_bytes);
    head.put_slice(&[FORMAT, 0]);
    head.put_u16(status.as_u16());
    head.put_i64(given_at.as_millis());
    head.put_u16(0);
    let mut count: u16 = 0;
    for (name, value) in lines {
        put_framed(&mut head, name.as_str().as_bytes())?;
        put_framed(&mut head, value.as_bytes())?;
        count = count.checked_add(1)?;
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    let place = head.get_mut(FIXED_BYTES - 2..FIXED_BYTES)?;
    place.copy_from_slice(&count.to_be_bytes());
    Some(head)
}

fn put_framed(buffer: &mut BytesMut, bytes: &[u8]) -> Option<()> {
    buffer.put_u16(u16::try_from(bytes.len()).ok()?);
    buffer.put_slice(bytes);
    Some(())
}

/// A stored answer in the making: the body is written behind its head, once.
pub(crate) struct Writer {
    buffer: BytesMut,
    head_bytes: usize,
}

impl Writer {
    /// Bytes of the body so far.
    pub(crate) fn body_bytes(&self) -> usize {
        self.buffer.len() - self.head_bytes
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The stored answer, and the body that shares its memory.
    pub(crate) fn finish(self) -> (Bytes, Bytes) {
        let whole = self.buffer.freeze();
        let body = whole.slice(self.head_bytes..);
        (whole, body)
    }

    /// The body so far, if it is not to be stored after all.
    pub(crate) fn abandon(mut self) -> Bytes {
        self.buffer.split_off(self.head_bytes).freeze()
    }
}

/// Stored answers, for operators and completers that have no request at hand.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is a name and nothing else")]
pub struct StoredAnswer;

impl StoredAnswer {
    /// The status of a stored answer; `None` for a tombstone or what another writer stored.
    pub fn status(outcome: &Outcome) -> Option<u16> {
        match outcome {
            Outcome::Value(stored) => Stored::read(stored).map(|stored| stored.status.as_u16()),
            Outcome::Tombstone(_) => None,
        }
    }

    /// The body of a stored answer, without a copy; `None` where there is no [`status`].
    ///
    /// [`status`]: Self::status
    pub fn body(outcome: &Outcome) -> Option<Bytes> {
        match outcome {
            Outcome::Value(stored) => Stored::read(stored).map(|stored| stored.body),
            Outcome::Tombstone(_) => None,
        }
    }

    /// A JSON answer that was given by nobody: an operator settles with it.
    pub fn json(status: StatusCode, body: Bytes, given_at: Timestamp) -> Outcome {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        About { kept: &[], given_at, request_id: None }.whole(&response, OUTCOME_BYTES_MAX)
    }
}

/// An answer that was stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) status: StatusCode,
    pub(crate) given_at: Timestamp,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Stored {
    /// Reads an answer without copying it; `None` if a newer version wrote it or it is torn.
    pub(crate) fn read(stored: &Bytes) -> Option<Self> {
        let mut rest = stored.clone();
        let (FORMAT, 0) = (rest.try_get_u8().ok()?, rest.try_get_u8().ok()?) else { return None };
        let status = StatusCode::from_u16(rest.try_get_u16().ok()?).ok()?;
        let given_at = Timestamp::from_millis(rest.try_get_i64().ok()?);
        let count = rest.try_get_u16().ok()?;
        let mut headers = HeaderMap::new();
        for _ in 0..count {
            let name = HeaderName::from_bytes(&take_framed(&mut rest)?).ok()?;
            let value = HeaderValue::from_maybe_shared(take_framed(&mut rest)?).ok()?;
            headers.append(name, value);
        }
        Some(Self { status, given_at, headers, body: rest })
    }

    /// The answer given again.
    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        let headers = response.headers_mut();
        headers.insert(header::REPLAYED, HeaderValue::from_static("true"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(date) = HeaderValue::try_from(date::http(self.given_at)) {
            headers.insert(header::ORIGINAL_DATE, date);
        }
        response
    }
}

fn take_framed(rest: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(rest.try_get_u16().ok()?);
    (length <= rest.len()).then(|| rest.split_to(length))
}

/// Where the result of an answer is that was not kept.
///
/// An operator's ruling may have left a plain path or URL instead of our own form.
pub(crate) fn location_of(reference: &Bytes) -> Option<HeaderValue> {
    match Stored::read(reference) {
        Some(mut stored) => stored.headers.remove(LOCATION),
        None if reference.starts_with(b"/") || reference.starts_with(b"http") => {
            HeaderValue::from_maybe_shared(reference.clone()).ok()
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ABOUT: About<'_> =
        About { kept: &[], given_at: Timestamp::from_millis(784_111_777_000), request_id: None };

    fn answer(headers: &[(&str, &str)], body: &'static [u8]) -> Response<Bytes> {
        let mut response = Response::builder().status(201);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(Bytes::from_static(body)).unwrap()
    }

    fn stored(outcome: &Outcome) -> &Bytes {
        let (Outcome::Value(bytes) | Outcome::Tombstone(bytes)) = outcome;
        bytes
    }

    #[test]
    fn the_first_format_is_read_for_ever() {
        let bytes = Bytes::from_static(
            b"\x01\0\0\xc9\0\0\0\xb6\x90\xb4\x34\xe8\0\x01\0\x08location\0\x02/x\xff\0",
        );
        let read = Stored::read(&bytes).unwrap();
        assert_eq!(read.status, 201);
        assert_eq!(read.given_at, ABOUT.given_at);
        assert_eq!(read.headers.get("location").unwrap(), "/x");
        assert_eq!(&read.body[..], b"\xff\x00");
        let written = ABOUT.whole(&answer(&[("location", "/x")], b"\xff\x00"), 10);
        assert_eq!(stored(&written), &bytes);
    }

    #[test]
    fn secrets_framing_and_moments_are_not_kept() {
        let never: Vec<_> = NEVER.iter().map(|name| (name.as_str(), "secret")).collect();
        let written = ABOUT.whole(&answer(&never, b""), 10);
        assert_eq!(Stored::read(stored(&written)).unwrap().headers, HeaderMap::new());
        assert!(NEVER.iter().all(|name| !may_keep(name) && !KEPT.contains(name)));
        assert!(!may_keep(&HeaderName::from_static("proxy-status")));
    }

    #[test]
    fn a_head_that_is_too_large_leaves_a_tombstone() {
        let long = "x".repeat(HEAD_BYTES_MAX);
        let written = ABOUT.whole(&answer(&[("link", &long), ("location", "/x")], b""), 10);
        let Outcome::Tombstone(reference) = written else { panic!("{written:?}") };
        assert_eq!(location_of(&reference).unwrap(), "/x");
        let written = ABOUT.whole(&answer(&[("location", &long)], b""), 10);
        let Outcome::Tombstone(reference) = written else { panic!("{written:?}") };
        assert_eq!(
            (location_of(&reference), Stored::read(&reference).unwrap().status),
            (None, StatusCode::CREATED)
        );
    }

    #[test]
    fn an_operators_reference_is_a_location() {
        assert_eq!(location_of(&Bytes::from_static(b"/v1/x")).unwrap(), "/v1/x");
        assert_eq!(location_of(&Bytes::from_static(b"see ticket 7")), None);
        assert_eq!(location_of(&Bytes::new()), None);
    }

    proptest! {
        #[test]
        fn torn_or_foreign_bytes_are_refused_and_never_panic(bytes: Vec<u8>) {
            let read = Stored::read(&Bytes::from(bytes.clone()));
            prop_assert!(read.is_none() || bytes.starts_with(&[FORMAT, 0]));
        }
    }
}
