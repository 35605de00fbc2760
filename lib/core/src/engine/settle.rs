//! What a judge says about an attempt that nobody can finish: an operator, or a reconciler.

use super::{Hapax, only};
use crate::{
    error::{Error, Kind},
    id::{Actor, Id},
    record::{Epoch, Nonce},
    store::{Answer, Found, Ruling, Step},
};

/// Times that a ruling is sent when its answer is lost.
const TRIES: usize = 5;

/// What became of a ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it holds or the record is not to be judged")]
pub enum Ruled {
    /// It holds.
    Settled {
        /// The epoch that it left: whatever the old attempt still writes is refused.
        epoch: Epoch,
    },
    /// It does not: the attempt is alive or only just dead, or the record has moved on.
    Refused(Found),
}

impl Hapax {
    /// Decides what an abandoned or unknown attempt did.
    ///
    /// `seen` is the epoch that the judge looked at; a record that has moved on is not judged.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]: nothing was done. [`Kind::Unsure`]: look at the record.
    pub async fn settle(
        &self,
        id: Id,
        seen: Epoch,
        ruling: Ruling,
        by: Actor,
        reason: &str,
    ) -> Result<Ruled, Error> {
        let op = "settle an attempt";
        let step = Step::Settle {
            id,
            seen,
            nonce: Nonce::random()?,
            ruling,
            by,
            reason: reason.to_owned(),
        };
        let clock = self.clock();
        let mut pauses = super::backoff(super::LEASE).take(TRIES - 1);
        let mut in_doubt = false;
        loop {
            match only(self.shared.store.apply(vec![step.clone()]).await) {
                Answer::Applied { epoch, .. } => return Ok(Ruled::Settled { epoch }),
                Answer::Found(found) => return Ok(Ruled::Refused(found)),
                Answer::Granted(_) => return Err(Error::new(Kind::Corrupt, op)),
                Answer::Away(fault) if !in_doubt => return Err(Error::away(op, fault)),
                // Surely not this time, but perhaps the time before.
                Answer::Away(fault) | Answer::Unsure(fault) => match pauses.next() {
                    Some(pause) => clock.sleep(pause).await,
                    None => return Err(Error::unsure(op, fault)),
                },
            }
            in_doubt = true;
        }
    }

    /// A record as it stands, by its id.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn look(&self, id: Id) -> Result<Found, Error> {
        self.shared.look(id).await
    }
}
