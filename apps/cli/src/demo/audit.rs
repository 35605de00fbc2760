//! The audit: the service's books against what really happened at the channel.
//!
//! It shares no code with the service: it reads the database with statements of its own and asks
//! the simulator for the truth. Effects are counted in a ledger without unique constraints, so
//! that a duplicate is seen instead of hidden.

use std::{collections::BTreeMap, process::ExitStatus};

use anyhow::Context;
use serde::Serialize;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use super::stage::Stage;
use hapax_sim::wire::{Totals, Truth};

/// What a run proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// Nothing was duplicated and nothing was lost, and every kind of trouble happened.
    Pass,
    /// Something was duplicated or lost.
    Fail,
    /// Some kind of trouble did not happen.
    Void,
}

/// The account of a run. Each figure says where it was counted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Account {
    /// Orders in the database.
    orders: i64,
    /// Requests to create a payment, in the service's journal of requests; what a kill caught in
    /// memory is missing.
    submits: i64,
    /// Requests that were answered with an earlier answer, in the same journal.
    replays: i64,
    /// Attempts in the database.
    payments: i64,
    /// Purchases for which the channel kept more than one payment, or that two attempts pay.
    duplicate_payments: i64,
    /// Genuine callbacks that the channel sent.
    callbacks: u64,
    /// Of these, repeats of an event that was sent before.
    repeated_callbacks: u64,
    /// Lines too many in the ledger of effects.
    duplicate_effects: i64,
    /// Trades that were paid at the channel.
    paid_at_channel: i64,
    /// Attempts that are paid in the database.
    paid_here: i64,
    /// Benefits in the database.
    benefits: i64,
    /// Benefits that were granted more than once, by the ledger.
    duplicate_benefits: i64,
    /// Benefits that were taken away, by the ledger.
    benefits_revoked: i64,
    /// Refunds that the channel made.
    refunds: i64,
    /// Refund numbers under which the channel paid more than once, or more than was asked for.
    duplicate_refunds: i64,
    /// Paid and not booked, booked and not paid, refunded on one side only, money without its
    /// benefit, or still under way.
    lost: i64,
    /// Callbacks that the channel never sent.
    lost_callbacks: u64,
    /// Buyers who paid between a question and the close.
    close_races: u64,
    /// Buyers who paid after the time was over, or after a close found nothing.
    late_payments: u64,
    /// Money that came late or twice and went back.
    surplus: i64,
    /// Calls that the channel broke on purpose.
    broken_calls: u64,
    /// Forged callbacks that the channel's attacker sent.
    forged_callbacks: u64,
    /// Of these, the ones that the service acknowledged.
    forged_accepted: u64,
    /// Starts of the service that were never stopped in order, but the last.
    kills: i64,
    /// Decides the workload.
    seed: u64,
    /// What is wrong, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wrong: Vec<String>,
    /// What did not happen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    /// The whole in one word.
    pub(super) verdict: Verdict,
}

impl Account {
    /// Adds what the attacker found in the answers themselves.
    pub(super) fn hear(&mut self, report: &hapax_storm::Report) {
        for finding in &report.findings {
            let promise = finding.rule.promise();
            self.wrong.push(format!("{promise}: {}", finding.evidence));
        }
        if !report.findings.is_empty() {
            self.verdict = Verdict::Fail;
        }
    }

    /// Adds how the service ended when it was told to stop.
    pub(super) fn stop(&mut self, ended: Option<ExitStatus>) {
        if !ended.is_some_and(|status| status.success()) {
            self.wrong.push("the service did not stop in order".to_owned());
            self.verdict = Verdict::Fail;
        }
    }
}

/// Whether something is still under way.
pub(super) async fn is_busy(stage: &Stage) -> anyhow::Result<bool> {
    let mut books = open(stage).await?;
    let busy = count(&mut books, UNDER_WAY).await?;
    books.close().await?;
    Ok(busy > 0)
}

