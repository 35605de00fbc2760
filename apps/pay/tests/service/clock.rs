//! Waiting: for something to be so, and never for time alone to pass.

use std::{fmt::Debug, time::Duration};

/// Nothing here should take longer; the limit is for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(8);

#[expect(clippy::disallowed_methods, reason = "the tests watch servers in real time")]
async fn pause() {
    tokio::time::sleep(LOOK).await;
}

/// Looks until there is something to see.
pub(crate) async fn soon<T, F>(what: &str, look: impl Fn() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let waiting = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            pause().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("in time: {what}"))
}

/// Looks until it is what it should be.
pub(crate) async fn soon_is<T, F>(what: &str, wanted: T, look: impl Fn() -> F)
where
    T: PartialEq + Debug,
    F: Future<Output = T>,
{
    let last = std::sync::Mutex::new(None);
    let waiting = async {
        loop {
            let seen = look().await;
            if seen == wanted {
                return;
            }
            *last.lock().unwrap() = Some(seen);
            pause().await;
        }
    };
    let over = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(over.is_ok(), "in time: {what}: not {:?} but {wanted:?}", last.lock().unwrap());
}
