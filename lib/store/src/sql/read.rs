//! Reads: snapshots without a lock, on connections that cannot write.

use std::{future::ready, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    dialect::{Bind, Dialect},
    gather::answered,
    line::Line,
    row::Row,
    sheet,
    store::Sql,
};
use crate::error::{Error, Kind};
use hapax_core::{
    Id, Invalid, Record, Status, Timestamp,
    store::{Entry, Event, Fault, Found, Page, Scan},
};

/// Lines of one record's history: the bound of the trait.
const HISTORY_ROWS_MAX: i64 = 1000;
/// Records of one page: the bound of the trait.
const PAGE_ROWS_MAX: u16 = 1000;

pub(super) async fn now<D: Dialect>(sql: &Sql<D>) -> Result<Timestamp, Error> {
    let rows = D::read(sql.readers(), D::NOW, Vec::new()).await?;
    let row = rows.into_iter().next();
    row.map_or_else(
        || Err(Error::new(Kind::Corrupt, "read the store's clock")),
        |mut row| row.time().map_err(Error::torn),
    )
}

/// The record of `id` as it stands for readers. Looks that meet at busy readers share one.
pub(super) fn look<D: Dialect>(sql: &Sql<D>, id: Id) -> BoxFuture<'static, Result<Found, Fault>> {
    let ticket = match sql.shared().looks.enter(id) {
        Ok(ticket) => ticket,
        Err(fault) => return Box::pin(ready(Err(fault))),
    };
    if ticket.starts_lane {
        let sql = sql.clone();
        sql.clone().owned(async move {
            sql.shared().looks.drive(async |ids: Vec<Id>| look_at(&sql, &ids).await).await;
        });
    }
    Box::pin(answered(ticket.answer))
}

/// `out[i]` is the record of `ids[i]`. A row that is damaged harms only its own answer.
async fn look_at<D: Dialect>(sql: &Sql<D>, ids: &[Id]) -> Vec<Result<Found, Fault>> {
    let binds = vec![Bind::Text(sheet::ids(ids))];
    let rows = D::read(sql.readers(), D::LOOK, binds).await.map_err(Error::from);
    match rows.and_then(|rows| in_order(rows, ids.len())) {
        Ok(found) => found.into_iter().map(|found| found.map_err(Error::into_fault)).collect(),
        Err(error) => vec![Err(error.into_fault()); ids.len()],
    }
}

/// The records as the changes before them left them.
pub(super) async fn look_through<D: Dialect>(
    line: &mut Line<'_, D>,
    ids: &[Id],
) -> Result<Vec<Found>, Error> {
    let rows = line.read(D::LOOK, vec![Bind::Text(sheet::ids(ids))]).await?;
    in_order(rows, ids.len())?.into_iter().collect()
}

/// Puts the rows in the order in which they were wanted: an engine joins in any order.
fn in_order(rows: Vec<Row>, count: usize) -> Result<Vec<Result<Found, Error>>, Error> {
    let read = |mut row: Row| Ok((row.count()?, found(row)));
    let mut placed =
        rows.into_iter().map(read).collect::<Result<Vec<_>, Invalid>>().map_err(Error::torn)?;
    placed.sort_by_key(|(place, _)| *place);
    if placed.len() != count {
        return Err(Error::new(Kind::Corrupt, "look at records"));
    }
    Ok(placed.into_iter().map(|(_, found)| found).collect())
}

fn found(mut row: Row) -> Result<Found, Error> {
    let now = row.time().map_err(Error::torn)?;
    let record = row.record().map_err(Error::torn)?;
    Ok(Found { record: record.map(|(_, record)| Arc::new(record)), now })
}

pub(super) async fn scan<D: Dialect>(sql: &Sql<D>, scan: &Scan) -> Result<Page, Error> {
    let text = match scan.status {
        Some(Status::Running | Status::Abandoned | Status::Unknown) => D::SCAN_UNFINISHED,
        Some(Status::Open | Status::Completed | Status::Expired) | None => D::SCAN,
    };
    let limit = std::cmp::min(scan.limit, PAGE_ROWS_MAX);
    // One time for the whole page: each row is judged by it, and the caller is told.
    let now = now(sql).await?;
    let after = scan.after.as_ref().map_or(&[][..], |id| &id.as_bytes()[..]);
    let binds = vec![
        Bind::from(after),
        Bind::Int(now.as_millis()),
        Bind::Int(i64::from(limit) + 1),
        Bind::MaybeText(scan.operation.as_ref().map(|name| name.as_str().to_owned())),
        Bind::MaybeText(scan.status.map(|status| status.as_str().to_owned())),
    ];
    let rows = D::read(sql.readers(), text, binds).await?;
    let has_more = rows.len() > usize::from(limit);
    let rows = rows.into_iter().take(usize::from(limit));
    let read = |mut row: Row| row.record().transpose();
    let records: Vec<(Id, Record)> =
        rows.filter_map(read).collect::<Result<_, _>>().map_err(Error::torn)?;
    let (ids, records): (Vec<_>, Vec<_>) = records.into_iter().unzip();
    Ok(Page { records, now, next: ids.last().copied().filter(|_| has_more) })
}

pub(super) async fn history<D: Dialect>(sql: &Sql<D>, id: Id) -> Result<Vec<Entry>, Error> {
    let binds = vec![Bind::from(&id.as_bytes()[..]), Bind::Int(HISTORY_ROWS_MAX)];
    let rows = D::read(sql.readers(), D::HISTORY, binds).await?;
    rows.into_iter().map(|row| entry(row).map_err(Error::torn)).collect()
}

fn entry(mut row: Row) -> Result<Entry, Invalid> {
    Ok(Entry {
        at: row.time()?,
        epoch: row.epoch()?,
        event: Event::parse(&row.text()?).ok_or_else(|| {
            Invalid::new("journal event", "was written by a newer version; upgrade")
        })?,
        actor: row.actor()?,
        note: row.text()?,
    })
}
