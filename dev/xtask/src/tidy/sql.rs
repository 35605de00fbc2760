//! SQL lives in files named sql.rs, and each statement carries its const's name.
//!
//! The name is the first line of the statement, so a server's log leads back to the code.

use super::finding::Finding;
use super::rust::Source;
use super::tree::Tree;

/// Where SQL may stand in a string besides files named sql.rs and tests.
const ELSEWHERE: &[(&str, &str)] = &[
    ("/migrations/", "migrations are SQL"),
    ("dev/", "what proves the others may ask the database directly"),
    ("/plans.rs", "a test of statements: it fills the tables that they search"),
    ("apps/pay/src/db/guards.rs", "a test of statements: it breaks them on purpose"),
];
/// Words that together make a statement, in order.
const STATEMENTS: &[&[&str]] =
    &[&["INSERT INTO"], &["DELETE FROM"], &["SELECT ", " FROM "], &["UPDATE ", " SET "]];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.sources() {
        if path.rsplit('/').next() == Some("sql.rs") && !path.starts_with("dev/") {
            findings.extend(misnamed(path, source));
        } else if !ELSEWHERE
            .iter()
            .any(|(place, _)| path.starts_with(place) || path.contains(place))
        {
            let statements = statements(source).filter(|(at, _)| !is_in_test(source, *at));
            findings.extend(statements.map(|(at, _)| {
                let message = "SQL outside sql.rs: move the statement there and call it by name";
                Finding::new(path, source.line(at), message)
            }));
        }
    }
    findings
}

fn misnamed(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, statement) in statements(source).filter(|(at, _)| !is_in_test(source, *at)) {
        let mut add = |message: String| findings.push(Finding::new(path, source.line(at), message));
        let first = statement.trim_start().lines().next().unwrap_or_default().trim_end();
        match const_of(source, at) {
            Some(name) if first != format!("-- {}", name.to_lowercase()) => {
                add(format!(
                    "begin the statement {name} with the line `-- {}`",
                    name.to_lowercase()
                ));
            }
            None if !first.starts_with("-- ") && !is_piece(source, at) => {
                add("begin the statement with a line `-- name`".to_owned());
            }
            _ => {}
        }
        if normal(statement).contains("SELECT *") {
            add("name the columns: `SELECT *` changes its meaning with the schema".to_owned());
        }
    }
    findings
}

/// The const that the literal at `at` begins: `const NAME: … = "…"` or `= concat!("…"`.
fn const_of(source: &Source, at: usize) -> Option<&str> {
    let equals =
        if source.reads(at.checked_sub(3)?, &["concat", "!", "("]) { at - 4 } else { at - 1 };
    if source.word(equals) != "=" {
        return None;
    }
    let begin = (0..equals).rev().take_while(|&at| !matches!(source.word(at), ";" | "{" | "}"));
    let keyword = begin.filter(|&at| source.word(at) == "const").last()?;
    Some(source.word(keyword + 1))
}

/// Whether the literal at `at` is put together with others: a later part of a `concat!`, or the
/// part of a macro that several statements share. The name stands before the first part.
fn is_piece(source: &Source, at: usize) -> bool {
    let follows = at.checked_sub(1).is_some_and(|before| source.word(before) == ",");
    let macros = (0..at).filter(|&begin| source.word(begin) == "macro_rules");
    follows || macros.into_iter().any(|begin| at < end_of(source, begin))
}

/// Where the braces that are opened after `begin` are all closed.
fn end_of(source: &Source, begin: usize) -> usize {
    let mut open = 0_u32;
    for at in begin..source.code.len() {
        match source.word(at) {
            "{" => open += 1,
            "}" if open <= 1 => return at,
            "}" => open -= 1,
            _ => {}
        }
    }
    source.code.len()
}

/// Literals that hold a statement, with their index in the code.
fn statements(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let literals = (0..source.code.len()).filter_map(|at| Some((at, source.literal(at)?)));
    literals.filter(|(_, text)| is_statement(text))
}

