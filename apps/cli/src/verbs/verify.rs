//! `hapax verify`: recounts effects against records.

use super::{place::Place, sheet::printable};
use crate::end::End;
use hapax_pay::operator::{Broken, Verified};

#[derive(clap::Args)]
#[command(after_help = "Example: hapax verify --json\n\
                        Exit code 5 if anything is broken. It changes nothing and needs no \
                        running service.")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &Args) -> Result<(), End> {
    let place = &args.place;
    let verified = place.work(async |office| Ok(office.verify().await?)).await?;
    place.answer(&verified, report)?;
    match verified.broken.len() {
        0 => Ok(()),
        broken => {
            Err(End::Violated(format!("{broken} of {} invariants are broken", verified.checked)))
        }
    }
}

fn report(verified: &Verified) -> String {
    if verified.broken.is_empty() {
        return format!("{} invariants hold\n", verified.checked);
    }
    let section = |broken: &Broken| {
        let Broken { check, invariant, examples } = broken;
        let examples: String =
            examples.iter().map(|example| format!("  {}\n", printable(example))).collect();
        format!("{check}: it does not hold that {invariant}\n{examples}")
    };
    verified.broken.iter().map(section).collect()
}
