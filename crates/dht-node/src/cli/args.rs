//! The command line as clap reads it. Every help text ends with an example; a test holds that.

mod check;
mod churn;
mod files;
mod measure;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::units::parse_duration;
use super::version::long_version;

pub(crate) use check::{SimCheckArgs, SlowKind, SmallWorldArgs, WorldKind};
pub(crate) use churn::{SimChurnArgs, TableArg};
pub(crate) use files::{GetArgs, InfoArgs, LsArgs, PutArgs, RmArgs};
pub(crate) use measure::{
    DemoArgs, HopsArgs, LookupArgs, RingArgs, SimArgs, SimCommand, SimHopsArgs, SimScriptArgs,
    StatsArgs,
};
pub(crate) use run::RunArgs;

/// A node of a Chord-like ring, and the commands to talk to one.
///
/// Without a command a node runs in the foreground: the first one of a ring, or with --join one more.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "dht-node",
    version = long_version(),
    subcommand_help_heading = "Commands",
    subcommand_precedence_over_arg = false,
    after_help = "Examples:\n  \
        dht-node                            start a ring on this machine\n  \
        dht-node --join 192.0.2.10:4433     join a ring\n  \
        dht-node put photo.jpg              store a file\n  \
        dht-node get photo.jpg -o copy.jpg  fetch it"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that stand before or after the command, with the same meaning.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Print one JSON value (docs/json.md), errors too
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing but results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Show no progress (it is shown only on a terminal anyway)
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// When to use colours: auto, always or never; NO_COLOR is honoured
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: ColorArg,
    /// Longest time without progress
    #[arg(long, global = true, value_name = "D", value_parser = parse_duration, default_value = "30s")]
    pub(crate) timeout: Duration,
    /// Bound on the whole command
    #[arg(long, global = true, value_name = "D", value_parser = parse_duration)]
    pub(crate) deadline: Option<Duration>,
    /// A member to talk to: HOST:PORT, [V6]:PORT, ID@HOST:PORT or a ring ticket; repeatable
    /// [env: DHT_NODE] [default: 127.0.0.1:4433]
    #[arg(long, global = true, value_name = "ADDR")]
    pub(crate) node: Vec<String>,
    /// Name of the ring; rings of other names never mix [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) ring: Option<String>,
    /// A key of this client's own, made if the file is missing, instead of one for the moment: nodes
    /// that list it in --admins take `leave` from it
    #[arg(long, global = true, value_name = "F")]
    pub(crate) key_file: Option<PathBuf>,
    /// Secret of a private ring (not built yet)
    #[arg(long, global = true, value_name = "F", hide = true)]
    pub(crate) ring_secret_file: Option<PathBuf>,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

impl ColorArg {
    /// The same for anstream.
    pub(crate) fn choice(self) -> anstream::ColorChoice {
        match self {
            ColorArg::Auto => anstream::ColorChoice::Auto,
            ColorArg::Always => anstream::ColorChoice::Always,
            ColorArg::Never => anstream::ColorChoice::Never,
        }
    }
}

