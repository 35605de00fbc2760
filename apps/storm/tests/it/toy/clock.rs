//! The toy's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "the toy runs on real time, as services do")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the toy runs on real time, as services do")]
pub(crate) async fn sleep(span: Duration) {
    tokio::time::sleep(span).await;
}
