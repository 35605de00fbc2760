use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::clock::shifted;
use crate::faults::{BuyerAct, Moment, NoticeFault, NoticeRule, When};
use crate::money::Fen;
use crate::trade::{Arrival, Ask, Pace, Terms};

fn at(second: i64) -> Timestamp {
    shifted("2026-10-01T00:00:00Z".parse().unwrap(), second * 1_000)
}

fn world(faults: Faults) -> World {
    World::new(7, faults, Numbers::new(at(0), [0; 32]), "http://sim".to_owned())
}

fn opening(number: &str) -> Opening {
    Opening {
        app_id: "app".into(),
        seller_id: "seller".into(),
        out_trade_no: number.to_owned(),
        product: Product::Precreate,
        terms: Terms {
            total: Fen::new(1_000),
            subject: "tea".to_owned(),
            body: None,
            scan_until: at(100),
            expires_at: at(100),
        },
        charset: Charset::Utf8,
        notify_url: Some("http://shop/notify".to_owned()),
        return_url: None,
        passback: Some("a%3D1".to_owned()),
    }
}

fn ask(number: &str, fen: i64) -> Ask {
    Ask {
        request_no: Some(number.to_owned()),
        fallback_no: "T".to_owned(),
        amount: Fen::new(fen),
        pace: Pace::Now,
    }
}

fn shown(world: &mut World, number: &str) -> TradeIx {
    world.show(opening(number), at(0)).unwrap();
    world.by_out_trade_no(Some("app"), number).unwrap()
}

fn everything() -> Faults {
    let all = BTreeSet::from([
        Change::Scanned,
        Change::Paid,
        Change::Refunded,
        Change::Closed,
        Change::Finished,
    ]);
    let push = PushTable { precreate: all.clone(), page: all.clone(), wap: all };
    Faults { push, ..Faults::default() }
}

fn race(at: Moment, delay_ms: i64) -> RaceRule {
    RaceRule { at, act: BuyerAct::Pay, delay_ms, late: false, when: When::default() }
}

fn statuses(world: &mut World) -> Vec<(&'static str, String)> {
    let fresh = world.take_fresh();
    fresh.iter().map(|n| (n.trade_status, n.field("out_biz_no").to_owned())).collect()
}

#[test]
fn one_change_is_one_notice() {
    let mut world = world(everything());
    let ix = shown(&mut world, "T");
    world.pay(ix, None, Arrival::InTime, at(1)).unwrap();
    world.refund(ix, ask("r1", 300), None, at(2)).unwrap();
    world.refund(ix, ask("r1", 300), None, at(3)).unwrap();
    world.refund(ix, ask("r2", 700), None, at(4)).unwrap();
    let nothing = String::new();
    assert_eq!(
        statuses(&mut world),
        [
            ("WAIT_BUYER_PAY", nothing.clone()),
            ("TRADE_SUCCESS", nothing),
            ("TRADE_SUCCESS", "r1".to_owned()),
            ("TRADE_CLOSED", "r2".to_owned()),
        ]
    );
    assert_eq!(world.totals.notices, 4);
    assert_eq!(world.letters.len(), 4, "each has a notify_id of its own");
}

#[test]
fn a_refund_notice_tells_the_sum_and_the_part() {
    let mut world = world(everything());
    let ix = shown(&mut world, "T");
    world.pay(ix, None, Arrival::InTime, at(1)).unwrap();
    world.refund(ix, ask("r1", 300), None, at(2)).unwrap();
    world.refund(ix, ask("r2", 200), None, at(3)).unwrap();
    let fresh = world.take_fresh();
    let last = fresh.last().unwrap();
    assert_eq!((last.field("refund_fee"), last.field("send_back_fee")), ("5.00", "2.00"));
    assert_eq!(last.field("gmt_refund"), "2026-10-01 08:00:03.000");
    assert_eq!(last.field("gmt_payment"), "2026-10-01 08:00:01");
    assert_eq!(last.field("passback_params"), "a%3D1");
    assert_eq!(last.field("gmt_close"), "");
}

#[test]
fn the_push_table_decides_what_is_told() {
    let mut world = world(Faults::default());
    let ix = shown(&mut world, "T");
    world.scan(ix, None, at(1)).unwrap();
    assert!(statuses(&mut world).is_empty(), "a scan is not told by default");
    world.close(ix, at(2)).unwrap();
    assert_eq!(statuses(&mut world), [("TRADE_CLOSED", String::new())]);
}

#[test]
fn a_product_that_is_not_refundable_tells_only_that_it_is_finished() {
    let mut world = world(Faults { not_refundable: Some(When::default()), ..everything() });
    let ix = shown(&mut world, "T");
    world.scan(ix, None, at(1)).unwrap();
    world.take_fresh();
    world.pay(ix, None, Arrival::InTime, at(1)).unwrap();
    assert_eq!(statuses(&mut world), [("TRADE_FINISHED", String::new())]);
}

