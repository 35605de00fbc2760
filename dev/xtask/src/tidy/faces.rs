//! What each crate shows: a readme, a description, the workspace lints.

use toml::{Table, Value};

use super::finding::Finding;
use super::graph::Member;
use super::tree::Tree;

/// Crates in this folder are published; their readme is the first page of their documentation.
const PUBLISHED: &str = "lib/";
const SHOWN: &[&str] = &["#", "!", "[", "doc", "=", "include_str", "!", "("];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    tree.graph.members.iter().flat_map(|member| of(tree, member)).collect()
}

fn of(tree: &Tree, member: &Member) -> Vec<Finding> {
    let (manifest, readme) = (member.manifest(), format!("{}/README.md", member.dir));
    let mut findings = Vec::new();
    let mut add = |path: &str, message: &str| findings.push(Finding::new(path, 1, message));
    if tree.text(&readme).is_none_or(|text| text.trim().is_empty()) {
        add(&readme, "is missing or empty: say what the crate is for");
    }
    if member.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        add(&manifest, "has no description");
    }
    let table = tree.text(&manifest).and_then(|text| text.parse::<Table>().ok());
    let lints = table.as_ref().and_then(|table| table.get("lints")?.get("workspace"));
    if lints.and_then(Value::as_bool) != Some(true) {
        add(&manifest, "does not take the lints of the workspace: add `[lints] workspace = true`");
    }
    if member.dir.starts_with(PUBLISHED) {
        let root = format!("{}/src/lib.rs", member.dir);
        let shows = tree.source(&root).is_some_and(|source| {
            let starts = 0..source.code.len();
            starts.into_iter().any(|at| {
                source.reads(at, SHOWN) && source.literal(at + SHOWN.len()) == Some("../README.md")
            })
        });
        if !shows {
            add(&root, "does not show its readme: add `#![doc = include_str!(\"../README.md\")]`");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    const MANIFEST: (&str, &str) = ("lib/core/Cargo.toml", "[lints]\nworkspace = true\n");
    const README: (&str, &str) = ("lib/core/README.md", "# hapax-core\n");
    const ROOT: (&str, &str) =
        ("lib/core/src/lib.rs", "#![doc = include_str!(\"../README.md\")]\nmod a;\n");

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        places(&find(&Tree::of(files).with(members(&[("hapax-core", "lib/core", &[])]))))
    }

    #[test]
    fn a_complete_face_passes() {
        assert!(found(&[MANIFEST, README, ROOT]).is_empty());
    }

    #[test]
    fn each_missing_feature_is_found() {
        let doc = ("lib/core/src/lib.rs", "//! #![doc = include_str!(\"../README.md\")]\n");

        assert_eq!(found(&[MANIFEST, ROOT]), ["lib/core/README.md:1"]);
        assert_eq!(found(&[MANIFEST, README, doc]), ["lib/core/src/lib.rs:1"]);
        assert_eq!(found(&[("lib/core/Cargo.toml", ""), README, ROOT]), ["lib/core/Cargo.toml:1"]);
    }

    #[test]
    fn a_crate_without_a_description_is_found() {
        let mut graph = members(&[("hapax-core", "lib/core", &[])]);
        graph.members[0].description = None;
        let tree = Tree::of(&[MANIFEST, README, ROOT]).with(graph);

        assert_eq!(places(&find(&tree)), ["lib/core/Cargo.toml:1"]);
    }
}
