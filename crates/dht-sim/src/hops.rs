//! How many hops lookups take on rings of any size (`dht-node sim hops`).
//!
//! The walk asks [`dht_core::route`], the rules by which real nodes route, at every step; beside it stands what
//! [`dht_core::theory`] expects. The two share no code.

mod sample;
mod table;
mod tally;

use std::collections::BTreeSet;
use std::fmt;

use dht_core::Config;
use dht_core::Id;
use dht_core::message::ring::Routing;
use dht_core::stats::Histogram;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::member::mix;
use sample::Strata;
use tally::Tally;

pub(crate) use sample::random_id;
pub use table::RingTable;

/// Most members of one ring: a table of so many ids takes 240 MB.
pub const MAX_NODES: usize = 10_000_000;
/// The depths that are measured unless others are named (`sim hops --depth`).
pub const DEFAULT_DEPTHS: [u16; 5] = [1, 2, 4, 8, 16];
/// The same for routing `fingers`: the ring of 2001, and the list that nodes keep by default.
pub const DEFAULT_FINGER_DEPTHS: [u16; 2] = [1, 16];
/// Lookups of every row on rings of up to 50,000 nodes. Guess: 20 of each distance on a ring of
/// 1,000, so that a plot of them is smooth, and a row takes a fraction of a second.
pub const DEFAULT_LOOKUPS: u64 = 20_000;
/// The fewest that are made unless others are named: their standard error is far below 0.1 % of the
/// mean, and ten of them lie beyond the 99th percentile.
pub const LEAST_DEFAULT_LOOKUPS: u64 = 1_000;
/// A walk is as long as its ring, so above so many nodes times lookups fewer lookups are made:
/// a million nodes take about ten seconds (measured, all default depths).
const DEFAULT_STEPS: u64 = 1_000_000_000;

/// How many lookups of every row are made on a ring of so many nodes, unless their number is named.
pub fn default_lookups(nodes: usize) -> u64 {
    (DEFAULT_STEPS / (nodes as u64).max(1)).clamp(LEAST_DEFAULT_LOOKUPS, DEFAULT_LOOKUPS)
}

/// Over how many random rings means are taken that differ from ring to ring. Both ways at depth 1 they do by
/// 5.5 % at 13 nodes, 1.6 % at 64 and 0.1 % at 777 (`docs/protocol.md`, "Hop formulas"), and by so much less,
/// taken over rings, as the root of their number says.
pub fn default_rings(nodes: usize) -> u32 {
    match nodes {
        ..=128 => 400,
        129..=4096 => 20,
        _ => 1,
    }
}

