//! Finds out which commit this is, for `--version`. Without git, or outside of a repository, the
//! answer is "unknown".

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit(&root).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=DHT_NODE_COMMIT={commit}");
}

fn commit(root: &Path) -> Option<String> {
    // An unpacked archive may lie inside of somebody else's repository: only our own counts.
    let git = root.join(".git");
    if !git.exists() {
        return None;
    }
    for changed in ["HEAD", "logs/HEAD"] {
        let path = git.join(changed);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let git = Command::new("git")
        .args(["describe", "--always", "--tags", "--abbrev=12"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(git.stdout).ok()?;
    let word = text.trim();
    (git.status.success() && !word.is_empty()).then(|| word.to_owned())
}
