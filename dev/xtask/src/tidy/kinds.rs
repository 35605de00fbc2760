//! Each error kind has its row in `docs/errors.md`, and each row is an error kind.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::markdown::{self, Part};
use super::rust::Source;
use super::tree::Tree;

const FILE: &str = "docs/errors.md";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    // A page that is missing has no sections.
    let page = tree.text(FILE).unwrap_or_default();
    let mut findings = Vec::new();
    for member in &tree.graph.members {
        let path = format!("{}/src/error.rs", member.dir);
        let Some(source) = tree.source(&path) else { continue };
        let kinds = kinds(source);
        if kinds.is_empty() {
            continue;
        }
        let Some((heading, rows)) = section(page, &member.name) else {
            let message = format!("has no section `{}` for the error kinds of {path}", member.name);
            findings.push(Finding::new(FILE, 1, message));
            continue;
        };
        let named: BTreeSet<&str> = rows.iter().map(|(_, kind)| *kind).collect();
        for (line, kind) in &kinds {
            if !named.contains(kind) {
                let message =
                    format!("Kind::{kind} has no row in {FILE} (section at line {heading})");
                findings.push(Finding::new(&path, *line, message));
            }
        }
        for (line, row) in rows {
            if !kinds.iter().any(|(_, kind)| *kind == row) {
                let message = format!("{row} is no error kind of {}", member.name);
                findings.push(Finding::new(FILE, line, message));
            }
        }
    }
    findings
}

/// The variants of `enum Kind` with their lines.
fn kinds(source: &Source) -> Vec<(usize, &str)> {
    let all = 0..source.code.len();
    let mut starts = all.filter(|&at| source.reads(at, &["enum", "Kind", "{"]));
    let Some(open) = starts.next().map(|at| at + 2) else { return Vec::new() };
    let end = source.after_group(open) - 1;
    let (mut at, mut kinds) = (open + 1, Vec::new());
    while at < end {
        match source.word(at) {
            "#" => at = source.after_group(at + 1),
            name => {
                kinds.push((source.line(at), name));
                while at < end && source.word(at) != "," {
                    at = if matches!(source.word(at), "(" | "{") {
                        source.after_group(at)
                    } else {
                        at + 1
                    };
                }
                at += 1;
            }
        }
    }
    kinds
}

/// Line of the heading that names the crate, and the kinds in the first cells below it.
fn section<'a>(page: &'a str, name: &str) -> Option<(usize, Vec<(usize, &'a str)>)> {
    let mut found: Option<usize> = None;
    let mut rows = Vec::new();
    for line in markdown::lines(page) {
        if matches!(line.part, Part::Heading(_)) {
            if found.is_some() {
                break;
            }
            if markdown::spans(line.text).contains(&name) {
                found = Some(line.number);
            }
        }
        if found.is_some() && line.part == Part::Prose {
            let first = markdown::cells(line.text).into_iter().next().unwrap_or_default();
            let kind = markdown::spans(first).into_iter().next();
            let kind = kind.map(|span| span.rsplit("::").next().unwrap_or(span));
            rows.extend(kind.map(|kind| (line.number, kind)));
        }
    }
    found.map(|line| (line, rows))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    const ERROR: &str = "pub struct Error;\n#[non_exhaustive]\npub enum Kind {\n\
        /// Taken.\n    #[doc(alias = \"x\")]\n    Fenced,\n\
            Store(String),\n    Bad { why: u8, how: u8 },\n}\n";

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[("lib/core/src/error.rs", ERROR), (FILE, page)]);
        places(&find(&tree.with(members(&[("hapax-core", "lib/core", &[])]))))
    }

    #[test]
    fn a_page_with_every_kind_passes() {
        let page = "# Errors\n## `hapax-core`\n| kind | cause |\n|---|---|\n\
            | `Kind::Fenced` | a |\n| `Store` | b |\n| `Bad` | c |\n\
            ## `hapax-http`\n| `Other` | d |\n";
        assert!(found(page).is_empty(), "{:?}", found(page));
    }

    #[test]
    fn a_kind_without_a_row_and_a_row_without_a_kind_are_found() {
        let page = "# Errors\n## `hapax-core`\n| `Fenced` | a |\n| `Gone` | b |\n| `Bad` | c |\n";
        assert_eq!(found(page), ["lib/core/src/error.rs:7", "docs/errors.md:4"]);
    }

    #[test]
    fn a_missing_section_is_found() {
        assert_eq!(found("# Errors\n"), ["docs/errors.md:1"]);
    }

    #[test]
    fn a_missing_page_is_found() {
        let tree = Tree::of(&[("lib/core/src/error.rs", ERROR)]);
        let tree = tree.with(members(&[("hapax-core", "lib/core", &[])]));
        assert_eq!(places(&find(&tree)), ["docs/errors.md:1"]);
    }
}
