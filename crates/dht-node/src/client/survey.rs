//! Measured hops: many lookups, the asker drawn evenly from all members for each of them.

use dht_core::message::client::MAX_SAMPLES;
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use futures_util::StreamExt;
use futures_util::stream;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Client;
use super::error::ClientError;
use super::member::{Batch, Member};
use super::walk::Walk;

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SurveyPlan {
    /// Lookups.
    pub samples: u64,
    /// Draws askers and keys.
    pub seed: u64,
    /// How the lookups route.
    pub routing: Routing,
    /// With how many entries.
    pub depth: u16,
}

/// What was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SurveyRow {
    /// Hops of the lookups that found the owner.
    pub hops: Histogram,
    /// Lookups that found nobody, or whose asker did not answer.
    pub failed: u64,
    /// Contacts that failed on the way, over all lookups.
    pub timeouts: u64,
}

/// Runs `plan` over the members of a walk, several of them at once. `progress` is told the lookups
/// done. Members that cannot be reached fail their share of the lookups.
pub async fn survey(
    client: &Client,
    walk: &Walk,
    plan: SurveyPlan,
    mut progress: impl FnMut(u64),
) -> Result<SurveyRow, ClientError> {
    let mut chance = Pcg64Mcg::seed_from_u64(plan.seed);
    let shares = draw_askers(&mut chance, walk.members.len(), plan.samples);
    let mut errands = Vec::new();
    for (member, lookups) in walk.members.iter().zip(shares) {
        if lookups > 0 {
            errands.push((client.dial(member.contact()).await.ok(), lookups, chance.next_u64()));
        }
    }
    let mut row = SurveyRow::default();
    let mut done = 0;
    let mut outcomes = stream::iter(errands)
        .map(|(member, lookups, seed)| ask_one(member, lookups, seed, plan))
        .buffer_unordered(AT_ONCE);
    while let Some(outcome) = outcomes.next().await {
        row.hops.merge(&outcome.hops);
        row.failed = row.failed.saturating_add(outcome.failed);
        row.timeouts = row.timeouts.saturating_add(outcome.timeouts);
        done += outcome.hops.total().saturating_add(outcome.failed);
        progress(done);
    }
    Ok(row)
}

/// One member's share, in small batches one after the other: each answers in good time, and a lost
/// one costs little.
async fn ask_one(member: Option<Member>, lookups: u64, seed: u64, plan: SurveyPlan) -> SurveyRow {
    let mut row = SurveyRow::default();
    let Some(member) = member else {
        row.failed = lookups;
        return row;
    };
    let mut seeds = Pcg64Mcg::seed_from_u64(seed);
    let mut left = lookups;
    while left > 0 {
        let lookups = u32::try_from(left).unwrap_or(u32::MAX).min(BATCH);
        let (routing, depth) = (plan.routing, plan.depth);
        let batch = Batch { lookups, routing, depth, seed: seeds.next_u64() };
        match member.sample(batch).await {
            Ok(report) => {
                row.hops.merge(&Histogram::from_counts(report.histogram));
                row.failed = row.failed.saturating_add(report.failed);
                row.timeouts = row.timeouts.saturating_add(report.timeouts);
            }
            Err(_) => row.failed = row.failed.saturating_add(lookups.into()),
        }
        left -= u64::from(lookups);
    }
    row
}

/// How many of the lookups each member asks, every one of them drawn by itself.
fn draw_askers(chance: &mut Pcg64Mcg, members: usize, samples: u64) -> Vec<u64> {
    let mut shares = vec![0; members];
    if members > 0 {
        for _ in 0..samples {
            shares[chance.random_range(0..members)] += 1;
        }
    }
    shares
}

/// Members that run their lookups at the same time (guess: enough to keep two processors busy).
const AT_ONCE: usize = 8;
/// Lookups of one request. 250 (guess: at 500 hops each and 20,000 hops a second they take 6 s, far
/// below the time-out of 30 s).
const BATCH: u32 = 250;
const _: () = assert!(BATCH <= MAX_SAMPLES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askers_are_drawn_evenly_and_again_alike() {
        let draw = |seed| draw_askers(&mut Pcg64Mcg::seed_from_u64(seed), 4, 4000);
        let shares = draw(1);
        assert_eq!(shares.iter().sum::<u64>(), 4000);
        // Six standard deviations of a binomial share: sqrt(4000 * 1/4 * 3/4) = 27.
        assert!(shares.iter().all(|share| share.abs_diff(1000) < 6 * 28), "{shares:?}");
        assert_eq!(draw(1), shares);
        assert_ne!(draw(2), shares);
        assert_eq!(draw_askers(&mut Pcg64Mcg::seed_from_u64(1), 0, 5), Vec::<u64>::new());
    }
}
