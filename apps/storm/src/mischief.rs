//! The fault rules that are sent to the channel simulator.

use serde_json::{Value, json};

use crate::plan::Mischief;

/// Copies of one delivery that arrive at once.
const COPIES: u8 = 8;

/// How long a late answer is late, in milliseconds.
const LATE_MS: u64 = 300;

/// Calls that fail.
const METHODS: [&str; 5] = [
    "alipay.trade.precreate",
    "alipay.trade.query",
    "alipay.trade.close",
    "alipay.trade.refund",
    "alipay.trade.fastpay.refund.query",
];

/// Forgeries, each sent before the genuine delivery.
const FORGERIES: [&str; 8] = [
    "wrong_amount",
    "wrong_seller",
    "wrong_app",
    "forged_key",
    "tampered",
    "unsigned",
    "return_replay",
    "duplicate_key",
];

/// The rules of a plan, as `POST /_sim/faults` takes them.
pub(crate) fn rules(mischief: &Mischief) -> Value {
    let mut notices = Vec::new();
    let mut notice = |fault: Value, chance: f64| {
        if chance > 0.0 {
            notices.push(json!({"fault": fault, "when": {"chance": chance}}));
        }
    };
    notice(json!("lost"), mischief.lost_callbacks);
    notice(json!("dropped"), mischief.dropped_deliveries);
    notice(json!({"duplicate": {"copies": COPIES}}), mischief.parallel_callbacks);
    for forgery in FORGERIES {
        notice(json!(forgery), part(mischief.forged_callbacks, FORGERIES.len()));
    }
    let mut races = Vec::new();
    if mischief.early_payments > 0.0 {
        let when = json!({"chance": mischief.early_payments});
        races.push(json!({"at": "before_create_answer", "do": "pay", "when": when}));
    }
    json!({"calls": calls(mischief.failing_calls), "notices": notices, "races": races})
}

/// Each fault at each method. The first rule that strikes wins, so a rule's chance is that of all
/// of them divided by how many there are.
fn calls(chance: f64) -> Vec<Value> {
    if chance <= 0.0 {
        return Vec::new();
    }
    let faults = [
        json!("drop_request"),
        json!("drop_answer"),
        json!({"delay_answer": {"ms": LATE_MS}}),
        json!({"unavailable": {"done": false}}),
        json!({"unavailable": {"done": true}}),
        json!({"system_error": {"done": false}}),
        json!({"system_error": {"done": true}}),
        json!("wrong_sign"),
        json!("no_sign"),
        json!("node_twice"),
        json!("cut_body"),
        json!("broken_body"),
        json!({"bad_gateway": {"done": true}}),
    ];
    let each = part(chance, faults.len());
    METHODS
        .iter()
        .flat_map(|method| faults.iter().map(move |fault| (method, fault)))
        .map(|(method, fault)| json!({"fault": fault, "method": method, "when": {"chance": each}}))
        .collect()
}

fn part(chance: f64, parts: usize) -> f64 {
    chance / f64::from(u32::try_from(parts).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_mischief_there_are_no_rules() {
        assert_eq!(rules(&Mischief::none()), json!({"calls": [], "notices": [], "races": []}));
    }

    #[test]
    fn the_chances_of_a_method_add_up_to_that_of_the_plan() {
        let rules = rules(&Mischief { failing_calls: 0.13, ..Mischief::none() });
        let calls = rules["calls"].as_array().unwrap();
        for method in METHODS {
            let of_method = calls.iter().filter(|rule| rule["method"] == *method);
            let sum: f64 = of_method.filter_map(|rule| rule["when"]["chance"].as_f64()).sum();
            assert!((sum - 0.13).abs() < 1e-9, "{method}: {sum}");
        }
    }

    #[test]
    fn lost_and_eightfold_callbacks_are_asked_for_as_the_plan_says() {
        let rules = rules(&Mischief::default());
        let notices = rules["notices"].as_array().unwrap();
        assert!(notices.contains(&json!({"fault": "lost", "when": {"chance": 0.2}})));
        let eight = json!({"fault": {"duplicate": {"copies": 8}}, "when": {"chance": 0.2}});
        assert!(notices.contains(&eight));
    }
}
