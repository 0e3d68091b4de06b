//! Flags of a running node. They are kept as texts: flags, environment and file are read by the same
//! code (`settings`), which also knows the defaults.

use std::path::PathBuf;

use clap::Args;

/// Flags of `run`, or of no command at all.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of a node")]
pub(crate) struct RunArgs {
    /// Any member of the ring to join: HOST:PORT, [V6]:PORT, ID@HOST:PORT or a ring ticket;
    /// repeatable
    #[arg(long, value_name = "ADDR")]
    pub(crate) join: Vec<String>,
    /// UDP socket; port 0 picks one [default: port 4433 of loopback, or a free one]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// What others dial [default: what peers observe]
    #[arg(long, value_name = "ADDR")]
    pub(crate) advertise: Option<String>,
    /// Identity, manifests, chunks, remembered peers [default: the platform's data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// Keep all of that in memory
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) ephemeral: Option<String>,
    /// Entries of the successor list [default: 16]
    #[arg(long, value_name = "K")]
    pub(crate) depth: Option<String>,
    /// What the node's own lookups use: successors, both-ways, fingers or full [default: successors]
    #[arg(long, value_name = "R")]
    pub(crate) routing: Option<String>,
    /// Who carries the node's own lookups from node to node: `iterative`, itself, or `recursive`, each member
    /// hands them on [default: iterative]
    #[arg(long, value_name = "F")]
    pub(crate) forwarding: Option<String>,
    /// Routings it keeps state for, so that lookups by these may go through it [default: all]
    #[arg(long, value_name = "R,..")]
    pub(crate) keep: Option<String>,
    /// Mean hops that its own lookups may take before it says so, or `off` [default: 8]
    #[arg(long, value_name = "H")]
    pub(crate) hop_budget: Option<String>,
    /// Copies of every chunk, set when a ring is founded [default: the ring's, 3 for a new one]
    #[arg(long, value_name = "R")]
    pub(crate) replicas: Option<String>,
    /// Places on the circle; only 1 is built [default: 1]
    #[arg(long, value_name = "V", hide = true)]
    pub(crate) virtual_nodes: Option<String>,
    /// Upkeep period, jittered 0.5-1.5x [default: 1s]
    #[arg(long, value_name = "D")]
    pub(crate) stabilize_every: Option<String>,
    /// HTTP gateway; only `off` is built [default: off]
    #[arg(long, value_name = "ADDR", hide = true)]
    pub(crate) http: Option<String>,
    /// Public keys (64 hex digits) that may ask for `leave` from anywhere
    #[arg(long, value_name = "KEY,..")]
    pub(crate) admins: Option<String>,
    /// Settings in TOML; order: defaults < file < DHT_NODE_* environment < flags
    #[arg(long, value_name = "F")]
    pub(crate) config: Option<PathBuf>,
    /// Show each setting and whence it came, and end
    #[arg(long)]
    pub(crate) print_config: bool,
    /// What is logged, to stderr: a level, or `target=level` parts [default: info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// `text` or `json` [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) log_format: Option<String>,
    /// Log to the end of this file instead
    #[arg(long, value_name = "F")]
    pub(crate) log_file: Option<String>,
}

impl RunArgs {
    /// The flags that were given, by the names of their settings.
    pub(crate) fn given(&self) -> Vec<(&'static str, Vec<String>)> {
        let list = |text: &String| text.split(',').map(|word| word.trim().to_owned()).collect();
        let one =
            |name, value: &Option<String>| value.as_ref().map(|text| (name, vec![text.clone()]));
        let many = |name, value: &Option<String>| value.as_ref().map(|text| (name, list(text)));
        let join = (!self.join.is_empty()).then(|| ("join", self.join.clone()));
        [
            join,
            one("listen", &self.listen),
            one("advertise", &self.advertise),
            one("data-dir", &self.data_dir),
            one("ephemeral", &self.ephemeral),
            one("depth", &self.depth),
            one("routing", &self.routing),
            one("forwarding", &self.forwarding),
            many("keep", &self.keep),
            one("hop-budget", &self.hop_budget),
            one("replicas", &self.replicas),
            one("virtual-nodes", &self.virtual_nodes),
            one("stabilize-every", &self.stabilize_every),
            one("http", &self.http),
            many("admins", &self.admins),
            one("log", &self.log),
            one("log-format", &self.log_format),
            one("log-file", &self.log_file),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The first flag that was given, as it is written; for complaints.
    pub(crate) fn first_given(&self) -> Option<String> {
        let other = self.config.is_some().then_some("config");
        let other = other.or(self.print_config.then_some("print-config"));
        let first = self.given().first().map(|(name, _)| *name).or(other);
        first.map(|name| format!("--{name}"))
    }
}