/// Audits the books.
pub(super) async fn audit(stage: &Stage, seed: u64) -> anyhow::Result<Account> {
    let truth = truth(stage).await?;
    let mut books = open(stage).await?;
    let mut wrong = Vec::new();
    let compared = compare(&mut books, &truth, &mut wrong).await?;
    let mut account = Account {
        orders: count(&mut books, ORDERS).await?,
        submits: count(&mut books, SUBMITS).await?,
        replays: count(&mut books, REPLAYS).await?,
        payments: count(&mut books, PAYMENTS).await?,
        duplicate_payments: compared.duplicate_payments
            + count(&mut books, PAID_TWICE).await?
            + count(&mut books, LIVE_TWICE).await?,
        callbacks: truth.totals.deliveries,
        repeated_callbacks: truth.totals.duplicate_deliveries,
        duplicate_effects: count(&mut books, EFFECTS_TOO_MANY).await?,
        paid_at_channel: compared.paid_at_channel,
        paid_here: count(&mut books, PAID_HERE).await?,
        benefits: count(&mut books, BENEFITS).await?,
        duplicate_benefits: count(&mut books, GRANTED_TWICE).await?,
        benefits_revoked: count(&mut books, REVOKED).await?,
        refunds: compared.refunds,
        duplicate_refunds: compared.duplicate_refunds,
        lost: compared.lost
            + count(&mut books, BENEFITS_MISSING).await?
            + count(&mut books, BENEFITS_WITHOUT_MONEY).await?
            + count(&mut books, UNDER_WAY).await?,
        lost_callbacks: truth.totals.notices_lost,
        close_races: truth.totals.closes_refused_as_paid,
        late_payments: truth.totals.paid_after_expiry + truth.totals.paid_after_close_not_exist,
        surplus: count(&mut books, SURPLUS).await?,
        broken_calls: broken_calls(&truth.totals),
        forged_callbacks: truth.totals.hostile,
        forged_accepted: truth.totals.hostile_acked,
        kills: count(&mut books, KILLS).await?,
        seed,
        wrong,
        missing: Vec::new(),
        verdict: Verdict::Pass,
    };
    books.close().await?;
    judge(&mut account);
    Ok(account)
}

fn judge(account: &mut Account) {
    let happened = [
        ("repeated callbacks", account.repeated_callbacks > 0),
        ("lost callbacks", account.lost_callbacks > 0),
        ("close races", account.close_races > 0),
        ("late payments", account.late_payments > 0),
        ("refunds", account.refunds > 0),
        ("revoked benefits", account.benefits_revoked > 0),
        ("replays", account.replays > 0),
        ("broken calls", account.broken_calls > 0),
        ("forged callbacks", account.forged_callbacks > 0),
        ("kills", account.kills > 0),
    ];
    let missing = happened.iter().filter(|(_, happened)| !happened);
    account.missing = missing.map(|(what, _)| (*what).to_owned()).collect();
    let too_many = account.duplicate_payments
        + account.duplicate_effects
        + account.duplicate_benefits
        + account.duplicate_refunds;
    let is_broken = too_many > 0
        || account.lost > 0
        || account.forged_accepted > 0
        || !account.wrong.is_empty();
    account.verdict = if is_broken {
        Verdict::Fail
    } else if account.missing.is_empty() {
        Verdict::Pass
    } else {
        Verdict::Void
    };
}

fn broken_calls(totals: &Totals) -> u64 {
    totals.faults.values().sum()
}

/// What only both sides together tell.
#[derive(Default)]
struct Compared {
    paid_at_channel: i64,
    refunds: i64,
    duplicate_payments: i64,
    duplicate_refunds: i64,
    lost: i64,
}

/// A payment as the service's books have it.
struct Booked {
    purchase: (String, String, i64),
    status: String,
    amount_fen: i64,
    refunded_fen: i64,
    refunds: BTreeMap<String, i64>,
}

