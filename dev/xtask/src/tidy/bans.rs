//! The bans, licences and sources of `deny.toml`, enforced without an extra tool.
//!
//! The file stays the one place of the rules; cargo-deny reads the same tables elsewhere.

use toml::{Table, Value};

use super::finding::Finding;
use super::graph::{Origin, Pulled};
use super::tree::Tree;

const FILE: &str = "deny.toml";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(FILE) else {
        return vec![Finding::new(FILE, 1, "is missing: it names banned crates and licences")];
    };
    let rules = match text.parse::<Table>() {
        Ok(rules) => rules,
        Err(error) => return vec![Finding::new(FILE, 1, format!("is not TOML: {error}"))],
    };
    let graph = &tree.graph;
    let shipped: Vec<(usize, &Pulled)> = graph
        .shipped()
        .into_iter()
        .filter_map(|at| graph.packages.get(at).map(|package| (at, package)))
        .collect();
    let mut findings = banned(text, &rules, &shipped);
    findings.extend(unlicensed(&rules, &shipped));
    findings.extend(reasonless(text, &rules));
    let foreign = shipped.iter().filter(|(_, package)| package.origin == Origin::Elsewhere);
    findings.extend(foreign.map(|(_, package)| {
        let message = "comes from neither this workspace nor the default registry";
        Finding::new("Cargo.lock", 1, format!("{} {}: {message}", package.name, package.version))
    }));
    findings
}

fn banned(text: &str, rules: &Table, shipped: &[(usize, &Pulled)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in entries(rules, "bans", "deny") {
        let Some(name) = ban.get("crate").and_then(Value::as_str) else { continue };
        let wrappers = strings(ban.get("wrappers"));
        for (at, package) in shipped.iter().filter(|(_, package)| package.name == name) {
            let users = shipped.iter().filter(|(_, user)| user.needs.contains(at));
            let barred: Vec<&str> = users
                .map(|(_, user)| user.name.as_str())
                .filter(|user| !wrappers.contains(user))
                .collect();
            if !barred.is_empty() {
                let reason = ban.get("reason").and_then(Value::as_str).unwrap_or_default();
                let users = barred.join(", ");
                let message = format!("{name} {} comes in by {users}: {reason}", package.version);
                findings.push(Finding::new(FILE, line_of(text, &format!("\"{name}\"")), message));
            }
        }
    }
    findings
}

fn unlicensed(rules: &Table, shipped: &[(usize, &Pulled)]) -> Vec<Finding> {
    let licences = rules.get("licenses");
    let allowed = strings(licences.and_then(|table| table.get("allow")));
    let exceptions = entries(rules, "licenses", "exceptions");
    let mut findings = Vec::new();
    for (_, package) in shipped {
        let excepted = exceptions
            .iter()
            .filter(|entry| entry.get("crate").and_then(Value::as_str) == Some(&package.name))
            .flat_map(|entry| strings(entry.get("allow")));
        let allowed: Vec<&str> = allowed.iter().copied().chain(excepted).collect();
        let licence = package.licence.as_deref().unwrap_or("no licence");
        if !Expression::parse(licence).is_met_by(&allowed) {
            let what = format!("{} {}", package.name, package.version);
            findings.push(Finding::new(FILE, 1, format!("{what} has a new licence: {licence}")));
        }
    }
    findings
}

/// Each exception says why, or nobody dares to remove it.
fn reasonless(text: &str, rules: &Table) -> Vec<Finding> {
    let lists = [("bans", "deny"), ("bans", "skip"), ("advisories", "ignore")];
    let all = lists.iter().flat_map(|(table, list)| entries(rules, table, list));
    all.filter(|entry| entry.get("reason").and_then(Value::as_str).is_none_or(str::is_empty))
        .map(|entry| {
            let name = entry.get("crate").or_else(|| entry.get("id")).and_then(Value::as_str);
            let name = name.or_else(|| entry.as_str()).unwrap_or("an entry");
            Finding::new(FILE, line_of(text, &format!("\"{name}\"")), format!("{name}: say why"))
        })
        .collect()
}

fn entries<'a>(rules: &'a Table, table: &str, list: &str) -> Vec<&'a Value> {
    let list = rules.get(table).and_then(|table| table.get(list)).and_then(Value::as_array);
    list.into_iter().flatten().collect()
}

fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn line_of(text: &str, needle: &str) -> usize {
    text.lines().position(|line| line.contains(needle)).map_or(1, |at| at + 1)
}

/// An SPDX licence expression: names joined by AND and OR, AND binding tighter.
struct Expression<'a> {
    words: Vec<&'a str>,
}

