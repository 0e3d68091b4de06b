//! Arguments of `sim check`.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};

/// What says how to sweep, and nothing of small worlds. Named by both sides: a flag that needs `--exhaustive` is
/// let pass without it where something else rules `--exhaustive` out.
const SWEEP: [&str; 7] = ["seeds", "nodes", "minutes", "worlds", "jobs", "shrink", "print_script"];

/// Arguments of `sim check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimCheckArgs {
    /// From the first seed to the last, both included
    #[arg(long, value_name = "A..B", default_value = "1..200", value_parser = seeds)]
    pub(crate) seeds: RangeInclusive<u64>,
    /// How many nodes run at once, about: 3 to 128
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) nodes: u64,
    /// For how many virtual minutes things go wrong in each world: 1 to 1440; not for `steps` [default: 10]
    #[arg(long, value_name = "M")]
    pub(crate) minutes: Option<u64>,
    /// `any`: everything that can be named goes wrong; `steps`: small rings, steps in any order while
    /// time stands still, cuts and late replies; `partition`: the ring is cut into 2 to 4 parts
    /// for all the minutes, and must be one again within 120 virtual seconds
    #[arg(long, value_name = "KIND", value_enum, default_value_t = WorldKind::Any)]
    pub(crate) worlds: WorldKind,
    /// Worlds at once [default: as many as there are processors]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// Most plays to cut the first failing world down to a short script; 0: leave it as it is
    #[arg(long, value_name = "P", default_value_t = 1000)]
    pub(crate) shrink: u32,
    /// Print the script of the first seed instead of playing it
    #[arg(long)]
    pub(crate) print_script: bool,
    /// No seeds: explore small worlds, every order of everything that may happen
    #[arg(long, conflicts_with_all = SWEEP)]
    pub(crate) exhaustive: bool,
    #[command(flatten)]
    pub(crate) small: SmallWorldArgs,
}

/// What small worlds are like, with `--exhaustive`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SmallWorldArgs {
    /// With --exhaustive: entries of the successor lists, 1 to 8
    #[arg(long, value_name = "R", default_value_t = 2, requires = "exhaustive", conflicts_with_all = SWEEP, value_parser = clap::value_parser!(u16).range(1..=8))]
    pub(crate) list: u16,
    /// With --exhaustive: nodes that join the first one, 0 to 4
    #[arg(long, value_name = "N", default_value_t = 2, requires = "exhaustive", conflicts_with_all = SWEEP, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) joins: u8,
    /// With --exhaustive: nodes that die, 0 to 4
    #[arg(long, value_name = "N", default_value_t = 1, requires = "exhaustive", conflicts_with_all = SWEEP, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) failures: u8,
    /// With --exhaustive: verdicts "dead" about live neighbours, 0 to 2
    #[arg(long, value_name = "N", default_value_t = 0, requires = "exhaustive", conflicts_with_all = SWEEP, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) false_suspicions: u8,
    /// With --exhaustive: the dead may join again
    #[arg(long, requires = "exhaustive", conflicts_with_all = SWEEP)]
    pub(crate) rejoins: bool,
    /// With --exhaustive: which messages take time besides answers that bring lists
    #[arg(
        long,
        value_name = "KIND,..",
        value_delimiter = ',',
        requires = "exhaustive", conflicts_with_all = SWEEP,
        value_enum
    )]
    pub(crate) slow: Vec<SlowKind>,
    /// With --exhaustive: nobody begins a step while so many messages are on their way [default: any
    /// number may be]
    #[arg(long, value_name = "N", requires = "exhaustive", conflicts_with_all = SWEEP, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) in_flight: Option<u8>,
    /// With --exhaustive: stop at so many states
    #[arg(long, value_name = "S", default_value_t = 20_000_000, requires = "exhaustive", conflicts_with_all = SWEEP)]
    pub(crate) max_states: u64,
    /// With --exhaustive: stop so many steps from the first state [default: never]
    #[arg(long, value_name = "D", requires = "exhaustive", conflicts_with_all = SWEEP)]
    pub(crate) max_depth: Option<u32>,
}

/// Messages that may be overtaken by anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SlowKind {
    /// All of them.
    All,
    /// Pings of RECTIFY and of a served join.
    Pings,
    /// Questions of STABILIZE and of its step 2.
    Questions,
    /// Notifications.
    Notifications,
    /// Word of a candidate.
    Candidates,
    /// Pushes; they are lost otherwise.
    Pushes,
}

/// What happens in the worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum WorldKind {
    /// Anything.
    Any,
    /// Steps in any order while time stands still.
    Steps,
    /// One cut, healed at the end.
    Partition,
}

/// `A..B`, or one seed.
fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number =
        |word: &str| word.trim().parse::<u64>().map_err(|_| format!("'{word}' is no seed"));
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.trim_start_matches('='))?),
        None => (number(text)?, number(text)?),
    };
    match first <= last && last - first < MAX_SEEDS {
        true => Ok(first..=last),
        false if first > last => Err(format!("{last} comes before {first}: say {last}..{first}")),
        false => Err(format!("more than {MAX_SEEDS} seeds: sweep a part of them")),
    }
}

/// Most seeds of one sweep: some weeks of them (guess).
const MAX_SEEDS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_belong_to_the_range() {
        assert_eq!(seeds("3..7"), Ok(3..=7));
        assert_eq!(seeds("3..=7"), Ok(3..=7));
        assert_eq!(seeds("5"), Ok(5..=5));
        assert!(seeds("7..3").is_err_and(|error| error.contains("3..7")));
        assert!(seeds("x..3").is_err() && seeds("").is_err() && seeds("0..99999999").is_err());
    }
}