/// Holds every trade against its payment, both ways.
async fn compare(
    books: &mut SqliteConnection,
    truth: &Truth,
    wrong: &mut Vec<String>,
) -> anyhow::Result<Compared> {
    let mut booked = booked(books).await?;
    let mut compared = Compared::default();
    let mut kept: BTreeMap<(String, String, i64), i64> = BTreeMap::new();
    for trade in &truth.trades {
        let no = &trade.out_trade_no;
        let is_paid = trade.paid_fen > 0;
        compared.paid_at_channel += i64::from(is_paid);
        for refund in &trade.refunds {
            compared.refunds += i64::from(refund.times > 0);
            compared.duplicate_refunds += i64::from(refund.times > 1);
        }
        let Some(payment) = booked.remove(no) else {
            // A code that was made for an attempt whose transaction did not survive a kill.
            if is_paid {
                wrong.push(format!("{no} is paid at the channel and not in the books"));
                compared.lost += 1;
            }
            continue;
        };
        if is_paid != (payment.status == "paid") {
            wrong.push(format!("{no} is {} here and {} there", payment.status, trade.status));
            compared.lost += 1;
        }
        if is_paid && (trade.paid_fen != payment.amount_fen || trade.payments != 1) {
            wrong.push(format!("{no} was paid {} times there", trade.payments));
            compared.duplicate_payments += 1;
        }
        if trade.refunded_fen != payment.refunded_fen {
            let (here, there) = (payment.refunded_fen, trade.refunded_fen);
            wrong.push(format!("{no}: {here} fen went back here and {there} there"));
            compared.lost += 1;
        }
        for refund in &trade.refunds {
            let here = payment.refunds.get(&refund.out_request_no).copied().unwrap_or_default();
            if refund.refunded_fen > 0 && refund.refunded_fen != here {
                let number = &refund.out_request_no;
                wrong.push(format!("{number}: {here} fen here, {} there", refund.refunded_fen));
                compared.duplicate_refunds += 1;
            }
        }
        if trade.paid_fen > trade.refunded_fen {
            *kept.entry(payment.purchase).or_default() += 1;
        }
    }
    for (no, payment) in booked {
        if payment.status == "paid" {
            wrong.push(format!("{no} is paid here and unknown there"));
            compared.lost += 1;
        }
    }
    for ((tenant, order, round), trades) in kept {
        if trades > 1 {
            wrong.push(format!("{tenant}/{order}/{round} was paid for by {trades} trades"));
            compared.duplicate_payments += trades - 1;
        }
    }
    Ok(compared)
}

async fn booked(books: &mut SqliteConnection) -> anyhow::Result<BTreeMap<String, Booked>> {
    let mut booked = BTreeMap::new();
    for row in sqlx::query(BOOKED).fetch_all(&mut *books).await? {
        let payment = Booked {
            purchase: (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?),
            status: row.try_get(4)?,
            amount_fen: row.try_get(5)?,
            refunded_fen: row.try_get(6)?,
            refunds: BTreeMap::new(),
        };
        booked.insert(row.try_get::<String, _>(0)?, payment);
    }
    for row in sqlx::query(BOOKED_REFUNDS).fetch_all(&mut *books).await? {
        let no: String = row.try_get(0)?;
        if let Some(payment) = booked.get_mut(&no) {
            payment.refunds.insert(row.try_get(1)?, row.try_get(2)?);
        }
    }
    Ok(booked)
}

async fn truth(stage: &Stage) -> anyhow::Result<Truth> {
    let url = format!("{}/_sim/truth?deliveries=false", stage.simulator());
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(url).send().await?.error_for_status()?;
    answer.json().await.context("the simulator's truth cannot be read")
}

async fn open(stage: &Stage) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(stage.database()?).read_only(true);
    SqliteConnection::connect_with(&options).await.context("the books cannot be opened")
}

async fn count(books: &mut SqliteConnection, statement: &'static str) -> anyhow::Result<i64> {
    Ok(sqlx::query(statement).fetch_one(books).await?.try_get(0)?)
}

const ORDERS: &str = "SELECT count(*) FROM (SELECT DISTINCT tenant, order_id FROM pay_orders)";

const SUBMITS: &str = "SELECT count(*) FROM pay_requests";

