//! Measured hops: many lookups, the asker drawn evenly from all members for each of them.

use std::collections::BTreeSet;

use dht_core::message::client::MAX_SAMPLES;
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use dht_core::{Contact, Id};
use futures_util::{Stream, StreamExt, stream};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Client;
use super::error::ClientError;
use super::member::{Batch, Member};
use super::walk::{Walk, WalkedMember};

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

impl SurveyRow {
    fn add(&mut self, other: &SurveyRow) {
        self.hops.merge(&other.hops);
        self.failed = self.failed.saturating_add(other.failed);
        self.timeouts = self.timeouts.saturating_add(other.timeouts);
    }
}

/// Runs `plan` over the members of a walk, several of them at once. `progress` is told the lookups
/// done. Members that cannot be reached, or do not answer, fail what is left of their share of the
/// lookups and become `silent`; who was so before is not asked again: each time would take a whole
/// time-out. Past the deadline there is no result, since lookups that were never made are no failed ones.
pub async fn survey(
    client: &Client,
    walk: &Walk,
    silent: &mut BTreeSet<Id>,
    plan: SurveyPlan,
    mut progress: impl FnMut(u64),
) -> Result<SurveyRow, ClientError> {
    let mut chance = Pcg64Mcg::seed_from_u64(plan.seed);
    let askers = walk.members.iter().map(WalkedMember::contact);
    let askers: Vec<&Contact> = askers.filter(|asker| !silent.contains(&asker.id)).collect();
    let shares = draw_askers(&mut chance, askers.len(), plan.samples);
    let mut row = SurveyRow::default();
    if askers.is_empty() {
        row.failed = plan.samples;
    }
    let mut errands = Vec::new();
    for (asker, lookups) in askers.into_iter().zip(shares) {
        if lookups > 0 {
            let member = unless_late(client.dial(asker).await)?;
            errands.push(Errand { asker: asker.id, member, lookups, seed: chance.next_u64() });
        }
    }
    let batches = stream::iter(errands)
        .map(|errand| batches(errand, plan).boxed_local())
        .flatten_unordered(AT_ONCE);
    let mut batches = std::pin::pin!(batches);
    while let Some(batch) = batches.next().await {
        match batch? {
            Ok(done) => row.add(&done),
            Err(GaveUp { asker, lookups }) => {
                silent.insert(asker);
                row.failed = row.failed.saturating_add(lookups);
            }
        }
        progress(row.hops.total().saturating_add(row.failed));
    }
    Ok(row)
}

/// One member's share; no member if it cannot be reached.
struct Errand {
    asker: Id,
    member: Option<Member>,
    lookups: u64,
    seed: u64,
}

/// A member that did not answer, and what was left of its share.
struct GaveUp {
    asker: Id,
    lookups: u64,
}

/// One member's share, in small batches one after the other.
fn batches(
    errand: Errand,
    plan: SurveyPlan,
) -> impl Stream<Item = Result<Result<SurveyRow, GaveUp>, ClientError>> {
    let Errand { asker, member, lookups, seed } = errand;
    let errand = (member, lookups, Pcg64Mcg::seed_from_u64(seed));
    stream::unfold(errand, move |(member, left, mut seeds)| async move {
        let lookups = u32::try_from(left).unwrap_or(u32::MAX).min(BATCH);
        if lookups == 0 {
            return None;
        }
        let (routing, depth) = (plan.routing, plan.depth);
        let batch = Batch { lookups, routing, depth, seed: seeds.next_u64() };
        let report = match &member {
            Some(member) => unless_late(member.sample(batch).await),
            None => Ok(None),
        };
        let done = if matches!(report, Ok(None)) { left } else { lookups.into() };
        let row = report.map(|report| match report {
            Some(report) => Ok(SurveyRow {
                hops: Histogram::from_counts(report.histogram),
                failed: report.failed,
                timeouts: report.timeouts,
            }),
            None => Err(GaveUp { asker, lookups: left }),
        });
        Some((row, (member, left - done, seeds)))
    })
}

/// What a member said; nothing if it failed, and an error if the whole survey's time is over.
fn unless_late<T>(said: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match said {
        Ok(answer) => Ok(Some(answer)),
        Err(late @ ClientError::Deadline { .. }) => Err(late),
        Err(_) => Ok(None),
    }
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

/// Members that run their lookups at the same time. With [`BATCH`] it bounds the lookups under way:
/// 32 keep two processors busy, and no answer waits so long in a queue that its asker takes the
/// other side for dead, which would be counted as a time-out (measured: with 256, on a loaded
/// machine, it happens).
const AT_ONCE: usize = 2;
/// Lookups of one request; a member runs them side by side.
const BATCH: u32 = 16;
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
