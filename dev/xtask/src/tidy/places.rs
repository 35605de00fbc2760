//! Nothing names a place that only one machine has: no checkout's path, no registry's host.

use super::finding::Finding;
use super::links::resolve;
use super::markdown;
use super::tree::Tree;

/// First parts of absolute paths under which people keep their checkouts and throw-away files.
const CHECKOUTS: &[&str] = &["Users", "builds", "home", "mnt", "root", "tmp", "work", "workspace"];
/// Hosts of package registries, as parts: a client knows its own, and mirrors have others.
const REGISTRIES: &[&[&str]] = &[
    &["crates", "io"],
    &["debian", "org"],
    &["npmjs", "org"],
    &["pypi", "org"],
    &["pythonhosted", "org"],
    &["golang", "org"],
];
/// Files that a package client writes, hosts included.
const WRITTEN_BY_CLIENTS: &[&str] = &["Cargo.lock", "package-lock.json"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let hosts: Vec<String> = REGISTRIES.iter().map(|parts| parts.join(".")).collect();
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let file = path.rsplit('/').next().unwrap_or(path);
        if WRITTEN_BY_CLIENTS.contains(&file) {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let mut add = |message: String| findings.push(Finding::new(path, at + 1, message));
            if let Some(place) = checkout(line) {
                add(format!("`{place}` is a place on one machine: name it relative to the root"));
            }
            if let Some(host) = hosts.iter().find(|host| names_host(line, host)) {
                add(format!("{host} is a registry's host: say \"the package registry\""));
            }
        }
        if path.ends_with(".md") {
            findings.extend(beyond_the_root(path, text));
        }
    }
    findings
}

/// The absolute path in the line that begins with a checkout's folder.
fn checkout(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        let rest = line.get(at + 1..)?;
        let first = rest.split('/').next()?;
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && !".:/_-~}>)]*".contains(c));
        let ends = rest.get(first.len()..).is_some_and(|rest| rest.starts_with('/'));
        (begins && ends && CHECKOUTS.contains(&first)).then_some(())?;
        line.get(at..=at + 1 + first.len())
    })
}

fn names_host(line: &str, host: &str) -> bool {
    line.match_indices(host).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + host.len()..).and_then(|text| text.chars().next());
        let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

/// Paths in a document that climb out of the repository.
fn beyond_the_root(path: &str, text: &str) -> Vec<Finding> {
    let lines = markdown::lines(text).into_iter().filter(|line| !line.is_code());
    lines
        .filter(|line| {
            let words = line.text.split(|c: char| c.is_whitespace() || "`()[]\"'<>".contains(c));
            words.filter(|word| word.starts_with("../")).any(|word| resolve(path, word).is_none())
        })
        .map(|line| Finding::new(path, line.number, "names a file outside the repository"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        places(&find(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for folder in CHECKOUTS {
            let text = format!("fine\nsee `/{folder}/x`\n");
            assert_eq!(found("a.md", &text), ["a.md:2"], "{text}");
        }
    }

    #[test]
    fn routes_urls_and_relative_paths_pass() {
        let text = "/v1/payments /etc/hapax https://example.com/home/x ../tmp/x $DIR/work/x \
            the /tmp folder, and/or, target/tmp/x";
        assert!(found("a.rs", text).is_empty(), "{:?}", found("a.rs", text));
    }

    #[test]
    fn a_registry_host_is_found_except_in_lock_files() {
        for parts in REGISTRIES {
            let host = parts.join(".");
            for text in [format!("https://{host}/x"), format!("at {host}."), format!("a.{host}")] {
                assert_eq!(found("a.md", &text), ["a.md:1"], "{text}");
                assert!(found("Cargo.lock", &text).is_empty());
                assert!(found("web/client/package-lock.json", &text).is_empty());
            }
            assert!(found("a.md", &format!("not{host} {host}n")).is_empty());
        }
    }

    #[test]
    fn a_path_out_of_the_repository_is_found() {
        assert_eq!(found("docs/a.md", "x\nsee `../../elsewhere/b.md`\n"), ["docs/a.md:2"]);
        assert!(found("docs/a.md", "[b](../b.md)\n").is_empty());
    }
}
