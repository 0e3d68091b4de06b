//! `sim check`: worlds made up, without a node.

use std::process::Stdio;

use dht_tests::client::run;
use dht_tests::process::{command, signal_process};
use dht_tests::wait::wait_for;

/// What came of it is told to a caller whose reader went away, too.
#[test]
fn a_reader_that_goes_makes_no_failure_a_success() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), "ring 0 2\nexpect ring 0\n").expect("writable");
    for (flag, text) in [("--quiet", "for people"), ("--json", "for programs")] {
        let path = file.path().to_str().expect("UTF-8");
        let mut child = command(&["sim", "script", path, flag])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary can be started");
        drop(child.stdout.take());
        let ended = wait_for("the script ends", || {
            child.try_wait().expect("it is ours").ok_or_else(|| "it runs".to_owned())
        });
        assert_eq!(ended.code(), Some(1), "{text}");
    }
}

/// A signal ends a simulation with its exit code and, if asked, with an object.
#[cfg(target_os = "linux")]
#[test]
fn simulations_can_be_interrupted() {
    let endless: [&[&str]; 3] = [
        &["sim", "churn", "--nodes", "500", "--rate", "1", "--minutes", "10000"],
        &["sim", "check", "--seeds", "1..1000000"],
        &["sim", "hops", "--nodes", "1000000", "--lookups", "100000000"],
    ];
    for (args, signal) in endless.into_iter().zip(["INT", "TERM", "INT"]) {
        let mut child = command(&[args, &["--json"]].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary can be started");
        let status = format!("/proc/{}/status", child.id());
        wait_for("it watches for signals", || {
            let ended = child.try_wait().expect("it is ours");
            assert!(ended.is_none(), "{args:?} ended by itself: {ended:?}");
            let text = std::fs::read_to_string(&status).expect("it runs");
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            // Signals 2 and 15.
            let watched = 1 << 1 | 1 << 14;
            mask.filter(|mask| mask & watched == watched).ok_or_else(|| "not yet".to_owned())
        });
        signal_process(child.id(), signal);
        let ended = child.wait_with_output().expect("it ends");
        let said: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        assert_eq!(ended.status.code(), Some(130), "{args:?}");
        assert_eq!(said["error"]["code"], "interrupted", "{args:?}");
    }
}

/// Every seed is a world, a script can be had of each, and the same seed gives the same.
#[test]
fn seeds_are_worlds_that_hold() {
    let args = ["sim", "check", "--seeds", "1..4", "--nodes", "12", "--minutes", "2", "--json"];
    let said = run(&args).expect(0).json();
    assert_eq!(
        (said["seeds"].as_u64(), said["violations"].as_array().map(Vec::len)),
        (Some(4), Some(0))
    );
    assert_eq!(run(&args).expect(0).json(), said);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("one.script");
    let print = ["sim", "check", "--seeds", "3", "--nodes", "12", "--print-script"];
    let printed = run(&print).expect(0);
    let object = run(&[&print[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(object["text"].as_str().map(str::as_bytes), Some(&printed.stdout[..]));
    assert_eq!(object["seed"], 3);
    std::fs::write(&script, &printed.stdout).expect("writable");
    let path = script.to_str().expect("UTF-8");
    let played = run(&["sim", "script", path, "--seed", "3", "--json"]).expect(0).json();
    assert_eq!(played["ok"], true, "{played}");
}

/// All there is of a small world is looked into; a bound is told as one.
#[test]
fn small_worlds_are_explored() {
    let explore = ["sim", "check", "--exhaustive", "--joins", "1", "--failures", "1", "--json"];
    let said = run(&explore).expect(0).json();
    assert_eq!((&said["closed"], &said["violations"]), (&true.into(), &serde_json::json!([])));
    let bounded = [&explore[..], &["--slow", "all", "--max-states", "500"]].concat();
    assert_eq!(run(&bounded).expect(0).json()["closed"], false);
    let calm = run(&[&explore[..], &["--in-flight", "1"]].concat()).expect(0).json();
    assert_eq!((&calm["closed"], &calm["in_flight"]), (&true.into(), &1.into()));
    let fewer = calm["states"].as_u64() < said["states"].as_u64();
    assert!(fewer && said["in_flight"].is_null(), "{calm} {said}");
}

/// What makes no sense is a usage error that names the flag.
#[test]
fn flags_that_make_no_sense_are_named() {
    let table: [(&[&str], &str); 8] = [
        (&["--seeds", "1..1", "--joins", "2"], "--joins"),
        (&["--nodes", "5", "--slow", "all"], "--slow"),
        (&["--worlds", "steps", "--minutes", "5"], "--minutes"),
        (&["--seeds", "5..1"], "--seeds"),
        (&["--nodes", "2"], "--nodes"),
        (&["--minutes", "0"], "--minutes"),
        (&["--joins", "2"], "--exhaustive"),
        (&["--exhaustive", "--seeds", "1..2"], "--seeds"),
    ];
    for (flags, name) in table {
        let said = run(&[&["sim", "check"], flags].concat()).expect(2);
        assert!(said.stdout.is_empty() && said.stderr.contains(name), "{said}");
    }
}
