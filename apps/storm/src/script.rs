//! Which orders are bought how, and what happens to each: pure, out of the seed alone.
//!
//! Invariant: the stories have the shares of the plan, exactly and not on average, and each share
//! above zero happens at least once where the orders suffice
//! (`every_story_that_has_a_share_is_told`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dice::Dice;
use crate::fen::Fen;
use crate::plan::{Plan, Shares};

/// What buyers read; signatures must survive all of it.
const SUBJECTS: [&str; 5] = [
    "One month",
    "会员一月",
    "A & B = 100% + C",
    "\"quoted\" <b>plainly</b>",
    "long  spaces; end ",
];

/// What is bought.
const BENEFITS: [&[&str]; 4] = [&["vip_month"], &["vip_month", "coins.100"], &["e-book.7"], &[]];

/// Amounts at which arithmetic in floats goes wrong.
const ODD_AMOUNTS: [i64; 6] = [1, 29, 435, 803, 8_880, 10_000_000_000];

/// Smallest and largest amount that is refunded in parts.
const PARTED: (u64, u64) = (1_000, 50_000);

/// One key in this many is as long or as odd as the contract allows.
const ODD_KEYS: u64 = 8;

/// The longest key of the contract.
pub(crate) const KEY_MAX: usize = 255;

/// Every visible ASCII character that needs no escape inside quotes.
const ODD: &str = "!#$%&'()*+,-./:;<=>?@[]^_`{|}~";

/// Latest moment at which an impatient caller hangs up, in milliseconds.
const HANG_UP_MS: u64 = 40;

/// The workload of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(crate) orders: Vec<Order>,
}

/// What happens to an order after it was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Story {
    /// The buyer pays at once.
    PayAtOnce,
    /// The buyer pays at the moment in which the merchant's close arrives at the channel.
    CloseRace,
    /// The merchant closes a code that nobody scanned; then the buyer pays.
    PayDuringClose,
    /// The order expires; then the buyer pays, who stood at the password step.
    PayAfterExpiry,
    /// Nobody pays; the order expires.
    Abandon,
    /// The buyer scans and the merchant closes; nobody pays.
    Close,
    /// Paid, then refunded as a whole.
    RefundWhole,
    /// Paid, then refunded in parts, one after another.
    RefundParts,
    /// Paid, then five refunds at once of which only three fit.
    RefundAtOnce,
    /// Paid, then bought once more.
    Repurchase,
}

/// One order, as it will be attacked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Order {
    /// The lane of all further dice.
    pub(crate) lane: u64,
    pub(crate) story: Story,
    pub(crate) main: Purchase,
    /// Another tenant's order under the same number, asked for with the first key's text.
    pub(crate) shadow: Option<Shadow>,
    /// By their use: three fly at once, two buy once more, one comes when all is over.
    pub(crate) keys: [String; 6],
    pub(crate) submits: Vec<Submit>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) echo: Option<Echo>,
}

/// What is bought.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Purchase {
    /// The place of the tenant in the plan.
    pub(crate) tenant: usize,
    pub(crate) order_id: String,
    pub(crate) amount: Fen,
    pub(crate) subject: &'static str,
    pub(crate) benefits: &'static [&'static str],
    pub(crate) way: Way,
    pub(crate) life: Life,
    pub(crate) expires_in_s: u64,
    pub(crate) buyer: String,
}

/// How the buyer is led to the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Code,
    Page,
}

/// Whether an order is meant to expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Short,
    Long,
}

/// Another tenant's order under the same number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shadow {
    pub(crate) purchase: Purchase,
    pub(crate) ending: Ending,
}

/// What becomes of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Paid,
    Expired,
}

/// One of the requests that fly at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Submit {
    pub(crate) by: Credential,
    pub(crate) dress: Dress,
    /// The caller hangs up on the first try after this many milliseconds.
    pub(crate) hang_up_ms: Option<u64>,
}

/// What a submit proves itself with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Credential {
    /// The key at this place, from 0 to 5.
    Key(usize),
    Token,
    /// The text of the first key, under the shadow's API key.
    Foreign,
}

/// A key may be written bare or as a quoted string; it is the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dress {
    Bare,
    Quoted,
}

