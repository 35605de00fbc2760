use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const BEFORE: i64 = 50;
const AFTER: i64 = 200;

fn terms(fen: i64) -> Terms {
    Terms {
        total: Fen::new(fen),
        subject: "tea".to_owned(),
        body: None,
        scan_until: at(100),
        expires_at: at(100),
    }
}

fn pay(arrival: Arrival, product: Refundability) -> Event {
    Event::Pay { buyer: "b1".to_owned(), arrival, product }
}

fn paid_in_time() -> Event {
    pay(Arrival::InTime, Refundability::Refundable)
}

fn refund(request_no: Option<&str>, fen: i64, pace: Pace) -> Event {
    Event::Refund(Ask {
        request_no: request_no.map(str::to_owned),
        fallback_no: "T1".to_owned(),
        amount: Fen::new(fen),
        pace,
    })
}

fn scan(buyer: &str) -> Event {
    Event::Scan { buyer: buyer.to_owned() }
}

/// A trade of 1.00 yuan after the events.
fn after(events: Vec<Event>) -> Trade {
    let mut trade = Trade::open(terms(100));
    for event in events {
        let step = trade.apply(event.clone(), at(BEFORE));
        assert_eq!(step.verdict, Ok(()), "the arrangement holds: {event:?}");
    }
    trade
}