#[test]
fn an_unpaid_trade_is_closed_by_itself_when_its_time_is_over() {
    let mut world = world(everything());
    let ix = shown(&mut world, "T");
    world.scan(ix, None, at(1)).unwrap();
    world.take_fresh();
    assert_eq!(world.run_due(at(99)), Some(at(100)));
    assert_eq!(world.run_due(at(100)), None);
    assert_eq!(statuses(&mut world), [("TRADE_CLOSED", String::new())]);
    assert_eq!(world.trade_view(ix).unwrap().closed_by.as_deref(), Some("expiry"));
}

#[test]
fn a_payment_between_query_and_close_is_counted_once() {
    let races = vec![race(Moment::BeforeClose, 0)];
    let mut world = world(Faults { races, ..Faults::default() });
    let asked = shown(&mut world, "asked");
    assert!(world.query(asked, at(1)).is_none(), "nobody scanned it");
    assert_eq!(world.close(asked, at(2)), Err(Refusal::Status));
    assert_eq!(world.close(asked, at(3)), Err(Refusal::Status));
    let blind = shown(&mut world, "blind");
    assert_eq!(world.close(blind, at(4)), Err(Refusal::Status));
    assert_eq!(world.totals.paid_between_query_and_close, 1);
    assert_eq!(world.totals.closes_refused_as_paid, 3);
    assert_eq!(world.totals.faults["pay@before_close"], 2);
}

#[test]
fn a_payment_after_a_missed_close_is_counted() {
    let races = vec![race(Moment::AfterCloseNotExist, 5_000)];
    let mut world = world(Faults { races, ..Faults::default() });
    let ix = shown(&mut world, "T");
    assert_eq!(world.close(ix, at(1)), Err(Refusal::NotExist));
    assert_eq!(world.run_due(at(5)), Some(at(6)));
    world.run_due(at(6));
    assert_eq!(world.totals.paid_after_close_not_exist, 1);
    let view = world.trade_view(ix).unwrap();
    assert!(view.close_missed && view.status == "TRADE_SUCCESS");
}

#[test]
fn a_late_payment_needs_a_late_buyer() {
    let late = RaceRule { late: true, ..race(Moment::AtExpiry, 1_000) };
    let races = vec![race(Moment::AtExpiry, -1_000), late];
    let mut world = world(Faults { races, ..Faults::default() });
    let early = shown(&mut world, "T1");
    world.run_due(at(99));
    assert_eq!(world.record(early).unwrap().trade.phase.trade_status(), "TRADE_SUCCESS");
    assert_eq!(world.totals.paid_after_expiry, 0);

    world.armed.replace(Faults { races: vec![race(Moment::AtExpiry, 0)], ..Faults::default() });
    let over = shown(&mut world, "T2");
    world.run_due(at(100));
    assert_eq!(world.record(over).unwrap().trade.phase.trade_status(), "INTENT");
    assert_eq!(world.totals.payments_refused, 1, "too late");

    let races = vec![RaceRule { late: true, ..race(Moment::AtExpiry, 0) }];
    world.armed.replace(Faults { races, ..Faults::default() });
    shown(&mut world, "T3");
    world.run_due(at(101));
    assert_eq!(world.totals.paid_after_expiry, 1);
    assert_eq!(world.totals.payments_refused, 2, "the late buyer of T1 finds it paid");
}

#[test]
fn lost_notices_are_drawn_by_trade_and_counted_when_they_are_lost() {
    let notices = vec![NoticeRule { fault: NoticeFault::Lost, when: When::by_chance(0.5) }];
    let mut world = world(Faults { notices, ..Faults::default() });
    for n in 0..100 {
        let ix = shown(&mut world, &format!("T{n}"));
        world.pay(ix, None, Arrival::InTime, at(1)).unwrap();
    }
    let mut lost = 0;
    for notice in world.take_fresh() {
        if notice.faults.contains(&NoticeFault::Lost) {
            world.lose(&notice, at(2));
            assert!(world.was_tried(&notice.notify_id));
            lost += 1;
        }
    }
    assert!((30..70).contains(&lost), "about half: {lost}");
    assert_eq!(world.totals.notices_lost, lost);
    assert_eq!(world.totals.faults["lost"], lost);
}

#[test]
fn a_trade_belongs_to_its_app() {
    let mut world = world(Faults::default());
    shown(&mut world, "T");
    let other = Opening { app_id: "other".into(), ..opening("T") };
    world.show(other, at(0)).unwrap();
    let of = |app| world.by_out_trade_no(Some(app), "T");
    assert_ne!(of("app"), of("other"));
    assert_eq!(of("third"), None);
    assert_eq!(world.totals.trades, 2);
}

