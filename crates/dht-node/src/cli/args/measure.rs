//! Arguments of the commands that look at a ring, and of those that make one up.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{SimCheckArgs, SimChurnArgs};

/// Arguments of `lookup`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LookupArgs {
    /// The key
    pub(crate) key: String,
    /// KEY is given in hex
    #[arg(long)]
    pub(crate) key_hex: bool,
    /// How to route: successors, both-ways, fingers or full [default: the member's own]
    #[arg(long, value_name = "R")]
    pub(crate) routing: Option<String>,
    /// Who carries it from node to node: iterative, the member itself, or recursive, each hands it on [default: the
    /// member's own]
    #[arg(long, value_name = "F")]
    pub(crate) forwarding: Option<String>,
    /// With how many entries of the list [default: the member's own]
    #[arg(long, value_name = "K", value_parser = depth())]
    pub(crate) depth: Option<u16>,
    /// Draw the path on a circle: the ring's members, where it is small, and numbered steps
    #[arg(long, conflicts_with = "compare")]
    pub(crate) draw: bool,
    /// The same key under all routings, each step with the entries it could choose from
    #[arg(long, conflicts_with = "routing")]
    pub(crate) compare: bool,
}

/// Arguments of `hops`.
#[derive(Clone, Debug, Args)]
pub(crate) struct HopsArgs {
    /// Lookups for each row
    #[arg(long, value_name = "S", default_value_t = 20_000, value_parser = samples())]
    pub(crate) samples: u64,
    /// Draws askers and keys [default: another one each time]
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Draws the rows as a picture: an SVG file, which is replaced if it is there
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Writes the rows as a table of numbers, which is replaced if it is there
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) csv: Option<PathBuf>,
}

/// Arguments of `ring`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RingArgs {
    /// Draws the ring as a picture: an SVG file, which is replaced if it is there
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Lookups that are made and drawn in the picture
    #[arg(long, value_name = "N", default_value_t = 8, requires = "svg", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) lookups: u32,
    /// How they are routed [default: each asker's own]
    #[arg(long, value_name = "R", requires = "svg")]
    pub(crate) routing: Option<String>,
    /// With how many entries [default: each asker's own]
    #[arg(long, value_name = "K", requires = "svg", value_parser = depth())]
    pub(crate) depth: Option<u16>,
    /// The links as a graph for Graphviz, to FILE, or instead of the table to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) dot: Option<PathBuf>,
}

/// Arguments of `stats`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatsArgs {
    /// The sum over all nodes of the ring
    #[arg(long)]
    pub(crate) all: bool,
    /// Again and again (not built yet)
    #[arg(long, hide = true)]
    pub(crate) watch: bool,
}

/// Arguments of `demo`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(3..=256))]
    pub(crate) nodes: u16,
    /// Lookups for each row of the hop table
    #[arg(long, value_name = "S", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) samples: u64,
}

/// Arguments of `sim`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimArgs {
    /// What to simulate
    #[command(subcommand)]
    pub(crate) command: SimCommand,
}

/// Commands under `sim`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Hops on rings of any size, beside theory
    #[command(
        after_help = "Example:\n  dht-node sim hops --nodes 16,64,256 --lookups 20000 --seed 1"
    )]
    Hops(SimHopsArgs),
    /// Play one scenario, step by step
    #[command(after_help = "Example:\n  dht-node sim script scenario.txt")]
    Script(SimScriptArgs),
    /// Lookups while members come and go, and what upkeep costs
    #[command(
        after_help = "Examples:\n  dht-node sim churn --table ton3\n  dht-node sim churn --nodes 100 --rate 0.1 --minutes 5 --seed 1"
    )]
    Churn(SimChurnArgs),
    /// Sweep seeds over random worlds in which everything goes wrong, or explore small ones to the end
    #[command(
        after_help = "Examples:\n  dht-node sim check --seeds 1..1000 --nodes 64 --minutes 10\n  dht-node sim check --exhaustive --joins 2 --failures 2"
    )]
    Check(SimCheckArgs),
}

/// Arguments of `sim script`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimScriptArgs {
    /// The scenario, one step per line; `-` is stdin
    pub(crate) file: PathBuf,
    /// All chance
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Arguments of `sim hops`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimHopsArgs {
    /// Sizes of the rings, each from 1 to 10000000
    #[arg(long, value_name = "N,..", value_delimiter = ',', required = true)]
    pub(crate) nodes: Vec<usize>,
    /// Routings: successors, both-ways, fingers, full [default: successors]
    #[arg(long, value_name = "R,..", value_delimiter = ',')]
    pub(crate) routing: Vec<String>,
    /// Entries of each list used at each step [default: 1,2,4,8,16; with fingers 1,16]
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = depth())]
    pub(crate) depth: Vec<u16>,
    /// Lookups for each row [default: 20000; above 50000 nodes fewer, down to 1000 from a million on]
    #[arg(long, value_name = "L", value_parser = samples())]
    pub(crate) lookups: Option<u64>,
    /// All chance
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Fresh random rings for each size, which share the lookups [default: enough that they differ by less than 0.3 %: one, for `successors` and `full`]
    #[arg(long, value_name = "M")]
    pub(crate) rings: Option<u32>,
    /// Draws the rows as a picture: an SVG file, which is replaced if it is there
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Writes the rows as a table of numbers, which is replaced if it is there
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) csv: Option<PathBuf>,
}

/// Lookups of one row: some hours of them at most (guess).
fn samples() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=100_000_000)
}

pub(super) fn depth() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(dht_core::Config::MAX_DEPTH))
}
