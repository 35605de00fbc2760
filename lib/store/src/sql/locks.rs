//! Locks as rows: early refusal for whoever meets at one business object.
//!
//! Invariant: the fence of a name rises with every new holder, for ever, also over a purge
//! (`a_fence_rises_with_every_holder`).

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{
    dialect::{Bind, Dialect},
    errand::{Done, Errand},
    line::Line,
    row::Row,
    store::{Sql, next},
};
use crate::error::{Error, Kind};
use hapax_core::{
    Nonce, Timestamp,
    lock::{Hold, LockName, Locks},
    millis,
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
            Ok(Self { now, owner, until: row.maybe_time()?.unwrap_or(now) })
        };
        read().map_err(Error::torn)
    }

    fn taken(&self) -> Done {
        Done::Lock(Hold::Taken { until: std::cmp::max(self.until, self.now), now: self.now })
    }
}

fn binds(name: LockName, owner: Nonce) -> Vec<Bind> {
    vec![Bind::from(&name.as_bytes()[..]), Bind::from(&owner.as_bytes()[..])]
}

async fn hold<D: Dialect>(
    line: &mut Line<'_, D>,
    change: &'static str,
    (name, owner, lease): (LockName, Nonce, Duration),
) -> Result<Done, Error> {
    let mut binds = binds(name, owner);
    binds.push(Bind::Int(millis(lease)));
    match line.send(change, binds).await?.into_iter().next() {
        Some(mut row) => {
            let fence = row.epoch().map_err(Error::torn)?;
            Ok(Done::Lock(Hold::Mine { fence }))
        }
        None => {
            let rows = line.read(D::LOCK_LOOK, vec![Bind::from(&name.as_bytes()[..])]).await?;
            Ok(Standing::read(rows.into_iter().next())?.taken())
        }
    }
}

pub(super) async fn acquire<D: Dialect>(
    line: &mut Line<'_, D>,
    name: LockName,
    owner: Nonce,
    lease: Duration,
) -> Result<Done, Error> {
    hold(line, D::LOCK_ACQUIRE, (name, owner, lease)).await
}

pub(super) async fn renew<D: Dialect>(
    line: &mut Line<'_, D>,
    name: LockName,
    owner: Nonce,
    lease: Duration,
) -> Result<Done, Error> {
    hold(line, D::LOCK_RENEW, (name, owner, lease)).await
}

pub(super) async fn release<D: Dialect>(
    line: &mut Line<'_, D>,
    name: LockName,
    owner: Nonce,
) -> Result<Done, Error> {
    let rows = line.send(D::LOCK_RELEASE, binds(name, owner)).await?;
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