/// What is to be measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HopsConfig {
    /// How many members the rings have; one result for each.
    pub sizes: Vec<usize>,
    /// Routings, each with its rows.
    pub routings: Vec<Routing>,
    /// With how many entries of each list; one row for each. Empty: [`DEFAULT_DEPTHS`], with fingers 1 and 16.
    pub depths: Vec<u16>,
    /// Lookups of every row, over all its rings. `None`: [`default_lookups`].
    pub lookups: Option<u64>,
    /// Over how many fresh random rings; `None`: enough for a spread below 0.3 %. For routings `successors`
    /// and `full` that is one ring, since the distance of a uniform asker has the same distribution on
    /// every ring. Means both ways and with fingers differ from ring to ring: see [`default_rings`].
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
    /// Standard error of `mean` as an estimate of the rings at hand, in hops: from the spread
    /// within strata of the distance, so far below `stddev` over the root of the number of lookups.
    /// `None` if a ring had a single lookup.
    pub stderr: Option<f64>,
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
            ("routing", self.routings.len() as u64),
            ("lookups", self.lookups.unwrap_or(1)),
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
            range("rings", self.rings_of(*nodes).into(), self.lookups_on(*nodes))?;
        }
        for depth in &self.depths {
            range("depth", (*depth).into(), Config::MAX_DEPTH.into())?;
        }
        Ok(())
    }

    fn lookups_on(&self, nodes: usize) -> u64 {
        self.lookups.unwrap_or_else(|| default_lookups(nodes))
    }

    fn rings_of(&self, nodes: usize) -> u32 {
        let differ = |routing: &Routing| matches!(routing, Routing::BothWays | Routing::Fingers);
        self.rings.unwrap_or(match self.routings.iter().any(differ) {
            true => {
                default_rings(nodes).min(u32::try_from(self.lookups_on(nodes)).unwrap_or(u32::MAX))
            }
            false => 1,
        })
    }

    /// A tally for every row.
    fn tallies(&self) -> Vec<Tally> {
        let of = |routing: &Routing| {
            let depths: &[u16] = match routing {
                Routing::Full => &[1],
                _ if !self.depths.is_empty() => &self.depths,
                Routing::Fingers => &DEFAULT_FINGER_DEPTHS,
                _ => &DEFAULT_DEPTHS,
            };
            depths.iter().map(|depth| Tally::new(*routing, *depth)).collect::<Vec<Tally>>()
        };
        self.routings.iter().flat_map(of).collect()
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
    let rings = config.rings_of(nodes);
    let samples = config.lookups_on(nodes);
    let mut tallies = config.tallies();
    let pace = (samples / 100).max(1);
    let mut done = 0;
    for ring in 0..u64::from(rings) {
        let seed = mix(&[config.seed, nodes as u64, ring]);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let table = RingTable::random(nodes, &mut rng);
        // The rings share the lookups as evenly as whole numbers allow.
        let share = |n: u64| samples * n / u64::from(rings);
        let lookups = share(ring + 1) - share(ring);
        let strata = Strata::new(lookups);
        for stratum in strata.mixed() {
            for _ in 0..strata.lookups_of(stratum) {
                let (asker, key) = strata.draw(stratum, &table, &mut rng);
                tallies.iter_mut().for_each(|tally| tally.walk(&table, asker, key));
                done += 1;
                if done % pace == 0 {
                    progress(HopsProgress { nodes, done, lookups: samples });
                }
            }
            tallies.iter_mut().for_each(Tally::close_stratum);
        }
        let weight = lookups as f64 / samples as f64;
        tallies.iter_mut().for_each(|tally| tally.close_ring(&table, weight));
    }
    let routings = tallies.into_iter().map(|tally| tally.row(nodes)).collect();
    SizeReport { nodes, samples, rings, routings }
}

