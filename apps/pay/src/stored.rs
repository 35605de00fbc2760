//! Words under which enums are kept in the database and shown in journals.

use std::fmt;

/// A word in the database that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    what: &'static str,
    word: String,
}

impl UnknownWord {
    pub(crate) fn new(what: &'static str, word: &str) -> Self {
        Self { what, word: word.chars().take(64).collect() }
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} {:?} was written by a newer version; upgrade", self.what, self.word)
    }
}

impl std::error::Error for UnknownWord {}

/// Gives an enum its stored words: `as_str` and `parse` from one table.
macro_rules! stored_word {
    ($seen:vis $name:ident, $what:literal, $($variant:ident = $word:literal),+ $(,)?) => {
        impl $name {
            /// The stable word for it, in the database and in journals.
            $seen const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Reads the stable word.
            ///
            /// # Errors
            /// [`UnknownWord`](crate::stored::UnknownWord) if a newer version wrote it.
            $seen fn parse(word: &str) -> Result<Self, $crate::stored::UnknownWord> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::stored::UnknownWord::new($what, word)),
                }
            }
        }
    };
}
pub(crate) use stored_word;

/// Lets states and facts with stored words be used in a [`Machine`](hapax::machine::Machine).
macro_rules! named {
    ($($name:ident),+) => {
        $(impl hapax::machine::Named for $name {
            fn name(self) -> &'static str {
                self.as_str()
            }
        })+
    };
}
pub(crate) use named;
