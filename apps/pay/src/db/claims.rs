//! Claims of the engine, read inside a transaction of the service.

use super::{Conn, sql};
use crate::error::Error;
use hapax::Fence;

/// Whether `fence` still names the attempt that owns its record.
///
/// In a transaction that writes, this stays so to its end: nobody takes the record over meanwhile.
pub(crate) async fn is_held(conn: &mut Conn, fence: &Fence) -> Result<bool, Error> {
    let query = sqlx::query(sql::CLAIM).bind(fence.id.as_bytes().as_slice());
    let query = query.bind(fence.epoch.get()).bind(fence.nonce.as_bytes().as_slice());
    Ok(query.fetch_optional(conn).await?.is_some())
}
