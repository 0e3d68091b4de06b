//! Rings whose members come and go all the time (`dht-node sim churn`).

mod driver;
mod files;
pub mod papers;
mod report;
pub mod simultaneous;
#[cfg(test)]
mod tests;
mod truth;

use std::fmt;
use std::time::Duration;

use dht_core::Config;
use dht_core::config::ConfigError;
use dht_core::message::Forwarding;
use dht_core::message::ring::Routing;

use crate::faults::FaultPlan;
use crate::traffic::cost::Path;

pub use files::FileCounts;
pub use report::{ChurnReport, Fault, Latency};

/// A ring whose members come and go.
#[derive(Clone, PartialEq, Debug)]
pub struct ChurnConfig {
    /// Members at the beginning; joins and deaths come at the same rate.
    pub nodes: usize,
    /// Joins per second in the whole ring, and as many deaths: two Poisson processes.
    pub rate: f64,
    /// Whether each death comes with a join at the same moment, so that the number of members stays
    /// as it is (Rhea et al. 2004).
    pub paired: bool,
    /// How long members come and go while it is measured.
    pub span: Duration,
    /// The same before anything is measured: the ring forgets that it was ideal.
    pub warm_up: Duration,
    /// All chance.
    pub seed: u64,
    /// How nodes route their lookups.
    pub routing: Routing,
    /// Entries of the successor list, all of which lookups use.
    pub depth: u16,
    /// Who carries lookups from node to node.
    pub forwarding: Forwarding,
    /// Lookups per second by random members for random points: a Poisson process.
    pub lookup_rate: f64,
    /// Writes per second, and reads of what was written. Without any the ring is one of links and
    /// lookups alone, as in the papers: nodes keep no data, and do not compare copies.
    pub write_rate: f64,
    /// Upkeep period, jittered by 0.5 to 1.5.
    pub stabilize_every: Duration,
    /// How long a lookup may take.
    pub lookup_timeout: Duration,
    /// Delays and losses.
    pub plan: FaultPlan,
    /// What datagrams cost.
    pub path: Path,
}

impl ChurnConfig {
    /// A ring of so many, with default settings: upkeep, depth and time-outs as a node has them, and
    /// one lookup per second (Chord ToN 2003, section V-E).
    pub fn new(nodes: usize, rate: f64, span: Duration, seed: u64) -> ChurnConfig {
        let Config { depth, stabilize_every, lookup_timeout, .. } = Config::default();
        ChurnConfig {
            nodes,
            rate,
            paired: false,
            span,
            warm_up: warm_up(stabilize_every),
            seed,
            routing: Routing::Successors,
            depth,
            forwarding: Forwarding::Iterative,
            lookup_rate: 1.0,
            write_rate: 0.0,
            stabilize_every,
            lookup_timeout,
            plan: FaultPlan::default(),
            path: Path::Internet,
        }
    }

    /// With another upkeep period.
    pub fn with_period(self, stabilize_every: Duration) -> ChurnConfig {
        ChurnConfig { stabilize_every, warm_up: warm_up(stabilize_every), ..self }
    }

    /// The rate at which half of all sessions are over after `median`: sessions are exponential, so
    /// `n` members die at `n ln 2 / median` (Rhea et al. 2004, section 3).
    pub fn rate_of_sessions(nodes: usize, median: Duration) -> f64 {
        nodes as f64 * std::f64::consts::LN_2 / median.as_secs_f64().max(1e-3)
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), ChurnError> {
        check("nodes", self.nodes as u64, 2, MAX_NODES)?;
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        check("minutes (in ms)", millis(self.span), 1, 7 * 24 * 3_600_000)?;
        for (field, rate) in [
            ("rate", self.rate),
            ("lookup-rate", self.lookup_rate),
            ("write-rate", self.write_rate),
        ] {
            if !(0.0..=MAX_RATE).contains(&rate) {
                return Err(ChurnError::Rate { field, rate });
            }
        }
        self.node().validate().map_err(ChurnError::Node)
    }

    /// Settings of every node.
    fn node(&self) -> Config {
        Config {
            routing: self.routing,
            // State for no other routing, whose upkeep would count.
            keep: [self.routing].into_iter().collect(),
            depth: self.depth,
            forwarding: self.forwarding,
            stabilize_every: self.stabilize_every,
            lookup_timeout: self.lookup_timeout,
            keeps_data: self.write_rate > 0.0,
            ..Config::default()
        }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChurnProgress {
    /// What is going on, in a few words.
    pub what: &'static str,
    /// Virtual seconds done.
    pub done_s: u64,
    /// Virtual seconds to do.
    pub of_s: u64,
}

/// Lets members come and go, and reports what became of lookups and of the ring.
pub fn run(
    config: &ChurnConfig,
    progress: impl FnMut(ChurnProgress),
) -> Result<ChurnReport, ChurnError> {
    config.validate()?;
    driver::run(config, progress)
}

/// Three periods, but no less than half a minute (guess: then the lists hold as many dead as they
/// will).
fn warm_up(period: Duration) -> Duration {
    (period * 3).max(Duration::from_secs(30))
}

/// Most members of one ring.
pub const MAX_NODES: u64 = 100_000;
/// Most lookups of one run.
pub const MAX_LOOKUPS: u64 = 100_000_000;
/// Most events per second of one kind.
pub const MAX_RATE: f64 = 100_000.0;

/// A mean and how sure it is, from values added one by one (Welford 1962).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Sample {
    /// Adds one value.
    pub fn add(&mut self, value: f64) {
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    /// The mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// The standard error of the mean, as if the values were independent; `None` of fewer than two.
    pub fn stderr(&self) -> Option<f64> {
        (self.count > 1.0).then(|| (self.squares / (self.count - 1.0) / self.count).sqrt())
    }
}

/// Why nothing was simulated.
#[derive(Clone, PartialEq, Debug)]
pub enum ChurnError {
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
    /// A rate outside of what works.
    Rate {
        /// Which.
        field: &'static str,
        /// Its value.
        rate: f64,
    },
    /// A setting of the nodes is outside of what works.
    Node(ConfigError),
    /// The ring did not become ideal before anybody came or went.
    NotFormed {
        /// After so many virtual seconds.
        seconds: u64,
    },
}

impl fmt::Display for ChurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChurnError::OutOfRange { field, value, low, high } => {
                write!(f, "{field} is {value}, but must lie between {low} and {high}")
            }
            ChurnError::Rate { field, rate } => {
                write!(f, "{field} is {rate}, but must lie between 0 and {MAX_RATE} per second")
            }
            ChurnError::Node(error) => error.fmt(f),
            ChurnError::NotFormed { seconds } => write!(
                f,
                "the ring was not ideal {seconds} virtual seconds after its last join; try another \
                 seed, and please report this one"
            ),
        }
    }
}

impl std::error::Error for ChurnError {}

fn check(field: &'static str, value: u64, low: u64, high: u64) -> Result<(), ChurnError> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(ChurnError::OutOfRange { field, value, low, high }),
    }
}
