//! Violations planted in books and truth that agree otherwise, and what the audit makes of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::ExitStatus,
};

use serde_json::json;
use sqlx::ConnectOptions;
use tempfile::TempDir;

use super::{check::Check, *};
use crate::init::{NewTenant, Setup};
use hapax_sim::wire::{Refund, Totals, Trade};
use hapax_storm::{Finding, Report, Rule};

/// A shop that has been open for a while.
const BOOKS: &str = include_str!("../../../tests/it/books.sql");
/// What makes it the books of a demo.
const CLEAN: &str = include_str!("clean.sql");

/// Orders in the books.
const ASKED: Asked = Asked { seed: 7, orders: 5 };

/// A violation in the books, or at the channel, and what is found.
type Plant = (&'static str, fn(&mut Truth), &'static [(Check, &'static str)]);

const PLANTS: &[Plant] = &[
    (
        "UPDATE pay_payments SET surplus = 0 WHERE payment_no = 'P1003a'",
        as_it_is,
        &[(Check::PaidTwice, "shop/1003/1")],
    ),
    (
        "DROP INDEX pay_payments_slot;
         INSERT INTO pay_payments (payment_no, tenant, order_id, round, attempt, channel, way,
             amount, currency, subject, status, version, frozen, created_at, updated_at, expires_at)
         VALUES ('P1002b', 'shop', '1002', 1, 2, 'alipay', 'code', 100, 'CNY', 'A pen', 'waiting',
             1, x'00', 1, 1, 1)",
        as_it_is,
        &[(Check::LiveTwice, "shop/1002")],
    ),
    ("", |truth| pay(truth, "P1001", 2, 2 * 8880), &[(Check::TradePaidTwice, "P1001")]),
    (
        "UPDATE pay_payments SET refunded = 0 WHERE payment_no = 'P1003a';
         DELETE FROM pay_refunds WHERE payment_no = 'P1003a'",
        |truth| refund(truth, "P1003a", &[]),
        &[(Check::PurchasePaidTwice, "shop/1003/1")],
    ),
    (
        "INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1004', 1, 'vip_day', 'revoke', 'm3', 1)",
        as_it_is,
        &[(Check::EffectTwice, "shop/1004/1 vip_day revoke")],
    ),
    (
        "INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1001', 1, 'vip_month', 'grant', 'm1', 1)",
        as_it_is,
        &[
            (Check::EffectTwice, "shop/1001/1 vip_month grant"),
            (Check::GrantedTwice, "shop/1001/1 vip_month"),
        ],
    ),
    ("", |truth| trade(truth, "P1004").refunds[0].times = 2, &[(Check::RefundedTwice, "R1004")]),
    (
        "UPDATE pay_refunds SET amount = 499 WHERE refund_no = 'R1004'",
        as_it_is,
        &[(Check::RefundDiffers, "R1004, 499 fen here and 500 there")],
    ),
    (
        "",
        |truth| {
            truth.trades.push(unpaid("P9", "1009"));
            pay(truth, "P9", 1, 1);
        },
        &[(Check::PaidUnbooked, "P9")],
    ),
    (
        "",
        |truth| truth.trades.retain(|trade| trade.out_trade_no != "P1001"),
        &[(Check::BookedUnpaid, "P1001")],
    ),
    (
        "",
        |truth| pay(truth, "P1002", 1, 100),
        &[(Check::StatusDiffers, "P1002, waiting here and TRADE_SUCCESS there")],
    ),
    (
        "",
        |truth| *trade(truth, "P1001") = unpaid("P1001", "1001"),
        &[(Check::StatusDiffers, "P1001, paid here and WAIT_BUYER_PAY there")],
    ),
    (
        "",
        |truth| pay(truth, "P1001", 1, 8881),
        &[(Check::AmountDiffers, "P1001, 8880 fen here and 8881 there")],
    ),
    (
        "",
        |truth| trade(truth, "P1001").refunded_fen = 1,
        &[(Check::RefundedDiffers, "P1001, 0 fen here and 1 there")],
    ),
    (
        "DELETE FROM pay_effects WHERE benefit = 'vip_month'",
        as_it_is,
        &[(Check::BenefitMissing, "P1001 vip_month")],
    ),
    (
        "DELETE FROM pay_effects WHERE kind = 'revoke';
         INSERT INTO pay_effects (tenant, order_id, round, benefit, kind, message_id, at)
         VALUES ('shop', '1005', 1, 'vip_day', 'revoke', 'm5', 1)",
        as_it_is,
        &[(Check::BenefitWithoutMoney, "shop/1004/1 vip_day")],
    ),
    (
        "UPDATE pay_payments SET status = 'paid', surplus = 1, given_back = 699
         WHERE payment_no = 'P1005'",
        |truth| pay(truth, "P1005", 1, 700),
        &[(Check::SurplusKept, "P1005")],
    ),
    (
        "INSERT INTO pay_refunds (tenant, refund_no, payment_no, amount, currency, reason, origin,
             status, version, created_at)
         VALUES ('shop', 'R1001', 'P1001', 1, 'CNY', '', 'merchant', 'reserved', 1, 1)",
        as_it_is,
        &[(Check::RefundOpen, "shop/R1001")],
    ),
    (
        "INSERT INTO pay_refunds (tenant, refund_no, payment_no, amount, currency, reason, origin,
             status, version, created_at)
         VALUES ('shop', 'R1001', 'P1001', 1, 'CNY', '', 'merchant', 'sent', 2, 1)",
        as_it_is,
        &[(Check::RefundOpen, "shop/R1001")],
    ),
    (
        "UPDATE pay_payments SET status = 'created' WHERE payment_no = 'P1002'",
        as_it_is,
        &[(Check::PaymentOpen, "P1002")],
    ),
    (
        "UPDATE pay_payments SET status = 'closing' WHERE payment_no = 'P1002'",
        as_it_is,
        &[(Check::PaymentOpen, "P1002")],
    ),
    (
        "UPDATE pay_benefits SET status = 'due' WHERE benefit = 'vip_month'",
        as_it_is,
        &[(Check::BenefitOpen, "shop/1001/1 vip_month")],
    ),
    (
        "UPDATE pay_benefits SET status = 'revoke_due' WHERE benefit = 'vip_day'",
        as_it_is,
        &[(Check::BenefitOpen, "shop/1004/1 vip_day")],
    ),
    (
        "INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
         VALUES (x'0F0E0D0C0B0A09080706050403020100', 'merchant.notice', '', x'', 1, 0, 1)",
        as_it_is,
        &[(Check::MessageWaits, "merchant.notice 0f0e0d0c0b0a09080706050403020100")],
    ),
    (
        "INSERT INTO hapax_outbox (id, topic, key_text, payload, visible_at, attempts, created_at)
         VALUES (x'0F0E0D0C0B0A09080706050403020100', 'merchant.notice', '', x'', NULL, 12, 1)",
        as_it_is,
        &[(Check::MessageBuried, "merchant.notice 0f0e0d0c0b0a09080706050403020100")],
    ),
    (
        "UPDATE hapax_records SET state = 1 WHERE key_text = 'order-1001'",
        as_it_is,
        &[(
            Check::RecordUnfinished,
            "payment.create 1d2d56b77bba71e40060014c9a2ab5ac412fbe2e4ec43b67eb95bdbb85e34cd4",
        )],
    ),
    (
        "UPDATE hapax_records SET state = 3 WHERE key_text = 'order-1001'",
        as_it_is,
        &[(
            Check::RecordUnfinished,
            "payment.create 1d2d56b77bba71e40060014c9a2ab5ac412fbe2e4ec43b67eb95bdbb85e34cd4",
        )],
    ),
    ("", |truth| truth.totals.hostile_acked = 3, &[(Check::ForgedAccepted, "3")]),
];

/// What keeps a kind of trouble from having happened, and how that is told.
const CALM: &[(&str, fn(&mut Truth), &str)] = &[
    (
        "PRAGMA foreign_keys = OFF;
         DELETE FROM pay_payments WHERE order_id = '1005';
         DELETE FROM pay_orders WHERE order_id = '1005'",
        as_it_is,
        "every order",
    ),
    ("", |truth| truth.totals.duplicate_deliveries = 0, "repeated callbacks"),
    ("", |truth| truth.totals.notices_lost = 0, "lost callbacks"),
    ("", |truth| truth.totals.closes_refused_as_paid = 0, "close races"),
    (
        "",
        |truth| {
            truth.totals.paid_after_expiry = 0;
            truth.totals.paid_after_close_not_exist = 0;
        },
        "late payments",
    ),
    (
        "",
        |truth| {
            let refunds = truth.trades.iter_mut().flat_map(|trade| &mut trade.refunds);
            refunds.for_each(|refund| refund.times = 0);
        },
        "refunds",
    ),
    (
        "UPDATE pay_orders SET benefits = '[]' WHERE order_id = '1004';
         DELETE FROM pay_effects WHERE order_id = '1004'",
        as_it_is,
        "revoked benefits",
    ),
    ("UPDATE pay_requests SET is_replay = 0", as_it_is, "replays"),
    ("", |truth| truth.totals.faults.clear(), "broken calls"),
    ("", |truth| truth.totals.hostile = 0, "forged callbacks"),
    ("UPDATE pay_runs SET stopped_at = 1 WHERE seq = 1", as_it_is, "kills"),
];

fn as_it_is(_: &mut Truth) {}

fn unpaid(no: &str, app: &str) -> Trade {
    let trade = json!({
        "app_id": app, "out_trade_no": no, "trade_no": null, "product": "precreate",
        "status": "WAIT_BUYER_PAY", "closed_by": null, "total_fen": 1, "buyer_id": null,
        "expires_at_ms": 1, "paid_fen": 0, "payments": 0, "refunded_fen": 0, "refunds": [],
        "paid_late": false, "close_missed": false, "page": "", "movements": [],
    });
    serde_json::from_value(trade).unwrap()
}

fn trade<'a>(truth: &'a mut Truth, no: &str) -> &'a mut Trade {
    truth.trades.iter_mut().find(|trade| trade.out_trade_no == no).unwrap()
}

