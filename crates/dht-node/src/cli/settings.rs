//! Settings of a node from four places: defaults < file < `DHT_NODE_*` environment < flags. All of
//! them are texts until one function reads them ([`plan`]), so every place is checked alike.

mod gather;
mod plan;

use std::path::PathBuf;

pub(crate) use gather::{Sources, gather};
pub(crate) use plan::{LogForm, LogPlan, parse_forwarding, parse_routing};

/// A setting that is known.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Its name: of the flag without dashes, of the key in the file; in the environment in capitals
    /// and with underscores, after `DHT_NODE_`.
    pub(crate) name: &'static str,
    /// What it is if nobody says anything; none where the program decides by itself.
    pub(crate) default: Option<&'static str>,
    /// Whether several values may be given, separated by commas.
    pub(crate) many: bool,
}

/// All settings, in the order in which they are shown. Where the defaults come from stands at
/// `dht_core::Config` and `NodeConfig`; a test compares them.
pub(crate) const SPECS: [Spec; 20] = [
    Spec { name: "join", default: None, many: true },
    Spec { name: "listen", default: None, many: false },
    Spec { name: "advertise", default: None, many: false },
    Spec { name: "data-dir", default: None, many: false },
    Spec { name: "ephemeral", default: Some("false"), many: false },
    Spec { name: "ring", default: Some("default"), many: false },
    Spec { name: "ring-secret-file", default: None, many: false },
    Spec { name: "depth", default: Some("16"), many: false },
    Spec { name: "routing", default: Some("successors"), many: false },
    Spec { name: "forwarding", default: Some("iterative"), many: false },
    Spec { name: "keep", default: Some("all"), many: true },
    Spec { name: "hop-budget", default: Some("8"), many: false },
    Spec { name: "replicas", default: None, many: false },
    Spec { name: "virtual-nodes", default: Some("1"), many: false },
    Spec { name: "stabilize-every", default: Some("1s"), many: false },
    Spec { name: "http", default: Some("off"), many: false },
    Spec { name: "admins", default: None, many: true },
    Spec { name: "log", default: Some("info"), many: false },
    Spec { name: "log-format", default: Some("text"), many: false },
    Spec { name: "log-file", default: None, many: false },
];

/// Whence a value came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Whence {
    /// Nobody said anything.
    Default,
    /// From this file.
    File(PathBuf),
    /// From the environment.
    Environment,
    /// From the command line.
    Flag,
}

/// One setting with its values.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Which.
    pub(crate) spec: &'static Spec,
    /// Its values; none where the program decides by itself.
    pub(crate) values: Vec<String>,
    /// Whence they came.
    pub(crate) whence: Whence,
}

impl Setting {
    /// The only value, if there is one.
    pub(crate) fn value(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
    }

    /// The setting and its value as whoever gave it wrote it; for complaints.
    pub(crate) fn written(&self) -> String {
        // An empty value must be seen.
        let values = match self.values.join(",") {
            empty if empty.is_empty() => "\"\"".to_owned(),
            values => values,
        };
        match &self.whence {
            Whence::Default | Whence::Flag => format!("--{} {values}", self.spec.name),
            Whence::Environment => format!("{}={values}", variable(self.spec.name)),
            Whence::File(path) => {
                format!(
                    "{} = {values:?} in {} (--{})",
                    self.spec.name,
                    path.display(),
                    self.spec.name
                )
            }
        }
    }
}

/// All settings with their values.
#[derive(Debug)]
pub(crate) struct Settings {
    all: Vec<Setting>,
}

impl Settings {
    /// All of them, in the order of [`SPECS`].
    pub(crate) fn all(&self) -> &[Setting] {
        &self.all
    }

    fn named(&self, name: &str) -> &Setting {
        let found = self.all.iter().find(|setting| setting.spec.name == name);
        found.expect("every name used is in SPECS, and every spec has its setting")
    }
}

/// The environment variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase().replace('-', "_"))
}

/// How the environment variables of settings begin.
pub(crate) const PREFIX: &str = "DHT_NODE_";

/// What is wrong with the settings. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// No setting has that name.
    #[error("{name} {place} is no setting{}", nearest_text(.nearest))]
    Unknown {
        /// The name as it was written.
        name: String,
        /// Where.
        place: String,
        /// The setting with the most similar name, as it is written there.
        nearest: Option<String>,
    },
    /// The value cannot be read or broke a bound.
    #[error("{written}: {source}")]
    Bad {
        /// The setting with its value.
        written: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The value asks for something that is not built yet.
    #[error("{written} is not built yet; only `{accepted}` is")]
    NotBuilt {
        /// The setting with its value.
        written: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read the settings in {}: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML.
    #[error("the settings in {} are no TOML: {}", path.display(), source.message())]
    NotToml {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        source: Box<toml::de::Error>,
    },
    /// There is no place for data that the program could choose by itself.
    #[error("no data directory can be chosen: {0}; name one with --data-dir, or give --ephemeral")]
    NoDataDir(#[source] etcetera::HomeDirError),
}

fn nearest_text(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}