/// So many different random points, in order.
pub(crate) fn random_ids(count: usize, rng: &mut Pcg64Mcg) -> Vec<Id> {
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
            routings: vec![Routing::Successors],
            depths: DEFAULT_DEPTHS.to_vec(),
            lookups: Some(4000),
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
                let error = row.stderr.expect("two lookups in every stratum");
                assert!((mean - expected).abs() < 6.0 * error + 1e-9, "{row:?}");
                // Plain sampling could not promise 1 % with so few.
                assert!(error < 0.001 * mean, "{row:?}");
                let here = row.expected_here.expect("a ring at hand");
                assert!((here - expected).abs() < 1e-9, "the same on every ring: {row:?}");
                assert_eq!(row.histogram.total() + row.failed, size.samples);
                assert_eq!(row.failed, 0);
            }
        }
    }

    /// Sizes and depths that divide nothing, averaged over rings.
    #[test]
    fn odd_sizes_and_depths_are_within_one_percent() {
        let config = HopsConfig {
            sizes: vec![1, 2, 3, 7, 100, 777, 1000],
            routings: vec![Routing::Successors],
            depths: vec![1, 3, 5, 7, 100],
            lookups: Some(2000),
            rings: Some(5),
            seed: 3,
        };
        let report = run(&config, |_| {}).expect("within all bounds");
        for (size, row) in report.sizes.iter().flat_map(|size| {
            let rows = size.routings.iter();
            rows.map(move |row| (size.nodes, row))
        }) {
            let (mean, expected) = (row.mean.expect("measured"), row.expected.expect("a formula"));
            assert!((mean - expected).abs() <= 0.01 * expected, "{size} nodes: {row:?}");
            assert!((row.expected_here.expect("rings at hand") - expected).abs() < 1e-9);
            assert_eq!(row.failed, 0);
        }
    }

    /// The other routings, averaged over rings.
    #[test]
    fn all_routings_are_within_one_percent() {
        let config = HopsConfig {
            sizes: vec![16, 64, 1000],
            routings: vec![Routing::BothWays, Routing::Fingers, Routing::Full],
            depths: Vec::new(),
            lookups: Some(40_000),
            rings: None,
            seed: 5,
        };
        let report = run(&config, |_| {}).expect("within all bounds");
        for (nodes, row) in
            report.sizes.iter().flat_map(|size| size.routings.iter().map(|row| (size.nodes, row)))
        {
            let (mean, expected) = (row.mean.expect("measured"), row.expected.expect("a formula"));
            assert!((mean - expected).abs() <= 0.012 * expected, "{nodes} nodes: {row:?}");
            let here = row.expected_here.expect("few members");
            assert!((mean - here).abs() <= 0.01 * here, "{nodes} nodes: {row:?}");
            assert_eq!(row.failed, 0);
        }
    }

    /// The error that is printed is the spread that other seeds show.
    #[test]
    fn the_standard_error_is_that_of_repeated_measurements() {
        const SEEDS: u64 = 300;
        let (mut squared, mut claimed) = ([0.0; 2], [0.0; 2]);
        for seed in 0..SEEDS {
            let config = HopsConfig {
                sizes: vec![500],
                routings: vec![Routing::Successors],
                depths: vec![1, 3],
                lookups: Some(31),
                rings: None,
                seed,
            };
            let report = run(&config, |_| {}).expect("within all bounds");
            for (at, row) in report.sizes[0].routings.iter().enumerate() {
                let off = row.mean.expect("measured") - row.expected.expect("a formula");
                squared[at] += off * off / SEEDS as f64;
                claimed[at] += row.stderr.expect("known").powi(2) / SEEDS as f64;
            }
        }
        for (squared, claimed) in squared.into_iter().zip(claimed) {
            // Either mean of 300 squares is within some 8 % of its own.
            assert!((0.7..1.4).contains(&(squared / claimed)), "{squared} against {claimed}");
        }
    }

    #[test]
    fn huge_rings_have_fewer_lookups_unless_told_otherwise() {
        let lookups = [1, 50_000, 100_000, 1_000_000, MAX_NODES].map(default_lookups);
        assert_eq!(lookups, [20_000, 20_000, 10_000, 1_000, 1_000]);
        let config = HopsConfig { lookups: None, sizes: vec![2], ..config() };
        let report = run(&config, |_| {}).expect("within all bounds");
        assert_eq!(report.sizes[0].samples, DEFAULT_LOOKUPS);
    }

    #[test]
    fn a_ring_with_one_lookup_has_no_standard_error() {
        let config = HopsConfig { lookups: Some(5), rings: Some(4), ..config() };
        let report = run(&config, |_| {}).expect("within all bounds");
        assert!(report.sizes[0].routings.iter().all(|row| row.stderr.is_none()));
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
        let config = HopsConfig { rings: Some(7), lookups: Some(1000), ..config() };
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
        assert_eq!(broken(|c| c.lookups = Some(0)), "lookups: at least one is needed");
        assert_eq!(broken(|c| c.rings = Some(0)), "rings: at least one is needed");
        assert_eq!(broken(|c| c.sizes.push(0)), "nodes is 0, but must lie between 1 and 10000000");
        assert_eq!(broken(|c| c.depths.push(200)), "depth is 200, but must lie between 1 and 128");
        assert_eq!(
            broken(|c| c.rings = Some(5000)),
            "rings is 5000, but must lie between 1 and 4000"
        );
    }
}
