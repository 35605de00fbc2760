//! The workload is in the seed.

use hapax_storm::{Plan, Tenant};

fn plan(seed: u64, orders: u32) -> Plan {
    let tenant = |name: &str| Tenant {
        name: name.to_owned(),
        api_key: "key".to_owned(),
        notice_secret: None,
    };
    let tenants = vec![tenant("apple"), tenant("berry")];
    let mut plan = Plan::new("http://127.0.0.1:1", "http://127.0.0.1:2", tenants);
    (plan.seed, plan.orders) = (seed, orders);
    plan
}

#[test]
fn the_same_seed_gives_the_same_workload() {
    let script = plan(42, 200).script().unwrap();
    assert_eq!(script, plan(42, 200).script().unwrap());
    // Where the servers are and how fast it goes is not part of the workload.
    let mut elsewhere = plan(42, 200);
    elsewhere.service = "http://127.0.0.1:3".to_owned();
    elsewhere.pace.waves = 1;
    assert_eq!(script, elsewhere.script().unwrap());
}

#[test]
fn another_seed_gives_another_workload() {
    let (one, other) = (plan(42, 200).script().unwrap(), plan(43, 200).script().unwrap());
    assert_ne!(one, other);
    let keys: std::collections::BTreeSet<&str> = one.keys().collect();
    assert!(other.keys().all(|key| !keys.contains(key)), "no key of one run is in another");
    // The shares are the plan's, whatever the seed.
    assert_eq!(one.stories(), other.stories());
}