/// A submit whose content contradicts the order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) key: String,
    pub(crate) amount: Fen,
}

/// Callbacks are sent again although they were acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo;

impl Script {
    pub(crate) fn new(plan: &Plan) -> Self {
        let orders = usize::try_from(plan.orders).unwrap_or(usize::MAX);
        let mut dice = Dice::new(plan.seed, 0);
        let stories = stories(&plan.shares, orders, &mut dice);
        let mut marked = |share| marked(share, orders, &mut dice);
        let tokens = marked(plan.shares.tokens);
        let pages = marked(plan.shares.pages);
        let shadows = marked(plan.shares.shadows);
        let conflicts = marked(plan.shares.conflicts);
        let echoes = marked(plan.shares.echoes);
        let has = |marks: &[bool], index: usize| marks.get(index).copied().unwrap_or_default();
        let orders =
            (1_u64..).zip(stories.into_iter().enumerate()).map(|(lane, (index, story))| {
                let traits = Traits {
                    token: has(&tokens, index),
                    way: if has(&pages, index) { Way::Page } else { Way::Code },
                    shadow: has(&shadows, index) && plan.tenants.len() > 1,
                    conflict: has(&conflicts, index) && !story.expires(),
                    echo: has(&echoes, index).then_some(Echo),
                };
                order(plan, lane, story, &traits)
            });
        Self { orders: orders.collect() }
    }

    /// How many orders have each story.
    #[must_use]
    pub fn stories(&self) -> BTreeMap<Story, u32> {
        let mut stories = BTreeMap::new();
        for order in &self.orders {
            *stories.entry(order.story).or_default() += 1;
        }
        stories
    }

    /// Every key, token redemptions not counted, in the order in which they are used.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.orders.iter().flat_map(|order| order.keys.iter().map(String::as_str))
    }
}

impl Story {
    /// Whether the order must come to its expiry for the story to end.
    pub(crate) fn expires(self) -> bool {
        matches!(self, Self::Abandon | Self::PayAfterExpiry | Self::PayDuringClose)
    }

    fn is_refunded_in_parts(self) -> bool {
        matches!(self, Self::RefundParts | Self::RefundAtOnce)
    }
}

struct Traits {
    token: bool,
    way: Way,
    shadow: bool,
    conflict: bool,
    echo: Option<Echo>,
}

/// One story for each order, with the shares of the plan.
fn stories(shares: &Shares, orders: usize, dice: &mut Dice) -> Vec<Story> {
    let late = shares.late_payments / 2.0;
    let wanted = [
        (Story::CloseRace, shares.close_races),
        (Story::PayDuringClose, late),
        (Story::PayAfterExpiry, late),
        (Story::Abandon, shares.abandoned),
        (Story::Close, shares.closed),
        (Story::RefundWhole, shares.full_refunds),
        (Story::RefundParts, shares.partial_refunds),
        (Story::RefundAtOnce, shares.concurrent_refunds),
        (Story::Repurchase, shares.repurchases),
    ];
    let mut stories = Vec::with_capacity(orders);
    for (story, share) in wanted {
        let room = orders.saturating_sub(stories.len());
        stories.extend(std::iter::repeat_n(story, std::cmp::min(room, quota(share, orders))));
    }
    stories.resize(orders, Story::PayAtOnce);
    dice.shuffle(&mut stories);
    stories
}

/// Marks the orders to which something happens.
fn marked(share: f64, orders: usize, dice: &mut Dice) -> Vec<bool> {
    let mut marks = vec![true; quota(share, orders)];
    marks.resize(orders, false);
    dice.shuffle(&mut marks);
    marks
}

/// How many of `orders` a share is: rounded, but at least one of a share above zero.
fn quota(share: f64, orders: usize) -> usize {
    if share <= 0.0 {
        return 0;
    }
    let wanted = (0..=orders).find(|count| {
        let count = u32::try_from(*count).unwrap_or(u32::MAX);
        let orders = u32::try_from(orders).unwrap_or(u32::MAX);
        f64::from(count) + 0.5 > share * f64::from(orders)
    });
    std::cmp::max(wanted.unwrap_or(orders), 1)
}

