//! The set-ups of the papers, by name, with their figures as we recall them: the papers were not
//! read again.

use std::time::Duration;

use dht_core::message::Forwarding;
use dht_core::message::ring::Routing;
use serde::Serialize;

use super::simultaneous::{self, SimultaneousConfig, SimultaneousRow};
use super::{ChurnConfig, ChurnError, ChurnProgress, ChurnReport, check};

/// A table of a paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Chord ToN 2003, Table II: a share of all members dies at once, nothing is mended.
    Ton2,
    /// Chord ToN 2003, Table III: joins and deaths all the time, upkeep every 15 to 45 s.
    Ton3,
    /// Rhea et al., "Handling churn in a DHT", USENIX 2004: sessions of 1.4 minutes.
    Bamboo,
}

/// How a table is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TableConfig {
    /// Which.
    pub table: Table,
    /// How lookups are routed.
    pub routing: Routing,
    /// Who carries them from node to node; in table II it is always the asker.
    pub forwarding: Forwarding,
    /// Members. The rates of the paper are per 1,000; on another number sessions stay as long.
    pub nodes: usize,
    /// Lookups of every row.
    pub lookups: u64,
    /// Lookups per second in the whole ring; what the table says if none.
    pub lookup_rate: Option<f64>,
    /// All chance.
    pub seed: u64,
}

/// A table, ours beside the paper's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableReport {
    /// Its name.
    pub table: &'static str,
    /// Where it stands.
    pub source: &'static str,
    /// What differs between the paper's set-up and ours.
    pub note: String,
    /// How lookups were routed.
    pub routing: &'static str,
    /// Who carried them from node to node.
    pub forwarding: &'static str,
    /// Members; the papers have [`NODES`].
    pub nodes: usize,
    /// The seed that gives the same report again.
    pub seed: u64,
    /// In the order of the paper.
    pub rows: Vec<TableRow>,
}

/// One row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableRow {
    /// What sets it apart.
    pub row: String,
    /// What the paper says.
    pub paper: PaperFigures,
    /// What was measured here.
    pub ours: Ours,
}

/// Figures of a paper; `None` where it gives none.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PaperFigures {
    /// Mean path length, with fingers and a list.
    pub mean_hops: Option<f64>,
    /// Contacts that failed.
    pub timeouts_per_lookup: Option<f64>,
    /// Lookups that failed, of 10,000.
    pub failed_of_10000: Option<u64>,
    /// Maintenance traffic.
    pub bytes_per_node_per_s: Option<f64>,
}

/// What was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Ours {
    /// Over static lists.
    Simultaneous(SimultaneousRow),
    /// In a world.
    Churn(Box<ChurnReport>),
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 3] = [Table::Ton2, Table::Ton3, Table::Bamboo];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Table::Ton2 => "ton2",
            Table::Ton3 => "ton3",
            Table::Bamboo => "bamboo",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Table::Ton2 => "Stoica et al., Chord, IEEE/ACM ToN 2003, section V, Table II",
            Table::Ton3 => "Stoica et al., Chord, IEEE/ACM ToN 2003, section V, Table III",
            Table::Bamboo => "Rhea et al., Handling churn in a DHT, USENIX 2004",
        }
    }
}

impl TableConfig {
    /// As in the paper.
    pub fn new(table: Table, seed: u64) -> TableConfig {
        let routing = Routing::Successors;
        let forwarding = Forwarding::Iterative;
        let (nodes, lookups, lookup_rate) = (NODES, 10_000, None);
        TableConfig { table, routing, forwarding, nodes, lookups, lookup_rate, seed }
    }

    fn note(&self) -> String {
        let routing = self.routing.as_str();
        let by_fingers = self.routing == Routing::Fingers;
        match self.table {
            Table::Ton2 if by_fingers => {
                "as in the paper: fingers and a list of 20, none of which is mended".to_owned()
            }
            Table::Ton2 => format!(
                "the paper routes by fingers and a list of 20, this is routing {routing} with a list of \
                 k = 20: expected is formula (c), about N/2k, with deaths: a hop goes k - p/(1-p) places \
                 on and takes p/(1-p) time-outs"
            ),
            Table::Ton3 if by_fingers => {
                "as in the paper: fingers and a list of 20; a lookup may take 60 s".to_owned()
            }
            Table::Ton3 => format!(
                "the paper routes by fingers and a list of 20, this is routing {routing} with a list of \
                 20; a lookup may take 60 s"
            ),
            Table::Bamboo => format!(
                "the paper routes by prefixes, this is routing {routing}; upkeep is without lookups of \
                 clients, one lookup per node every 10 s; a lookup may take 10 s; a row for each upkeep \
                 period"
            ),
        }
    }

