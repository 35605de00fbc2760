//! Data on stdout: JSON for programs, aligned columns for people.

use std::io::{self, Write};

use serde::Serialize;

use crate::end::End;

/// Prints one JSON document.
#[expect(clippy::print_stdout, reason = "data of a command")]
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
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

/// Prints a line of data.
#[expect(clippy::print_stdout, reason = "data of a command")]
pub(crate) fn line(text: impl AsRef<str>) {
    println!("{}", text.as_ref());
}

/// Says something to people while a command works. If nobody listens the command goes on.
pub(crate) fn say(text: impl AsRef<str>) {
    drop(writeln!(io::stderr(), "{}", text.as_ref()));
}
