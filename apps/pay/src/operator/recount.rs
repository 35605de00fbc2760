//! Checks of records that need to look inside: what SQL cannot compute.

use super::verify::{Broken, EXAMPLES_MAX};
use crate::{
    db::{
        Conn,
        checks::{Promise, Stored, page, unknown_payments},
    },
    error::Error,
    service::CREATE_OPERATION,
};
use hapax::{Identity, OperationName, Outcome, Scope, http::StoredAnswer};

/// Records of one page.
const PAGE_ROWS: u16 = 1000;
/// Digits of an id that name it in an example.
const SHOWN_DIGITS: usize = 16;

/// What must hold for each record.
#[derive(Debug)]
pub(super) struct Recount {
    misplaced: Finding,
    unreadable: Finding,
    unfounded: Finding,
}

/// One invariant with what breaks it.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    invariant: &'static str,
    examples: Vec<String>,
}

impl Finding {
    fn new(check: &'static str, invariant: &'static str) -> Self {
        Self { check, invariant, examples: Vec::new() }
    }

    fn add(&mut self, example: String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example);
        }
    }
}

impl Recount {
    /// How many invariants it checks.
    pub(super) const CHECKS: usize = 3;

    /// Reads every record and every payment that a stored answer tells of.
    pub(super) async fn of(conn: &mut Conn) -> Result<Self, Error> {
        let mut recount = Self {
            misplaced: Finding::new(
                "id_of_other_parts",
                "the id of a record is made of its readable parts",
            ),
            unreadable: Finding::new("unreadable_answer", "a stored answer can be read"),
            unfounded: Finding::new(
                "answer_without_payment",
                "a payment that a stored answer tells of exists",
            ),
        };
        let mut after = Vec::new();
        loop {
            let records = page(conn, &after, PAGE_ROWS).await?;
            let Some(last) = records.last() else { return Ok(recount) };
            after.clone_from(&last.id);
            let promises: Vec<_> =
                records.iter().filter_map(|record| recount.look_into(record)).collect();
            for payment_no in unknown_payments(conn, &promises).await? {
                recount.unfounded.add(payment_no);
            }
        }
    }

    /// What is broken.
    pub(super) fn broken(self) -> impl Iterator<Item = Broken> {
        [self.misplaced, self.unreadable, self.unfounded]
            .into_iter()
            .filter(|finding| !finding.examples.is_empty())
            .map(|Finding { check, invariant, examples }| Broken { check, invariant, examples })
    }

    fn look_into(&mut self, record: &Stored) -> Option<Promise> {
        if !is_made_of_its_parts(record) {
            self.misplaced.add(name(record));
        }
        let outcome = Outcome::from_stored(&record.outcome.clone()?.into());
        match outcome {
            Ok(outcome) => promise(record, &outcome),
            Err(_) => {
                self.unreadable.add(name(record));
                None
            }
        }
    }
}

fn is_made_of_its_parts(record: &Stored) -> bool {
    let identity = || {
        let scope = Scope::from_parts(&record.scope, &record.tenant, &record.subject)?;
        Identity::from_parts(scope, OperationName::parse(&record.operation)?, &record.key)
    };
    identity().is_ok_and(|identity| identity.id().as_bytes()[..] == record.id[..])
}

/// The payment that the answer of a create request tells of. An answer that an operator gave need
/// not tell of any.
fn promise(record: &Stored, outcome: &Outcome) -> Option<Promise> {
    if record.operation != CREATE_OPERATION || !matches!(StoredAnswer::status(outcome)?, 200..=201)
    {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(&StoredAnswer::body(outcome)?).ok()?;
    let payment_no = body.get("payment_no")?.as_str()?.to_owned();
    Some(Promise { tenant: record.tenant.clone(), payment_no })
}

fn name(record: &Stored) -> String {
    let digits: String = record.id.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits: String = digits.chars().take(SHOWN_DIGITS).collect();
    format!("{} {digits}", record.operation)
}
