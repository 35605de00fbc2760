//! Versions live in the root table, tables are sorted, and what is there has a reason.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::finding::Finding;
use super::tree::Tree;

const ROOT: &str = "Cargo.toml";
const ROOT_TABLE: &str = "workspace.dependencies";
const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// One key of a manifest as it is written, which a parsed table forgets.
struct Entry<'a> {
    table: &'a str,
    key: &'a str,
    line: usize,
    /// Counts the blocks that empty lines and lines of comment part.
    block: usize,
    /// True with a comment behind it, on any of its lines.
    explained: bool,
    /// True with a comment directly above its block of one.
    headed: bool,
}

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = root(tree);
    let manifests = tree.graph.members.iter().map(super::graph::Member::manifest);
    for path in manifests {
        let Some(text) = tree.text(&path) else {
            findings.push(Finding::new(&path, 1, "is missing or not tracked by git"));
            continue;
        };
        let entries = entries(text);
        findings.extend(unsorted(&path, &entries));
        findings.extend(own_versions(&path, text, &entries));
        let features = entries.iter().filter(|entry| entry.table == "features");
        let unexplained = features.filter(|entry| !entry.explained && !entry.headed);
        findings.extend(unexplained.filter(|entry| entry.key != "default").map(|entry| {
            Finding::new(&path, entry.line, format!("feature `{}`: say what it adds", entry.key))
        }));
    }
    findings
}

fn root(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(ROOT) else {
        return vec![Finding::new(ROOT, 1, "is missing")];
    };
    let entries = entries(text);
    let mut findings = unsorted(ROOT, &entries);
    let table: Table = text.parse().unwrap_or_default();
    let versions = table.get("workspace").and_then(|table| table.get("dependencies"));
    let used = used_names(tree);
    for entry in entries.iter().filter(|entry| entry.table == ROOT_TABLE) {
        let is_ours = versions.and_then(|table| table.get(entry.key)?.get("path")).is_some();
        let mut add = |message: &str| {
            findings.push(Finding::new(ROOT, entry.line, format!("{}: {message}", entry.key)));
        };
        if !is_ours && !entry.explained {
            add("say behind it why this crate is here");
        }
        if !is_ours && !used.contains(entry.key) {
            add("no crate of ours uses it: remove it");
        }
    }
    findings
}

fn used_names(tree: &Tree) -> BTreeSet<String> {
    let manifests = tree.graph.members.iter().filter_map(|member| tree.text(&member.manifest()));
    manifests
        .flat_map(entries)
        .filter(|entry| is_dependencies(entry.table))
        .map(|entry| entry.key.to_owned())
        .collect()
}

fn unsorted(path: &str, entries: &[Entry<'_>]) -> Vec<Finding> {
    let pairs = entries.windows(2).filter_map(|pair| match pair {
        [before, after] => Some((before, after)),
        _ => None,
    });
    pairs
        .filter(|(before, after)| before.table == after.table && before.block == after.block)
        .filter(|(before, after)| is_dependencies(after.table) && after.key < before.key)
        .map(|(before, after)| {
            let message =
                format!("{} stands after {}: keep the table sorted", after.key, before.key);
            Finding::new(path, after.line, message)
        })
        .collect()
}

/// Dependencies that do not take their version from the root table.
fn own_versions(path: &str, text: &str, entries: &[Entry<'_>]) -> Vec<Finding> {
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new(path, 1, format!("is not TOML: {error}"))],
    };
    let targets = table.get("target").and_then(Value::as_table).into_iter().flatten();
    let holders = targets.filter_map(|(_, target)| target.as_table()).chain([&table]);
    let mut findings = Vec::new();
    for (name, value) in holders
        .flat_map(|holder| TABLES.iter().filter_map(|t| holder.get(*t)))
        .filter_map(Value::as_table)
        .flatten()
    {
        if value.get("workspace").and_then(Value::as_bool) != Some(true) {
            let line = entries.iter().find(|e| is_dependencies(e.table) && e.key == name);
            let message =
                format!("{name}: take it from the root table with `{name}.workspace = true`");
            findings.push(Finding::new(path, line.map_or(1, |entry| entry.line), message));
        }
    }
    findings
}

fn is_dependencies(table: &str) -> bool {
    TABLES.iter().any(|name| table.rsplit('.').next() == Some(name))
}

fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut table, mut depth, mut block, mut above) = ("", 0_usize, 0_usize, Above::Nothing);
    for (at, line) in text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        let (code, was_inside) = (code.trim(), depth > 0);
        let opened = code.matches(['[', '{']).count();
        let closed = code.matches([']', '}']).count();
        if was_inside {
            depth = (depth + opened).saturating_sub(closed);
            if let Some(entry) = entries.last_mut() {
                entry.explained |= comment.is_some();
            }
        } else if code.is_empty() {
            block += 1;
            above = if comment.is_some() { Above::Comment } else { Above::Nothing };
        } else if let Some(header) = code.strip_prefix('[') {
            table = header.trim_matches(['[', ']']);
            block += 1;
            above = Above::Nothing;
        } else {
            depth = opened.saturating_sub(closed);
            let key = code.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
            let (explained, headed) = (comment.is_some(), matches!(above, Above::Comment));
            entries.push(Entry { table, key, line: at + 1, block, explained, headed });
            above = Above::Nothing;
        }
    }
    entries
}

#[derive(Clone, Copy)]
enum Above {
    Comment,
    Nothing,
}

/// A line's code and the comment behind it.
fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut quote: Option<char> = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => {
                let (code, comment) = line.split_at(at);
                return (code, Some(comment));
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            _ => {}
        }
    }
    (line, None)
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    const CLEAN_ROOT: &str = "[workspace.dependencies]\n# Ours.\n\
        hapax-core = { path = \"lib/core\" }\n\n# Theirs.\nbytes = \"1\" # bodies\n\
        serde = { version = \"1\", features = [\n  \"derive\", # why\n] }\n";
    const CLEAN: &str = "[dependencies]\nbytes.workspace = true\nserde = { workspace = true }\n\n\
        [features]\n# Adds axum extractors.\naxum = []\ntower = [] # a layer\ndefault = []\n";

    fn found(root: &str, member: &str) -> Vec<String> {
        let tree = Tree::of(&[(ROOT, root), ("lib/core/Cargo.toml", member)]);
        places(&find(&tree.with(members(&[("hapax-core", "lib/core", &[])]))))
    }

    #[test]
    fn clean_manifests_pass() {
        assert!(found(CLEAN_ROOT, CLEAN).is_empty(), "{:?}", found(CLEAN_ROOT, CLEAN));
    }

    #[test]
    fn a_version_outside_the_root_table_is_found() {
        for line in ["http = \"1\"", "http = { version = \"1\" }", "http = { path = \"../http\" }"]
        {
            for table in ["dev-dependencies", "target.'cfg(unix)'.build-dependencies"] {
                let member = format!("{CLEAN}\n[{table}]\n{line}\n");
                assert_eq!(found(CLEAN_ROOT, &member), ["lib/core/Cargo.toml:12"], "{member}");
            }
        }
        let own = CLEAN.replace("bytes.workspace = true", "bytes = \"1\"");
        assert_eq!(found(CLEAN_ROOT, &own), ["lib/core/Cargo.toml:2"]);
    }

    #[test]
    fn an_unsorted_table_is_found() {
        let member = CLEAN
            .replace("bytes.workspace = true\n", "")
            .replace("{ workspace = true }\n", "{ workspace = true }\nbytes.workspace = true\n");
        assert_eq!(found(CLEAN_ROOT, &member), ["lib/core/Cargo.toml:3"]);
    }

    #[test]
    fn a_crate_without_a_reason_and_one_without_a_user_are_found() {
        let root = CLEAN_ROOT.replace(" # bodies", "");
        assert_eq!(found(&root, CLEAN), ["Cargo.toml:6"]);

        let root = format!("{CLEAN_ROOT}uuid = \"1\" # row ids\n");
        assert_eq!(found(&root, CLEAN), ["Cargo.toml:10"]);
    }

    #[test]
    fn a_feature_without_a_comment_is_found() {
        let member = CLEAN.replace(" # a layer", "");
        assert_eq!(found(CLEAN_ROOT, &member), ["lib/core/Cargo.toml:8"]);
    }

    #[test]
    fn a_hash_in_a_string_is_no_comment() {
        assert_eq!(split_comment("a = \"#\" # b"), ("a = \"#\" ", Some("# b")));
    }
}
