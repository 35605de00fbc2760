//! Links, anchors and code paths in the documents lead somewhere.

use super::finding::Finding;
use super::markdown::{self, Part};
use super::tree::Tree;

/// Ends of the names that are paths when they contain a slash.
const ENDS: &[&str] = &[".rs", ".md", ".toml", ".sql", ".lua", ".json", ".ts", ".sh"];
/// Folders of the root; a span that begins with one is a path, whatever its end.
const FOLDERS: &[&str] =
    &["lib/", "apps/", "dev/", "docs/", "web/", "examples/", ".ci/", ".config/"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for line in markdown::lines(text).iter().filter(|line| !line.is_code()) {
            let links = markdown::links(line.text);
            let faults = links.iter().filter_map(|target| broken_link(tree, path, target));
            let spans = markdown::spans(line.text).into_iter();
            let faults = faults.chain(spans.filter_map(|span| broken_path(tree, path, span)));
            findings.extend(faults.map(|fault| Finding::new(path, line.number, fault)));
        }
    }
    findings
}

fn broken_link(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let to = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(to) = to.filter(|to| tree.has(to)) else {
        return Some(format!("the link to `{target}` leads nowhere"));
    };
    let page = tree.text(&to).filter(|_| !anchor.is_empty() && to.ends_with(".md"))?;
    let headings = markdown::lines(page).into_iter();
    let mut headings = headings.filter(|line| matches!(line.part, Part::Heading(_)));
    let leads = headings.any(|heading| {
        let own = markdown::anchor(heading.text);
        own == anchor || anchor.strip_prefix(own.as_str()).is_some_and(is_repeat)
    });
    (!leads).then(|| format!("`{to}` has no heading for the anchor `#{anchor}`"))
}

/// The second heading of one name is `name-1`.
fn is_repeat(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
}

fn broken_path(tree: &Tree, from: &str, span: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '_' | '-');
    let in_root = FOLDERS.iter().any(|folder| span.starts_with(folder));
    let named = span.contains('/') && ENDS.iter().any(|end| span.ends_with(end));
    if !span.chars().all(plain) || !(in_root || named) || span.starts_with('/') {
        return None;
    }
    let beside = resolve(from, span).is_some_and(|path| tree.has(&path));
    (!beside && !tree.has(span)).then(|| format!("there is no `{span}`"))
}

/// `to` as seen from the folder of `from`; none if it leaves the repository.
pub(super) fn resolve(from: &str, to: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/guide.md", text),
            ("docs/errors.md", "# Errors\n## How to, read\n## How to, read\n"),
            ("lib/core/src/decide.rs", ""),
        ]);
        places(&find(&tree))
    }

    #[test]
    fn links_anchors_and_paths_that_exist_pass() {
        let text = "# Own\n[a](errors.md) [b](errors.md#how-to-read-1) [c](#own) [d](../lib/core)\n\
            [e](https://example.com/x.md) `lib/core/src/decide.rs` `errors.md` `lib/core/`\n\
            `src/*.rs` `cargo run x.rs` `/v1/payments.json`\n```\n[x](no.md) `lib/no.rs`\n```\n";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(found("x\n[a](no.md)\n"), ["docs/guide.md:2"]);
        assert_eq!(found("[a](../../beyond.md)"), ["docs/guide.md:1"]);
        assert_eq!(found("[a](errors.md#gone)"), ["docs/guide.md:1"]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        assert_eq!(found("`lib/core/src/gone.rs`"), ["docs/guide.md:1"]);
        assert_eq!(found("`lib/gone`"), ["docs/guide.md:1"]);
        assert_eq!(found("`core/src/decide.rs`"), ["docs/guide.md:1"]);
    }
}
