//! Figures of one visit, and the ratio of two.

use std::time::Duration;

/// What one visit to one variant measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    /// Finished requests, or pairs of statements.
    pub(crate) done: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// Processor time of the one that served; nothing where it is not measured.
    pub(crate) processor: Duration,
}

impl Visit {
    /// Finished per second.
    pub(crate) fn rate(&self) -> f64 {
        count(self.done) / self.took.as_secs_f64()
    }

    /// Processor microseconds for each.
    pub(crate) fn micros(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / count(self.done)
    }
}

/// The middle of `figures`: one bad neighbour on a shared machine moves a mean, not a median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of `figure` over `ours`, and of its ratio to the control of the same round.
pub(crate) fn beside(ours: &[Visit], control: &[Visit], figure: fn(&Visit) -> f64) -> (f64, f64) {
    let ratios = ours.iter().zip(control).map(|(ours, control)| figure(ours) / figure(control));
    (median(ours.iter().map(figure).collect()), median(ratios.collect()))
}

#[expect(clippy::cast_precision_loss, reason = "a count of one visit is far below 2^52")]
fn count(done: u64) -> f64 {
    done as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(done: u64, millis: u64) -> Visit {
        Visit {
            done,
            took: Duration::from_millis(millis),
            processor: Duration::from_millis(millis / 2),
        }
    }

    #[test]
    fn a_ratio_compares_visits_of_one_round_and_one_bad_round_does_not_move_it() {
        let control = [visit(1000, 1000), visit(10, 1000), visit(1000, 1000)];
        let ours = [visit(500, 1000), visit(500, 1000), visit(520, 1000)];

        let (rate, ratio) = beside(&ours, &control, Visit::rate);

        assert!((rate - 500.0).abs() < 1e-9, "{rate}");
        assert!((ratio - 0.52).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn processor_time_is_told_for_each_request() {
        assert!((visit(1000, 1000).micros() - 500.0).abs() < 1e-9);
    }
}
