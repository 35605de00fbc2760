//! What people see: a progress bar on a terminal, and the account at the end.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::audit::{Account, Verdict};
use crate::output;
use hapax_storm::{Phase, Progress};

/// The progress of a demo. Silent where nobody watches.
#[derive(Clone)]
pub(super) struct Curtain(Arc<ProgressBar>);

impl Curtain {
    pub(super) fn new(orders: u32) -> Self {
        // Each order goes through four phases.
        let bar = ProgressBar::with_draw_target(
            Some(u64::from(orders) * 4),
            ProgressDrawTarget::stderr(),
        );
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {percent:>3}% {elapsed} {msg}") {
            bar.set_style(style);
        }
        Self(Arc::new(bar))
    }

    /// Follows the storm. Called from its stories, so it must not block.
    pub(super) fn see(&self, progress: Progress) {
        match progress {
            Progress::Moved { phase, done, total } => {
                self.0.inc(1);
                let phase = match phase {
                    Phase::Submit => "submitted",
                    Phase::Act => "paid, closed, refunded",
                    Phase::Settle => "at rest",
                    Phase::Repeat => "repeated",
                    _ => "moved",
                };
                self.0.set_message(format!("{done}/{total} orders {phase}"));
            }
            Progress::Broken { rule } => {
                self.0.println(format!("broken: {}", rule.promise()));
            }
            _ => {}
        }
    }

    pub(super) fn say(&self, sentence: &str) {
        self.0.set_message(sentence.to_owned());
    }

    pub(super) fn close(&self) {
        self.0.finish_and_clear();
    }
}

/// Shows the account to people.
pub(super) fn show(account: &Account) -> anyhow::Result<()> {
    let figures = serde_json::to_value(account)?;
    for (name, value) in figures.as_object().into_iter().flatten() {
        match value {
            serde_json::Value::Array(lines) => {
                for line in lines {
                    output::line(format!("{name:<22} {}", line.as_str().unwrap_or_default()));
                }
            }
            value => {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                output::line(format!("{name:<22} {value}"));
            }
        }
    }
    if account.verdict == Verdict::Pass {
        output::line("");
        output::line("Nothing was duplicated and nothing was lost.");
    }
    Ok(())
}
