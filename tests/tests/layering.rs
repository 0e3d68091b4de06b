//! What may depend on what, read from `cargo metadata`: the picture in ARCHITECTURE.md is a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::semver::Version;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use dht_tests::workspace::{files, read, root};

/// Which of our crates each of our crates may name, in any section of its manifest.
const MAY_NAME: [(&str, &[&str]); 7] = [
    ("dht-core", &[]),
    ("dht-store", &["dht-core"]),
    ("dht-net", &["dht-core"]),
    ("dht-sim", &["dht-core"]),
    ("dht-placement", &["dht-core"]),
    ("dht-node", &["dht-core", "dht-store", "dht-net", "dht-sim", "dht-placement"]),
    ("dht-tests", &["dht-core", "dht-store", "dht-net", "dht-sim", "dht-placement", "dht-node"]),
];

/// What the core is made of. A new entry must neither wait, nor read clocks, nor reach outside.
const CORE_NAMES: [&str; 5] = ["bytes", "rand", "rand_pcg", "serde", "sha1"];

/// What the core must not reach, not even through others.
const NOT_BELOW_CORE: [&str; 15] = [
    "async-std",
    "futures-executor",
    "mio",
    "quinn",
    "quinn-proto",
    "quinn-udp",
    "redb",
    "ring",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "tokio",
    "tokio-util",
    "tracing",
];

/// The least versions below which a peer can crash the process: crate, version, source.
const FLOORS: [(&str, Version, &str); 1] =
    [("quinn-proto", Version::new(0, 11, 14), "RUSTSEC-2026-0037")];

/// The dependencies of this very platform; those of others need not be downloaded for a test.
fn metadata() -> Metadata {
    let version = Command::new("rustc").arg("-vV").output().expect("cargo runs, so rustc does");
    let text = String::from_utf8(version.stdout).expect("rustc speaks UTF-8");
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc -vV");
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(["--filter-platform", host, "--locked"].map(str::to_owned))
        .exec()
        .expect("Cargo.lock is complete and this workspace was just built")
}

fn ours(metadata: &Metadata) -> BTreeMap<String, &Package> {
    let name_it = |package| (Package::clone(package).name.to_string(), package);
    metadata.workspace_packages().into_iter().map(name_it).collect()
}

#[test]
fn imports_point_towards_the_core() {
    let metadata = metadata();
    let ours = ours(&metadata);
    let rules: BTreeMap<&str, &[&str]> = MAY_NAME.into_iter().collect();
    for (name, package) in &ours {
        let may = rules.get(name.as_str()).unwrap_or_else(|| {
            panic!("{name} is new: say in MAY_NAME and ARCHITECTURE.md what it may import")
        });
        for dependency in &package.dependencies {
            let is_ours = ours.contains_key(&dependency.name);
            assert!(
                !is_ours || may.contains(&dependency.name.as_str()),
                "{name} must not depend on {}",
                dependency.name
            );
        }
    }
}

#[test]
fn the_core_is_made_of_few_pure_crates() {
    let metadata = metadata();
    let core = ours(&metadata)["dht-core"];
    let direct = core.dependencies.iter().filter(|dep| dep.kind != DependencyKind::Development);
    for dependency in direct {
        assert!(
            CORE_NAMES.contains(&dependency.name.as_str()),
            "dht-core must not use {}: whatever needs it belongs into another crate",
            dependency.name
        );
    }
    let rand = core.dependencies.iter().find(|dep| dep.name == "rand").expect("it draws chance");
    assert!(
        !rand.uses_default_features && rand.features.is_empty(),
        "dht-core must not ask rand for the system's chance: all of it flows from one seed"
    );
    for name in below(&metadata, core) {
        assert!(!NOT_BELOW_CORE.contains(&name.as_str()), "dht-core reaches {name}");
    }
}