fn order(plan: &Plan, lane: u64, story: Story, traits: &Traits) -> Order {
    let mut dice = Dice::new(plan.seed, lane);
    let main = main_purchase(plan, lane, story, traits, &mut dice);
    let keys = std::array::from_fn(|_| key(&mut dice));
    let conflict =
        traits.conflict.then(|| Conflict { key: key(&mut dice), amount: main.amount.beside(1) });
    let shadow = traits.shadow.then(|| shadow(plan, &main, &mut dice));
    let submits = submits(plan, traits, &mut dice);
    Order { lane, story, main, shadow, keys, submits, conflict, echo: traits.echo }
}

fn main_purchase(
    plan: &Plan,
    lane: u64,
    story: Story,
    traits: &Traits,
    dice: &mut Dice,
) -> Purchase {
    let odd = dice.chance(0.2);
    let amount = if story.is_refunded_in_parts() {
        dice.between(PARTED.0, PARTED.1)
    } else {
        dice.between(1, PARTED.1)
    };
    let amount = match dice.pick(&ODD_AMOUNTS) {
        Some(amount) if odd && !story.is_refunded_in_parts() => *amount,
        _ => i64::try_from(amount).unwrap_or(1),
    };
    let life = if story.expires() { Life::Short } else { Life::Long };
    // A page that the buyer's browser never opens has no trade that could be paid late.
    let way = if story.expires() { Way::Code } else { traits.way };
    Purchase {
        tenant: dice.place(plan.tenants.len()),
        order_id: format!("S{:016x}-{lane}", plan.seed),
        amount: Fen(amount),
        subject: dice.pick(&SUBJECTS).copied().unwrap_or_default(),
        benefits: benefits(story, dice),
        way,
        life,
        expires_in_s: life.seconds(plan),
        buyer: format!("buyer-{lane}"),
    }
}

/// Of an order that is refunded as a whole, there must be something to take away.
fn benefits(story: Story, dice: &mut Dice) -> &'static [&'static str] {
    let benefits = dice.pick(&BENEFITS).copied().unwrap_or_default();
    match story {
        Story::RefundWhole if benefits.is_empty() => &["vip_month"],
        _ => benefits,
    }
}

/// The same number at another tenant, with an amount that tells the two apart.
fn shadow(plan: &Plan, main: &Purchase, dice: &mut Dice) -> Shadow {
    let step = dice.between(1, std::cmp::max(count(plan.tenants.len()), 2) - 1);
    let step = usize::try_from(step).unwrap_or(1);
    let ending = if dice.chance(0.5) { Ending::Paid } else { Ending::Expired };
    let life = match ending {
        Ending::Paid => Life::Long,
        Ending::Expired => Life::Short,
    };
    let purchase = Purchase {
        tenant: (main.tenant + step) % std::cmp::max(plan.tenants.len(), 1),
        amount: main.amount.beside(2),
        benefits: dice.pick(&BENEFITS).copied().unwrap_or_default(),
        way: Way::Code,
        life,
        expires_in_s: life.seconds(plan),
        ..main.clone()
    };
    Shadow { purchase, ending }
}

/// The mix that flies at once: one key twice, a token twice, other keys, the other tenant.
fn submits(plan: &Plan, traits: &Traits, dice: &mut Dice) -> Vec<Submit> {
    let mut by = vec![Credential::Key(0), Credential::Key(0)];
    if traits.token {
        by.extend([Credential::Token, Credential::Token]);
    }
    if traits.shadow {
        by.push(Credential::Foreign);
    }
    let wanted = usize::try_from(plan.submits_per_order).unwrap_or(usize::MAX);
    let rest = [Credential::Key(1), Credential::Key(2), Credential::Key(0), Credential::Key(1)];
    by.extend(rest.into_iter().cycle().take(wanted.saturating_sub(by.len())));
    dice.shuffle(&mut by);
    let mut dressed = |by| Submit {
        by,
        dress: if dice.chance(0.25) { Dress::Quoted } else { Dress::Bare },
        hang_up_ms: dice.chance(plan.shares.hang_ups).then(|| dice.between(0, HANG_UP_MS)),
    };
    by.into_iter().map(&mut dressed).collect()
}