impl<'a> Expression<'a> {
    /// Older manifests write `A/B` for `A OR B`.
    fn parse(text: &'a str) -> Self {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            for (at, part) in word.split('/').enumerate() {
                if at > 0 {
                    words.push("OR");
                }
                Self::cut_brackets(part, &mut words);
            }
        }
        Self { words }
    }

    fn cut_brackets(part: &'a str, words: &mut Vec<&'a str>) {
        let pieces = part.split_inclusive(['(', ')']);
        for piece in pieces {
            let name = piece.trim_end_matches(['(', ')']);
            words.extend([name].into_iter().filter(|name| !name.is_empty()));
            words.extend(piece.get(name.len()..).filter(|bracket| !bracket.is_empty()));
        }
    }

    fn is_met_by(&self, allowed: &[&str]) -> bool {
        let mut at = 0;
        let met = self.any(&mut at, allowed);
        met && at == self.words.len()
    }

    fn any(&self, at: &mut usize, allowed: &[&str]) -> bool {
        let mut met = self.every(at, allowed);
        while self.takes(at, "OR") {
            met |= self.every(at, allowed);
        }
        met
    }

    fn every(&self, at: &mut usize, allowed: &[&str]) -> bool {
        let mut met = self.one(at, allowed);
        while self.takes(at, "AND") {
            met &= self.one(at, allowed);
        }
        met
    }

    fn one(&self, at: &mut usize, allowed: &[&str]) -> bool {
        if self.takes(at, "(") {
            let met = self.any(at, allowed);
            return self.takes(at, ")") && met;
        }
        let Some(name) = self.words.get(*at) else { return false };
        *at += 1;
        if self.takes(at, "WITH") {
            let exception = self.words.get(*at).copied().unwrap_or_default();
            *at += 1;
            return allowed.contains(&format!("{name} WITH {exception}").as_str());
        }
        allowed.contains(name)
    }

    fn takes(&self, at: &mut usize, word: &str) -> bool {
        let found = self.words.get(*at) == Some(&word);
        *at += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::{Graph, members};
    use super::*;

    const RULES: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n[bans]\ndeny = [\n  \
        { crate = \"ring\", reason = \"one TLS provider\" },\n  \
        { crate = \"rsa\", wrappers = [\"driver\"], reason = \"timing\" },\n]\n";

    fn graph(packages: &[(&str, &str, &[usize])]) -> Graph {
        let mut graph = members(&[("hapax-core", "lib/core", &[])]);
        let pulled = packages.iter().map(|(name, licence, needs)| Pulled {
            name: (*name).to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some((*licence).to_owned()),
            needs: needs.to_vec(),
            ..Pulled::default()
        });
        graph.packages = pulled.collect();
        graph
    }

    fn found(rules: &str, packages: &[(&str, &str, &[usize])]) -> Vec<String> {
        places(&find(&Tree::of(&[(FILE, rules)]).with(graph(packages))))
    }

    #[test]
    fn a_banned_crate_is_found_wherever_it_comes_from() {
        let clean = [("hapax-core", "MIT", &[1][..]), ("a", "MIT", &[]), ("ring", "MIT", &[])];
        assert!(found(RULES, &clean).is_empty(), "ring is in the lock file only");

        let dirty = [("hapax-core", "MIT", &[1][..]), ("a", "MIT", &[2]), ("ring", "MIT", &[])];
        assert_eq!(found(RULES, &dirty), ["deny.toml:5"]);
    }

    #[test]
    fn a_wrapper_may_use_what_others_may_not() {
        let wrapped =
            [("hapax-core", "MIT", &[1][..]), ("driver", "MIT", &[2]), ("rsa", "MIT", &[])];
        assert!(found(RULES, &wrapped).is_empty());

        let bare =
            [("hapax-core", "MIT", &[1, 2][..]), ("driver", "MIT", &[2]), ("rsa", "MIT", &[])];
        assert_eq!(found(RULES, &bare), ["deny.toml:6"]);
    }

    #[test]
    fn a_new_licence_is_found() {
        let package = |licence| [("hapax-core", licence, &[][..])];
        assert!(found(RULES, &package("MIT OR Apache-2.0")).is_empty());
        assert_eq!(found(RULES, &package("GPL-3.0")), ["deny.toml:1"]);
    }

    #[test]
    fn a_source_that_is_not_the_registry_is_found() {
        let mut graph = graph(&[("hapax-core", "MIT", &[1]), ("fork", "MIT", &[])]);
        graph.packages[1].origin = Origin::Elsewhere;

        assert_eq!(places(&find(&Tree::of(&[(FILE, RULES)]).with(graph))), ["Cargo.lock:1"]);
    }

    #[test]
    fn an_exception_without_a_reason_is_found() {
        let rules = "[advisories]\nignore = [\n  \"RUSTSEC-1\",\n]\n";
        assert_eq!(found(rules, &[]), ["deny.toml:3"]);
    }

    #[test]
    fn missing_rules_are_found() {
        assert_eq!(places(&find(&Tree::default())), ["deny.toml:1"]);
        assert_eq!(found("[bans", &[]), ["deny.toml:1"]);
    }

    #[test]
    fn expressions_are_read_as_spdx_reads_them() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for met in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR MIT",
            "GPL-3.0 AND GPL-2.0 OR MIT",
            "ISC AND (GPL-3.0 OR MIT)",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
            "((MIT))",
        ] {
            assert!(Expression::parse(met).is_met_by(&allowed), "{met}");
        }
        for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "", "MIT ISC", "Apache-2.0"] {
            assert!(!Expression::parse(unmet).is_met_by(&allowed), "{unmet}");
        }
    }
}
