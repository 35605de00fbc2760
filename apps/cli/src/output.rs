//! Data on stdout: JSON for programs, aligned columns for people.
//!
//! Invariant: a reader that goes away ends no command (`a_reader_that_goes_away_is_no_failure`,
//! `servers_go_on_without_a_reader`).

use std::io::{self, Write};

use serde::Serialize;

use crate::end::End;

/// Prints one JSON document.
pub(crate) fn json(value: &impl Serialize) -> Result<(), End> {
    let document = serde_json::to_string_pretty(value).map_err(anyhow::Error::from)?;
    line(document)
}

/// Prints a line of data.
pub(crate) fn line(text: impl AsRef<str>) -> Result<(), End> {
    print(&format!("{}\n", text.as_ref()))
}

/// Prints text as it is. A reader that has gone away, as `head` does, wants no more of it.
pub(crate) fn print(text: &str) -> Result<(), End> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(End::failed(format!("the output cannot be written: {why}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Says something to people while a command works. If nobody listens the command goes on.
pub(crate) fn say(text: impl AsRef<str>) {
    drop(writeln!(io::stderr(), "{}", text.as_ref()));
}