/// Everything but running a node.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node in the foreground (the same as no command)
    #[command(
        after_help = "Example:\n  dht-node run --listen 192.0.2.11:4433 --join 192.0.2.10:4433"
    )]
    Run(Box<RunArgs>),
    /// Store a file
    #[command(
        override_usage = "dht-node put [OPTIONS] [KEY] <FILE>",
        after_help = "Examples:\n  dht-node put photo.jpg\n  tar c photos | dht-node put photos.tar -"
    )]
    Put(PutArgs),
    /// Fetch a file
    #[command(
        after_help = "Examples:\n  dht-node get photo.jpg -o copy.jpg\n  dht-node get photos.tar | tar t"
    )]
    Get(GetArgs),
    /// Show a file's manifest, its chunks, and who holds which copy
    #[command(after_help = "Example:\n  dht-node info photo.jpg")]
    Info(InfoArgs),
    /// Delete a file
    #[command(after_help = "Example:\n  dht-node rm photo.jpg")]
    Rm(RmArgs),
    /// List keys in order
    #[command(after_help = "Example:\n  dht-node ls photos/ --long --limit 100")]
    Ls(LsArgs),
    /// Find the owner of a key and show the path, hop by hop
    #[command(after_help = "Example:\n  dht-node lookup photo.jpg --depth 1")]
    Lookup(LookupArgs),
    /// Measure hops over the whole ring, beside theory
    #[command(after_help = "Example:\n  dht-node hops --samples 20000")]
    Hops(HopsArgs),
    /// Walk the ring: members, arcs, load, problems found
    #[command(after_help = "Example:\n  dht-node ring --node 192.0.2.10:4433")]
    Ring(RingArgs),
    /// Show what a node counts
    #[command(after_help = "Example:\n  dht-node stats --all")]
    Stats(StatsArgs),
    /// One line and an exit code: 0 healthy member, 1 not, 4 no answer
    #[command(after_help = "Example:\n  dht-node status --quiet || echo 'look after it'")]
    Status,
    /// Measure round trips to a node
    #[command(after_help = "Example:\n  dht-node ping --node 192.0.2.10:4433 --count 10")]
    Ping(PingArgs),
    /// Show who a node is
    #[command(after_help = "Example:\n  dht-node id --node 192.0.2.10:4433")]
    Id,
    /// Ask a node to leave its ring for good; its copies move first
    #[command(after_help = "Example:\n  dht-node leave --node 127.0.0.1:4433")]
    Leave,
    /// Run a whole ring in this process: store, kill, fetch, count hops
    #[command(after_help = "Example:\n  dht-node demo --nodes 32")]
    Demo(DemoArgs),
    /// Rings under a virtual clock
    #[command(
        after_help = "Example:\n  dht-node sim hops --nodes 16,64,256 --lookups 20000 --seed 1"
    )]
    Sim(SimArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  dht-node completions bash > ~/.local/share/bash-completion/completions/dht-node"
    )]
    Completions(CompletionsArgs),
    /// Not built yet
    #[command(hide = true, after_help = "Example:\n  dht-node info photo.jpg")]
    Repair(NotBuiltArgs),
    /// Not built yet
    #[command(hide = true, after_help = "Example:\n  dht-node info photo.jpg")]
    Verify(NotBuiltArgs),
    /// Not built yet
    #[command(hide = true, after_help = "Example:\n  dht-node hops")]
    Bench(NotBuiltArgs),
    /// Not built yet
    #[command(hide = true, after_help = "Example:\n  dht-node lookup photo.jpg")]
    Placement(NotBuiltArgs),
    /// Not built yet
    #[command(hide = true, after_help = "Example:\n  dht-node --help")]
    Man(NotBuiltArgs),
}

/// Arguments of `ping`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PingArgs {
    /// How many round trips
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
}

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    pub(crate) shell: clap_complete::Shell,
}

impl Cli {
    /// Whether one JSON value is wanted, also where `--json` stands among the words that a command
    /// ignores because it is not built yet.
    pub(crate) fn wants_json(&self) -> bool {
        let ignored = match &self.command {
            Some(
                Command::Repair(args)
                | Command::Verify(args)
                | Command::Bench(args)
                | Command::Placement(args)
                | Command::Man(args),
            ) => args.rest.as_slice(),
            _ => &[],
        };
        self.globals.json || ignored.iter().any(|word| word == "--json")
    }
}

/// Whatever follows the name of a command that is not built yet.
#[derive(Clone, Debug, Args)]
pub(crate) struct NotBuiltArgs {
    /// Ignored
    #[arg(num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn all(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let path = format!("{path} {}", command.get_name());
        found.push((path.trim().to_owned(), command.clone()));
        command.get_subcommands().for_each(|sub| all(sub, &path, found));
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_ends_with_an_example() {
        let mut found = Vec::new();
        all(&Cli::command(), "", &mut found);
        assert!(found.len() > 20);
        for (path, command) in found {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let last = after.lines().last().unwrap_or_default();
            assert!(last.trim_start().contains("dht-node "), "{path}: {after:?}");
        }
    }

    #[test]
    fn global_flags_stand_before_or_after_the_command() {
        for args in [
            ["dht-node", "--json", "--timeout", "5s", "--node", "h:1", "get", "k"],
            ["dht-node", "get", "--json", "--timeout", "5s", "--node", "h:1", "k"],
            ["dht-node", "get", "k", "--node", "h:1", "--timeout", "5s", "--json"],
        ] {
            let cli = Cli::try_parse_from(args).expect("all of them are right");
            assert!(cli.globals.json);
            assert_eq!(cli.globals.timeout, Duration::from_secs(5));
            assert_eq!(cli.globals.node, ["h:1"]);
        }
    }

    #[test]
    fn a_key_may_look_like_a_flag_after_two_dashes() {
        for key in ["--node", "-o", "-"] {
            let cli = Cli::try_parse_from(["dht-node", "put", "--json", "--", key, "-"]);
            let Some(Command::Put(args)) = cli.expect("two words").command else { panic!("put") };
            assert_eq!(args.words, [key, "-"]);
        }
    }

    #[test]
    fn what_is_not_built_takes_anything() {
        for args in [
            &["dht-node", "repair", "--status", "--node", "h:1"][..],
            &["dht-node", "placement", "locate", "--scheme", "x"],
            &["dht-node", "bench", "--json"],
        ] {
            assert!(Cli::try_parse_from(args).is_ok(), "{args:?}");
        }
    }
}
