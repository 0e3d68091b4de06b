//! Arguments of `sim churn`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use dht_sim::churn::papers::Table;
use dht_sim::traffic::cost::Path;

use crate::cli::units::parse_duration;

/// Arguments of `sim churn`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimChurnArgs {
    /// Members at the beginning, 2 to 100000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) nodes: usize,
    /// Joins per second in the whole ring, and as many deaths
    #[arg(
        long,
        value_name = "R",
        conflicts_with = "median_session",
        allow_negative_numbers = true
    )]
    pub(crate) rate: Option<f64>,
    /// Instead of a rate: half of all members live no longer; each death comes with a join
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) median_session: Option<Duration>,
    /// Virtual minutes that are measured
    #[arg(long, value_name = "M", default_value_t = 10.0, allow_negative_numbers = true)]
    pub(crate) minutes: f64,
    /// All chance
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How lookups are routed: successors, both-ways, fingers or full [default: successors]
    #[arg(long, value_name = "R")]
    pub(crate) routing: Option<String>,
    /// Who carries lookups from node to node: iterative or recursive [default: iterative]
    #[arg(long, value_name = "F")]
    pub(crate) forwarding: Option<String>,
    /// Entries of the successor list [default: a node's]
    #[arg(long, value_name = "K", value_parser = super::measure::depth())]
    pub(crate) depth: Option<u16>,
    /// Lookups per second in the whole ring [default: 1, or what the table says]
    #[arg(long, value_name = "L")]
    pub(crate) lookup_rate: Option<f64>,
    /// How long a lookup may take [default: a node's]
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) lookup_timeout: Option<Duration>,
    /// Writes per second, and as many reads of what was written
    #[arg(long, value_name = "W", default_value_t = 0.0)]
    pub(crate) write_rate: f64,
    /// Upkeep period, jittered 0.5 to 1.5 times [default: a node's]
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) stabilize_every: Option<Duration>,
    /// What datagrams cost: over the internet, within one host, or without the search for longer ones
    #[arg(long, value_enum, value_name = "PATH", default_value = "internet")]
    pub(crate) path: PathArg,
    /// A table of a paper instead, our figures beside its: ton2, ton3 or bamboo
    #[arg(
        long,
        value_enum,
        value_name = "TABLE",
        hide_possible_values = true,
        conflicts_with_all = [
            "rate", "median_session", "minutes", "depth", "lookup_timeout", "write_rate",
            "stabilize_every", "path",
        ]
    )]
    pub(crate) table: Option<TableArg>,
    /// Lookups of each row of a table
    #[arg(
        long,
        value_name = "L",
        default_value_t = 10_000,
        requires = "table",
        conflicts_with_all = [
            "rate", "median_session", "minutes", "depth", "lookup_timeout", "write_rate",
            "stabilize_every", "path",
        ]
    )]
    pub(crate) lookups: u64,
}

/// The tables by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum TableArg {
    /// Chord, ToN 2003, Table II.
    Ton2,
    /// Chord, ToN 2003, Table III.
    Ton3,
    /// Rhea et al., USENIX 2004.
    Bamboo,
}

/// The kinds of path by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PathArg {
    /// Packets of 1,500 bytes.
    Internet,
    /// The longest datagrams there are.
    Loopback,
    /// Datagrams of 1,200 bytes.
    Undiscovered,
}

impl TableArg {
    /// The same for the simulator.
    pub(crate) fn table(self) -> Table {
        match self {
            TableArg::Ton2 => Table::Ton2,
            TableArg::Ton3 => Table::Ton3,
            TableArg::Bamboo => Table::Bamboo,
        }
    }
}

impl PathArg {
    /// The same for the simulator.
    pub(crate) fn path(self) -> Path {
        match self {
            PathArg::Internet => Path::Internet,
            PathArg::Loopback => Path::Loopback,
            PathArg::Undiscovered => Path::Undiscovered,
        }
    }
}