fn pay(truth: &mut Truth, no: &str, times: u64, fen: i64) {
    let trade = trade(truth, no);
    "TRADE_SUCCESS".clone_into(&mut trade.status);
    (trade.payments, trade.paid_fen) = (times, fen);
}

fn refund(truth: &mut Truth, no: &str, refunds: &[(&str, i64)]) {
    let trade = trade(truth, no);
    trade.refunded_fen = refunds.iter().map(|(_, fen)| fen).sum();
    let made = |(number, fen): &(&str, i64)| Refund {
        out_request_no: (*number).to_owned(),
        refunded_fen: *fen,
        times: 1,
        pending: false,
    };
    trade.refunds = refunds.iter().map(made).collect();
}

/// What really happened to the orders of the books, with every kind of trouble.
fn truth() -> Truth {
    let totals = Totals {
        deliveries: 9,
        duplicate_deliveries: 1,
        notices_lost: 1,
        closes_refused_as_paid: 1,
        paid_after_expiry: 1,
        paid_after_close_not_exist: 1,
        hostile: 1,
        faults: BTreeMap::from([("broken".to_owned(), 1)]),
        ..Totals::default()
    };
    let numbers = ["P1001", "P1002", "P1003a", "P1003b", "P1004", "P1005"];
    let mut truth = Truth {
        now_ms: 1,
        seed: ASKED.seed,
        totals,
        trades: numbers.map(|no| unpaid(no, "1")).into(),
        deliveries: Vec::new(),
        deliveries_forgotten: 0,
    };
    pay(&mut truth, "P1001", 1, 8880);
    pay(&mut truth, "P1003a", 1, 2000);
    refund(&mut truth, "P1003a", &[("auto_P1003a", 2000)]);
    pay(&mut truth, "P1003b", 1, 2000);
    pay(&mut truth, "P1004", 1, 500);
    refund(&mut truth, "P1004", &[("R1004", 500)]);
    truth
}

