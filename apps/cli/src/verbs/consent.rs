//! The yes before something that cannot be taken back.

use std::io::{self, IsTerminal};

use crate::{end::End, output};

/// Longest reason that a journal keeps, in bytes.
const REASON_BYTES_MAX: usize = 255;

/// Who decides and why.
#[derive(clap::Args)]
pub(super) struct Consent {
    /// Why; kept in the journal
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    pub(super) reason: String,
    /// Who decides; kept in the journal
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "operator"
    )]
    pub(super) by: String,
    /// Do it without being asked
    #[arg(long)]
    yes: bool,
}

impl Consent {
    /// Asks on a terminal; elsewhere only `--yes` is a yes.
    pub(super) fn ask(&self, question: &str) -> Result<(), End> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            let rule = "nothing was done: without a terminal to ask on, it needs `--yes`";
            return Err(End::Usage(rule.to_owned()));
        }
        output::say(format!("{question} Type yes to go on."));
        let mut said = String::new();
        io::stdin().read_line(&mut said).map_err(anyhow::Error::from)?;
        match said.trim() {
            "yes" | "y" => Ok(()),
            _ => Err(End::failed("nothing was done")),
        }
    }
}

fn parse_reason(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("it is empty; say why, for whoever reads the journal"),
        text if text.len() > REASON_BYTES_MAX => Err("it is longer than 255 bytes; shorten it"),
        text => Ok(text.to_owned()),
    }
}
