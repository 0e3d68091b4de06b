//! Watches what the node's own lookups cost, and says once when it is more than they may.

use std::sync::{Mutex, PoisonError};

use dht_core::stats::{Histogram, HopHint};

/// What lookups may cost, and whether they cost more. Nothing changes by itself: it only tells.
#[derive(Debug)]
pub(super) struct HopBudget {
    /// Mean hops; `None`: not watched.
    most: Option<f64>,
    watch: Mutex<Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    /// Lookups that ended since the histogram was looked at.
    ended: u32,
    /// Lookups and hops that have been judged.
    judged: (u64, u64),
    hint: Option<HopHint>,
}

impl HopBudget {
    /// Lookups may take so many hops on average; `None`: as many as they like.
    pub(super) fn new(most: Option<f64>) -> HopBudget {
        HopBudget { most, watch: Mutex::default() }
    }

    /// A lookup ended. Whether it is time to look at the histogram.
    pub(super) fn ended(&self) -> bool {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.ended = watch.ended.saturating_add(1);
        self.most.is_some() && watch.ended >= WINDOW
    }

    /// Judges the lookups that came since the last time, by the histogram of all of them under the node's
    /// own routing and depth. A hint if it is to be told now: once, until the mean has fallen well below
    /// the budget and risen again.
    pub(super) fn judge(&self, hops: &Histogram) -> Option<HopHint> {
        let most = self.most?;
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.ended = 0;
        let (lookups, all) = (hops.total(), sum(hops));
        let (before, before_hops) = watch.judged;
        let fresh = lookups.saturating_sub(before);
        // Lookups under other routings end too, and are none of these.
        if fresh < u64::from(WINDOW) {
            return None;
        }
        watch.judged = (lookups, all);
        let mean = all.saturating_sub(before_hops) as f64 / fresh as f64;
        let was_over = watch.hint.is_some();
        let is_over = mean > if was_over { most * WELL_BELOW } else { most };
        let hint = HopHint { mean, lookups: fresh };
        watch.hint = is_over.then_some(hint);
        (is_over && !was_over).then_some(hint)
    }

    /// What the lookups may cost.
    pub(super) fn most(&self) -> Option<f64> {
        self.most
    }

    /// That they cost more, as it was judged last.
    pub(super) fn hint(&self) -> Option<HopHint> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).hint
    }
}

fn sum(hops: &Histogram) -> u64 {
    let weighed = hops.counts().iter().enumerate();
    weighed.fold(0, |sum, (hops, count)| sum.saturating_add((hops as u64).saturating_mul(*count)))
}

/// So many lookups are judged together. 64 (guess): the mean of a walk over evenly spread distances is then
/// known to a fourteenth, 1 / sqrt(3 * 64).
const WINDOW: u32 = 64;
/// Where a mean has to fall to before it is told anew, as a share of the budget (guess: three times the
/// spread of the mean of a window).
const WELL_BELOW: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    /// So many more lookups of so many hops each.
    fn more(hops: &mut Histogram, lookups: u32, each: u32) {
        (0..lookups).for_each(|_| hops.record(each));
    }

    #[test]
    fn it_is_told_once_until_it_fell_and_rose_again() {
        let budget = HopBudget::new(Some(8.0));
        let mut hops = Histogram::new();
        let mut told = Vec::new();
        for each in [5, 9, 9, 12, 7, 9, 6, 8, 9, 9] {
            more(&mut hops, WINDOW, each);
            told.push(budget.judge(&hops).map(|hint| hint.mean));
        }
        // 7 lies below the budget, and not well below it; 6 does, and 8 is not above.
        let expected = [None, Some(9.0), None, None, None, None, None, None, Some(9.0), None];
        assert_eq!(told, expected);
        assert_eq!(budget.hint(), Some(HopHint { mean: 9.0, lookups: 64 }));
        more(&mut hops, WINDOW, 2);
        assert_eq!((budget.judge(&hops), budget.hint()), (None, None));
    }

    #[test]
    fn a_few_lookups_tell_nothing() {
        let budget = HopBudget::new(Some(8.0));
        let mut hops = Histogram::new();
        more(&mut hops, WINDOW - 1, 50);
        assert_eq!(budget.judge(&hops), None);
        more(&mut hops, 1, 50);
        assert_eq!(budget.judge(&hops), Some(HopHint { mean: 50.0, lookups: 64 }));
        let due: Vec<bool> = (0..WINDOW).map(|_| budget.ended()).collect();
        assert_eq!(due.iter().filter(|due| **due).count(), 1, "once in a window");
    }

    #[test]
    fn without_a_budget_nothing_is_told() {
        let budget = HopBudget::new(None);
        let mut hops = Histogram::new();
        more(&mut hops, 1000, 50);
        assert!((0..200).all(|_| !budget.ended()));
        assert_eq!((budget.judge(&hops), budget.hint(), budget.most()), (None, None, None));
    }
}
