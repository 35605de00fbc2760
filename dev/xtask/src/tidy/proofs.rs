//! What the documents promise is held by a test, and a test that they name exists.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::markdown::{self, Line, Part};
use super::tree::Tree;

const FILE: &str = "ARCHITECTURE.md";
/// Columns of the guarantee table that name the test of a row.
const PROOF_COLUMNS: &[&str] = &["test", "proof", "held by"];
/// Shorter names are words of the trade: columns, keys, metrics.
const WORDS_MIN: usize = 4;
/// Metrics and schema names begin with it; tests never do.
const OURS: &str = "hapax_";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let tests: BTreeSet<&str> = tree.sources().flat_map(|(_, source)| source.functions()).collect();
    let mut findings = in_module_heads(tree, &tests);
    // A missing document is found by `code_map`.
    let Some(text) = tree.text(FILE) else { return findings };
    let lines = markdown::lines(text);
    for line in lines.iter().filter(|line| !line.is_code()) {
        findings.extend(unknown(FILE, line.number, line.text, &tests));
    }
    findings.extend(unheld_invariants(&lines, &tests));
    findings.extend(unproved_guarantees(&lines, &tests));
    findings
}

/// Module heads (`//!`) name the test of their invariant.
fn in_module_heads(tree: &Tree, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let heads = tree.sources().flat_map(|(path, source)| {
        let comments = source.comments.iter().filter(|comment| comment.text.starts_with("//!"));
        comments.map(move |comment| (path, comment))
    });
    heads.flat_map(|(path, head)| unknown(path, head.line, &head.text, tests)).collect()
}

fn unknown(path: &str, line: usize, text: &str, tests: &BTreeSet<&str>) -> Vec<Finding> {
    let named = markdown::spans(text).into_iter().filter_map(test_name);
    named
        .filter(|name| !tests.contains(name))
        .map(|name| Finding::new(path, line, format!("there is no function `{name}`")))
        .collect()
}

/// The last part of `crate::module::test_name`, if it can only be a test's name.
fn test_name(span: &str) -> Option<&str> {
    let name = span.rsplit("::").next().unwrap_or(span).trim_end_matches("()");
    let snake = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let words = name.split('_').filter(|word| !word.is_empty()).count();
    (snake && words >= WORDS_MIN && !name.starts_with(OURS)).then_some(name)
}

fn is_proof(span: &str, tests: &BTreeSet<&str>) -> bool {
    let by_name = test_name(span).is_some_and(|name| tests.contains(name));
    by_name || span.starts_with("cargo xtask")
}

/// Items below a heading with "invariant", and paragraphs that begin with that word in bold.
fn unheld_invariants(lines: &[Line<'_>], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut below, mut open): (bool, Option<usize>) = (false, None);
    let mut close = |open: &mut Option<usize>| {
        let unheld =
            open.take().map(|line| Finding::new(FILE, line, "this invariant names no test"));
        findings.extend(unheld);
    };
    for line in lines.iter().filter(|line| !line.is_code()) {
        let item = line.text.strip_prefix("- ").or_else(|| line.text.strip_prefix("* "));
        let body = item.unwrap_or(line.text).trim_start().to_lowercase();
        if let Part::Heading(_) = line.part {
            close(&mut open);
            below = body.contains("invariant");
        } else if body.starts_with("**invariant") || (below && item.is_some()) {
            close(&mut open);
            open = Some(line.number);
        } else if body.is_empty() {
            close(&mut open);
        }
        if open.is_some() && markdown::spans(line.text).iter().any(|span| is_proof(span, tests)) {
            open = None;
        }
    }
    close(&mut open);
    findings
}

/// Below a heading with "guarantee" stands a table with a column of tests, each row filled.
fn unproved_guarantees(lines: &[Line<'_>], tests: &BTreeSet<&str>) -> Vec<Finding> {
    let (mut below, mut column, mut rows): (Option<usize>, Option<usize>, usize) = (None, None, 0);
    let mut findings = Vec::new();
    for line in lines.iter().filter(|line| !line.is_code()) {
        if let Part::Heading(_) = line.part {
            if below.is_some() && rows > 0 {
                break;
            }
            below = line.text.to_lowercase().contains("guarantee").then_some(line.number).or(below);
        }
        let cells = markdown::cells(line.text);
        match column {
            None => {
                column = below.and_then(|_| cells.iter().position(|cell| is_proof_column(cell)));
            }
            Some(_) if !line.text.trim_start().starts_with('|') => column = None,
            Some(at) if !cells.is_empty() => {
                rows += 1;
                let cell = cells.get(at).copied().unwrap_or_default();
                if !markdown::spans(cell).iter().any(|span| is_proof(span, tests)) {
                    let message = "this row of the guarantee table names no test";
                    findings.push(Finding::new(FILE, line.number, message));
                }
            }
            Some(_) => {}
        }
    }
    if rows == 0 {
        let message = "has no guarantee table with a column `test` below a heading `Guarantees`";
        findings.push(Finding::new(FILE, below.unwrap_or(1), message));
    }
    findings
}

fn is_proof_column(cell: &str) -> bool {
    let cell = cell.to_lowercase();
    PROOF_COLUMNS.iter().any(|name| cell.contains(name))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    const TESTS: &str = "fn a_stale_fence_cannot_complete() {}\nfn a_purge_is_not_seen() {}\n";
    const TABLE: &str =
        "## Guarantees\n| class | test |\n|---|---|\n| a | `a_purge_is_not_seen` |\n";

    fn found(text: &str) -> Vec<String> {
        places(&find(&Tree::of(&[(FILE, text), ("lib/core/tests/it/main.rs", TESTS)])))
    }

    #[test]
    fn promises_with_their_tests_pass() {
        let text = format!(
            "## Invariants\n- A completed record\n  never changes: \
             `core::a_stale_fence_cannot_complete`.\n- Arrows hold: `cargo xtask tidy`\n\n\
             `lease_until`, `hapax_claims_total_by_state`\n\n\
             **Invariant:** deleting a cache changes nothing (`a_purge_is_not_seen`).\n\n{TABLE}"
        );
        assert!(found(&text).is_empty(), "{:?}", found(&text));
    }

    #[test]
    fn a_named_test_that_does_not_exist_is_found() {
        let text = format!("{TABLE}\nSee `core::a_test_that_is_gone`.\n");
        assert_eq!(found(&text), ["ARCHITECTURE.md:6"]);
    }

    #[test]
    fn an_invariant_without_a_test_is_found() {
        let text = format!("## Invariants\n- One.\n- Two: `a_purge_is_not_seen`\n\n{TABLE}");
        assert_eq!(found(&text), ["ARCHITECTURE.md:2"]);
        let text = format!("# Map\n**Invariant** nothing holds me.\n\n{TABLE}");
        assert_eq!(found(&text), ["ARCHITECTURE.md:2"]);
    }

    #[test]
    fn a_guarantee_without_a_test_is_found() {
        assert_eq!(found(&format!("{TABLE}| b | soon |\n")), ["ARCHITECTURE.md:5"]);
        assert_eq!(
            found("## Guarantees\n| class | meaning |\n|---|---|\n| a | b |\n"),
            ["ARCHITECTURE.md:1"]
        );
        assert_eq!(found("# A\n"), ["ARCHITECTURE.md:1"]);
    }

    #[test]
    fn a_module_head_that_names_a_lost_test_is_found() {
        let tree =
            Tree::of(&[("a/src/x.rs", "//! Invariant.\n//! Held by `a_test_that_is_gone`.\n")]);
        assert_eq!(places(&find(&tree)), ["a/src/x.rs:2"]);
    }
}
