//! Imports stand first, in three blocks: std, foreign, ours; one empty line between blocks.

use std::collections::BTreeSet;
use std::ops::Range;

use super::finding::Finding;
use super::rust::Source;
use super::tree::Tree;

const STD: &[&str] = &["std", "core", "alloc"];
const PATHS_OF_OURS: &[&str] = &["crate", "self", "super"];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Block {
    Std,
    Foreign,
    Ours,
}

/// One private `use` at the top level of a module.
struct Import {
    block: Block,
    lines: Range<usize>,
}

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let members: BTreeSet<String> =
        tree.graph.members.iter().map(|member| member.name.replace('-', "_")).collect();
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        let text: Vec<&str> = tree.text(path).unwrap_or_default().lines().collect();
        let module = 0..source.code.len();
        Reader { path, source, text: &text, members: &members }.module(module, &mut findings);
    }
    findings
}

struct Reader<'a> {
    path: &'a str,
    source: &'a Source,
    text: &'a [&'a str],
    members: &'a BTreeSet<String>,
}

impl Reader<'_> {
    /// Judges one module's imports and those of the modules inside it.
    fn module(&self, body: Range<usize>, findings: &mut Vec<Finding>) {
        let own_modules = self.own_modules(body.clone());
        let (mut imports, mut at, mut after_items) = (Vec::new(), body.start, false);
        while at < body.end {
            let item = self.item(at, body.end);
            match self.source.word(item.keyword) {
                "use" if item.keyword == item.start => {
                    if after_items {
                        let message = "this import stands below other items: move it to the top";
                        findings.push(self.finding(item.keyword, message));
                    }
                    imports.push(self.import(&item, &own_modules));
                }
                "mod" => {
                    let open = item.keyword + 2;
                    if self.source.word(open) == "{" {
                        self.module(open + 1..item.end - 1, findings);
                        after_items = true;
                    }
                }
                "fn" | "struct" | "enum" | "impl" | "trait" | "const" | "static" | "type" => {
                    after_items = true;
                }
                _ => {}
            }
            at = item.end;
        }
        self.blocks(&imports, findings);
    }

    fn blocks(&self, imports: &[Import], findings: &mut Vec<Finding>) {
        for pair in imports.windows(2) {
            let [before, after] = pair else { continue };
            let between = self.text.get(before.lines.end..after.lines.start - 1);
            let parted = between.unwrap_or_default().iter().any(|line| line.trim().is_empty());
            let fault = if after.block < before.block {
                "imports stand in the order std, foreign, ours"
            } else if after.block > before.block && !parted {
                "an empty line parts the blocks std, foreign and ours"
            } else if after.block == before.block && parted {
                "imports of one block stand together, without an empty line"
            } else {
                continue;
            };
            findings.push(Finding::new(self.path, after.lines.start, fault));
        }
    }

    fn own_modules(&self, body: Range<usize>) -> BTreeSet<&str> {
        let named = body.filter(|&at| self.source.word(at) == "mod");
        named.map(|at| self.source.word(at + 1)).collect()
    }

    fn import(&self, item: &Item, own_modules: &BTreeSet<&str>) -> Import {
        let names = (item.keyword + 1..item.end).map(|at| self.source.word(at));
        let mut first = names.skip_while(|word| matches!(*word, ":" | "{"));
        let first = first.next().unwrap_or_default();
        let is_ours = PATHS_OF_OURS.contains(&first)
            || self.members.contains(first)
            || own_modules.contains(first)
            || first.starts_with(char::is_uppercase);
        let block = match first {
            _ if STD.contains(&first) => Block::Std,
            _ if is_ours => Block::Ours,
            _ => Block::Foreign,
        };
        let lines = self.source.line(item.keyword)..self.source.line(item.end - 1);
        Import { block, lines }
    }

    /// The item at `at`: its attributes are skipped, its visibility is not its keyword.
    fn item(&self, mut at: usize, end: usize) -> Item {
        while self.source.word(at) == "#" {
            let bracket = if self.source.word(at + 1) == "!" { at + 2 } else { at + 1 };
            at = self.source.after_group(bracket);
        }
        let start = at;
        let mut keyword = at;
        if self.source.word(keyword) == "pub" {
            keyword += 1;
            if self.source.word(keyword) == "(" {
                keyword = self.source.after_group(keyword);
            }
        }
        let is_braced = !matches!(self.source.word(keyword), "use" | "const" | "static" | "type");
        while at < end {
            match self.source.word(at) {
                ";" => return Item { start, keyword, end: at + 1 },
                "{" if is_braced => {
                    return Item { start, keyword, end: self.source.after_group(at) };
                }
                "{" | "(" | "[" => at = self.source.after_group(at),
                _ => at += 1,
            }
        }
        Item { start, keyword, end: std::cmp::max(end, keyword + 1) }
    }

    fn finding(&self, at: usize, message: &str) -> Finding {
        Finding::new(self.path, self.source.line(at), message)
    }
}

struct Item {
    start: usize,
    keyword: usize,
    end: usize,
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::super::graph::members;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let graph = members(&[("hapax-core", "lib/core", &[]), ("testkit", "dev/testkit", &[])]);
        places(&find(&Tree::of(&[("a/src/x.rs", text)]).with(graph)))
    }

    #[test]
    fn three_blocks_in_order_pass() {
        let text = "//! Head.\n#![expect(missing_docs, reason = \"x\")]\n\nuse std::fmt;\n\
            use std::io::{\n    self,\n};\n\nuse anyhow::Context as _;\n\
            #[cfg(unix)]\nuse tokio::x;\n\n\
            use crate::clock;\nuse hapax_core::Id;\nuse testkit::Server;\n\nmod clock;\n\
            pub use clock::Clock;\n\nconst A: [u8; 2] = [1, 2];\nfn f() { use std::mem; }\n";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }

    #[test]
    fn blocks_out_of_order_are_found() {
        assert_eq!(found("use anyhow::bail;\n\nuse std::fmt;\n"), ["a/src/x.rs:3"]);
        assert_eq!(found("use crate::a;\n\nuse serde::Serialize;\n"), ["a/src/x.rs:3"]);
    }

    #[test]
    fn blocks_that_touch_and_blocks_that_are_torn_are_found() {
        assert_eq!(found("use std::fmt;\nuse serde::Serialize;\n"), ["a/src/x.rs:2"]);
        assert_eq!(found("use std::fmt;\n\nuse std::io;\n"), ["a/src/x.rs:3"]);
    }

    #[test]
    fn a_module_of_this_file_is_ours() {
        assert!(found("use serde::A;\n\nuse inner::B;\n\nmod inner;\n").is_empty());
    }

    #[test]
    fn the_imports_of_an_inner_module_are_judged_too() {
        let text =
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    use super::*;\n    use std::fmt;\n}\n";
        assert_eq!(found(text), ["a/src/x.rs:5"]);
    }

    #[test]
    fn an_import_below_other_items_is_found() {
        assert_eq!(
            found("use std::fmt;\n\nfn f() {}\n\nuse std::io;\n"),
            ["a/src/x.rs:5", "a/src/x.rs:5"]
        );
    }
}
