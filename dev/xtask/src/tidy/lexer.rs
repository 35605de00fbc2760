//! Cuts Rust text into tokens, keeping comments and strings apart from code.
//!
//! A rule that reads tokens cannot be fooled by a keyword in a comment or a brace in a string,
//! and unlike a syntax tree the tokens keep comments, line numbers and the inside of macros.

/// What a token is; its text says the rest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Identifier, keyword or number.
    Word,
    /// One character of punctuation.
    Mark,
    /// String literal of any sort; the text is its value.
    Literal,
    /// Character or byte literal.
    Char,
    Lifetime,
    /// Comment of any sort, with its slashes.
    Comment,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Line on which it begins, from 1.
    pub(crate) line: usize,
}

/// Tokens in order; text that does not lex ends in marks, never in a panic.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut cursor = Cursor { chars: text.chars().collect(), at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(next) = cursor.peek(0) {
        let line = cursor.line;
        if next.is_whitespace() {
            cursor.bump();
            continue;
        }
        let (kind, text) = match (next, cursor.peek(1)) {
            ('/', Some('/')) => (Kind::Comment, cursor.take_while(|c| c != '\n')),
            ('/', Some('*')) => (Kind::Comment, cursor.block_comment()),
            ('"', _) => (Kind::Literal, cursor.quoted()),
            ('\'', _) => cursor.quote_or_lifetime(),
            _ if is_word(next) => cursor.word(),
            _ => {
                cursor.bump();
                (Kind::Mark, next.to_string())
            }
        };
        tokens.push(Token { kind, text, line });
    }
    tokens
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

struct Cursor {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Cursor {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek(0)?;
        self.at += 1;
        if next == '\n' {
            self.line += 1;
        }
        Some(next)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(next) = self.peek(0).filter(|&c| belongs(c)) {
            taken.push(next);
            self.bump();
        }
        taken
    }

    /// Block comments nest.
    fn block_comment(&mut self) -> String {
        let (mut taken, mut depth) = (String::new(), 0_usize);
        while let Some(next) = self.bump() {
            taken.push(next);
            match (next, self.peek(0)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => continue,
            }
            taken.extend(self.bump());
            if depth == 0 {
                break;
            }
        }
        taken
    }

    /// A string with escapes, from its opening quote.
    fn quoted(&mut self) -> String {
        self.bump();
        let mut value = String::new();
        while let Some(next) = self.bump() {
            match next {
                '"' => break,
                '\\' => match self.bump() {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('\n') => {
                        self.take_while(char::is_whitespace);
                    }
                    Some(escaped @ ('"' | '\\' | '\'')) => value.push(escaped),
                    // Other escapes stay as they are written: no rule reads them.
                    other => value.extend(['\\'].into_iter().chain(other)),
                },
                _ => value.push(next),
            }
        }
        value
    }

    /// A raw string, from its first hash or its opening quote.
    fn raw(&mut self) -> String {
        let hashes = self.take_while(|c| c == '#').len();
        self.bump();
        let mut value = String::new();
        while let Some(next) = self.bump() {
            if next == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.at += hashes;
                break;
            }
            value.push(next);
        }
        value
    }

    fn quote_or_lifetime(&mut self) -> (Kind, String) {
        self.bump();
        let is_char = self.peek(0) == Some('\\') || self.peek(1) == Some('\'');
        if !is_char {
            return (Kind::Lifetime, self.take_while(is_word));
        }
        (Kind::Char, self.char_value())
    }

    /// A character's value, after its opening quote.
    fn char_value(&mut self) -> String {
        let mut value = String::new();
        while let Some(next) = self.bump() {
            match next {
                '\'' if !value.is_empty() => break,
                '\\' => value.extend(['\\'].into_iter().chain(self.bump())),
                _ => value.push(next),
            }
        }
        value
    }

    /// A word, or the literal that a prefix such as `b`, `r` or `c` opens.
    fn word(&mut self) -> (Kind, String) {
        let word = self.take_while(is_word);
        match (word.as_str(), self.peek(0)) {
            ("r" | "br" | "cr", Some('"')) => (Kind::Literal, self.raw()),
            ("r" | "br" | "cr", Some('#')) if self.hashes_open_a_string() => {
                (Kind::Literal, self.raw())
            }
            ("r", Some('#')) if self.peek(1).is_some_and(is_word) => {
                self.bump();
                (Kind::Word, self.take_while(is_word))
            }
            ("b" | "c", Some('"')) => (Kind::Literal, self.quoted()),
            ("b", Some('\'')) => {
                self.bump();
                (Kind::Char, self.char_value())
            }
            _ => (Kind::Word, word),
        }
    }

    fn hashes_open_a_string(&self) -> bool {
        let rest = self.chars.get(self.at..).unwrap_or_default();
        rest.iter().find(|&&c| c != '#') == Some(&'"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(Kind, String)> {
        tokens(text).into_iter().map(|token| (token.kind, token.text)).collect()
    }

    fn only(kind: Kind, text: &str) -> Vec<String> {
        let all = tokens(text).into_iter();
        all.filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn strings_of_every_sort_are_literals_with_their_value() {
        let text = r####"a("x\"y\n", r"\d", r#"q"q"#, b"bytes", br##"#"#"##, c"c", "\u{7f}")"####;

        let values = ["x\"y\n", r"\d", "q\"q", "bytes", "#\"#", "c", r"\u{7f}"];
        assert_eq!(only(Kind::Literal, text), values);
        assert_eq!(only(Kind::Word, text), ["a"]);
    }

    #[test]
    fn a_continued_string_is_one_line() {
        assert_eq!(only(Kind::Literal, "\"SELECT a \\\n      FROM t\""), ["SELECT a FROM t"]);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let text = r"fn f<'a>(x: &'a str) -> char { '\'' } const Q: char = '{'; let b = b'\\';";

        assert_eq!(only(Kind::Lifetime, text), ["a", "a"]);
        assert_eq!(only(Kind::Char, text), [r"\'", "{", r"\\"]);
    }

    #[test]
    fn comments_nest_and_keep_their_line() {
        let all = tokens("/* a /* b */ c */ x\n// y\n/// z\nfn");

        let lines: Vec<usize> = all.iter().map(|token| token.line).collect();
        assert_eq!(only(Kind::Comment, "/* a /* b */ c */ x"), ["/* a /* b */ c */"]);
        assert_eq!(lines, [1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_raw_name_is_a_word() {
        assert_eq!(cut("r#type"), [(Kind::Word, "type".to_owned())]);
    }

    #[test]
    fn broken_text_ends() {
        for text in ["\"open", "r##\"open\"#", "/* open", "'", "'\\", "b'", "r#"] {
            let _ends = tokens(text);
        }
    }
}
