//! How many hops lookups take on rings of any size (`dht-node sim hops`).
//!
//! The walk asks [`dht_core::route::next_hop`], the rule by which real nodes route, at every step;
//! beside it stands what [`dht_core::theory`] expects. The two share no code.

mod table;

use std::collections::BTreeSet;
use std::fmt;

use dht_core::Config;
use dht_core::Id;
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use dht_core::theory;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::member::mix;

pub use table::RingTable;

/// Most members of one ring: a table of so many ids takes 240 MB.
pub const MAX_NODES: usize = 10_000_000;
/// The depths that are measured unless others are named (`sim hops --depth`).
pub const DEFAULT_DEPTHS: [u16; 5] = [1, 2, 4, 8, 16];

/// What is to be measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopsConfig {
    /// How many members the rings have; one result for each.
    pub sizes: Vec<usize>,
    /// With how many entries of the successor list; one row for each.
    pub depths: Vec<u16>,
    /// Lookups of every row, over all its rings.
    pub lookups: u64,
    /// Over how many fresh random rings; `None`: enough for a spread below 0.3 %. For routing
    /// `successors` that is one ring, since the distance of a uniform asker has the same
    /// distribution on every ring.
    pub rings: Option<u32>,
    /// All chance.
    pub seed: u64,
}

/// What came of it, in the shape of the JSON contract.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HopsReport {
    /// The seed that gives the same report again.
    pub seed: u64,
    /// In the order asked.
    pub sizes: Vec<SizeReport>,
}

/// The rows of one size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SizeReport {
    /// Members of the ring.
    pub nodes: usize,
    /// Lookups of every row.
    pub samples: u64,
    /// Over how many random rings.
    pub rings: u32,
    /// One for each routing and depth.
    pub routings: Vec<Row>,
}

/// One routing at one depth.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub routing: &'static str,
    /// Entries used at each step; `None` where there is no such thing.
    pub depth: Option<u16>,
    /// Measured mean, in hops.
    pub mean: Option<f64>,
    /// Measured standard deviation, in hops.
    pub stddev: Option<f64>,
    /// Half of all lookups took at most so many hops.
    pub p50: Option<u32>,
    /// 90 % of all lookups took at most so many hops.
    pub p90: Option<u32>,
    /// 99 % of all lookups took at most so many hops.
    pub p99: Option<u32>,
    /// No lookup took more hops.
    pub max: Option<u32>,
    /// The formula: the mean over random rings.
    pub expected: Option<f64>,
    /// The exact mean of the rings at hand: all askers, keys by arc.
    pub expected_here: Option<f64>,
    /// How the mean grows with the number of members.
    pub growth: &'static str,
    /// Lookups that did not reach the owner.
    pub failed: u64,
    /// Contacts that did not answer: none, where nobody dies.
    pub timeouts: u64,
    /// Whether the routing is built.
    pub available: bool,
    /// How many lookups took 0, 1, 2, ... hops; for plots, not for the report.
    #[serde(skip)]
    pub histogram: Histogram,
}

/// How far a measurement has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopsProgress {
    /// Size of the ring being walked.
    pub nodes: usize,
    /// Lookups done for this size, each walked once for every row.
    pub done: u64,
    /// Lookups to do for this size.
    pub lookups: u64,
}

/// Why nothing was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopsError {
    /// No size, no depth, no lookup or no ring was asked for.
    Nothing {
        /// Which of them.
        field: &'static str,
    },
    /// Outside of what works.
    OutOfRange {
        /// Which setting.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The least that works.
        low: u64,
        /// The most that works.
        high: u64,
    },
}

impl fmt::Display for HopsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HopsError::Nothing { field } => write!(f, "{field}: at least one is needed"),
            HopsError::OutOfRange { field, value, low, high } => {
                write!(f, "{field} is {value}, but must lie between {low} and {high}")
            }
        }
    }
}

impl std::error::Error for HopsError {}

impl HopsConfig {
    /// Checks every bound.
    pub fn validate(&self) -> Result<(), HopsError> {
        let counts = [
            ("nodes", self.sizes.len() as u64),
            ("depth", self.depths.len() as u64),
            ("lookups", self.lookups),
            ("rings", self.rings.unwrap_or(1).into()),
        ];
        if let Some((field, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(HopsError::Nothing { field });
        }
        let range = |field, value: u64, high: u64| match (1..=high).contains(&value) {
            true => Ok(()),
            false => Err(HopsError::OutOfRange { field, value, low: 1, high }),
        };
        for nodes in &self.sizes {
            range("nodes", *nodes as u64, MAX_NODES as u64)?;
        }
        for depth in &self.depths {
            range("depth", (*depth).into(), Config::MAX_DEPTH.into())?;
        }
        range("rings", self.rings.unwrap_or(1).into(), self.lookups)
    }
}

/// Measures every size at every depth. `progress` is told about a hundred times for each size.
pub fn run(
    config: &HopsConfig,
    mut progress: impl FnMut(HopsProgress),
) -> Result<HopsReport, HopsError> {
    config.validate()?;
    let sizes = config.sizes.iter().map(|nodes| measure(config, *nodes, &mut progress)).collect();
    Ok(HopsReport { seed: config.seed, sizes })
}

fn measure(
    config: &HopsConfig,
    nodes: usize,
    progress: &mut impl FnMut(HopsProgress),
) -> SizeReport {
    let rings = config.rings.unwrap_or(1);
    let mut tallies: Vec<Tally> = config.depths.iter().map(|depth| Tally::new(*depth)).collect();
    let pace = (config.lookups / 100).max(1);
    let mut done = 0;
    for ring in 0..u64::from(rings) {
        let seed = mix(&[config.seed, nodes as u64, ring]);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let table = RingTable::random(nodes, &mut rng);
        // The rings share the lookups as evenly as whole numbers allow.
        let share = |n: u64| config.lookups * n / u64::from(rings);
        let lookups = share(ring + 1) - share(ring);
        for lookup in 0..lookups {
            // Askers are stratified by rank: each gets its turn before any gets the next one.
            let along = (lookup as f64 + rng.random::<f64>()) / lookups as f64;
            let asker = ((along * nodes as f64) as usize).min(nodes - 1);
            let key = random_id(&mut rng);
            tallies.iter_mut().for_each(|tally| tally.walk(&table, asker, key));
            done += 1;
            if done % pace == 0 {
                progress(HopsProgress { nodes, done, lookups: config.lookups });
            }
        }
        let weight = lookups as f64 / config.lookups as f64;
        tallies.iter_mut().for_each(|tally| tally.here += weight * table.exact_mean(tally.depth));
    }
    let routings = tallies.into_iter().map(|tally| tally.row(nodes)).collect();
    SizeReport { nodes, samples: config.lookups, rings, routings }
}

/// What one row has counted so far.
struct Tally {
    depth: u16,
    counts: Vec<u64>,
    failed: u64,
    here: f64,
}

impl Tally {
    fn new(depth: u16) -> Tally {
        Tally { depth, counts: Vec::new(), failed: 0, here: 0.0 }
    }

