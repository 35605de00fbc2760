//! How a command ends: an exit code that scripts can read, and one sentence for people.

use std::{error::Error, process::ExitCode};

use crate::output;
use hapax_pay::Kind;

/// The exit codes, as `--help` shows them.
pub(crate) const HELP: &str = "\
Exit codes: 0 fine, 1 failed, 2 usage, 3 not found, 4 conflict, 5 uniqueness violated, \
6 store unreachable";

/// The end of a command.
#[derive(Debug)]
pub(crate) enum End {
    /// Fine.
    Fine,
    /// It failed.
    Failed(String),
    /// It was asked for wrongly.
    Usage(String),
    /// What was asked for is not there.
    NotFound(String),
    /// It cannot be done in this state.
    Conflict(String),
    /// Something happened twice, or was lost.
    Violated(String),
    /// The database cannot be reached.
    Unreachable(String),
}

impl End {
    /// A failure with its sentence.
    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Self::Failed(sentence.into())
    }

    /// Says the sentence and gives the code.
    pub(crate) fn report(self) -> ExitCode {
        let (code, sentence) = match self {
            Self::Fine => return ExitCode::SUCCESS,
            Self::Failed(sentence) => (1, sentence),
            Self::Usage(sentence) => (2, sentence),
            Self::NotFound(sentence) => (3, sentence),
            Self::Conflict(sentence) => (4, sentence),
            Self::Violated(sentence) => (5, sentence),
            Self::Unreachable(sentence) => (6, sentence),
        };
        output::say(format!("hapax: {sentence}"));
        ExitCode::from(code)
    }
}

impl From<hapax_pay::Error> for End {
    fn from(error: hapax_pay::Error) -> Self {
        match error.kind() {
            Kind::Config | Kind::Invalid => Self::Usage(causes(&error)),
            Kind::Store => Self::Unreachable(causes(&error)),
            Kind::Schema => Self::Failed(root(&error).to_string()),
            Kind::Changed => Self::Conflict(chain(&error)),
            _ => Self::Failed(chain(&error)),
        }
    }
}

impl From<hapax_pay::config::Unusable> for End {
    fn from(why: hapax_pay::config::Unusable) -> Self {
        Self::Usage(why.to_string())
    }
}

impl From<anyhow::Error> for End {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        sentence = format!("{sentence}: {source}");
        cause = source.source();
    }
    sentence
}

/// The causes without the error itself, where they say it all.
fn causes(error: &dyn Error) -> String {
    chain(error.source().unwrap_or(error))
}

/// The cause of all causes.
fn root(mut error: &dyn Error) -> &dyn Error {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}
