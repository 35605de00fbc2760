//! Data on stdout: JSON for programs, aligned columns for people.

use serde::Serialize;

/// Prints one JSON document.
#[expect(clippy::print_stdout, reason = "data of a command")]
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a line of data.
#[expect(clippy::print_stdout, reason = "data of a command")]
pub(crate) fn line(text: impl AsRef<str>) {
    println!("{}", text.as_ref());
}

/// Says something to people while a command works.
#[expect(clippy::print_stderr, reason = "talk of a command")]
pub(crate) fn say(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}
