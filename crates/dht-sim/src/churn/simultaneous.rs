//! A part of a ring dies at once, and nothing is mended (Chord ToN 2003, section V-D, Table II).
//!
//! Lists stay as they were: dead nodes stand in them. Lookups are real ones, a
//! [`LookupQuery`] that asks [`next_hop`] at every live node; a dead contact costs a time-out and a
//! detour. Only the end differs: without upkeep nobody learns that its predecessor is dead, so
//! nobody who inherits an arc says "mine". The answer is taken on the word of the lists, as the
//! paper takes it: a lookup has succeeded when it reaches the first live node at or after the key.

use dht_core::lookup::{LookupQuery, LookupStep, LookupTarget, Timing};
use dht_core::message::client::DetourReason;
use dht_core::message::ring::{RouteAnswer, RouteQuery, Routing};
use dht_core::route::{Hop, next_hop, next_hop_fingers};
use dht_core::{Contact, Id, Instant, Interval, between};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::{ChurnError, Sample};
use crate::hops::{random_id, random_ids};
use crate::member::{contact, mix, number};

/// What is to be measured.
#[derive(Clone, PartialEq, Debug)]
pub struct SimultaneousConfig {
    /// `successors` or `fingers`: of the others the paper says nothing.
    pub routing: Routing,
    /// Members before the deaths.
    pub nodes: usize,
    /// Entries of every list, and how many of them a lookup may use.
    pub depth: u16,
    /// Which shares of all members die; one row for each.
    pub shares: Vec<f64>,
    /// Lookups of every row, over all its rings.
    pub lookups: u64,
    /// Over how many rings and draws of the dead.
    pub rings: u64,
    /// All chance.
    pub seed: u64,
}

/// One share.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SimultaneousRow {
    /// Which share of all members died.
    pub share: f64,
    /// Lookups by live members for random points.
    pub lookups: u64,
    /// Lookups that ended at nobody, or at anybody but the first live node at or after the point.
    pub failed: u64,
    /// Mean path length, in hops to live nodes; `None` if no lookup found anybody.
    pub mean_hops: Option<f64>,
    /// Standard error of that mean; `None` of fewer than two.
    pub mean_hops_stderr: Option<f64>,
    /// What [`expected`] says; `None` for fingers, where no formula is known.
    pub expected_hops: Option<f64>,
    /// Mean number of dead nodes contacted.
    pub timeouts_per_lookup: Option<f64>,
    /// Standard error of that mean.
    pub timeouts_stderr: Option<f64>,
    /// What [`expected`] says.
    pub expected_timeouts: Option<f64>,
}

impl Default for SimultaneousConfig {
    /// The set-up of the paper: 1,000 members, lists of 20, 10,000 lookups; over ten rings, so that
    /// no single draw of the dead decides (guess).
    fn default() -> SimultaneousConfig {
        SimultaneousConfig {
            routing: Routing::Successors,
            nodes: 1000,
            depth: 20,
            shares: vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
            lookups: 10_000,
            rings: 10,
            seed: 1,
        }
    }
}

