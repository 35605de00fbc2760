//! A file is read in one sitting, a line without turning the head.
//!
//! The length of functions is clippy's (`too_many_lines`).

use super::finding::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 700;
const COLUMNS_MAX: usize = 100;

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let message = format!("{lines} lines: cut the file where its subject changes");
            findings.push(Finding::new(path, LINES_MAX + 1, message));
        }
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_address(line) {
                findings.push(Finding::new(
                    path,
                    at + 1,
                    format!("{columns} columns: break the line"),
                ));
            }
        }
    }
    findings
}

/// An address in a comment cannot be broken.
fn is_address(line: &str) -> bool {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    comment.split_whitespace().any(|word| word.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        places(&find(&Tree::of(&[("a.rs", text), ("a.md", &"x".repeat(200))])))
    }

    #[test]
    fn a_file_at_its_bounds_passes() {
        let line = format!("{}\n", "字".repeat(COLUMNS_MAX));
        assert!(found(&line.repeat(LINES_MAX)).is_empty());
        assert!(found(&format!("// see https://example.com/{}\n", "x".repeat(100))).is_empty());
    }

    #[test]
    fn a_file_beyond_its_bounds_is_found() {
        assert_eq!(found(&"\n".repeat(LINES_MAX + 1)), ["a.rs:701"]);
        assert_eq!(found(&format!("\n{}\n", "x".repeat(COLUMNS_MAX + 1))), ["a.rs:2"]);
        let code = format!("const A: &str = \"https://{}\";\n", "x".repeat(100));
        assert_eq!(found(&code), ["a.rs:1"]);
    }
}
