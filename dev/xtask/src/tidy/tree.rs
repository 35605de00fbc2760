//! The repository as the rules see it: texts, parsed sources and the graph of crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::graph::Graph;
use super::rust::Source;

/// Larger files hold data, not text that a person keeps in order.
const TEXT_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Everything that is or would be committed.
#[derive(Default)]
pub(crate) struct Tree {
    /// Every file, text or not, by its path from the root.
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
    pub(crate) graph: Graph,
}

impl Tree {
    /// Reads the files that git tracks or would track, and asks cargo for the graph.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        for path in tracked(root)? {
            let file = root.join(&path);
            // A file that is deleted but not yet committed as deleted.
            let Ok(facts) = file.metadata() else { continue };
            if !facts.is_file() {
                continue;
            }
            let bytes = if facts.len() <= TEXT_BYTES_MAX {
                std::fs::read(&file).with_context(|| format!("failed to read {path}"))?
            } else {
                Vec::new()
            };
            tree.add(&path, String::from_utf8(bytes).ok());
        }
        let options = tree.text("deny.toml").map(graph_options).unwrap_or_default();
        tree.graph = Graph::load(root, &options)?;
        Ok(tree)
    }

    /// A tree of the given files, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, Some((*text).to_owned()));
        }
        tree
    }

    /// The same tree with a graph, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn with(mut self, graph: Graph) -> Self {
        self.graph = graph;
        self
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(path, source)| (path.as_str(), source))
    }

    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        self.sources.get(path)
    }

    /// True for a file, and for a folder that holds one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path)
            || self.paths.range(folder.clone()..).next().is_some_and(|p| p.starts_with(&folder))
    }

    fn add(&mut self, path: &str, text: Option<String>) {
        self.paths.insert(path.to_owned());
        let Some(text) = text else { return };
        if path.ends_with(".rs") {
            self.sources.insert(path.to_owned(), Source::parse(path, &text));
        }
        self.texts.insert(path.to_owned(), text);
    }
}

fn tracked(root: &Path) -> anyhow::Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("failed to start git; tidy checks the files that git tracks")?;
    if !listed.status.success() {
        bail!("git could not list the files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    }
    let listed = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// The platforms and features that `deny.toml` speaks about, as options of `cargo tree`.
///
/// A file that can't be read gives none; the rule of that file reports it.
fn graph_options(deny: &str) -> Vec<String> {
    let Ok(table) = deny.parse::<toml::Table>() else { return Vec::new() };
    let graph = table.get("graph");
    let listed = graph.and_then(|graph| graph.get("targets")).and_then(toml::Value::as_array);
    let targets = listed.into_iter().flatten().filter_map(toml::Value::as_str);
    let targets = targets.flat_map(|target| ["--target".to_owned(), target.to_owned()]);
    let every = graph.and_then(|graph| graph.get("all-features")).and_then(toml::Value::as_bool);
    let features = every.filter(|every| *every).map(|_| "--all-features".to_owned());
    targets.chain(features).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_only_through_its_files() {
        let tree = Tree::of(&[("lib/core/src/lib.rs", ""), ("lib-notes.md", "")]);

        for path in ["lib", "lib/", "lib/core", "lib/core/src/lib.rs"] {
            assert!(tree.has(path), "{path}");
        }
        for path in ["li", "lib/cor", "lib/core/src/lib"] {
            assert!(!tree.has(path), "{path}");
        }
    }

    #[test]
    fn platforms_and_features_come_from_the_graph_table() {
        let deny = "[graph]\ntargets = [\"a\", \"b\"]\nall-features = true\n";
        assert_eq!(graph_options(deny), ["--target", "a", "--target", "b", "--all-features"]);
        assert!(graph_options("[graph]\nall-features = false\n").is_empty());
    }
}
