//! Records as the scripts tell them: fields in the order of `FIELDS` in `scripts/record.lua`.

use std::{sync::Arc, time::Duration, vec};

use bytes::Bytes;
use redis::Value;

use hapax_core::{
    Actor, Class, Epoch, Identity, Invalid, Nonce, OperationName, Outcome, Prints, Record, Scope,
    State, Terms, Timestamp,
    store::{Entry, Event, Found},
};

/// The format of records that this build writes, as the scripts do.
const FORMAT: u64 = 1;

/// Between the readable parts of a record and between those of a journal line. No name, key or
/// number has one.
const SEPARATOR: char = '\n';

/// What a script told, taken from the left.
pub(super) struct Told(vec::IntoIter<Value>);

impl Told {
    pub(super) fn new(answer: Value) -> Result<Self, Invalid> {
        let Value::Array(values) = answer else { return Err(torn()) };
        Ok(Self(values.into_iter()))
    }

    pub(super) fn maybe_bytes(&mut self) -> Result<Option<Bytes>, Invalid> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => Ok(Some(Bytes::from(bytes))),
            Some(Value::Nil) | None => Ok(None),
            Some(_) => Err(torn()),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Invalid> {
        self.maybe_bytes()?.ok_or_else(torn)
    }

    pub(super) fn text(&mut self) -> Result<String, Invalid> {
        text(&self.bytes()?)
    }

    /// A number; an empty field is none.
    fn maybe_number(&mut self) -> Result<Option<i64>, Invalid> {
        match self.maybe_bytes()?.as_deref() {
            Some([]) | None => Ok(None),
            Some(bytes) => number(&text(bytes)?).map(Some),
        }
    }

    fn number(&mut self) -> Result<i64, Invalid> {
        self.maybe_number()?.ok_or_else(torn)
    }

    fn count<N: TryFrom<i64>>(&mut self) -> Result<N, Invalid> {
        N::try_from(self.number()?).map_err(|_| torn())
    }

    pub(super) fn epoch(&mut self) -> Result<Epoch, Invalid> {
        self.number().map(Epoch::from_stored)
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, Invalid> {
        self.number().map(Timestamp::from_millis)
    }

    fn maybe_time(&mut self) -> Result<Option<Timestamp>, Invalid> {
        Ok(self.maybe_number()?.map(Timestamp::from_millis))
    }

    pub(super) fn attempt(&mut self) -> Result<u32, Invalid> {
        self.count()
    }

    pub(super) fn class(&mut self) -> Result<Class, Invalid> {
        self.count().and_then(Class::from_stored)
    }

    /// The record at `now`. One that counts as absent is absent, whether its key is gone or not.
    pub(super) fn found(&mut self, now: Timestamp) -> Result<Found, Invalid> {
        let record = self.record()?.filter(|record| !record.is_reusable(now));
        Ok(Found { record: record.map(Arc::new), now })
    }

    fn record(&mut self) -> Result<Option<Record>, Invalid> {
        let Some(identity) = self.maybe_bytes()? else { return Ok(None) };
        let identity = read_identity(&text(&identity)?)?;
        let class = self.class()?;
        let terms = Terms {
            class,
            retake_after: self.maybe_number()?.map(span).transpose()?,
            retake_until: self.maybe_time()?,
        };
        let state = self.count().and_then(State::from_stored)?;
        let epoch = self.epoch()?;
        let nonce = self.bytes()?.as_ref().try_into().map(Nonce::from_bytes);
        let prints = Prints::from_stored(&self.bytes()?);
        let lease_until = self.time()?;
        let (expires_at, reuse_at) = (self.maybe_time()?, self.maybe_time()?);
        let checkpoint = self.maybe_bytes()?;
        let outcome = self.maybe_bytes()?.map(|kept| Outcome::from_stored(&kept)).transpose()?;
        let attempts = self.attempt()?;
        let caller = Actor::parse(&self.text()?)?;
        let (created_at, completed_at) = (self.time()?, self.maybe_time()?);
        if self.count::<u64>()? > FORMAT {
            return Err(Invalid::new("stored record", "was written by a newer version; upgrade"));
        }
        Ok(Some(Record {
            identity,
            terms,
            state,
            epoch,
            nonce: nonce.map_err(|_| torn())?,
            prints,
            lease_until,
            expires_at,
            reuse_at,
            checkpoint,
            outcome,
            attempts,
            caller,
            created_at,
            completed_at,
        }))
    }

    /// The lines of a journal; all that is left.
    pub(super) fn lines(self) -> Result<Vec<Entry>, Invalid> {
        let lines = self.0.map(|line| {
            let Value::BulkString(line) = line else { return Err(torn()) };
            read_line(&text(&line)?)
        });
        lines.collect()
    }
}

/// The readable parts, as the record keeps them.
pub(super) fn write_identity(identity: &Identity) -> String {
    let scope = identity.scope();
    let parts = [
        scope.kind(),
        scope.tenant().as_str(),
        scope.subject(),
        identity.operation().as_str(),
        identity.key(),
    ];
    parts.join("\n")
}

fn read_identity(text: &str) -> Result<Identity, Invalid> {
    let mut parts = text.splitn(5, SEPARATOR);
    let mut part = || parts.next().ok_or_else(torn);
    let scope = Scope::from_parts(part()?, part()?, part()?)?;
    let operation = OperationName::parse(part()?)?;
    Identity::from_parts(scope, operation, part()?)
}

fn read_line(text: &str) -> Result<Entry, Invalid> {
    // The note is last and may hold anything.
    let mut parts = text.splitn(5, SEPARATOR);
    let mut part = || parts.next().ok_or_else(torn);
    Ok(Entry {
        at: Timestamp::from_millis(number(part()?)?),
        epoch: Epoch::from_stored(number(part()?)?),
        event: Event::parse(part()?).ok_or_else(torn)?,
        actor: Actor::parse(part()?)?,
        note: part()?.to_owned(),
    })
}

fn text(bytes: &[u8]) -> Result<String, Invalid> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| torn())
}

fn number(text: &str) -> Result<i64, Invalid> {
    text.parse().map_err(|_| torn())
}

fn span(millis: i64) -> Result<Duration, Invalid> {
    u64::try_from(millis).map(Duration::from_millis).map_err(|_| torn())
}

fn torn() -> Invalid {
    Invalid::new("stored record", "is not what a script writes; restore it or delete its key")
}