#[test]
fn the_world_is_full_at_its_bound_and_says_so() {
    let mut world = world(Faults::default());
    for n in 0..TRADES_MAX {
        assert!(world.show(opening(&format!("T{n}")), at(0)).is_ok());
    }
    let refused = world.show(opening("one_more"), at(0)).err();
    assert_eq!(refused, Some(NotShown::Full));
    assert!(world.show(opening("T1"), at(0)).is_ok(), "a known number still works");
}

#[test]
fn the_truth_reads_as_the_snapshot() {
    let mut world = world(everything());
    let ix = shown(&mut world, "T");
    world.pay(ix, None, Arrival::InTime, at(1)).unwrap();
    world.refund(ix, ask("r1", 300), None, at(2)).unwrap();
    let lost = world.take_fresh().remove(1);
    world.lose(&lost, at(3));
    let filter = Filter { out_trade_no: None, deliveries: true };
    insta::assert_json_snapshot!(world.truth(&filter, at(4)));
}

#[test]
fn rings_forget_their_oldest_entry() {
    let mut ring = VecDeque::new();
    let forgotten = (0..10).filter(|n| keep(&mut ring, *n, 4)).count();
    assert_eq!(forgotten, 6);
    assert_eq!(ring, [6, 7, 8, 9]);
}

#[derive(Clone, Debug)]
enum Op {
    Show,
    Scan,
    Pay(bool),
    Query,
    Close,
    Cancel,
    Refund(u8, i64, bool),
    Finish,
    Expire,
}

fn any_op() -> impl Strategy<Value = (u8, Op)> {
    let op = prop_oneof![
        2 => Just(Op::Show),
        1 => Just(Op::Scan),
        3 => any::<bool>().prop_map(Op::Pay),
        1 => Just(Op::Query),
        1 => Just(Op::Close),
        1 => Just(Op::Cancel),
        4 => (0..3_u8, 1..1_200_i64, any::<bool>()).prop_map(|(n, fen, l)| Op::Refund(n, fen, l)),
        1 => Just(Op::Finish),
        1 => Just(Op::Expire),
    ];
    (0..3_u8, op)
}

fn run(world: &mut World, trade: u8, op: &Op, now: Timestamp) {
    let number = format!("T{trade}");
    if matches!(op, Op::Show) {
        world.show(opening(&number), now).ok();
    }
    let Some(ix) = world.by_out_trade_no(Some("app"), &number) else { return };
    let arrival = |late: bool| if late { Arrival::Late } else { Arrival::InTime };
    let attempt = match op {
        Op::Show => Ok(()),
        Op::Scan => world.scan(ix, None, now),
        Op::Pay(late) => world.pay(ix, None, arrival(*late), now),
        Op::Query => world.query(ix, now).map(|_| ()).ok_or(Refusal::NotExist),
        Op::Close => world.close(ix, now),
        Op::Cancel => world.change(ix, Event::Cancel, now),
        Op::Refund(n, fen, later) => {
            let wait = later.then(|| std::time::Duration::from_secs(10));
            world.refund(ix, ask(&format!("r{n}"), *fen), wait, now).map(|_| ())
        }
        Op::Finish => world.change(ix, Event::Finish, now),
        Op::Expire => world.change(ix, Event::Expire, now),
    };
    // Most random attempts are refused; the books must hold all the same.
    attempt.ok();
}

proptest! {
    #[test]
    fn totals_are_what_the_ledgers_add_up_to(
        ops in proptest::collection::vec((any_op(), 0..20_i64), 1..80)
    ) {
        let mut world = world(everything());
        let mut second = 0;
        for ((trade, op), pause) in ops {
            second += pause;
            world.run_due(at(second));
            run(&mut world, trade, &op, at(second));
        }
        world.run_due(at(second + 1_000));
        let filter = Filter { out_trade_no: None, deliveries: true };
        let truth = world.truth(&filter, at(second));
        let sum = |of: fn(&wire::Trade) -> i64| truth.trades.iter().map(of).sum::<i64>();
        prop_assert_eq!(truth.totals.money_in_fen, sum(|t| t.paid_fen));
        prop_assert_eq!(truth.totals.money_out_fen, sum(|t| t.refunded_fen));
        let refunds: u64 = truth.trades.iter().flat_map(|t| &t.refunds).map(|r| r.times).sum();
        prop_assert_eq!(truth.totals.refunds, refunds);
        for trade in &truth.trades {
            prop_assert!(trade.payments <= 1 && trade.refunded_fen <= trade.paid_fen);
            for refund in &trade.refunds {
                prop_assert!(refund.times == 1 && !refund.pending, "{:?}", refund);
            }
        }
        prop_assert_eq!(truth.totals.notices, world.letters.len() as u64);
    }
}
