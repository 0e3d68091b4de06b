//! Reading the texts of the settings: beyond this point they are right.

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use dht_core::message::ring::Routing;
use dht_core::message::{Forwarding, Routings};
use dht_core::{Config, PeerKey};
use etcetera::BaseStrategy;
use tracing_subscriber::EnvFilter;

use super::{Setting, Settings, SettingsError};
use crate::cli::address::{check_ring_name, escape, parse_places};
use crate::cli::bounds::OutOfBounds;
use crate::cli::units::parse_duration;
use crate::cli::version::VERSION;
use crate::node::{DEFAULT_RING_NAME, DataPlace, NodeConfig};

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// For the node.
    pub(crate) node: NodeConfig,
    /// For the log.
    pub(crate) log: LogPlan,
}

/// How a run logs.
#[derive(Debug)]
pub(crate) struct LogPlan {
    /// What.
    pub(crate) filter: EnvFilter,
    /// In which form.
    pub(crate) form: LogForm,
    /// Where; stderr if none.
    pub(crate) file: Option<PathBuf>,
}

/// Forms of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Settings {
    /// Reads and checks all of them. Nothing is opened or made.
    pub(crate) fn plan(&self) -> Result<RunPlan, SettingsError> {
        self.refuse_what_is_not_built()?;
        let join = self.named("join");
        let named_ring = self.named("ring");
        // A ticket may name the ring, unless somebody named it outright.
        let said = (named_ring.whence != super::Whence::Default)
            .then(|| named_ring.value().map(str::to_owned))
            .flatten();
        if let Some(name) = &said {
            check_ring_name(name).map_err(|error| bad(named_ring, error))?;
        }
        let (ring, join) = parse_places(&join.values, said).map_err(|error| bad(join, error))?;
        let ring_name = ring.unwrap_or_else(|| DEFAULT_RING_NAME.to_owned());
        let node = NodeConfig {
            listen: self.read("listen", socket_addr)?,
            advertise: self.read("advertise", socket_addr)?,
            join,
            data: self.data_place(&ring_name)?,
            ring_name,
            core: self.core()?,
            replicas: self.read("replicas", |text| text.parse::<u8>())?,
            admins: self.admins()?,
            hop_budget: self.hop_budget()?,
            version: VERSION.to_owned(),
        };
        Ok(RunPlan { node, log: self.log()? })
    }

    fn core(&self) -> Result<Config, SettingsError> {
        let mut core = Config::default();
        if let Some(depth) = self.read("depth", |text| text.parse::<u16>())? {
            core.depth = depth;
        }
        if let Some(routing) = self.read("routing", parse_routing)? {
            core.routing = routing;
        }
        if let Some(forwarding) = self.read("forwarding", parse_forwarding)? {
            core.forwarding = forwarding;
        }
        if let Some(keep) = self.keep()? {
            core.keep = keep;
        }
        if let Some(period) = self.read("stabilize-every", parse_duration)? {
            core.stabilize_every = period;
        }
        core.validate().map_err(|error| {
            let OutOfBounds { flag, low, high, .. } = error.into();
            bad(self.named(&flag), Between { low, high })
        })?;
        Ok(core)
    }

    /// The routings that state is kept for; what the node's own lookups use is among them.
    fn keep(&self) -> Result<Option<Routings>, SettingsError> {
        let setting = self.named("keep");
        if setting.values.is_empty() || setting.values.iter().any(|word| word == "all") {
            return Ok(None);
        }
        let words = setting.values.iter().map(|word| parse_routing(word));
        let named =
            words.collect::<Result<Vec<Routing>, _>>().map_err(|error| bad(setting, error))?;
        let own = self.read("routing", parse_routing)?;
        Ok(Some(named.into_iter().chain(own).collect()))
    }

    fn data_place(&self, ring_name: &str) -> Result<DataPlace, SettingsError> {
        let dir = self.named("data-dir");
        // In memory for once, whatever directory is named, is a fair wish.
        if self.read("ephemeral", |text| text.parse::<bool>())? == Some(true) {
            return Ok(DataPlace::Ephemeral);
        }
        match dir.value() {
            Some("") => return Err(bad(dir, NoDirectory)),
            Some(path) => return Ok(DataPlace::Dir(PathBuf::from(path))),
            None => {}
        }
        let base = etcetera::base_strategy::choose_native_strategy()
            .map_err(SettingsError::NoDataDir)?
            .data_dir();
        // One directory for each ring: a node keeps the data of one ring only.
        Ok(DataPlace::Dir(base.join("dht-node").join(format!("ring-{}", escape(ring_name)))))
    }

    /// Hops that lookups may take; nothing where nobody shall watch.
    fn hop_budget(&self) -> Result<Option<f64>, SettingsError> {
        let budget = self.read("hop-budget", |text| match text.parse::<f64>() {
            _ if text == "off" => Ok(None),
            Ok(hops) if (1.0..=100_000.0).contains(&hops) => Ok(Some(hops)),
            Ok(_) | Err(_) => Err(NoHops),
        })?;
        Ok(budget.flatten())
    }

    fn admins(&self) -> Result<Vec<PeerKey>, SettingsError> {
        let setting = self.named("admins");
        let keys = setting.values.iter().map(|text| peer_key(text));
        keys.collect::<Result<_, _>>().map_err(|error| bad(setting, error))
    }

    fn log(&self) -> Result<LogPlan, SettingsError> {
        let filter = self.read("log", |text| EnvFilter::builder().parse(text))?;
        let form = self.read("log-format", |text| match text {
            "text" => Ok(LogForm::Text),
            "json" => Ok(LogForm::Json),
            _ => Err(NeedsOneOf { words: "text, json" }),
        })?;
        Ok(LogPlan {
            filter: filter.unwrap_or_default(),
            form: form.unwrap_or(LogForm::Text),
            file: self.named("log-file").value().map(PathBuf::from),
        })
    }

    fn refuse_what_is_not_built(&self) -> Result<(), SettingsError> {
        let only = |name, accepted: &'static str, fine: &[&str]| {
            let setting = self.named(name);
            match setting.values.iter().all(|value| fine.contains(&value.as_str())) {
                true => Ok(()),
                false => Err(SettingsError::NotBuilt { written: setting.written(), accepted }),
            }
        };
        only("virtual-nodes", "1", &["1"])?;
        only("http", "off", &["off"])?;
        only("ring-secret-file", "an open ring, without this setting", &[])
    }

    fn read<T, E>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, SettingsError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let setting = self.named(name);
        setting.value().map(parse).transpose().map_err(|error| bad(setting, error))
    }
}