    fn walk(&mut self, table: &RingTable, asker: usize, key: Id) {
        match table.hops(asker, key, self.depth) {
            Some(hops) => {
                if self.counts.len() <= hops {
                    self.counts.resize(hops + 1, 0);
                }
                self.counts[hops] += 1;
            }
            None => self.failed += 1,
        }
    }

    fn row(self, nodes: usize) -> Row {
        let routing = Routing::Successors;
        let histogram = Histogram::from_counts(self.counts);
        Row {
            routing: "successors",
            depth: Some(self.depth),
            mean: histogram.mean(),
            stddev: histogram.stddev(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
            expected: theory::expected_mean(routing, nodes as u64, self.depth),
            expected_here: Some(self.here),
            growth: theory::growth(routing),
            failed: self.failed,
            timeouts: 0,
            available: true,
            histogram,
        }
    }
}

fn random_id(rng: &mut Pcg64Mcg) -> Id {
    let mut bytes = [0; Id::LEN];
    rng.fill_bytes(&mut bytes);
    Id::from_bytes(bytes)
}

/// So many different random points, in order.
fn random_ids(count: usize, rng: &mut Pcg64Mcg) -> Vec<Id> {
    let mut ids: Vec<Id> = (0..count).map(|_| random_id(rng)).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() == count {
        return ids;
    }
    // Points of 160 bits do not meet; if they ever do, a few more are drawn.
    let mut distinct: BTreeSet<Id> = ids.into_iter().collect();
    while distinct.len() < count {
        distinct.insert(random_id(rng));
    }
    distinct.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> HopsConfig {
        HopsConfig {
            sizes: vec![16, 64],
            depths: DEFAULT_DEPTHS.to_vec(),
            lookups: 4000,
            rings: None,
            seed: 7,
        }
    }

    #[test]
    fn measured_means_lie_beside_the_formulas() {
        let report = run(&config(), |_| {}).expect("within all bounds");
        for size in &report.sizes {
            for row in &size.routings {
                let (mean, expected) =
                    (row.mean.expect("measured"), row.expected.expect("a formula"));
                // 4000 lookups: the standard error of the mean is below 1 % of it.
                assert!((mean / expected - 1.0).abs() < 0.05, "{row:?}");
                let here = row.expected_here.expect("a ring at hand");
                assert!((here - expected).abs() < 1e-9, "the same on every ring: {row:?}");
                assert_eq!(row.histogram.total() + row.failed, size.samples);
                assert_eq!(row.failed, 0);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_report_and_rows_do_not_disturb_each_other() {
        let all = run(&config(), |_| {}).expect("within all bounds");
        assert_eq!(run(&config(), |_| {}), Ok(all.clone()));
        let one = HopsConfig { depths: vec![4], ..config() };
        let one = run(&one, |_| {}).expect("within all bounds");
        assert_eq!(one.sizes[1].routings[0], all.sizes[1].routings[2]);
        let other = run(&HopsConfig { seed: 8, ..config() }, |_| {}).expect("within all bounds");
        assert_ne!(other.sizes, all.sizes);
    }

    #[test]
    fn the_lookups_are_shared_by_the_rings() {
        let config = HopsConfig { rings: Some(7), lookups: 1000, ..config() };
        let mut last = 0;
        let report = run(&config, |progress| last = progress.done).expect("within all bounds");
        assert_eq!(last, 1000);
        let size = &report.sizes[0];
        assert_eq!((size.rings, size.routings[0].histogram.total()), (7, 1000));
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let broken = |change: fn(&mut HopsConfig)| {
            let mut config = config();
            change(&mut config);
            config.validate().expect_err("broken").to_string()
        };
        assert_eq!(broken(|c| c.sizes.clear()), "nodes: at least one is needed");
        assert_eq!(broken(|c| c.lookups = 0), "lookups: at least one is needed");
        assert_eq!(broken(|c| c.rings = Some(0)), "rings: at least one is needed");
        assert_eq!(broken(|c| c.sizes.push(0)), "nodes is 0, but must lie between 1 and 10000000");
        assert_eq!(broken(|c| c.depths.push(200)), "depth is 200, but must lie between 1 and 128");
        assert_eq!(
            broken(|c| c.rings = Some(5000)),
            "rings is 5000, but must lie between 1 and 4000"
        );
    }
}