/// Books that agree with the truth, to be spoiled in copies.
struct Shelf {
    home: TempDir,
    file: PathBuf,
}

impl Shelf {
    /// The tables as the service itself makes them, without a line.
    async fn empty() -> Self {
        let home = tempfile::tempdir().unwrap();
        let tenants = [NewTenant { name: "shop".to_owned(), notice_url: None }];
        let setup = Setup { directory: home.path(), tenants: &tenants, is_dev: true };
        let config = crate::init::make(&setup).unwrap();
        hapax_pay::operator::migrate(&config).await.unwrap();
        let file = config.sqlite_file().unwrap();
        Self { home, file }
    }

    async fn clean() -> Self {
        let shelf = Self::empty().await;
        let mut books = connect(&shelf.file).await;
        sqlx::raw_sql(BOOKS).execute(&mut books).await.unwrap();
        sqlx::raw_sql(CLEAN).execute(&mut books).await.unwrap();
        books.close().await.unwrap();
        shelf
    }

    async fn audit(&self, spoil: &'static str, truth: &Truth) -> Account {
        let copy = self.home.path().join("copy.db");
        std::fs::copy(&self.file, &copy).unwrap();
        let mut books = connect(&copy).await;
        sqlx::raw_sql(spoil).execute(&mut books).await.unwrap();
        let account = recount(&mut books, truth, ASKED).await.unwrap();
        books.close().await.unwrap();
        account
    }
}