/// A word that is none of those that are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("one of {words} is needed")]
pub(crate) struct NeedsOneOf {
    words: &'static str,
}

/// Reads the name of a routing.
pub(crate) fn parse_routing(word: &str) -> Result<Routing, NeedsOneOf> {
    let named = Routing::ALL.into_iter().find(|routing| routing.as_str() == word);
    named.ok_or(NeedsOneOf { words: "successors, both-ways, fingers, full" })
}

/// Reads the name of a way to carry lookups.
pub(crate) fn parse_forwarding(word: &str) -> Result<Forwarding, NeedsOneOf> {
    let named = Forwarding::ALL.into_iter().find(|forwarding| forwarding.as_str() == word);
    named.ok_or(NeedsOneOf { words: "iterative, recursive" })
}

/// A number outside of what works.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it must lie between {low} and {high}")]
struct Between {
    low: String,
    high: String,
}

/// A text that is no mean of hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a number of hops between 1 and 100000 is needed, or `off`")]
struct NoHops;

/// A text that names no directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the name of a directory is needed")]
struct NoDirectory;

/// A text that is no address to listen at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an address of this machine with a port is needed, such as 0.0.0.0:4433 or [::]:4433")]
struct NoSocketAddr;

fn socket_addr(text: &str) -> Result<SocketAddr, NoSocketAddr> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    // `localhost:4433`; numbers never reach the resolver.
    let found = text.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or(NoSocketAddr)
}

/// A text that is no public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("64 hexadecimal digits are needed, as `dht-node id` shows them")]
struct NoPeerKey;

fn peer_key(text: &str) -> Result<PeerKey, NoPeerKey> {
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return Err(NoPeerKey);
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(NoPeerKey);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Ok(PeerKey(bytes))
}

