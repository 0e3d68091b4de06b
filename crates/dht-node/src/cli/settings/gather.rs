//! Collecting settings from file, environment and flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

use super::{PREFIX, SPECS, Setting, Settings, SettingsError, Spec, Whence, variable};

/// Where settings come from, besides the defaults.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The file, if there is one: its path.
    pub(crate) file: Option<PathBuf>,
    /// The environment: names and values.
    pub(crate) environment: Vec<(String, String)>,
    /// The flags that were given: names of settings and values.
    pub(crate) flags: Vec<(&'static str, Vec<String>)>,
}

/// Puts them together; the later places win. A list given in one place replaces the whole list of an
/// earlier one.
pub(crate) fn gather(sources: Sources) -> Result<Settings, SettingsError> {
    let mut values: BTreeMap<&'static str, (Vec<String>, Whence)> = BTreeMap::new();
    if let Some(path) = &sources.file {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.clone(), source })?;
        for (name, given) in from_toml(&text, path)? {
            values.insert(name, (given, Whence::File(path.clone())));
        }
    }
    for (name, given) in from_environment(&sources.environment)? {
        values.insert(name, (given, Whence::Environment));
    }
    for (name, given) in sources.flags {
        values.insert(name, (given, Whence::Flag));
    }
    let all = SPECS
        .iter()
        .map(|spec| {
            let default =
                || (spec.default.map(str::to_owned).into_iter().collect(), Whence::Default);
            let (values, whence) = values.remove(spec.name).unwrap_or_else(default);
            Setting { spec, values, whence }
        })
        .collect();
    Ok(Settings { all })
}

