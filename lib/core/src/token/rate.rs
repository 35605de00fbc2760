//! How many tokens one user gets.
//!
//! One moment per user is the whole bucket: the time at which it would be full again, by the
//! store's clock. Each instance has buckets of its own, so that two of them give twice as much.

use std::{
    cmp,
    collections::{BTreeSet, HashMap},
    num::NonZeroU32,
    time::Duration,
};

use crate::{
    id::{Framed, Principal, Tenant},
    time::Timestamp,
};

/// Users that are remembered. Beyond this the one whose bucket is nearest to full is forgotten,
/// which gives that one a few tokens and nobody an outage.
pub const USERS_MAX: usize = 65_536;

const USER_DOMAIN: &[u8] = b"hapax.token.user.v1";

/// The allowance of one user: some at once, then one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens that may be had at once.
    pub burst: NonZeroU32,
    /// How long it takes until one more may be had.
    pub refill: Duration,
}

impl Default for Rate {
    /// Ten at once, then one every three seconds: a person who reloads a page does not notice.
    fn default() -> Self {
        const BURST: NonZeroU32 = NonZeroU32::new(10).unwrap();
        Self { burst: BURST, refill: Duration::from_secs(3) }
    }
}

type User = [u8; 32];

/// The buckets of this process.
#[derive(Debug)]
pub(super) struct Buckets {
    rate: Rate,
    users_max: usize,
    full_at: HashMap<User, Timestamp>,
    order: BTreeSet<(Timestamp, User)>,
}

impl Buckets {
    pub(super) fn new(rate: Rate, users_max: usize) -> Self {
        Self { rate, users_max, full_at: HashMap::new(), order: BTreeSet::new() }
    }

    /// Takes one token out of the user's bucket, or says when there is one.
    pub(super) fn take(
        &mut self,
        tenant: &Tenant,
        user: &Principal,
        now: Timestamp,
    ) -> Result<(), Duration> {
        self.forget_full(now);
        let user = name(tenant, user);
        let full_at = cmp::max(self.full_at.get(&user).copied().unwrap_or(now), now);
        let full_next = full_at.plus(self.rate.refill);
        let allowed_until = now.plus(self.rate.refill.saturating_mul(self.rate.burst.get()));
        if full_next > allowed_until {
            return Err(full_next.since(allowed_until));
        }
        if let Some(before) = self.full_at.insert(user, full_next) {
            self.order.remove(&(before, user));
        }
        self.order.insert((full_next, user));
        if self.order.len() > self.users_max
            && let Some((_, forgotten)) = self.order.pop_first()
        {
            self.full_at.remove(&forgotten);
        }
        Ok(())
    }

    /// A full bucket is the same as none.
    fn forget_full(&mut self, now: Timestamp) {
        while let Some(&(full_at, user)) = self.order.first()
            && full_at <= now
        {
            self.order.pop_first();
            self.full_at.remove(&user);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.full_at.len()
    }
}

fn name(tenant: &Tenant, user: &Principal) -> User {
    let mut hash = Framed::new(USER_DOMAIN);
    hash.part(tenant.as_str().as_bytes());
    hash.part(user.as_str().as_bytes());
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn buckets(users_max: usize) -> Buckets {
        let rate = Rate { burst: NonZeroU32::new(3).unwrap(), refill: SECOND };
        Buckets::new(rate, users_max)
    }

    fn take(buckets: &mut Buckets, user: &str, now: Timestamp) -> Result<(), Duration> {
        buckets.take(&Tenant::parse("t").unwrap(), &Principal::parse(user).unwrap(), now)
    }

    #[test]
    fn a_user_gets_the_burst_and_then_one_per_refill() {
        let mut buckets = buckets(10);
        for _ in 0..3 {
            assert_eq!(take(&mut buckets, "ann", NOW), Ok(()));
        }
        assert_eq!(take(&mut buckets, "ann", NOW), Err(SECOND));
        assert_eq!(take(&mut buckets, "bob", NOW), Ok(()), "others are not slowed down");
        let half = NOW.plus(SECOND / 2);
        assert_eq!(take(&mut buckets, "ann", half), Err(SECOND / 2), "the wait is exact");
        assert_eq!(take(&mut buckets, "ann", NOW.plus(SECOND)), Ok(()));
        assert!(take(&mut buckets, "ann", NOW.plus(SECOND)).is_err());
    }

    #[test]
    fn over_any_time_a_user_gets_no_more_than_burst_and_refills() {
        let (mut buckets, mut got) = (buckets(10), 0_u32);
        for step in 0..1000 {
            let now = NOW.plus(Duration::from_millis(step * 37));
            got += u32::from(take(&mut buckets, "ann", now).is_ok());
        }
        assert_eq!(got, 3 + 36, "36.963 s at one per second");
    }

    #[test]
    fn users_that_are_remembered_are_bounded_and_full_buckets_forgotten() {
        let mut buckets = buckets(5);
        for user in 0..20 {
            assert_eq!(take(&mut buckets, &format!("u{user}"), NOW), Ok(()));
        }
        assert_eq!(buckets.len(), 5);
        let later = NOW.plus(SECOND * 10);
        assert_eq!(take(&mut buckets, "ann", later), Ok(()));
        assert_eq!(buckets.len(), 1);
    }

    #[test]
    fn who_used_up_the_burst_is_the_last_to_be_forgotten() {
        let mut buckets = buckets(5);
        for _ in 0..3 {
            assert_eq!(take(&mut buckets, "ann", NOW), Ok(()));
        }
        for user in 0..20 {
            assert_eq!(take(&mut buckets, &format!("u{user}"), NOW), Ok(()));
        }
        assert!(take(&mut buckets, "ann", NOW).is_err());
    }

    #[test]
    fn a_clock_that_falls_back_gives_nothing_extra() {
        let mut buckets = buckets(5);
        for _ in 0..3 {
            assert_eq!(take(&mut buckets, "ann", NOW), Ok(()));
        }
        let earlier = Timestamp::from_millis(NOW.as_millis() - 5000);
        assert!(take(&mut buckets, "ann", earlier).is_err());
    }
}