fn bad(setting: &Setting, error: impl Into<Box<dyn Error + Send + Sync>>) -> SettingsError {
    SettingsError::Bad { written: setting.written(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Sources, gather};
    use super::*;

    fn plan(flags: &[(&'static str, &str)]) -> Result<RunPlan, SettingsError> {
        let flags = flags
            .iter()
            .map(|(name, value)| (*name, value.split(',').map(str::to_owned).collect()))
            .collect();
        gather(Sources { flags, ..Sources::default() }).expect("known names").plan()
    }

    #[test]
    fn without_a_word_the_defaults_are_those_of_the_library() {
        let made = plan(&[("ephemeral", "true")]).expect("the defaults are right").node;
        let default = NodeConfig::new(DataPlace::Ephemeral);
        assert_eq!(made.core, default.core);
        assert_eq!(
            (made.listen, made.ring_name, made.replicas, made.hop_budget),
            (default.listen, default.ring_name, default.replicas, default.hop_budget)
        );
    }

    #[test]
    fn values_are_read() {
        let key = "0a".repeat(32);
        let node = plan(&[
            ("data-dir", "d"),
            ("listen", "[::1]:0"),
            ("join", "dht:home/h:1,h:2"),
            ("depth", "4"),
            ("forwarding", "recursive"),
            ("stabilize-every", "250ms"),
            ("replicas", "2"),
            ("admins", &key),
            ("hop-budget", "2.5"),
        ])
        .expect("all of them are right")
        .node;
        assert_eq!(node.data, DataPlace::Dir("d".into()));
        assert_eq!(node.listen, Some("[::1]:0".parse().expect("an address")));
        assert_eq!((node.ring_name.as_str(), node.join.len()), ("home", 2));
        assert_eq!((node.core.depth, node.replicas), (4, Some(2)));
        assert_eq!(node.core.forwarding, Forwarding::Recursive);
        assert_eq!(node.core.stabilize_every, Duration::from_millis(250));
        assert_eq!(node.admins, [PeerKey([10; 32])]);
        assert_eq!(node.hop_budget, Some(2.5));
        let off = plan(&[("hop-budget", "off"), ("ephemeral", "true")]).expect("nobody watches");
        assert_eq!(off.node.hop_budget, None);
    }

    #[test]
    fn every_ring_has_its_own_directory() {
        let place = |ring| plan(&[("ring", ring)]).expect("right").node.data;
        assert_ne!(place("a"), place("b"));
        let DataPlace::Dir(dir) = place("../../x") else { panic!("a directory") };
        assert!(dir.ends_with("dht-node/ring-..%2f..%2fx"), "{}", dir.display());
    }

    #[test]
    fn wrong_values_are_named_with_their_flag() {
        for (name, value) in [
            ("listen", "nowhere"),
            ("depth", "0"),
            ("depth", "many"),
            ("depth", "999"),
            ("stabilize-every", "1"),
            ("stabilize-every", "1ms"),
            ("replicas", "300"),
            ("data-dir", ""),
            ("ephemeral", "perhaps"),
            ("ring", "two words"),
            ("ring", ""),
            ("admins", "abc"),
            ("hop-budget", "0.5"),
            ("hop-budget", "inf"),
            ("hop-budget", "few"),
            ("log", "a=b=c"),
            ("log-format", "xml"),
            ("routing", "teleport"),
            ("forwarding", "by-post"),
        ] {
            let error = plan(&[(name, value)]).expect_err(value);
            assert!(matches!(error, SettingsError::Bad { .. }), "{error}");
            assert!(error.to_string().contains(&format!("--{name}")), "{error}");
        }
    }

    #[test]
    fn bounds_are_told_in_the_words_of_the_flags() {
        let said = |name, value| plan(&[(name, value)]).expect_err(value).to_string();
        assert_eq!(said("depth", "0"), "--depth 0: it must lie between 1 and 128");
        let period = said("stabilize-every", "1ms");
        assert_eq!(period, "--stabilize-every 1ms: it must lie between 10ms and 86400s");
    }

    #[test]
    fn ephemeral_wins_over_a_directory() {
        let both = plan(&[("ephemeral", "true"), ("data-dir", "d")]).expect("a fair wish");
        assert_eq!(both.node.data, DataPlace::Ephemeral);
        let environment = vec![("DHT_NODE_DATA_DIR".to_owned(), "d".to_owned())];
        let flags = vec![("ephemeral", vec!["true".to_owned()])];
        let settings = gather(Sources { environment, flags, ..Sources::default() });
        let plan = settings.expect("known names").plan().expect("the flag wins");
        assert_eq!(plan.node.data, DataPlace::Ephemeral);
    }

    #[test]
    fn what_is_not_built_is_named_with_its_flag() {
        for (name, value) in
            [("virtual-nodes", "4"), ("http", "127.0.0.1:8080"), ("ring-secret-file", "f")]
        {
            let error = plan(&[(name, value)]).expect_err(value);
            assert!(matches!(error, SettingsError::NotBuilt { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("--{name} {value}")), "{error}");
        }
        let off = [
            ("routing", "full"),
            ("keep", "successors"),
            ("virtual-nodes", "1"),
            ("http", "off"),
            ("ephemeral", "true"),
        ];
        assert!(plan(&off).is_ok());
    }
}
