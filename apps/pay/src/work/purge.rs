//! Removes what nobody needs any more, a little at a time.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{
    db::{conn, notices, requests},
    error::{Error, Kind},
    flow::Desk,
};
use hapax::{
    Timestamp,
    purge::{Purge, Purger},
    store::{Fault, FaultKind},
};

/// The purger of the service's own database: of every table that grows without the books.
pub(super) fn purger(desk: &Arc<Desk>) -> Result<Purger, Error> {
    let (periods, bounds, sql) = (&desk.config.periods, &desk.config.bounds, &desk.sql);
    let inbox = periods.inbox();
    let inbox = inbox.map_err(|why| Error::caused(Kind::Config, "set up the purge", why))?;
    Ok(Purger::new()
        .of("records", desk.hapax.store())
        .of("journal", sql.old_journal(periods.keep_journal.0))
        .of("inbox", sql.old_inbox(inbox))
        .of("letters", sql.old_letters(periods.keep_letters.0))
        .of("locks", sql.old_locks())
        .of("notices", Notices(Arc::clone(desk)))
        .of("requests", Requests(Arc::clone(desk)))
        .period(periods.purge.0)
        .rows(bounds.purge_rows))
}

/// Settled notices of the channel, kept for as long as the configuration says.
struct Notices(Arc<Desk>);

impl Purge for Notices {
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move {
            let purged = purge_notices(&desk, rows).await;
            purged.map_err(|error| Fault::new(FaultKind::Unavailable, error))
        })
    }
}

/// The journal of requests, kept for as long.
struct Requests(Arc<Desk>);

impl Purge for Requests {
    fn purge(&self, rows: u16) -> BoxFuture<'static, Result<u16, Fault>> {
        let desk = Arc::clone(&self.0);
        Box::pin(async move {
            let purged = purge_requests(&desk, rows).await;
            purged.map_err(|error| Fault::new(FaultKind::Unavailable, error))
        })
    }
}

async fn purge_requests(desk: &Desk, rows: u16) -> Result<u16, Error> {
    let before = oldest(desk).await?;
    let purged = desk
        .sql
        .write("requests.purge", async move |mut tx| {
            requests::purge(conn(&mut tx), before, rows).await
        })
        .await?;
    Ok(u16::try_from(purged).unwrap_or(u16::MAX))
}

/// What is older than this goes.
async fn oldest(desk: &Desk) -> Result<Timestamp, Error> {
    let kept = hapax::millis(desk.config.periods.keep_notices.0);
    Ok(Timestamp::from_millis(desk.now().await?.as_millis() - kept))
}

async fn purge_notices(desk: &Desk, rows: u16) -> Result<u16, Error> {
    let before = oldest(desk).await?;
    let purged = desk
        .sql
        .write("notices.purge", async move |mut tx| {
            notices::purge(conn(&mut tx), before, rows).await
        })
        .await?;
    Ok(u16::try_from(purged).unwrap_or(u16::MAX))
}