    /// The runs of a table that needs a world: what sets each apart, what the paper says, and how
    /// it is measured.
    fn runs(&self) -> Vec<(String, PaperFigures, ChurnConfig)> {
        match self.table {
            Table::Ton2 => Vec::new(),
            Table::Ton3 => TON3
                .iter()
                .map(|(rate, failed)| {
                    let failed_of_10000 = Some(*failed);
                    let paper = PaperFigures { failed_of_10000, ..PaperFigures::default() };
                    let rate_here = rate * self.nodes as f64 / NODES as f64;
                    let config = ChurnConfig {
                        depth: 20,
                        lookup_timeout: Duration::from_secs(60),
                        ..self.config(rate_here, TON3_LOOKUP_RATE)
                    };
                    (format!("R = {rate}"), paper, config.with_period(Duration::from_secs(30)))
                })
                .collect(),
            Table::Bamboo => BAMBOO_PERIODS_S
                .iter()
                .map(|period| {
                    let bytes_per_node_per_s = Some(BAMBOO_BYTES);
                    let paper = PaperFigures { bytes_per_node_per_s, ..PaperFigures::default() };
                    let rate = ChurnConfig::rate_of_sessions(self.nodes, BAMBOO_SESSION);
                    let lookup_rate = self.nodes as f64 / BAMBOO_LOOKUP_EVERY_S;
                    let config = ChurnConfig { paired: true, ..self.config(rate, lookup_rate) };
                    let period = Duration::from_secs(*period);
                    (format!("upkeep every {period:?}"), paper, config.with_period(period))
                })
                .collect(),
        }
    }

    fn config(&self, rate: f64, lookup_rate: f64) -> ChurnConfig {
        let lookup_rate = self.lookup_rate.unwrap_or(lookup_rate);
        // So many that hardly ever fewer than asked for come together: three standard deviations.
        let lookups = self.lookups as f64 + 3.0 * (self.lookups as f64).sqrt();
        let span = Duration::from_secs_f64((lookups / lookup_rate.max(1e-6)).clamp(1.0, 1e6));
        let default = ChurnConfig::new(self.nodes, rate, span, self.seed);
        let TableConfig { routing, forwarding, .. } = *self;
        ChurnConfig { lookup_rate, routing, forwarding, ..default }
    }
}

/// Measures a table, row by row.
pub fn run(
    config: &TableConfig,
    mut progress: impl FnMut(&str, ChurnProgress),
) -> Result<TableReport, ChurnError> {
    check("lookups", config.lookups, 1, super::MAX_LOOKUPS)?;
    let rows = match config.table {
        Table::Ton2 => simultaneous_rows(config, &mut progress)?,
        _ => config
            .runs()
            .into_iter()
            .map(|(row, paper, run)| {
                let ours = super::run(&run, |step| progress(&row, step))?;
                Ok(TableRow { row, paper, ours: Ours::Churn(Box::new(ours)) })
            })
            .collect::<Result<Vec<TableRow>, ChurnError>>()?,
    };
    Ok(TableReport {
        table: config.table.as_str(),
        source: config.table.source(),
        note: config.note(),
        routing: config.routing.as_str(),
        forwarding: config.forwarding.as_str(),
        nodes: config.nodes,
        seed: config.seed,
        rows,
    })
}

fn simultaneous_rows(
    config: &TableConfig,
    progress: &mut impl FnMut(&str, ChurnProgress),
) -> Result<Vec<TableRow>, ChurnError> {
    let TableConfig { routing, nodes, lookups, seed, .. } = *config;
    let setup = SimultaneousConfig {
        routing,
        nodes,
        lookups,
        seed,
        shares: TON2.iter().map(|(share, ..)| *share).collect(),
        ..SimultaneousConfig::default()
    };
    let rows = simultaneous::run(&setup, |done_s, of_s| {
        progress("lookups", ChurnProgress { what: "walks", done_s, of_s });
    })?;
    let beside = |(ours, (share, hops, timeouts)): (SimultaneousRow, &(f64, f64, f64))| TableRow {
        row: format!("p = {share}"),
        paper: PaperFigures {
            mean_hops: Some(*hops),
            timeouts_per_lookup: Some(*timeouts),
            failed_of_10000: Some(0),
            ..PaperFigures::default()
        },
        ours: Ours::Simultaneous(ours),
    };
    Ok(rows.into_iter().zip(&TON2).map(beside).collect())
}

/// Members in all three papers.
pub const NODES: usize = 1000;
/// Share that died, mean path, time-outs per lookup.
const TON2: [(f64, f64, f64); 6] = [
    (0.0, 3.84, 0.0),
    (0.1, 4.03, 0.60),
    (0.2, 4.22, 1.17),
    (0.3, 4.44, 2.02),
    (0.4, 4.69, 3.23),
    (0.5, 5.09, 5.10),
];
/// Joins per second and as many deaths, failed lookups of 10,000. The mean path is 3.8 to 4.1, and
/// time-outs are .05 to .46.
const TON3: [(f64, u64); 8] =
    [(0.05, 0), (0.10, 0), (0.15, 2), (0.20, 5), (0.25, 6), (0.30, 8), (0.35, 16), (0.40, 15)];
/// Lookups per second: four times those of the paper, so that a row takes 2,500 virtual seconds
/// instead of 10,000; `--lookup-rate 1` is the paper's.
const TON3_LOOKUP_RATE: f64 = 4.0;
/// Median session.
const BAMBOO_SESSION: Duration = Duration::from_secs(84);
/// Maintenance traffic that the paper stays below.
const BAMBOO_BYTES: f64 = 900.0;
/// Each node looks a point up so often (guess: the paper's figure could not be read again).
const BAMBOO_LOOKUP_EVERY_S: f64 = 10.0;
/// Upkeep periods that are tried.
const BAMBOO_PERIODS_S: [u64; 3] = [1, 2, 4];
