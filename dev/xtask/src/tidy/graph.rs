//! The crates of the workspace and everything they pull in, as cargo resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::run;

/// Our crates, and the packages that end up in what we ship.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) members: Vec<Member>,
    pub(crate) packages: Vec<Pulled>,
}

/// One of our crates.
#[derive(Clone, Default)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Folder from the root, without a slash at the end.
    pub(crate) dir: String,
    pub(crate) description: Option<String>,
    /// Names in its `[dependencies]` and `[build-dependencies]`.
    pub(crate) uses: BTreeSet<String>,
    /// Names in its `[dev-dependencies]`.
    pub(crate) tests_with: BTreeSet<String>,
    /// First source file of each target.
    pub(crate) roots: Vec<String>,
}

/// One resolved package, ours or foreign.
#[derive(Clone, Default)]
pub(crate) struct Pulled {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    pub(crate) origin: Origin,
    /// Indices of the packages that it needs to be built and run; tests do not count.
    pub(crate) needs: Vec<usize>,
}

/// Where a package's source comes from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Origin {
    #[default]
    Ours,
    Registry,
    Elsewhere,
}

impl Member {
    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.dir)
    }

    pub(crate) fn holds(&self, path: &str) -> bool {
        path.strip_prefix(self.dir.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl Graph {
    /// Asks cargo; `options` choose platforms and features.
    pub(crate) fn load(root: &Path, options: &[String]) -> anyhow::Result<Self> {
        let metadata = MetadataCommand::new()
            .cargo_path(run::cargo())
            .current_dir(root)
            .no_deps()
            .exec()
            .context("failed to read the crates of the workspace")?;
        let members = metadata.workspace_packages().into_iter();
        let members = members.map(|package| member(&metadata, package)).collect();
        // Not `cargo metadata`, which also lists optional packages that no feature turns on.
        let listed = Command::new(run::cargo())
            .args(["tree", "--workspace", "--edges", "normal,build", "--prefix", "depth"])
            .args(["--format", "{p}|{l}"])
            .args(options)
            .current_dir(root)
            .output()
            .context("failed to start cargo")?;
        if !listed.status.success() {
            bail!("cargo tree failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let listed = String::from_utf8(listed.stdout).context("cargo tree is not UTF-8")?;
        Ok(Self { members, packages: packages(&listed, root) })
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Everything that `name` pulls in, itself included, as indices into `packages`.
    pub(crate) fn closure(&self, name: &str) -> BTreeSet<usize> {
        let start = self.packages.iter().position(|package| package.name == name);
        let mut open: Vec<usize> = start.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(index) = open.pop() {
            if seen.insert(index)
                && let Some(package) = self.packages.get(index)
            {
                open.extend(&package.needs);
            }
        }
        seen
    }

    /// Everything that ends up in any of our crates.
    pub(crate) fn shipped(&self) -> BTreeSet<usize> {
        self.members.iter().flat_map(|member| self.closure(&member.name)).collect()
    }
}

/// Reads the lines `<depth><name> v<version> (<origin>)|<licence>` of `cargo tree`.
fn packages(tree: &str, root: &Path) -> Vec<Pulled> {
    let mut packages: Vec<Pulled> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut path: Vec<usize> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or_default();
        let (depth, line) = line.split_at(digits);
        let (package, licence) =
            line.trim_end_matches(" (*)").split_once('|').unwrap_or((line, ""));
        let at = *index.entry(package).or_insert_with(|| {
            packages.push(pulled(package, licence, root));
            packages.len() - 1
        });
        path.truncate(depth.parse().unwrap_or_default());
        if let Some(parent) = path.last().and_then(|parent| packages.get_mut(*parent))
            && !parent.needs.contains(&at)
        {
            parent.needs.push(at);
        }
        path.push(at);
    }
    packages
}

fn pulled(package: &str, licence: &str, root: &Path) -> Pulled {
    let package = package.replace(" (proc-macro)", "");
    let mut words = package.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, version, origin) = (word(), word(), word().trim_matches(['(', ')']));
    let origin = match origin {
        "" => Origin::Registry,
        path if Path::new(path).starts_with(root) => Origin::Ours,
        _ => Origin::Elsewhere,
    };
    Pulled {
        name: name.to_owned(),
        version: version.trim_start_matches('v').to_owned(),
        licence: Some(licence.to_owned()).filter(|licence| !licence.is_empty()),
        origin,
        needs: Vec::new(),
    }
}

fn member(metadata: &Metadata, package: &Package) -> Member {
    let root = &metadata.workspace_root;
    let from_root = |path: &cargo_metadata::camino::Utf8Path| {
        path.strip_prefix(root).unwrap_or(path).to_string()
    };
    let named = |in_tests: bool| {
        let kinds = package.dependencies.iter();
        kinds
            .filter(|dep| (dep.kind == DependencyKind::Development) == in_tests)
            .map(|dep| dep.name.clone())
            .collect()
    };
    Member {
        name: package.name.to_string(),
        dir: package.manifest_path.parent().map(from_root).unwrap_or_default(),
        description: package.description.clone(),
        uses: named(false),
        tests_with: named(true),
        roots: package.targets.iter().map(|target| from_root(&target.src_path)).collect(),
    }
}

/// Members with the given normal dependencies, in folders that follow from their names.
#[cfg(test)]
pub(crate) fn members(uses: &[(&str, &str, &[&str])]) -> Graph {
    let members = uses
        .iter()
        .map(|(name, dir, uses)| Member {
            name: (*name).to_owned(),
            dir: (*dir).to_owned(),
            description: Some("Something".to_owned()),
            uses: uses.iter().map(|&name| name.to_owned()).collect(),
            roots: vec![format!("{dir}/src/lib.rs")],
            ..Member::default()
        })
        .collect();
    Graph { members, packages: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_follows_needs_and_survives_a_cycle() {
        let package = |name: &str, needs: &[usize]| Pulled {
            name: name.to_owned(),
            needs: needs.to_vec(),
            ..Pulled::default()
        };
        let graph = Graph {
            members: Vec::new(),
            packages: vec![
                package("a", &[1]),
                package("b", &[2]),
                package("c", &[1]),
                package("d", &[]),
            ],
        };

        assert_eq!(graph.closure("a"), BTreeSet::from([0, 1, 2]));
        assert_eq!(graph.closure("d"), BTreeSet::from([3]));
        assert!(graph.closure("nobody").is_empty());
    }

    #[test]
    fn a_tree_of_cargo_is_read_with_its_edges() {
        let tree = "0a v0.1.0 (/w/lib/a)|MIT\n1b v2.0.0 (proc-macro)|ISC\n2c v1.0.0|\n\
            1c v1.0.0|\n\n0d v0.1.0 (/w/lib/d)|MIT\n\
            1b v2.0.0 (proc-macro)|ISC (*)\n1e v1.0.0 (/other/e)|MIT\n";

        let packages = packages(tree, Path::new("/w"));

        let facts: Vec<_> =
            packages.iter().map(|p| (p.name.as_str(), p.origin, p.needs.clone())).collect();
        assert_eq!(
            facts,
            [
                ("a", Origin::Ours, vec![1, 2]),
                ("b", Origin::Registry, vec![2]),
                ("c", Origin::Registry, vec![]),
                ("d", Origin::Ours, vec![1, 4]),
                ("e", Origin::Elsewhere, vec![]),
            ]
        );
        assert_eq!(packages[1].version, "2.0.0");
        assert_eq!(packages[1].licence.as_deref(), Some("ISC"));
        assert_eq!(packages[2].licence, None);
    }

    #[test]
    fn a_member_holds_only_its_own_folder() {
        let graph = members(&[("hapax-core", "lib/core", &[])]);
        let core = graph.member("hapax-core").unwrap();

        assert!(core.holds("lib/core/src/lib.rs"));
        assert!(!core.holds("lib/core-notes/src/lib.rs"));
    }
}