fn phases() -> Vec<(&'static str, Trade)> {
    let success = || vec![paid_in_time()];
    let with = |mut events: Vec<Event>, more: Event| {
        events.push(more);
        events
    };
    vec![
        ("intent", after(vec![])),
        ("waiting", after(vec![scan("b1")])),
        ("success", after(success())),
        ("part refunded", after(with(success(), refund(Some("r1"), 30, Pace::Now)))),
        ("refund pending", after(with(success(), refund(Some("r1"), 30, Pace::Later)))),
        ("finished", after(with(success(), Event::Finish))),
        ("closed by close", after(vec![scan("b1"), Event::Close])),
        ("closed by cancel", after(vec![scan("b1"), Event::Cancel])),
        ("closed by expiry", after(vec![scan("b1"), Event::Expire])),
        ("closed by refund", after(with(success(), refund(Some("r1"), 100, Pace::Now)))),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    vec![
        ("present same", Event::Present(terms(100))),
        ("present other amount", Event::Present(terms(101))),
        ("scan by b1", scan("b1")),
        ("scan by b2", scan("b2")),
        ("pay", paid_in_time()),
        ("pay late", pay(Arrival::Late, Refundability::Refundable)),
        ("pay, not refundable", pay(Arrival::InTime, Refundability::Final)),
        ("close", Event::Close),
        ("cancel", Event::Cancel),
        ("refund r1 0.30", refund(Some("r1"), 30, Pace::Now)),
        ("refund r1 0.31", refund(Some("r1"), 31, Pace::Now)),
        ("refund r2 0.70", refund(Some("r2"), 70, Pace::Now)),
        ("refund r2 0.71", refund(Some("r2"), 71, Pace::Now)),
        ("refund r2 0.70 later", refund(Some("r2"), 70, Pace::Later)),
        ("refund all, no number", refund(None, 100, Pace::Now)),
        ("refund 0.30, no number", refund(None, 30, Pace::Now)),
        ("settle r1", Event::Settle { request_no: "r1".to_owned() }),
        ("finish", Event::Finish),
        ("expire", Event::Expire),
        ("tick", Event::Tick),
    ]
}

/// What the trade answers to every event, one line each.
fn answers(trade: &Trade, now: Timestamp) -> String {
    let mut lines = String::new();
    for (name, event) in events() {
        let mut changed = trade.clone();
        let step = changed.apply(event, now);
        if step.verdict.is_err() && step.facts.is_empty() {
            assert_eq!(changed, *trade, "a refused event changes nothing: {name}");
        }
        let verdict = match step.verdict {
            Ok(()) => "ok".to_owned(),
            Err(refusal) => format!("refused: {refusal:?}"),
        };
        let facts: Vec<_> = step.facts.iter().map(|fact| format!("{fact:?}")).collect();
        let line = format!("{name:22} -> {:?} | {verdict} | {}", changed.phase, facts.join(", "));
        writeln!(lines, "{}", line.trim_end_matches([' ', '|'])).unwrap();
    }
    lines
}

#[test]
fn every_phase_answers_every_event() {
    let mut table = String::new();
    for (phase, trade) in phases() {
        let in_time = answers(&trade, at(BEFORE));
        write!(table, "\n== {phase}\n{in_time}").unwrap();
        let overdue = answers(&trade, at(AFTER));
        if matches!(trade.phase, Phase::Intent | Phase::Waiting) {
            write!(table, "\n== {phase}, overdue\n{overdue}").unwrap();
        } else {
            assert_eq!(overdue, in_time, "only unpaid trades look at the clock: {phase}");
        }
    }
    insta::assert_snapshot!(table.trim_start());
}

#[test]
fn a_number_has_a_bounded_count_of_refunds() {
    let mut trade = Trade::open(terms(100_000));
    assert_eq!(trade.apply(paid_in_time(), at(1)).verdict, Ok(()));
    for n in 0..REFUNDS_MAX {
        let step = trade.apply(refund(Some(&format!("r{n}")), 1, Pace::Now), at(2));
        assert_eq!(step.verdict, Ok(()));
    }
    let step = trade.apply(refund(Some("one more"), 1, Pace::Now), at(2));
    assert_eq!(step.verdict, Err(Refusal::TooManyRefunds));
}

#[test]
fn a_late_payment_is_marked_late() {
    let mut trade = Trade::open(terms(100));
    let late = pay(Arrival::Late, Refundability::Refundable);
    let step = trade.apply(late, at(AFTER));
    assert_eq!(step.facts, vec![Fact::Scanned, Fact::Paid { late: true }]);
}

fn any_event() -> impl Strategy<Value = Event> {
    let events: Vec<Event> = events().into_iter().map(|(_, event)| event).collect();
    prop_oneof![
        4 => proptest::sample::select(events),
        1 => (0..4_u8, 1..120_i64, any::<bool>()).prop_map(|(number, fen, later)| {
            let pace = if later { Pace::Later } else { Pace::Now };
            refund(Some(&format!("r{number}")), fen, pace)
        }),
        1 => (0..4_u8).prop_map(|n| Event::Settle { request_no: format!("r{n}") }),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_events_breaks_the_books(
        steps in proptest::collection::vec((any_event(), 0..8_i64), 1..40)
    ) {
        let mut trade = Trade::open(terms(100));
        let (mut second, mut paid, mut refunded, mut unpaid_close) = (0, 0, Fen::ZERO, false);
        for (event, pause) in steps {
            second += pause;
            for fact in trade.apply(event, at(second)).facts {
                match fact {
                    Fact::Paid { .. } => {
                        paid += 1;
                        prop_assert!(!unpaid_close, "a closed unpaid trade was paid");
                    }
                    Fact::Refunded { amount, .. } => refunded = refunded.plus(amount),
                    Fact::Closed(Ending::Refund) => prop_assert_eq!(refunded, Fen::new(100)),
                    Fact::Closed(_) => unpaid_close = true,
                    Fact::Repriced => trade.terms.total = Fen::new(100),
                    Fact::Scanned | Fact::Finished | Fact::RefundAccepted { .. } => {}
                }
            }
            prop_assert!(paid <= 1, "paid twice");
            prop_assert!(refunded.as_i64() <= paid * 100, "more went out than came in");
            prop_assert_eq!(trade.refunded(), refunded);
            prop_assert_eq!(trade.phase.is_paid() || trade.phase == Phase::Closed(Ending::Refund),
                paid == 1);
        }
    }
}
