//! One parsed source file: code, comments, and which code only tests compile.

use std::collections::BTreeSet;

use super::lexer::{self, Kind, Token};

/// Code tokens without comments, and the comments beside them.
pub(crate) struct Source {
    pub(crate) code: Vec<Code>,
    pub(crate) comments: Vec<Token>,
}

#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub(crate) token: Token,
    /// True inside `#[cfg(test)]` items and test functions, and everywhere in test files.
    pub(crate) in_test: bool,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let (comments, code): (Vec<_>, Vec<_>) =
            lexer::tokens(text).into_iter().partition(|token| token.kind == Kind::Comment);
        let everything = is_test_file(path);
        let code = code.into_iter().map(|token| Code { token, in_test: everything }).collect();
        let mut source = Self { code, comments };
        source.mark_tests();
        source
    }

    /// The token at `at` as code text; a string literal never equals code.
    pub(crate) fn word(&self, at: usize) -> &str {
        match self.code.get(at) {
            Some(code) if matches!(code.token.kind, Kind::Word | Kind::Mark) => &code.token.text,
            _ => "",
        }
    }

    /// True if the code from `at` on reads exactly as `pattern`.
    pub(crate) fn reads(&self, at: usize, pattern: &[&str]) -> bool {
        pattern.iter().enumerate().all(|(ahead, text)| self.word(at + ahead) == *text)
    }

    pub(crate) fn literal(&self, at: usize) -> Option<&str> {
        let code = self.code.get(at)?;
        (code.token.kind == Kind::Literal).then_some(code.token.text.as_str())
    }

    pub(crate) fn line(&self, at: usize) -> usize {
        self.code.get(at).map_or(1, |code| code.token.line)
    }

    /// Index after the bracket that closes the one at `open`.
    pub(crate) fn after_group(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for at in open..self.code.len() {
            match self.word(at) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.code.len()
    }

    /// Names of all functions, those inside macros included.
    pub(crate) fn functions(&self) -> BTreeSet<&str> {
        let all = 0..self.code.len();
        all.filter(|&at| self.word(at) == "fn").map(|at| self.word(at + 1)).collect()
    }

    fn mark_tests(&mut self) {
        let mut at = 0;
        while at < self.code.len() {
            if self.reads(at, &["#", "!", "["]) && self.is_test_attribute(at + 2) {
                self.mark(0, self.code.len());
                return;
            }
            if !self.reads(at, &["#", "["]) {
                at += 1;
                continue;
            }
            let end = self.after_group(at + 1);
            if self.is_test_attribute(at + 1) {
                let end = self.after_item(end);
                self.mark(at, end);
                at = end;
            } else {
                at = end;
            }
        }
    }

    fn mark(&mut self, from: usize, to: usize) {
        self.code.iter_mut().take(to).skip(from).for_each(|code| code.in_test = true);
    }

    /// `#[test]`, `#[tokio::test]`, `#[cfg(test)]` or `#[cfg(all(test, …))]`, from its bracket.
    fn is_test_attribute(&self, bracket: usize) -> bool {
        let words: Vec<&str> =
            (bracket + 1..self.after_group(bracket) - 1).map(|at| self.word(at)).collect();
        let tests = words.contains(&"test");
        match words.first() {
            Some(&"cfg") => tests && !words.contains(&"not"),
            Some(&"cfg_attr") => false,
            _ => tests,
        }
    }

    /// Index after the item that begins at `at`, its further attributes included.
    fn after_item(&self, mut at: usize) -> usize {
        while at < self.code.len() {
            match self.word(at) {
                "{" => return self.after_group(at),
                "(" | "[" => at = self.after_group(at),
                ";" => return at + 1,
                _ => at += 1,
            }
        }
        at
    }
}

/// Files that only tests compile, by where they lie.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested_words(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text);
        let tested = source.code.iter().filter(|code| code.in_test);
        tested.filter(|c| c.token.kind == Kind::Word).map(|c| c.token.text.clone()).collect()
    }

    #[test]
    fn items_of_tests_are_marked_and_their_neighbours_are_not() {
        let text = "fn before() {} #[cfg(test)] mod tests { fn inside() { [1; 2]; } } fn after() {}
            #[tokio::test] async fn alone(x: [u8; 4]) {} #[cfg(not(test))] fn shipped() {}";

        let words = tested_words("lib/core/src/lib.rs", text);

        for word in ["inside", "alone", "tests"] {
            assert!(words.contains(&word.to_owned()), "{word} in {words:?}");
        }
        for word in ["before", "after", "shipped"] {
            assert!(!words.contains(&word.to_owned()), "{word} in {words:?}");
        }
    }

    #[test]
    fn a_test_file_is_all_test() {
        assert_eq!(tested_words("lib/core/tests/it/main.rs", "fn f() {}"), ["fn", "f"]);
        assert_eq!(tested_words("a/src/x.rs", "#![cfg(test)] fn f()"), ["cfg", "test", "fn", "f"]);
    }

    #[test]
    fn functions_are_named_even_inside_macros() {
        let source =
            Source::parse("a/src/x.rs", "proptest! { fn any_order(x in 0..9) { } } // fn no");

        assert_eq!(source.functions(), BTreeSet::from(["any_order"]));
    }
}
