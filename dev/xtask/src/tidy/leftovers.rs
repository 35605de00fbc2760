//! Nothing is left behind: no open mark without an issue, no ignored test, no unfinished body.

use super::finding::Finding;
use super::markdown;
use super::rust::Source;
use super::tree::Tree;

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];
/// Other files whose comments people write.
const COMMENTED: &[&str] =
    &[".toml", ".sh", ".sql", ".lua", ".ts", ".css", ".html", ".yml", ".yaml"];
const UNFINISHED: &[&str] = &["todo", "unimplemented"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        findings.extend(in_code(path, source));
        for comment in &source.comments {
            for (at, line) in comment.text.lines().enumerate() {
                findings.extend(open_mark(path, comment.line + at, line));
            }
        }
    }
    for (path, text) in tree.texts() {
        if path.ends_with(".md") {
            let lines = markdown::lines(text).into_iter().filter(|line| !line.is_code());
            findings.extend(lines.filter_map(|line| open_mark(path, line.number, line.text)));
        } else if COMMENTED.iter().any(|end| path.ends_with(end)) {
            let lines = text.lines().enumerate();
            findings.extend(lines.filter_map(|(at, line)| open_mark(path, at + 1, line)));
        }
    }
    findings
}

fn in_code(path: &str, source: &Source) -> Vec<Finding> {
    let all = 0..source.code.len();
    all.filter_map(|at| {
        let message = if source.reads(at, &["#", "[", "ignore"]) {
            "an ignored test proves nothing: make it run or remove it".to_owned()
        } else if UNFINISHED.contains(&source.word(at)) && source.word(at + 1) == "!" {
            format!("`{}!` is a body nobody wrote: write it or return an error", source.word(at))
        } else {
            return None;
        };
        Some(Finding::new(path, source.line(at), message))
    })
    .collect()
}

/// A mark in prose; one in a code span is only spoken about.
fn open_mark(path: &str, line: usize, text: &str) -> Option<Finding> {
    let prose = markdown::without_spans(text);
    let mut words = prose.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mark = words.find(|word| MARKS.contains(word))?;
    let has_issue =
        prose.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (!has_issue)
        .then(|| Finding::new(path, line, format!("{mark} without an issue: write `{mark} #12`")))
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        places(&find(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn an_open_mark_needs_an_issue() {
        assert_eq!(found("a.rs", "fn f() {}\n// TODO: later\n"), ["a.rs:2"]);
        assert_eq!(found("a.rs", "/* one\n FIXME */"), ["a.rs:2"]);
        assert_eq!(found("a.md", "Text\nXXX\n"), ["a.md:2"]);
        assert_eq!(found("a.sql", "-- TODO index\n"), ["a.sql:1"]);
    }

    #[test]
    fn a_mark_with_an_issue_in_a_string_or_in_a_span_passes() {
        assert!(
            found("a.rs", "// TODO #12: later\nlet a = \"TODO\"; // `TODO` is a word\n").is_empty()
        );
        assert!(found("a.md", "No `TODO`.\n```\nTODO\n```\n").is_empty());
        assert!(found("a.rs", "// XXXL, TODOS\n").is_empty());
    }

    #[test]
    fn an_ignored_test_and_an_unfinished_body_are_found() {
        assert_eq!(
            found("a.rs", "#[test]\n#[ignore]\nfn f() {\n    todo!()\n}\n"),
            ["a.rs:2", "a.rs:4"]
        );
        assert_eq!(found("a.rs", "#[ignore = \"slow\"]\nfn f() { unimplemented!() }\n").len(), 2);
        assert!(found("a.rs", "fn todo() { ignore(\"todo!()\") }").is_empty());
    }
}