/// A key; most are like those that callers use, some are as odd as the contract allows.
fn key(dice: &mut Dice) -> String {
    let plain = dice.hex();
    if dice.below(ODD_KEYS) > 0 {
        return plain;
    }
    let odd: Vec<char> = ODD.chars().collect();
    let length = dice.place(KEY_MAX - plain.len()) + 1;
    let tail = (0..length).filter_map(|_| dice.pick(&odd).copied());
    let mut key = plain;
    key.extend(tail);
    key
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl Life {
    fn seconds(self, plan: &Plan) -> u64 {
        match self {
            Self::Short => plan.pace.expiry_short.as_secs(),
            Self::Long => plan.pace.expiry_long.as_secs(),
        }
    }
}

impl Fen {
    /// Another legal amount, `step` away: downwards, since the highest legal one is used too.
    fn beside(self, step: i64) -> Self {
        if self.0 > step { Self(self.0 - step) } else { Self(self.0 + step) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::Tenant;

    fn plan(seed: u64, orders: u32) -> Plan {
        let tenant = |name: &str| Tenant {
            name: name.to_owned(),
            api_key: name.to_owned(),
            notice_secret: None,
        };
        let tenants = vec![tenant("a"), tenant("b"), tenant("c")];
        let mut plan = Plan::new("http://127.0.0.1:1", "http://127.0.0.1:2", tenants);
        (plan.seed, plan.orders) = (seed, orders);
        plan
    }

    #[test]
    fn every_story_that_has_a_share_is_told() {
        let stories = Script::new(&plan(3, 200)).stories();
        assert_eq!(stories[&Story::CloseRace], 20);
        assert_eq!(stories[&Story::PayDuringClose], 10);
        assert_eq!(stories[&Story::PayAfterExpiry], 10);
        assert_eq!(stories[&Story::RefundAtOnce], 12);
        assert_eq!(stories.values().sum::<u32>(), 200);
        // Ten stories in ten orders: each one once, whatever its share.
        let few = Script::new(&plan(3, 10)).stories();
        assert!(few.len() == 10 && few.values().all(|count| *count == 1), "{few:?}");
        assert_eq!(Script::new(&plan(3, 1)).orders.len(), 1);
    }

    #[test]
    fn every_order_fires_the_mix() {
        for order in Script::new(&plan(9, 300)).orders {
            let times = |by| order.submits.iter().filter(|submit| submit.by == by).count();
            assert_eq!(order.submits.len(), 5);
            assert!(times(Credential::Key(0)) >= 2);
            assert_eq!(times(Credential::Foreign), usize::from(order.shadow.is_some()));
            assert!([0, 2].contains(&times(Credential::Token)));
            if let Some(Shadow { purchase, .. }) = &order.shadow {
                assert_ne!(purchase.tenant, order.main.tenant);
                assert_eq!(purchase.order_id, order.main.order_id);
                assert_ne!(purchase.amount, order.main.amount);
            }
            if let Some(conflict) = &order.conflict {
                assert_ne!(conflict.amount, order.main.amount);
            }
        }
    }

    #[test]
    fn keys_are_unique_and_within_the_contract() {
        let script = Script::new(&plan(1, 2_000));
        let keys: Vec<&str> = script.keys().collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
        let fits = |key: &&str| {
            (1..=KEY_MAX).contains(&key.len())
                && key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
        };
        assert!(keys.iter().all(fits));
        assert!(keys.iter().any(|key| key.len() > 200), "some keys are long");
    }

    #[test]
    fn amounts_are_above_zero_and_orders_fit_the_contract() {
        for order in Script::new(&plan(u64::MAX, 1_000)).orders {
            let amounts = [Some(order.main.amount), order.shadow.map(|s| s.purchase.amount)];
            assert!(amounts.into_iter().flatten().all(|amount| amount > Fen::ZERO));
            assert!(order.main.order_id.len() <= 64);
            assert!(order.conflict.is_none_or(|conflict| conflict.amount > Fen::ZERO));
        }
    }

    #[test]
    fn a_quota_is_the_rounded_share() {
        assert_eq!(quota(0.0, 200), 0);
        assert_eq!(quota(0.1, 200), 20);
        assert_eq!(quota(0.001, 200), 1);
        assert_eq!(quota(1.0, 7), 7);
        assert_eq!(quota(0.5, 3), 2);
    }
}
