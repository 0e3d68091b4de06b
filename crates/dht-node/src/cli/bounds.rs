//! Settings of a node outside of what works, as people write them.

use std::time::Duration;

use dht_core::config::ConfigError;

/// A setting and its bounds, without the names and units that the library has for the fields.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("--{flag} {value}: it must lie between {low} and {high}")]
pub(crate) struct OutOfBounds {
    /// The flag, without its dashes.
    pub(crate) flag: String,
    /// What was given.
    pub(crate) value: String,
    /// The least that works.
    pub(crate) low: String,
    /// The most that works.
    pub(crate) high: String,
}

impl From<ConfigError> for OutOfBounds {
    fn from(error: ConfigError) -> OutOfBounds {
        let ConfigError::OutOfRange { field, value, low, high } = error;
        let (name, unit) = field.split_once(' ').unwrap_or((field, ""));
        let show = |number: u64| match unit {
            "(ms)" => format!("{:?}", Duration::from_millis(number)),
            _ => number.to_string(),
        };
        OutOfBounds {
            flag: name.replace('_', "-"),
            value: show(value),
            low: show(low),
            high: show(high),
        }
    }
}

#[cfg(test)]
mod tests {
    use dht_core::Config;

    use super::*;

    #[test]
    fn flags_and_units_are_those_that_people_write() {
        let said = |config: Config| {
            OutOfBounds::from(config.validate().expect_err("out of bounds")).to_string()
        };
        let late = Config { lookup_timeout: Duration::from_secs(7200), ..Config::default() };
        assert_eq!(said(late), "--lookup-timeout 7200s: it must lie between 1ms and 3600s");
        let flat = Config { depth: 0, ..Config::default() };
        assert_eq!(said(flat), "--depth 0: it must lie between 1 and 128");
    }
}