fn is_in_test(source: &Source, at: usize) -> bool {
    source.code.get(at).is_some_and(|code| code.in_test)
}

fn is_statement(text: &str) -> bool {
    let text = normal(text);
    let has_all = |text: &str, words: &[&str]| {
        words
            .iter()
            .try_fold(text, |rest, word| rest.split_once(word).map(|(_, rest)| rest))
            .is_some()
    };
    let begins =
        |words: &[&str]| words.first().is_some_and(|word| text.to_uppercase().starts_with(word));
    STATEMENTS.iter().any(|words| {
        has_all(&text, words) || (begins(words) && has_all(&text.to_uppercase(), words))
    })
}

/// One space between words, so that clauses on their own lines are found.
fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::finding::places;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        places(&find(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn named_statements_pass() {
        let text = "pub(crate) const CLAIM_INSERT: &str = \"\\\n-- claim_insert\n\
            INSERT INTO r (id)\nVALUES (?)\";\nimpl Dialect for Sqlite {\n\
            const LOOK: &'static str =\n    concat!(\"-- look\\nSELECT a\", \" FROM b\");\n\
            const TELL: &'static str = concat!(\"-- tell\\n\", \"DELETE FROM r\", tail!());\n\
            fn f() -> &'static str { \"-- f\\nDELETE FROM r\" } }\n";
        assert!(
            found("lib/store/src/sql.rs", text).is_empty(),
            "{:?}",
            found("lib/store/src/sql.rs", text)
        );
    }

    #[test]
    fn a_part_that_statements_share_has_no_name() {
        let text = "macro_rules! rows { () => { \"SELECT a\\nFROM r\" }; }\n";
        assert!(found("lib/store/src/sql.rs", text).is_empty());
        let text = format!("{text}fn f() -> &'static str {{ \"DELETE FROM r\" }}");
        assert_eq!(found("lib/store/src/sql.rs", &text), ["lib/store/src/sql.rs:2"]);
    }

    #[test]
    fn a_misnamed_statement_is_found() {
        for text in [
            "const CLAIM: &str = \"INSERT INTO r (id) VALUES (?)\";",
            "const CLAIM: &str = \"-- other\\nINSERT INTO r (id) VALUES (?)\";",
            "const CLAIM: &str = \"-- claim \\\n  INSERT INTO r (id) VALUES (?)\";",
            "fn f() -> &'static str { \"DELETE FROM r\" }",
        ] {
            assert_eq!(found("lib/store/src/sql.rs", text), ["lib/store/src/sql.rs:1"], "{text}");
        }
    }

    #[test]
    fn a_star_is_found() {
        let text = "const LOOK: &str = \"-- look\\nSELECT *\\nFROM r\";";
        assert_eq!(found("lib/store/src/sql.rs", text), ["lib/store/src/sql.rs:1"]);
    }

    #[test]
    fn sql_outside_its_files_is_found() {
        for statement in [
            "INSERT INTO r VALUES (1)",
            "SELECT a\n  FROM b",
            "UPDATE r\nSET a = 1",
            "with x as (SELECT a FROM b) DELETE FROM c",
            "select a from b",
        ] {
            let text = format!("fn f() {{\n  query(r#\"{statement}\"#);\n}}");
            assert_eq!(
                found("lib/store/src/claim.rs", &text),
                ["lib/store/src/claim.rs:2"],
                "{text}"
            );
            assert!(found("dev/bench/src/main.rs", &text).is_empty());
            assert!(found("lib/store/tests/it/main.rs", &text).is_empty());
        }
    }

    #[test]
    fn prose_that_sounds_like_sql_passes() {
        let text = "const A: &str = \"please select one from the list\"; // SELECT a FROM b\n\
            const B: &str = \"failed to update the set\";\n\
            #[cfg(test)] fn t() { q(\"SELECT 1 FROM r\") }";
        assert!(found("lib/store/src/claim.rs", text).is_empty());
    }
}
