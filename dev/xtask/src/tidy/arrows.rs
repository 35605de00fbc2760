//! Our crates use each other only along the arrows of the architecture.

use super::finding::Finding;
use super::graph::{Graph, Member};
use super::tree::Tree;

/// Who may use whom of ours. Crates in `dev/` prove the others: they may use any.
const ARROWS: &[(&str, &[&str])] = &[
    ("hapax", &["hapax-core", "hapax-http", "hapax-macros", "hapax-store", "hapax-transport"]),
    ("hapax-cli", &["hapax-console", "hapax-gateway", "hapax-pay", "hapax-sim", "hapax-storm"]),
    ("hapax-console", &["hapax"]),
    ("hapax-contract", &["hapax-core"]),
    ("hapax-core", &[]),
    ("hapax-gateway", &["hapax", "hapax-console"]),
    ("hapax-http", &["hapax-core"]),
    ("hapax-macros", &[]),
    ("hapax-pay", &["hapax", "hapax-console"]),
    ("hapax-sim", &[]),
    ("hapax-store", &["hapax-core"]),
    ("hapax-storm", &[]),
    ("hapax-transport", &["hapax-core"]),
];

/// Tests may use any crate of ours, but the mind's own tests see only what judges it.
const CORE_TESTS_WITH: &[&str] = &["hapax-contract"];

/// What a crate must not reach, even through others.
const UNREACHABLE: &[(&str, &[&str], &str)] = &[
    (
        "hapax-core",
        &["axum", "http", "hyper", "redis", "reqwest", "sqlx", "sqlx-core", "tower"],
        "the mind knows no HTTP, SQL or Redis",
    ),
    (
        "hapax-http",
        &["redis", "sqlx", "sqlx-core"],
        "the http layer asks a store, never a database",
    ),
    ("hapax-store", &["axum", "hyper", "tower"], "a store knows nothing of the wire"),
    ("hapax-macros", &["sqlx", "axum", "tokio"], "macros contain no rule"),
];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let graph = &tree.graph;
    let mut findings: Vec<Finding> =
        graph.members.iter().flat_map(|member| off_the_map(tree, member)).collect();
    for (name, forbidden, reason) in UNREACHABLE {
        let Some(member) = graph.member(name) else { continue };
        for package in graph.closure(name).iter().filter_map(|at| graph.packages.get(*at)) {
            if forbidden.contains(&package.name.as_str()) {
                let message = format!("{name} reaches {}: {reason}", package.name);
                findings.push(at_name(tree, member, &package.name, message));
            }
        }
    }
    findings
}

fn off_the_map(tree: &Tree, member: &Member) -> Vec<Finding> {
    let graph = &tree.graph;
    let mut findings = Vec::new();
    let mut add = |target: &str, message: String| {
        findings.push(at_name(tree, member, target, message));
    };
    let name = &member.name;
    if !proves(member) {
        match ARROWS.iter().find(|(from, _)| from == name) {
            None => {
                add("name", format!("{name} is not on the map of arrows: place it there first"));
            }
            Some((_, to)) => {
                for used in member.uses.iter().filter(|used| graph.member(used).is_some()) {
                    if !to.contains(&used.as_str()) {
                        add(used, format!("{name} must not use {used}: no such arrow on the map"));
                    }
                }
            }
        }
    }
    if name == "hapax-core" {
        for used in &member.tests_with {
            if ours_and_no_judge(graph, used) {
                add(used, format!("the tests of {name} must not use {used}"));
            }
        }
    }
    findings
}

fn proves(member: &Member) -> bool {
    member.dir.starts_with("dev/")
}

fn ours_and_no_judge(graph: &Graph, name: &str) -> bool {
    graph.member(name).is_some_and(|used| !proves(used)) && !CORE_TESTS_WITH.contains(&name)
}

fn at_name(tree: &Tree, member: &Member, name: &str, message: String) -> Finding {
    let manifest = member.manifest();
    let line = tree.text(&manifest).and_then(|text| {
        let names = |line: &str| line.split(['.', '=', ' ']).next() == Some(name);
        text.lines().position(names)
    });
    Finding::new(&manifest, line.map_or(1, |at| at + 1), message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::finding::places;
    use super::super::graph::{Pulled, members};
    use super::*;

    fn workspace() -> Graph {
        members(&[
            ("hapax-core", "lib/core", &["bytes"]),
            ("hapax-store", "lib/store", &["hapax-core"]),
            ("hapax-pay", "apps/pay", &["hapax"]),
            ("hapax", "lib/hapax", &["hapax-store", "hapax-core"]),
            ("testkit", "dev/testkit", &["hapax-core"]),
        ])
    }

    #[test]
    fn arrows_on_the_map_pass() {
        assert!(find(&Tree::default().with(workspace())).is_empty());
    }

    #[test]
    fn an_arrow_off_the_map_is_found_at_its_line() {
        let mut graph = workspace();
        let extra = members(&[("hapax-sim", "apps/sim", &["hapax-core"])]);
        graph.members.extend(extra.members);
        let manifest = "[package]\n\n[dependencies]\nhapax-core.workspace = true\n";
        let tree = Tree::of(&[("apps/sim/Cargo.toml", manifest)]).with(graph);

        assert_eq!(places(&find(&tree)), ["apps/sim/Cargo.toml:4"]);
    }

    #[test]
    fn nothing_we_ship_uses_a_crate_that_proves() {
        let mut graph = workspace();
        graph.members[1].uses.insert("testkit".to_owned());

        assert_eq!(places(&find(&Tree::default().with(graph))), ["lib/store/Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let graph = members(&[("hapax-extra", "lib/extra", &[])]);

        assert_eq!(places(&find(&Tree::default().with(graph))), ["lib/extra/Cargo.toml:1"]);
    }

    #[test]
    fn the_tests_of_core_see_only_their_judges() {
        let mut graph = workspace();
        graph.members[0].tests_with = BTreeSet::from(["testkit".to_owned(), "proptest".to_owned()]);
        assert!(find(&Tree::default().with(graph)).is_empty());

        let mut graph = workspace();
        graph.members[0].tests_with = BTreeSet::from(["hapax-store".to_owned()]);
        assert_eq!(find(&Tree::default().with(graph)).len(), 1);
    }

    #[test]
    fn a_forbidden_crate_is_found_behind_another() {
        let package = |name: &str, needs: &[usize]| Pulled {
            name: name.to_owned(),
            needs: needs.to_vec(),
            ..Pulled::default()
        };
        let mut graph = workspace();
        graph.packages =
            vec![package("hapax-core", &[1]), package("innocent", &[2]), package("hyper", &[])];

        let findings = find(&Tree::default().with(graph));

        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("hapax-core reaches hyper"), "{findings:?}");
    }
}