const REPLAYS: &str = "SELECT count(*) FROM pay_requests WHERE is_replay = 1";

const PAYMENTS: &str = "SELECT count(*) FROM pay_payments";

const PAID_HERE: &str = "SELECT count(*) FROM pay_payments WHERE status = 'paid'";

const SURPLUS: &str = "SELECT count(*) FROM pay_payments WHERE surplus = 1";

/// A start that was never stopped in order was killed, unless it is the one that runs.
const KILLS: &str = "\
SELECT count(*)
FROM pay_runs
WHERE stopped_at IS NULL AND seq < (SELECT max(seq) FROM pay_runs)";

const BENEFITS: &str = "SELECT count(*) FROM pay_benefits";

const REVOKED: &str = "SELECT count(*) FROM pay_effects WHERE kind = 'revoke'";

const PAID_TWICE: &str = "\
SELECT count(*) FROM (
    SELECT 1 FROM pay_payments
    WHERE status = 'paid' AND surplus = 0
    GROUP BY tenant, order_id, round
    HAVING count(*) > 1
)";

const LIVE_TWICE: &str = "\
SELECT count(*) FROM (
    SELECT 1 FROM pay_payments
    WHERE status IN ('created', 'waiting', 'closing')
    GROUP BY tenant, order_id
    HAVING count(*) > 1
)";

const GRANTED_TWICE: &str = "\
SELECT count(*) FROM (
    SELECT 1 FROM pay_effects
    WHERE kind = 'grant'
    GROUP BY tenant, order_id, round, benefit
    HAVING count(*) > 1
)";

const EFFECTS_TOO_MANY: &str = "\
SELECT coalesce(sum(lines - 1), 0) FROM (
    SELECT count(*) AS lines FROM pay_effects
    GROUP BY tenant, order_id, round, benefit, kind
)";

/// Money that was kept, without what it bought.
const BENEFITS_MISSING: &str = "\
SELECT count(*)
FROM pay_payments p
JOIN pay_orders o ON o.tenant = p.tenant AND o.order_id = p.order_id AND o.round = p.round
JOIN json_each(o.benefits) promised
WHERE p.status = 'paid' AND p.surplus = 0 AND p.refunded < p.amount
    AND 1 <> (
        SELECT coalesce(sum(CASE e.kind WHEN 'grant' THEN 1 ELSE -1 END), 0)
        FROM pay_effects e
        WHERE e.tenant = p.tenant AND e.order_id = p.order_id AND e.round = p.round
            AND e.benefit = promised.value
    )";

/// What was given and not taken back, without money that was kept for it.
const BENEFITS_WITHOUT_MONEY: &str = "\
SELECT count(*) FROM (
    SELECT e.tenant, e.order_id, e.round, e.benefit
    FROM pay_effects e
    GROUP BY e.tenant, e.order_id, e.round, e.benefit
    HAVING sum(CASE e.kind WHEN 'grant' THEN 1 ELSE -1 END) > 0
        AND NOT EXISTS (
            SELECT 1 FROM pay_payments p
            WHERE p.tenant = e.tenant AND p.order_id = e.order_id AND p.round = e.round
                AND p.status = 'paid' AND p.surplus = 0 AND p.refunded < p.amount
        )
)";

/// Refunds without an end, closes without an end, benefits without an end, messages that wait.
const UNDER_WAY: &str = "\
SELECT
    (SELECT count(*) FROM pay_refunds WHERE status IN ('reserved', 'sent'))
    + (SELECT count(*) FROM pay_payments WHERE status IN ('created', 'closing'))
    + (SELECT count(*) FROM pay_benefits WHERE status IN ('due', 'revoke_due'))
    + (SELECT count(*) FROM hapax_outbox WHERE visible_at IS NOT NULL)";

const BOOKED: &str = "\
SELECT payment_no, tenant, order_id, round, status, amount, refunded
FROM pay_payments";

const BOOKED_REFUNDS: &str = "\
SELECT payment_no, refund_no, amount
FROM pay_refunds
WHERE status = 'done'";
