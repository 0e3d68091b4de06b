//! Where the `dht-node` binary is.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::workspace;

/// Names a binary to test instead of the one built here.
const OVERRIDE: &str = "DHT_NODE_BIN";

/// The binary under test: what the environment variable `DHT_NODE_BIN` names, else the one that lies
/// beside this test's own folder of the target directory. `cargo test --workspace` has built that
/// one; when a single test crate is run, it may be missing or older than the sources, and is built
/// now.
pub fn dht_node() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| match env::var_os(OVERRIDE) {
        Some(path) => PathBuf::from(path),
        None => beside_this_test(),
    })
}

/// The folder of the profile in the target directory: `target/debug`, say.
pub fn profile_dir() -> PathBuf {
    let exe = env::current_exe().expect("a running test has a file");
    let deps = exe.parent().expect("tests are built into a folder");
    deps.parent().expect("tests are built into target/PROFILE/deps").to_owned()
}

fn beside_this_test() -> PathBuf {
    let folder = profile_dir();
    let path = folder.join(format!("dht-node{}", env::consts::EXE_SUFFIX));
    if !is_fresh(&path) {
        build(&folder);
    }
    assert!(path.exists(), "{} was not built", path.display());
    path
}

fn build(folder: &Path) {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let target = folder.parent().expect("the profile lies in the target directory");
    let mut command = Command::new(cargo);
    command.current_dir(workspace::root()).env("CARGO_TARGET_DIR", target);
    command.args(["build", "--quiet", "--package", "dht-node", "--bin", "dht-node"]);
    if folder.file_name().is_some_and(|profile| profile == "release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo runs this test, so it can be run");
    assert!(status.success(), "cargo build of dht-node failed");
}

/// Whether the binary exists and no source of the program is newer.
fn is_fresh(binary: &Path) -> bool {
    let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let Some(built) = changed(binary) else { return false };
    workspace::files(&[".rs", "Cargo.toml", "Cargo.lock"])
        .into_iter()
        .filter(|path| path.starts_with("crates") && path.iter().any(|part| part == "src"))
        .all(|path| changed(&workspace::root().join(path)).is_none_or(|then| then <= built))
}
