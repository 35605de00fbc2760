//! Chance out of a seed: `SplitMix64`, nothing else.
//!
//! Invariant: what one lane throws depends on the seed and the lane alone
//! (`lanes_of_one_seed_do_not_disturb_each_other`).

/// The golden ratio in 64 bits, the step of `SplitMix64`.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// One sequence of throws.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    state: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64, lane: u64) -> Self {
        Self { state: mixed(seed) ^ mixed(lane.wrapping_add(STEP)) }
    }

    /// The lane of a name, for things that have no number.
    pub(crate) fn lane(name: &str) -> u64 {
        // FNV-1a: short, and the same on every machine.
        name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mixed(self.state)
    }

    /// A number from 0 up to, but not including, `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        // 53 bits are what an f64 holds exactly.
        let thrown = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        thrown < share
    }

    pub(crate) fn place(&mut self, places: usize) -> usize {
        let places = u64::try_from(places).unwrap_or(u64::MAX);
        usize::try_from(self.below(places)).unwrap_or_default()
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.place(items.len()))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.place(last + 1);
            items.swap(last, other);
        }
    }

    /// 32 hex digits.
    pub(crate) fn hex(&mut self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }
}

fn mixed(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_one_seed_do_not_disturb_each_other() {
        let alone: Vec<u64> = std::iter::repeat_with({
            let mut dice = Dice::new(7, 2);
            move || dice.next()
        })
        .take(8)
        .collect();
        let mut other = Dice::new(7, 1);
        let mut beside = Dice::new(7, 2);
        let between: Vec<u64> = (0..8)
            .map(|_| {
                other.next();
                beside.next()
            })
            .collect();
        assert_eq!(alone, between);
        assert_ne!(Dice::new(7, 2).next(), Dice::new(8, 2).next());
        assert_ne!(Dice::new(7, 2).next(), Dice::new(7, 3).next());
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The reference sequence of seed 1234567, as its author publishes it.
        let mut dice = Dice { state: 1_234_567 };
        let thrown: Vec<u64> = (0..3).map(|_| dice.next()).collect();
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(thrown, known);
    }

    #[test]
    fn throws_stay_within_their_bounds_and_reach_them() {
        let mut dice = Dice::new(1, 1);
        let thrown: std::collections::BTreeSet<u64> =
            (0..1_000).map(|_| dice.between(3, 6)).collect();
        assert_eq!(thrown.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        let hits = (0..10_000).filter(|_| dice.chance(0.2)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert!(!dice.chance(0.0) && dice.chance(1.0));
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..100).collect();
        Dice::new(5, 5).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
