//! Arguments of `sim check`.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};

/// Arguments of `sim check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimCheckArgs {
    /// From the first seed to the last, both included
    #[arg(long, value_name = "A..B", default_value = "1..200", value_parser = seeds)]
    pub(crate) seeds: RangeInclusive<u64>,
    /// How many nodes run at once, about
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) nodes: u64,
    /// For how many virtual minutes things go wrong in each world
    #[arg(long, value_name = "M", default_value_t = 10)]
    pub(crate) minutes: u64,
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
