//! The code map of `ARCHITECTURE.md` lists the crates that exist, no more and no fewer.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::markdown::{self, Part};
use super::tree::Tree;

const FILE: &str = "ARCHITECTURE.md";
const HEADING: &str = "code map";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(FILE) else {
        return vec![Finding::new(FILE, 1, "is missing: it holds the code map and the invariants")];
    };
    let members: BTreeSet<&str> =
        tree.graph.members.iter().map(|member| member.name.as_str()).collect();
    let mut listed = BTreeSet::new();
    let mut findings = Vec::new();
    let Some((start, entries)) = entries(text, &members) else {
        return vec![Finding::new(FILE, 1, "has no heading `Code map` with the crates below it")];
    };
    for (line, name) in entries {
        if !members.contains(name) {
            findings.push(Finding::new(FILE, line, format!("{name} is no crate of the workspace")));
        }
        listed.insert(name);
    }
    let missing = members.iter().filter(|name| !listed.contains(**name));
    findings.extend(
        missing.map(|name| Finding::new(FILE, start, format!("the code map leaves out {name}"))),
    );
    findings
}

/// Line of the heading, and the crates that begin a row, an item or a heading below it.
fn entries<'a>(text: &'a str, members: &BTreeSet<&str>) -> Option<(usize, Vec<(usize, &'a str)>)> {
    let mut map: Option<(usize, usize)> = None;
    let mut entries = Vec::new();
    for line in markdown::lines(text) {
        if let Part::Heading(level) = line.part {
            match map {
                None if line.text.to_lowercase().contains(HEADING) => {
                    map = Some((line.number, level));
                }
                Some((_, own)) if level <= own => break,
                _ => {}
            }
        }
        let begins = line.text.trim_start().starts_with(['|', '-', '*', '#']);
        if map.is_some() && begins && !line.is_code() {
            let spans = markdown::spans(line.text).into_iter();
            let mut names = spans.filter(|span| is_crate(span) || members.contains(span));
            entries.extend(names.next().map(|name| (line.number, name)));
        }
    }
    map.map(|(line, _)| (line, entries))
}

fn is_crate(span: &str) -> bool {
    let name = span.strip_prefix("hapax-").unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let graph = members(&[
            ("hapax", "lib/hapax", &[]),
            ("hapax-core", "lib/core", &[]),
            ("xtask", "dev/xtask", &[]),
        ]);
        places(&find(&Tree::of(&[(FILE, text)]).with(graph)))
    }

    #[test]
    fn a_code_map_of_rows_items_and_headings_passes() {
        let text = "# A\n## Code map\n### `lib/core` · `hapax-core`\nprose `hapax-later`\n\
            - `hapax`: facade over `hapax-core`\n\n| `dev/xtask` | `xtask` |\n\
            ## Later\n- `hapax-x`\n";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }

    #[test]
    fn a_crate_that_is_left_out_and_one_that_is_gone_are_found() {
        let text = "# A\n## Code map\n- `hapax`\n- `hapax-core`\n- `hapax-gone`\n";
        assert_eq!(found(text), ["ARCHITECTURE.md:5", "ARCHITECTURE.md:2"]);
    }

    #[test]
    fn a_missing_map_is_found() {
        assert_eq!(found("# A\n"), ["ARCHITECTURE.md:1"]);
        assert_eq!(places(&find(&Tree::default())), ["ARCHITECTURE.md:1"]);
    }
}