async fn connect(file: &std::path::Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

/// The figures that must be 0.
fn must_be_zero(account: &Account) -> [(Figure, u64); 6] {
    [
        (Figure::DuplicatePayments, account.duplicate_payments),
        (Figure::DuplicateEffects, account.duplicate_effects),
        (Figure::DuplicateBenefits, account.duplicate_benefits),
        (Figure::DuplicateRefunds, account.duplicate_refunds),
        (Figure::Lost, account.lost),
        (Figure::ForgedAccepted, account.forged_accepted),
    ]
}

#[tokio::test]
async fn books_that_agree_with_the_truth_pass() {
    let account = Shelf::clean().await.audit("", &truth()).await;
    assert_eq!(account.verdict, Verdict::Pass, "{account:?}");
    assert!(account.wrong.is_empty() && account.missing.is_empty(), "{account:?}");
    assert_eq!(must_be_zero(&account).map(|(_, count)| count), [0; 6]);
    assert_eq!((account.orders, account.payments, account.paid_here), (5, 6, 4));
    assert_eq!((account.paid_at_channel, account.refunds, account.surplus), (4, 2, 1));
}

#[tokio::test]
async fn each_planted_violation_fails_as_what_it_is_and_nothing_else() {
    let shelf = Shelf::clean().await;
    for (spoil, change, found) in PLANTS {
        let mut truth = truth();
        change(&mut truth);
        let account = shelf.audit(spoil, &truth).await;
        let sentence = |(check, evidence): &(Check, &str)| format!("{}: {evidence}", check.words());
        assert_eq!(account.wrong, found.iter().map(sentence).collect::<Vec<_>>(), "{spoil}");
        assert_eq!((account.verdict, &account.missing), (Verdict::Fail, &Vec::new()), "{found:?}");
        for (figure, count) in must_be_zero(&account) {
            let counted = found.iter().filter(|(check, _)| check.figure() == figure).count();
            assert_eq!(count > 0, counted > 0, "{figure:?} after {found:?}");
        }
    }
}

#[test]
fn every_kind_of_finding_is_planted() {
    let planted = PLANTS.iter().flat_map(|(.., found)| found.iter().map(|(check, _)| *check));
    let planted: BTreeSet<usize> = planted.map(|check| check as usize).collect();
    // The last variant: a check that is added behind it must be planted too.
    assert_eq!(planted, (0..=Check::ForgedAccepted as usize).collect());
}

#[tokio::test]
async fn trouble_that_did_not_happen_makes_a_run_void() {
    let shelf = Shelf::clean().await;
    for (spoil, change, what) in CALM {
        let mut truth = truth();
        change(&mut truth);
        if *what == "every order" {
            truth.trades.retain(|trade| trade.out_trade_no != "P1005");
        }
        let account = shelf.audit(spoil, &truth).await;
        assert_eq!(account.missing, [*what], "{account:?}");
        assert_eq!((account.verdict, &account.wrong), (Verdict::Void, &Vec::new()), "{what}");
    }
}

#[tokio::test]
async fn a_run_in_which_nothing_happened_misses_everything() {
    let mut nothing = truth();
    (nothing.totals, nothing.trades) = (Totals::default(), Vec::new());
    let account = Shelf::empty().await.audit("", &nothing).await;
    assert_eq!(account.missing, CALM.iter().map(|(.., what)| *what).collect::<Vec<_>>());
    assert_eq!(account.verdict, Verdict::Void);
}

fn report(verdict: hapax_storm::Verdict, findings: Vec<Finding>) -> Report {
    Report {
        seed: ASKED.seed,
        verdict,
        orders: ASKED.orders,
        orders_ended: ASKED.orders,
        stories: BTreeMap::new(),
        rules: Vec::new(),
        findings,
        findings_left_out: 0,
        counts: hapax_storm::Counts::default(),
        notices: hapax_storm::NoticeCounts::default(),
        latency: BTreeMap::new(),
        took_ms: 1,
    }
}

#[tokio::test]
async fn an_attack_that_did_not_end_makes_a_run_void() {
    let mut account = Shelf::clean().await.audit("", &truth()).await;
    account.add_findings(&report(hapax_storm::Verdict::Held, Vec::new()));
    account.add_stop(Some(ExitStatus::from_raw(0)));
    assert_eq!(account.verdict, Verdict::Pass);
    account.add_findings(&report(hapax_storm::Verdict::Unfinished, Vec::new()));
    assert_eq!(account.verdict, Verdict::Void);
    assert_eq!(account.missing, ["the end of the attack"]);
}

#[tokio::test]
async fn what_the_attacker_found_fails_a_run_even_if_it_is_void() {
    let finding = Finding {
        rule: Rule::PaidStays,
        tenant: "shop".to_owned(),
        order_id: "1001".to_owned(),
        evidence: "P1001 is closed".to_owned(),
    };
    let mut account = Shelf::clean().await.audit("", &truth()).await;
    account.add_findings(&report(hapax_storm::Verdict::Broken, vec![finding]));
    account.add_findings(&report(hapax_storm::Verdict::Unfinished, Vec::new()));
    assert_eq!(account.verdict, Verdict::Fail);
    assert_eq!(account.wrong, ["it does not hold that a paid payment stays paid: P1001 is closed"]);
}

#[tokio::test]
async fn a_service_that_does_not_stop_in_order_fails_a_run() {
    let shelf = Shelf::clean().await;
    for ended in [None, Some(ExitStatus::from_raw(9)), Some(ExitStatus::from_raw(256))] {
        let mut account = shelf.audit("", &truth()).await;
        account.add_stop(ended);
        assert_eq!(account.verdict, Verdict::Fail, "{ended:?}");
    }
}
