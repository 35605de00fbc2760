//! Locks as rows: early refusal for whoever meets at one business object.
//!
//! Invariant: the fence of a name rises with every new holder, for ever, also over a purge
//! (`a_fence_rises_with_every_holder`).

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{
    dialect::{Bind, Conn, Dialect},
    errand::{Done, Errand},
    row::Row,
    store::{Sql, next},
};
use crate::error::{Error, Kind};
use hapax_core::{
    Nonce, Timestamp,
    lock::{Hold, LockName, Locks},
    store::{Fault, FaultKind},
};

impl<D: Dialect> Sql<D> {
    fn hold(&self, errand: Errand) -> BoxFuture<'static, Result<Hold, Fault>> {
        let done = self.errand(errand);
        Box::pin(async move {
            match done.await? {
                Done::Lock(hold) => Ok(hold),
                Done::Letters(_) | Done::Changed | Done::Nothing => {
                    Err(Fault::new(FaultKind::Corrupt, "the lock was not answered"))
                }
            }
        })
    }
}

/// A lock as it stands.
struct Standing {
    now: Timestamp,
    owner: Option<Nonce>,
    until: Timestamp,
}

impl Standing {
    fn read(row: Option<Row>) -> Result<Self, Error> {
        let mut row = row.ok_or_else(|| Error::new(Kind::Corrupt, "look at a lock"))?;
        let mut read = || -> Result<Self, hapax_core::Invalid> {
            let now = row.time()?;
            let owner = row.maybe_array()?.map(Nonce::from_bytes);
            let (_, until) = (row.maybe_int()?, row.maybe_time()?);
            Ok(Self { now, owner, until: until.unwrap_or(now) })
        };
        read().map_err(Error::torn)
    }

    fn taken(&self, now: Timestamp) -> Done {
        Done::Lock(Hold::Taken { until: std::cmp::max(self.until, now), now })
    }
}

async fn look_within<D: Dialect>(conn: &mut Conn<D>, name: LockName) -> Result<Standing, Error> {
    let rows = D::fetch(conn, D::LOCK_LOOK, vec![Bind::from(&name.as_bytes()[..])]).await?;
    Standing::read(rows.into_iter().next())
}

fn binds(name: LockName, owner: Nonce, now: Timestamp, until: Timestamp) -> Vec<Bind> {
    vec![
        Bind::from(&name.as_bytes()[..]),
        Bind::Int(now.as_millis()),
        Bind::from(&owner.as_bytes()[..]),
        Bind::Int(until.as_millis()),
    ]
}

async fn hold<D: Dialect>(
    conn: &mut Conn<D>,
    text: &'static str,
    (name, owner, lease): (LockName, Nonce, Duration),
    now: Timestamp,
) -> Result<Done, Error> {
    let rows = D::fetch(conn, text, binds(name, owner, now, now.plus(lease))).await?;
    match rows.into_iter().next() {
        Some(mut row) => {
            let fence = row.epoch().map_err(Error::torn)?;
            Ok(Done::Lock(Hold::Mine { fence }))
        }
        None => Ok(look_within::<D>(conn, name).await?.taken(now)),
    }
}

pub(super) async fn acquire<D: Dialect>(
    conn: &mut Conn<D>,
    name: LockName,
    owner: Nonce,
    lease: Duration,
    now: Timestamp,
) -> Result<Done, Error> {
    hold::<D>(conn, D::LOCK_ACQUIRE, (name, owner, lease), now).await
}

pub(super) async fn renew<D: Dialect>(
    conn: &mut Conn<D>,
    name: LockName,
    owner: Nonce,
    lease: Duration,
    now: Timestamp,
) -> Result<Done, Error> {
    hold::<D>(conn, D::LOCK_RENEW, (name, owner, lease), now).await
}

pub(super) async fn release<D: Dialect>(
    conn: &mut Conn<D>,
    name: LockName,
    owner: Nonce,
    now: Timestamp,
) -> Result<Done, Error> {
    let rows = D::fetch(conn, D::LOCK_RELEASE, binds(name, owner, now, now)).await?;
    Ok(if rows.is_empty() { Done::Nothing } else { Done::Changed })
}

impl<D: Dialect> Locks for Sql<D> {
    fn acquire(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        let sql = self.clone();
        let task = self.owned(async move {
            // Whoever meets a held lock costs a read and no write.
            let binds = vec![Bind::from(&name.as_bytes()[..])];
            let standing = D::read(sql.readers(), D::LOCK_LOOK, binds).await.map_err(Error::from);
            let standing = standing.and_then(|rows| Standing::read(rows.into_iter().next()));
            let Standing { now, owner: holder, until } = standing.map_err(Error::into_fault)?;
            if until > now && holder.is_some_and(|holder| holder != owner) {
                return Ok(Hold::Taken { until, now });
            }
            sql.hold(Errand::Acquire { name, owner, lease }).await
        });
        Box::pin(async move {
            task.await.unwrap_or_else(|cause| Err(Fault::new(FaultKind::Unavailable, cause)))
        })
    }

    fn renew(
        &self,
        name: LockName,
        owner: Nonce,
        lease: Duration,
    ) -> BoxFuture<'static, Result<Hold, Fault>> {
        self.hold(Errand::Renew { name, owner, lease })
    }

    fn release(&self, name: LockName, owner: Nonce) -> BoxFuture<'static, Result<bool, Fault>> {
        let done = self.errand(Errand::Release { name, owner });
        Box::pin(async move { Ok(matches!(done.await?, Done::Changed)) })
    }

    fn freed(&self, _: LockName) -> BoxFuture<'static, ()> {
        next(&self.shared().freed)
    }
}
