//! How far a demo has come: a bar on a terminal.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use hapax_storm::{Phase, Progress};

/// The progress of a demo. Silent where nobody watches.
#[derive(Clone)]
pub(super) struct Bar(Arc<ProgressBar>);

impl Bar {
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
    pub(super) fn follow(&self, progress: Progress) {
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