/// Names of everything a crate is built from, but not of what only its tests use.
fn below(metadata: &Metadata, package: &Package) -> BTreeSet<String> {
    let nodes = &metadata.resolve.as_ref().expect("metadata was asked with dependencies").nodes;
    let mut names = BTreeSet::new();
    let mut open = vec![package.id.clone()];
    while let Some(id) = open.pop() {
        let node = nodes.iter().find(|node| node.id == id).expect("every package is resolved");
        for dependency in &node.deps {
            let is_built = |kind| kind == DependencyKind::Normal || kind == DependencyKind::Build;
            let is_used = dependency.dep_kinds.iter().any(|info| is_built(info.kind));
            let name = metadata[&dependency.pkg].name.to_string();
            if is_used && names.insert(name) {
                open.push(dependency.pkg.clone());
            }
        }
    }
    names
}

/// The naive rules that tests plant in simulated nodes must not reach one that is run for its sake.
#[test]
fn naive_rules_stay_in_the_simulator() {
    for (path, text) in files(&[".rs"]).into_iter().map(|path| (path.clone(), read(path))) {
        let is_run = ["crates/dht-node", "crates/dht-net", "crates/dht-store", "examples"];
        let is_run = is_run.iter().any(|part| path.starts_with(part));
        assert!(!is_run || !text.contains("planted"), "{} plants a rule", path.display());
    }
}

#[test]
fn no_crate_of_ours_has_features() {
    for (name, package) in ours(&metadata()) {
        assert!(package.features.is_empty(), "{name} has features: {:?}", package.features);
    }
}

/// Case 87: floors for versions that a peer could end.
#[test]
fn no_version_with_a_known_remote_panic() {
    let metadata = metadata();
    for (name, floor, source) in FLOORS {
        let mut found = metadata.packages.iter().filter(|p| *p.name == name).peekable();
        assert!(found.peek().is_some(), "{name} is not used any more: take its floor out");
        for package in found {
            assert!(
                package.version >= floor,
                "{name} {} is below {floor}: {source}",
                package.version
            );
        }
    }
}

#[test]
fn every_licence_is_one_we_allow() {
    let deny: toml::Table = read("deny.toml").parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("licenses.allow is a list");
    let allowed: BTreeSet<&str> = list.iter().filter_map(toml::Value::as_str).collect();
    for package in &metadata().packages {
        let text =
            package.license.as_deref().unwrap_or_else(|| panic!("{} has none", package.name));
        let mut words = Expression::new(text, &allowed);
        assert!(words.any_of(), "{} {}: {text}", package.name, package.version);
        assert!(words.rest.is_empty(), "cannot read the licence of {}: {text}", package.name);
    }
}

/// Reads an SPDX licence expression, and the older form with slashes, and says whether some choice
/// in it is allowed. SPDX 2.3, annex D: `WITH` binds closest, then `AND`, then `OR`.
struct Expression<'a> {
    rest: Vec<String>,
    allowed: &'a BTreeSet<&'a str>,
}

impl Expression<'_> {
    fn new<'a>(text: &str, allowed: &'a BTreeSet<&'a str>) -> Expression<'a> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let rest = spaced.split_whitespace().rev().map(str::to_owned).collect();
        Expression { rest, allowed }
    }

    fn any_of(&mut self) -> bool {
        let mut is_allowed = self.all_of();
        while self.take("OR") {
            is_allowed |= self.all_of();
        }
        is_allowed
    }

    fn all_of(&mut self) -> bool {
        let mut is_allowed = self.one();
        while self.take("AND") {
            is_allowed &= self.one();
        }
        is_allowed
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let is_allowed = self.any_of();
            return self.take(")") && is_allowed;
        }
        let Some(mut name) = self.rest.pop() else { return false };
        if self.take("WITH") {
            let exception = self.rest.pop().unwrap_or_default();
            name = format!("{name} WITH {exception}");
        }
        self.allowed.contains(name.as_str())
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.rest.last().is_some_and(|next| next == word);
        if is_next {
            self.rest.pop();
        }
        is_next
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
    let judge = |text| {
        let mut expression = Expression::new(text, &allowed);
        expression.any_of() && expression.rest.is_empty()
    };
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND ISC"] {
        assert!(judge(good), "{good}");
    }
    assert!(judge("Apache-2.0 WITH LLVM-exception"));
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR ISC) AND GPL-2.0", "MIT )", ""]
    {
        assert!(!judge(bad), "{bad}");
    }
}
