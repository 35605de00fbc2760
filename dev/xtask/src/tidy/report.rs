//! Runs every rule over the tree and prints what they found.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::finding::Finding;
use super::tree::Tree;
use super::{
    arrows, bans, code_map, faces, imports, kinds, leftovers, links, manifests, modules, places,
    proofs, pure, readmes, sizes, sql,
};

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    arrows::find,
    bans::find,
    code_map::find,
    faces::find,
    imports::find,
    kinds::find,
    leftovers::find,
    links::find,
    manifests::find,
    modules::find,
    places::find,
    proofs::find,
    pure::find,
    readmes::find,
    sizes::find,
    sql::find,
];

/// Prints all findings on standard output; any finding is a failure.
pub(crate) fn report(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::load(root)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|find| find(&tree)).collect();
    findings.sort();
    findings.dedup();
    let mut out = io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}").context("failed to print the findings")?;
    }
    writeln!(out, "tidy: {} findings", findings.len()).context("failed to print the findings")?;
    match findings.first() {
        Some(first) => {
            bail!("{} findings, the first at {}:{}", findings.len(), first.path, first.line)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_file_is_in_the_list() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tidy");
        let listed = std::fs::read_to_string(here.join("report.rs")).unwrap();

        let mut rules = 0;
        for entry in std::fs::read_dir(&here).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("pub(super) fn find(tree: &Tree)") && name != "report" {
                assert!(listed.contains(&format!("    {name}::find,\n")), "{name} is never run");
                rules += 1;
            }
        }
        assert_eq!(rules, RULES.len());
    }
}