/// Measures every share.
pub fn run(
    config: &SimultaneousConfig,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<SimultaneousRow>, ChurnError> {
    super::check("nodes", config.nodes as u64, 2, super::MAX_NODES)?;
    super::check("depth", config.depth.into(), 1, dht_core::Config::MAX_DEPTH.into())?;
    super::check("lookups", config.lookups, 1, super::MAX_LOOKUPS)?;
    super::check("rings", config.rings, 1, config.lookups)?;
    let total = config.lookups * config.shares.len() as u64;
    let mut done = 0;
    let mut rows = Vec::new();
    for share in &config.shares {
        let (mut hops, mut timeouts, mut failed) = (Sample::default(), Sample::default(), 0);
        for ring in 0..config.rings {
            // The same rings and askers' draws for every share.
            let mut rng = Pcg64Mcg::seed_from_u64(mix(&[config.seed, ring]));
            let struck = Struck::draw(config, *share, &mut rng);
            let until = |n: u64| config.lookups * n / config.rings;
            for _ in until(ring)..until(ring + 1) {
                let asker = struck.draw_live(&mut rng);
                match struck.look_up(asker, random_id(&mut rng)) {
                    Some(found) => {
                        hops.add(found.0.into());
                        timeouts.add(found.1 as f64);
                    }
                    None => failed += 1,
                }
                done += 1;
            }
            progress(done, total);
        }
        let is_known = config.routing == Routing::Successors;
        let expected = is_known.then(|| expected(config.nodes, config.depth, *share));
        rows.push(SimultaneousRow {
            share: *share,
            lookups: config.lookups,
            failed,
            mean_hops: hops.mean(),
            mean_hops_stderr: hops.stderr(),
            expected_hops: expected.map(|(hops, _)| hops),
            timeouts_per_lookup: timeouts.mean(),
            timeouts_stderr: timeouts.stderr(),
            expected_timeouts: expected.map(|(_, timeouts)| timeouts),
        });
    }
    Ok(rows)
}

/// A ring that was ideal until some of its members died.
struct Struck {
    members: Vec<Contact>,
    lives: Vec<bool>,
    depth: usize,
    routing: Routing,
}

impl Struck {
    fn draw(config: &SimultaneousConfig, share: f64, rng: &mut Pcg64Mcg) -> Struck {
        let SimultaneousConfig { nodes, depth, routing, .. } = *config;
        let ids = random_ids(nodes, rng);
        let members = ids.into_iter().enumerate().map(|(n, id)| contact(n as u64, id, 1)).collect();
        let mut order: Vec<usize> = (0..nodes).collect();
        order.shuffle(rng);
        let dead = ((nodes as f64 * share).round() as usize).min(nodes - 1);
        let mut lives = vec![true; nodes];
        order.into_iter().take(dead).for_each(|n| lives[n] = false);
        Struck { members, lives, depth: usize::from(depth).min(nodes - 1), routing }
    }

    fn draw_live(&self, rng: &mut Pcg64Mcg) -> usize {
        loop {
            let n = rng.random_range(0..self.members.len());
            if self.lives[n] {
                return n;
            }
        }
    }

    /// Hops and time-outs of a lookup; `None`: it did not end where it should.
    fn look_up(&self, asker: usize, key: Id) -> Option<(u32, u64)> {
        let depth = self.depth as u16;
        let target = LookupTarget { key, routing: self.routing, depth, want_list: false };
        // More than any walk takes: only a loop reaches it.
        let max_hops = 4 * self.members.len() as u32;
        let me = self.members[asker].clone();
        let mut query = LookupQuery::by_member(target, me, max_hops, Instant::ZERO);
        let mut step = query.start();
        loop {
            step = match step {
                LookupStep::Ask(to, question) => {
                    let at = number(&to) as usize;
                    match self.lives[at].then(|| self.answer(at, &question)).flatten() {
                        Some(answer) => query.on_answer(answer, Timing::default()),
                        None => query.on_failure(DetourReason::TimedOut),
                    }
                }
                // Only upkeep could say more, and there is none.
                LookupStep::Pause | LookupStep::End(Err(_)) => return None,
                LookupStep::End(Ok(owner)) => {
                    let is_right = number(&owner.contact) as usize == self.owner(key);
                    return is_right.then(|| (query.hops(), query.timeouts()));
                }
            };
        }
    }

    /// What a live node says, on the word of its list.
    fn answer(&self, at: usize, query: &RouteQuery) -> Option<RouteAnswer> {
        let nodes = self.members.len();
        let id = |n: usize| self.members[n % nodes].id;
        let (me, key) = (id(at), query.key);
        let owned = Interval::new(id(at + nodes - 1), me);
        let is_past = query.after != me && (key == me || between(query.after, key, me));
        if owned.contains(key) || is_past {
            return Some(RouteAnswer::Mine { predecessor: None, successors: Vec::new() });
        }
        let entry = |place: usize| (place < self.depth).then(|| id(at + 1 + place));
        let failed = |id: Id| query.failed.contains(&id);
        // The fingers are those of before, dead or alive, as the list is.
        let finger = |exponent| {
            let start = me.wrapping_add(Id::power_of_two(exponent));
            self.members.partition_point(|held| held.id < start) % nodes
        };
        let finger_id = |exponent| Some(id(finger(exponent))).filter(|id| *id != me);
        let depth = usize::from(query.depth);
        // In the paper the list's word is enough: who comes after a dead owner is asked at once. Along
        // successors the last live node before it is asked, as live nodes do, whose lists will be mended.
        let owns = |id: Id| id == key || between(me, key, id);
        let window = (0..depth).filter_map(|place| Some((place, entry(place)?)));
        let mut heirs = window.filter(|(_, id)| owns(*id) && !failed(*id));
        if self.routing == Routing::Fingers
            && let Some((place, _)) = heirs.next()
        {
            return Some(RouteAnswer::Next {
                next: self.members[(at + 1 + place) % nodes].clone(),
            });
        }
        let hop = match self.routing {
            Routing::Fingers => next_hop_fingers(me, entry, finger_id, key, depth, failed),
            Routing::Successors | Routing::BothWays | Routing::Full => {
                next_hop(me, entry, key, depth, failed)
            }
        };
        let next = match hop {
            Ok(Hop::Entry(place) | Hop::Back(place)) => at + 1 + place,
            Ok(Hop::Finger(exponent)) => finger(exponent),
            // The owner by the list is dead, and nobody between answered: its heir is the next one.
            Ok(Hop::Place(_)) | Err(_) => {
                let heir = |place: &usize| entry(*place).is_some_and(|id| !failed(id));
                at + 1 + (0..self.depth).find(heir)?
            }
        };
        Some(RouteAnswer::Next { next: self.members[next % nodes].clone() })
    }

    /// The first live node at or after a point.
    fn owner(&self, key: Id) -> usize {
        let nodes = self.members.len();
        let first = self.members.partition_point(|held| held.id < key);
        (0..nodes).map(|step| (first + step) % nodes).find(|n| self.lives[*n]).unwrap_or(first)
    }
}

/// The expected mean of hops and time-outs where each member is dead with probability `p`: formula
/// (c) of `docs/protocol.md` with deaths.
///
/// A walk towards an owner `d` places on, beyond the window of `k`, tries the places `k`, `k - 1`,
/// and so on until one is live: `p^i (1 - p)` for `i` time-outs and a hop of `k - i` places. Within
/// the window it tries the owner first; if that is dead, the places before it, backwards, and from
/// the first live one - or at once, if there is none - the places behind it. `d` is uniform on
/// `0..n`; whoever owns the key itself takes no hop.
pub fn expected(nodes: usize, depth: u16, p: f64) -> (f64, f64) {
    let k = usize::from(depth).min(nodes - 1);
    // The heir behind a dead owner: one hop, and a time-out for each dead one before it.
    let heir = (1.0, p / (1.0 - p));
    let mut means: Vec<(f64, f64)> = vec![(0.0, 0.0); nodes];
    for d in 1..nodes {
        let (mut hops, mut timeouts, mut reached) = (0.0, 0.0, 1.0);
        let (tried, longest) = match d <= k {
            true => {
                hops += 1.0 - p;
                (1, d - 1)
            }
            false => (0, k),
        };
        // So many have not answered when the next place is tried.
        let mut silent = tried as f64;
        reached *= if tried == 1 { p } else { 1.0 };
        for place in (1..=longest).rev() {
            let here = reached * (1.0 - p);
            let rest = if tried == 1 { heir } else { means[d - place] };
            hops += here * (1.0 + rest.0);
            timeouts += here * (silent + rest.1);
            reached *= p;
            silent += 1.0;
        }
        if tried == 1 {
            hops += reached * heir.0;
            timeouts += reached * (silent + heir.1);
        }
        means[d] = (hops, timeouts);
    }
    let sum = means.iter().fold((0.0, 0.0), |sum, mean| (sum.0 + mean.0, sum.1 + mean.1));
    (sum.0 / nodes as f64, sum.1 / nodes as f64)
}

#[cfg(test)]
mod tests {
    use dht_core::theory::successors_mean;

    use super::*;

    #[test]
    fn without_deaths_the_expectation_is_formula_c() {
        for (nodes, depth) in [(2, 1), (50, 4), (1000, 20)] {
            let (hops, timeouts) = expected(nodes, depth, 0.0);
            assert!((hops - successors_mean(nodes as u64, depth)).abs() < 1e-9);
            assert_eq!(timeouts, 0.0);
        }
    }

    #[test]
    fn nobody_fails_while_half_of_all_are_dead() {
        let config = SimultaneousConfig { nodes: 200, lookups: 4000, ..Default::default() };
        let rows = run(&config, |_, _| {}).expect("within all bounds");
        assert_eq!(rows.iter().map(|row| row.failed).sum::<u64>(), 0);
        for row in rows {
            let hops = row.mean_hops.expect("lookups found their owners");
            let expected = row.expected_hops.expect("the formula");
            assert!((hops - expected).abs() < 0.05 * expected, "{row:?}");
            let timeouts = row.timeouts_per_lookup.expect("there were lookups");
            let expected = row.expected_timeouts.expect("the formula");
            assert!((timeouts - expected).abs() < 0.1 * expected + 1e-9, "{row:?}");
        }
    }

    /// The paper's own routing, on its ring: within 3 % of what it found, and nobody fails.
    #[test]
    fn fingers_find_their_way_round_the_dead() {
        let routing = Routing::Fingers;
        let config = SimultaneousConfig { routing, lookups: 4000, ..Default::default() };
        let rows = run(&config, |_, _| {}).expect("within all bounds");
        for (row, paper) in rows.iter().zip([3.84, 4.03, 4.22, 4.44, 4.69, 5.09]) {
            assert_eq!((row.failed, row.expected_hops), (0, None), "{row:?}");
            let hops = row.mean_hops.expect("lookups found their owners");
            // 3 %, and three standard errors of the fewer lookups here.
            let error = 3.0 * row.mean_hops_stderr.expect("more than one");
            assert!((hops - paper).abs() < 0.03 * paper + error, "{paper}: {row:?}");
        }
    }

    #[test]
    fn lookups_fail_where_whole_lists_are_dead() {
        let shares = vec![0.5];
        let config =
            SimultaneousConfig { nodes: 200, depth: 3, shares, lookups: 500, ..Default::default() };
        let rows = run(&config, |_, _| {}).expect("within all bounds");
        assert!(rows[0].failed > 0, "lists of three die whole in an eighth of all cases");
    }
}