type Given = Vec<(&'static str, Vec<String>)>;

fn from_toml(text: &str, path: &Path) -> Result<Given, SettingsError> {
    let table: toml::Table = text.parse().map_err(|source| SettingsError::NotToml {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    let mut given = Vec::new();
    for (name, value) in &table {
        let spec = spec_of(name).ok_or_else(|| SettingsError::Unknown {
            name: name.clone(),
            place: format!("in {}", path.display()),
            nearest: nearest(name).map(str::to_owned),
        })?;
        let values = texts_of(value, spec).ok_or_else(|| SettingsError::Bad {
            written: format!("{name} in {}", path.display()),
            source: Box::new(WrongType { many: spec.many }),
        })?;
        given.push((spec.name, values));
    }
    Ok(given)
}

/// A value of the file that is neither text, number nor truth, or a list where none may be.
#[derive(Debug, thiserror::Error)]
#[error("a text, a number, true or false is needed{}", if *.many { ", or a list of them" } else { "" })]
struct WrongType {
    many: bool,
}

fn texts_of(value: &Value, spec: &Spec) -> Option<Vec<String>> {
    match value {
        Value::Array(list) if spec.many => list.iter().map(text_of).collect(),
        one => text_of(one).map(|text| split(&text, spec)),
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(truth) => Some(truth.to_string()),
        _ => None,
    }
}

fn split(text: &str, spec: &Spec) -> Vec<String> {
    if !spec.many {
        return vec![text.to_owned()];
    }
    text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

fn from_environment(environment: &[(String, String)]) -> Result<Given, SettingsError> {
    let mut given = Vec::new();
    for (variable_name, value) in environment {
        let Some(rest) = variable_name.strip_prefix(PREFIX) else { continue };
        if rest == "CONFIG" || is_of_kubernetes(rest) {
            continue;
        }
        let spec = SPECS.iter().find(|spec| variable(spec.name) == *variable_name);
        let spec = spec.ok_or_else(|| SettingsError::Unknown {
            name: variable_name.clone(),
            place: "in the environment".to_owned(),
            nearest: nearest(&rest.to_lowercase().replace('_', "-")).map(variable),
        })?;
        given.push((spec.name, split(value, spec)));
    }
    Ok(given)
}

/// Kubernetes sets such variables in every container beside a service called `dht-node`; they are
/// not meant for us (its documentation, "Discovering services: environment variables").
fn is_of_kubernetes(rest: &str) -> bool {
    rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_")
}

fn spec_of(name: &str) -> Option<&'static Spec> {
    // In TOML an underscore is as natural as a dash.
    let name = name.replace('_', "-");
    SPECS.iter().find(|spec| spec.name == name)
}

/// The setting whose name differs least, if it is similar at all.
fn nearest(name: &str) -> Option<&'static str> {
    let close = SPECS.iter().map(|spec| (distance(name, spec.name), spec.name));
    let (away, found) = close.min()?;
    (away <= found.len().max(3) / 2).then_some(found)
}

/// How many letters must be put in, taken out or replaced (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to_at, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[to_at + 1];
            row[to_at + 1] = replaced.min(row[to_at] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("writable");
        file
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn shown(settings: &Settings, name: &str) -> (Vec<String>, Whence) {
        let setting = settings.named(name);
        (setting.values.clone(), setting.whence.clone())
    }

    #[test]
    fn later_places_win() {
        let file =
            file("depth = 4\nring = \"file\"\njoin = [\"a:1\", \"b:2\"]\nlog_format = \"json\"");
        let settings = gather(Sources {
            file: Some(file.path().to_owned()),
            environment: vec![
                pair("DHT_NODE_RING", "environment"),
                pair("DHT_NODE_REPLICAS", "2"),
                pair("DHT_NODE", "127.0.0.1:1"),
                pair("HOME", "/"),
            ],
            flags: vec![("replicas", vec!["1".to_owned()])],
        })
        .expect("all of them are known");
        let from_file = Whence::File(file.path().to_owned());
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(&settings, "depth"), (texts(&["4"]), from_file.clone()));
        assert_eq!(shown(&settings, "join"), (texts(&["a:1", "b:2"]), from_file.clone()));
        assert_eq!(shown(&settings, "log-format"), (texts(&["json"]), from_file));
        assert_eq!(shown(&settings, "ring"), (texts(&["environment"]), Whence::Environment));
        assert_eq!(shown(&settings, "replicas"), (texts(&["1"]), Whence::Flag));
        assert_eq!(shown(&settings, "routing"), (texts(&["successors"]), Whence::Default));
        assert_eq!(shown(&settings, "listen"), (texts(&[]), Whence::Default));
    }

    #[test]
    fn unknown_names_are_errors_with_the_nearest_known_one() {
        let file = file("dept = 4");
        let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
        let error = gather(sources).expect_err("no such setting").to_string();
        assert!(error.contains("dept in ") && error.ends_with("did you mean depth?"), "{error}");
        let environment = vec![pair("DHT_NODE_STABILISE_EVERY", "1s")];
        let sources = Sources { environment, ..Sources::default() };
        let error = gather(sources).expect_err("no such setting").to_string();
        assert!(error.ends_with("did you mean DHT_NODE_STABILIZE_EVERY?"), "{error}");
        let environment = vec![pair("DHT_NODE_XYZXYZXYZ", "1")];
        let sources = Sources { environment, ..Sources::default() };
        let error = gather(sources).expect_err("no such setting").to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn what_kubernetes_sets_is_let_be() {
        let environment = vec![
            pair("DHT_NODE_SERVICE_HOST", "10.0.0.1"),
            pair("DHT_NODE_PORT", "udp://10.0.0.1:4433"),
            pair("DHT_NODE_PORT_4433_UDP_ADDR", "10.0.0.1"),
        ];
        assert!(gather(Sources { environment, ..Sources::default() }).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error() {
        let at = |path: &Path| Sources { file: Some(path.to_owned()), ..Sources::default() };
        let missing = gather(at(Path::new("/nowhere/at/all.toml")));
        assert!(matches!(missing, Err(SettingsError::Unreadable { .. })));
        let broken = file("depth = = 4");
        assert!(matches!(gather(at(broken.path())), Err(SettingsError::NotToml { .. })));
        for text in ["depth = [1, 2]", "depth = 1.5", "[depth]\nx = 1"] {
            let odd = file(text);
            assert!(matches!(gather(at(odd.path())), Err(SettingsError::Bad { .. })), "{text}");
        }
    }

    #[test]
    fn distances_count_letters() {
        let table = [("", "abc", 3), ("depth", "depth", 0), ("dept", "depth", 1), ("ab", "ba", 2)];
        for (a, b, away) in table {
            assert_eq!(distance(a, b), away, "{a} {b}");
        }
    }
}
