//! Each source file belongs to a `mod`: a file that nobody mounts is compiled by nobody.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::rust::Source;
use super::tree::Tree;

/// Files that are compiled otherwise.
const MOUNTED_ELSEWHERE: &[(&str, &str)] =
    &[("/tests/ui/", "trybuild compiles each file alone, most of them in order to see it fail")];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.graph.members {
        let mut mounted = BTreeSet::new();
        let mut open: Vec<(String, Place)> =
            member.roots.iter().map(|root| (root.clone(), Place::Root)).collect();
        while let Some((path, place)) = open.pop() {
            if let Some(source) = tree.source(&path)
                && mounted.insert(path.clone())
            {
                open.extend(mounts(tree, &path, place, source));
            }
        }
        let files = tree.sources().map(|(path, _)| path).filter(|path| member.holds(path));
        let unmounted = files
            .filter(|path| !mounted.contains(*path))
            .filter(|path| !MOUNTED_ELSEWHERE.iter().any(|(part, _)| path.contains(part)));
        findings.extend(unmounted.map(|path| {
            Finding::new(path, 1, "no `mod` mounts this file: remove one or the other")
        }));
    }
    findings
}

/// Where the modules of a file lie: beside it, or in the folder of its name.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Named,
}

/// The files that `mod name;` in this file mounts, in inline modules too.
fn mounts(tree: &Tree, path: &str, place: Place, source: &Source) -> Vec<(String, Place)> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    let own = match place {
        Place::Named if stem != "mod" => join(folder, stem),
        _ => folder.to_owned(),
    };
    let (mut inline, mut depth, mut given): (Vec<(usize, &str)>, usize, Option<&str>) =
        (Vec::new(), 0, None);
    let mut found = Vec::new();
    for at in 0..source.code.len() {
        if source.reads(at, &["[", "path", "="]) {
            given = source.literal(at + 3);
        }
        match source.word(at) {
            "mod" if source.word(at + 2) == ";" => {
                let within = inline.iter().fold(own.clone(), |at, (_, name)| join(&at, name));
                let base = if inline.is_empty() { folder } else { &within };
                found.extend(file_of(
                    tree,
                    source.word(at + 1),
                    &within,
                    given.map(|to| join(base, to)),
                ));
                given = None;
            }
            "mod" if source.word(at + 2) == "{" => {
                inline.push((depth + 1, given.take().unwrap_or_else(|| source.word(at + 1))));
            }
            "{" => depth += 1,
            "}" => {
                inline.retain(|(own_depth, _)| *own_depth < depth);
                depth = depth.saturating_sub(1);
            }
            ";" => given = None,
            _ => {}
        }
    }
    found
}

fn file_of(
    tree: &Tree,
    name: &str,
    folder: &str,
    given: Option<String>,
) -> Option<(String, Place)> {
    if let Some(path) = given {
        // A file mounted by `#[path]` looks for its modules beside itself.
        let path = super::links::resolve("", &path)?;
        return tree.source(&path).map(|_| (path, Place::Root));
    }
    let candidates = [join(folder, &format!("{name}.rs")), join(folder, &format!("{name}/mod.rs"))];
    candidates.into_iter().find(|path| tree.source(path).is_some()).map(|path| (path, Place::Named))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut graph = members(&[("hapax-core", "lib/core", &[])]);
        graph.members[0].roots.push("lib/core/tests/it/main.rs".to_owned());
        places(&find(&Tree::of(files).with(graph)))
    }

    #[test]
    fn files_mounted_in_every_way_pass() {
        let files = [
            ("lib/core/src/lib.rs", "mod a;\npub(crate) mod b;\n#[path = \"odd/name.rs\"]\nmod c;"),
            ("lib/core/src/a.rs", "mod inner { mod deep; } #[cfg(test)]\nmod tests;"),
            ("lib/core/src/a/inner/deep.rs", ""),
            ("lib/core/src/a/tests.rs", ""),
            ("lib/core/src/b/mod.rs", "mod leaf;"),
            ("lib/core/src/b/leaf.rs", "mod twig;"),
            ("lib/core/src/b/leaf/twig.rs", ""),
            ("lib/core/src/odd/name.rs", "mod beside;"),
            ("lib/core/src/odd/beside.rs", ""),
            ("lib/core/tests/it/main.rs", "mod cases;"),
            ("lib/core/tests/it/cases.rs", ""),
            ("lib/core/tests/ui/does_not_compile.rs", ""),
        ];
        assert!(found(&files).is_empty(), "{:?}", found(&files));
    }

    #[test]
    fn a_file_that_nobody_mounts_is_found() {
        let files = [
            ("lib/core/src/lib.rs", "// mod dead;\nconst A: &str = \"mod dead;\"; mod a {}"),
            ("lib/core/src/dead.rs", "mod deader;"),
            ("lib/core/src/dead/deader.rs", ""),
            ("lib/core/tests/it/main.rs", ""),
            ("lib/core/tests/it/forgotten.rs", ""),
        ];
        let expected = [
            "lib/core/src/dead.rs:1",
            "lib/core/src/dead/deader.rs:1",
            "lib/core/tests/it/forgotten.rs:1",
        ];
        assert_eq!(found(&files), expected);
    }

    #[test]
    fn an_inline_module_ends_where_it_ends() {
        let files = [
            ("lib/core/src/lib.rs", "mod outer { fn f() { } } mod after;"),
            ("lib/core/src/after.rs", ""),
            ("lib/core/src/outer/after.rs", ""),
        ];
        assert_eq!(found(&files), ["lib/core/src/outer/after.rs:1"]);
    }
}
