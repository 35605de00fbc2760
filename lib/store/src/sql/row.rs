//! Rows as they come from any engine, read column by column in the order of the statement.

use std::{time::Duration, vec};

use bytes::Bytes;

use hapax_core::{
    Actor, Class, Epoch, Id, Identity, Invalid, Nonce, OperationName, Outcome, Prints, Record,
    Scope, State, Terms, Timestamp,
};

/// The format of rows that this build writes.
const FORMAT: i64 = 1;

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of one row, taken from the left.
#[derive(Debug)]
pub(crate) struct Row(vec::IntoIter<Cell>);

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    fn next(&mut self) -> Cell {
        self.0.next().unwrap_or(Cell::Null)
    }

    pub(crate) fn int(&mut self) -> Result<i64, Invalid> {
        self.maybe_int()?.ok_or_else(torn)
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, Invalid> {
        match self.next() {
            Cell::Int(value) => Ok(Some(value)),
            Cell::Null => Ok(None),
            Cell::Text(_) | Cell::Bytes(_) => Err(torn()),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Invalid> {
        self.maybe_text()?.ok_or_else(torn)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Invalid> {
        match self.next() {
            Cell::Text(value) => Ok(Some(value)),
            Cell::Null => Ok(None),
            Cell::Int(_) | Cell::Bytes(_) => Err(torn()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, Invalid> {
        self.maybe_bytes()?.ok_or_else(torn)
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Bytes>, Invalid> {
        match self.next() {
            Cell::Bytes(value) => Ok(Some(Bytes::from(value))),
            Cell::Null => Ok(None),
            Cell::Int(_) | Cell::Text(_) => Err(torn()),
        }
    }

    /// Exactly `N` bytes, such as an id or a nonce.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Invalid> {
        self.maybe_array()?.ok_or_else(torn)
    }

    pub(crate) fn maybe_array<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Invalid> {
        let Some(bytes) = self.maybe_bytes()? else { return Ok(None) };
        bytes.as_ref().try_into().map(Some).map_err(|_| torn())
    }

    pub(crate) fn id(&mut self) -> Result<Id, Invalid> {
        self.array().map(Id::from_stored)
    }

    pub(crate) fn nonce(&mut self) -> Result<Nonce, Invalid> {
        self.array().map(Nonce::from_bytes)
    }

    pub(crate) fn epoch(&mut self) -> Result<Epoch, Invalid> {
        self.int().map(Epoch::from_stored)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Invalid> {
        self.int().map(Timestamp::from_millis)
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Invalid> {
        Ok(self.maybe_int()?.map(Timestamp::from_millis))
    }

    pub(crate) fn class(&mut self) -> Result<Class, Invalid> {
        self.code().and_then(Class::from_stored)
    }

    pub(crate) fn count(&mut self) -> Result<u32, Invalid> {
        self.int().and_then(|count| u32::try_from(count).map_err(|_| torn()))
    }

    pub(crate) fn actor(&mut self) -> Result<Actor, Invalid> {
        self.text().and_then(|name| Actor::parse(&name))
    }

    fn code(&mut self) -> Result<u8, Invalid> {
        self.int().and_then(|code| u8::try_from(code).map_err(|_| torn()))
    }

    /// The columns of a record, in the order of the `record` columns of the statements.
    ///
    /// `None` is a row that an outer join filled with nothing.
    pub(crate) fn record(&mut self) -> Result<Option<(Id, Record)>, Invalid> {
        let Some(id) = self.maybe_array()?.map(Id::from_stored) else { return Ok(None) };
        let identity = self.identity()?;
        let (class, state) = (self.class()?, self.code().and_then(State::from_stored)?);
        let (epoch, nonce) = (self.epoch()?, self.nonce()?);
        let prints = Prints::from_stored(&self.bytes()?);
        let lease_until = self.time()?;
        let terms = Terms {
            class,
            retake_after: self.maybe_int()?.map(span).transpose()?,
            retake_until: self.maybe_time()?,
        };
        let (expires_at, reuse_at) = (self.maybe_time()?, self.maybe_time()?);
        let checkpoint = self.maybe_bytes()?;
        let outcome =
            self.maybe_bytes()?.map(|stored| Outcome::from_stored(&stored)).transpose()?;
        let (attempts, caller) = (self.count()?, self.actor()?);
        let (created_at, completed_at) = (self.time()?, self.maybe_time()?);
        if self.int()? > FORMAT {
            return Err(Invalid::new("stored record", "was written by a newer version; upgrade"));
        }
        let record = Record {
            identity,
            terms,
            state,
            epoch,
            nonce,
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
        };
        Ok(Some((id, record)))
    }

    fn identity(&mut self) -> Result<Identity, Invalid> {
        let (kind, tenant, subject) = (self.text()?, self.text()?, self.text()?);
        let scope = Scope::from_parts(&kind, &tenant, &subject)?;
        let operation = OperationName::parse(&self.text()?)?;
        Identity::from_parts(scope, operation, &self.text()?)
    }
}

fn span(millis: i64) -> Result<Duration, Invalid> {
    u64::try_from(millis).map(Duration::from_millis).map_err(|_| torn())
}

fn torn() -> Invalid {
    Invalid::new("stored value", "is not what its column holds; restore the database")
}
