//! `hapax completions`: what a shell needs to complete our commands.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Cli, end::End, output};

#[derive(clap::Args)]
#[command(after_help = "Example: hapax completions bash > \
                        ~/.local/share/bash-completion/completions/hapax")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), End> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hapax", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
