//! What one row has counted so far, and how sure its mean is.

use dht_core::Id;
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use dht_core::theory;

use super::Row;
use super::table::RingTable;

/// The counts of one routing at one depth.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    routing: Routing,
    depth: u16,
    counts: Vec<u64>,
    failed: u64,
    here: Option<f64>,
    error: StratifiedError,
}

impl Tally {
    /// Of nothing yet.
    pub(super) fn new(routing: Routing, depth: u16) -> Tally {
        let (counts, error) = (Vec::new(), StratifiedError::default());
        Tally { routing, depth, counts, failed: 0, here: Some(0.0), error }
    }

    /// Walks one lookup.
    pub(super) fn walk(&mut self, table: &RingTable, asker: usize, key: Id) {
        match table.hops(asker, key, self.routing, self.depth) {
            Some(hops) => {
                if self.counts.len() <= hops {
                    self.counts.resize(hops + 1, 0);
                }
                self.counts[hops] += 1;
                self.error.add(hops as f64);
            }
            None => self.failed += 1,
        }
    }

    /// The lookups since the last call were one stratum.
    pub(super) fn close_stratum(&mut self) {
        self.error.close();
    }

    /// Takes in the exact mean of a ring that had this share of all lookups.
    pub(super) fn close_ring(&mut self, table: &RingTable, share: f64) {
        let exact = theory::exact_mean(table.ids(), self.routing, self.depth);
        self.here = self.here.zip(exact).map(|(sum, exact)| sum + share * exact);
    }

    /// What came of it, on rings of so many nodes.
    pub(super) fn row(self, nodes: usize) -> Row {
        let histogram = Histogram::from_counts(self.counts);
        Row {
            routing: self.routing.as_str(),
            depth: (self.routing != Routing::Full).then_some(self.depth),
            mean: histogram.mean(),
            stderr: self.error.of_mean(),
            stddev: histogram.stddev(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
            expected: theory::expected_mean(self.routing, nodes as u64, self.depth),
            expected_here: self.here,
            growth: theory::growth(self.routing),
            failed: self.failed,
            timeouts: 0,
            available: true,
            histogram,
        }
    }
}

/// The standard error of a mean over strata, each drawn as often as its width says (Cochran,
/// Sampling Techniques, 3rd edition 1977, chapter 5): the root of the sum of `n s^2` over all
/// strata, divided by the number of values; `n` and `s^2` are a stratum's values and their variance.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct StratifiedError {
    /// Of the open stratum: values, their sum, and the sum of their squares. These are whole numbers
    /// far below 2^53, so nothing is rounded.
    values: f64,
    sum: f64,
    squares: f64,
    /// Over all closed ones.
    total: f64,
    weighted_variance: f64,
    /// A stratum with a single value says nothing of its spread.
    is_unknown: bool,
}

impl StratifiedError {
    fn add(&mut self, value: f64) {
        self.values += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn close(&mut self) {
        let StratifiedError { values, sum, squares, .. } = *self;
        if values >= 2.0 {
            self.weighted_variance += values * (squares - sum * sum / values) / (values - 1.0);
        } else {
            self.is_unknown = true;
        }
        self.total += values;
        (self.values, self.sum, self.squares) = (0.0, 0.0, 0.0);
    }

    fn of_mean(&self) -> Option<f64> {
        let is_known = !self.is_unknown && self.total > 0.0;
        // Equal values may leave a variance of minus nothing.
        is_known.then(|| self.weighted_variance.max(0.0).sqrt() / self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(strata: &[&[f64]]) -> Option<f64> {
        let mut error = StratifiedError::default();
        for stratum in strata {
            stratum.iter().for_each(|value| error.add(*value));
            error.close();
        }
        error.of_mean()
    }

    #[test]
    fn the_error_is_that_of_the_textbook() {
        // One stratum is a plain sample: variance 4, three values.
        let plain = error(&[&[1.0, 3.0, 5.0]]).expect("known");
        assert!((plain - (4.0f64 / 3.0).sqrt()).abs() < 1e-12);
        // Pairs: the root of the sum of squared differences, over the number of values.
        let pairs = error(&[&[0.0, 3.0], &[10.0, 14.0]]).expect("known");
        assert!((pairs - 5.0 / 4.0).abs() < 1e-12);
        assert_eq!(error(&[&[7.0, 7.0], &[9.0, 9.0, 9.0]]), Some(0.0), "strata alone differ");
    }

    #[test]
    fn too_few_values_have_no_error() {
        assert_eq!(error(&[]), None);
        assert_eq!(error(&[&[1.0]]), None);
        assert_eq!(error(&[&[1.0, 2.0], &[3.0]]), None);
    }
}
