//! Kills, restarts, damaged and copied directories.

use std::fs;
use std::path::Path;
use std::process::Command;

use dht_tests::client::run;
use dht_tests::process::{NodeProcess, command};
use dht_tests::wait::wait_for;
use dht_tests::{Cluster, Settings, data};

/// What was acknowledged before SIGKILL is there after a restart, whatever was under way.
#[test]
fn acknowledged_files_survive_kills() {
    const ROUNDS: u64 = 6;
    let mut cluster = Cluster::ring(1, Settings::quick());
    let mut files = Vec::new();
    for round in 0..ROUNDS {
        for (at, len) in [100usize, 5_000, 1_200_000].into_iter().enumerate() {
            let key = format!("round {round} file {at}");
            let content = data::bytes(len + round as usize, round);
            cluster.put(0, &key, &content);
            files.push((key, content));
        }
        // One more is on its way when the blow falls.
        let addr = cluster.addr(0);
        let mut unfinished =
            command(&["put", "unfinished", "-", "--node", &addr, "--timeout", "2s"])
                .stdin(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .expect("the binary can be started");
        let mut stdin = unfinished.stdin.take().expect("it is piped");
        // The client may see the end first; then there is nobody to write to.
        let _ = std::io::Write::write_all(&mut stdin, &data::bytes(700_000, round));
        cluster.kill(0);
        drop(stdin);
        let ended = unfinished.wait().expect("it is ours");
        assert!(!ended.success(), "nobody was there to acknowledge it");
        cluster.start(0, &[]);
        cluster.ready(0);
        for (key, content) in &files {
            cluster.check(0, key, content);
        }
        cluster.client(0, &["get", "unfinished"]).expect(3);
    }
}

/// The whole ring is killed at once, and all of it comes back without being told whom to join.
#[test]
fn a_ring_killed_at_once_comes_back() {
    let mut cluster = Cluster::ring(4, Settings::quick());
    let content = data::bytes(2_000_000, 1);
    cluster.put(2, "k", &content);
    let addrs: Vec<String> = (0..4).map(|number| cluster.addr(number)).collect();
    for number in 0..4 {
        cluster.kill(number);
    }
    for (number, addr) in addrs.iter().enumerate() {
        cluster.start(number, &["--listen", addr]);
    }
    for number in 0..4 {
        cluster.ready(number);
    }
    cluster.wait_complete();
    for number in 0..4 {
        cluster.check(number, "k", &content);
    }
}

/// One node of three comes back at another address: its record is newer, so everybody follows.
#[test]
fn a_node_may_come_back_elsewhere() {
    let mut cluster = Cluster::ring(3, Settings::quick());
    let content = data::bytes(500_000, 1);
    cluster.put(0, "k", &content);
    let (before, id) = (cluster.addr(1), cluster.id(1));
    cluster.kill(1);
    cluster.start(1, &[]);
    assert_eq!(cluster.ready(1).id, id, "the identity is kept");
    cluster.wait_complete();
    let ring = wait_for("the old address is forgotten", || {
        let ring = cluster.json(0, &["ring"]);
        let stale = before != cluster.addr(1) && ring.to_string().contains(&before);
        if stale { Err(ring.to_string()) } else { Ok(ring) }
    });
    assert!(ring.to_string().contains(&cluster.addr(1)), "{ring}");
    cluster.check(1, "k", &content);
}

/// Case 11: a copied directory is a second node with the same identity. The ring does not flap, and
/// the copy says loudly what is wrong.
#[test]
fn a_copied_identity_is_refused() {
    let mut cluster = Cluster::ring(3, Settings::quick());
    let content = data::bytes(100_000, 1);
    cluster.put(0, "k", &content);
    let copy = cluster.path("copy");
    let status = Command::new("cp")
        .args([Path::new("-a"), cluster.data_dir(1), &copy])
        .status()
        .expect("there is cp");
    assert!(status.success());
    let (first, copy) = (cluster.addr(0), copy.to_str().expect("UTF-8").to_owned());
    let args = ["run", "--data-dir", &copy, "--listen", "127.0.0.1:0", "--join", &first];
    let mut twin = NodeProcess::start(command(&args), &cluster.path("twin.log"));
    assert_eq!(twin.wait().code(), Some(1), "{}", twin.log_text());
    assert!(twin.log_text().contains("id in use at"), "{}", twin.log_text());
    assert!(twin.next_line().is_none(), "it was never ready");
    cluster.wait_complete();
    for number in cluster.live() {
        cluster.check(number, "k", &content);
    }
    assert!(cluster.process(1).is_running(), "the healthy one is not made to pay");
}

/// A directory in use is not opened twice; who holds it is named.
#[test]
fn a_directory_in_use_is_refused() {
    let cluster = Cluster::ring(1, Settings::quick());
    let dir = cluster.data_dir(0).to_str().expect("UTF-8");
    let said = run(&["run", "--data-dir", dir, "--listen", "127.0.0.1:0"]).expect(1);
    assert!(said.stderr.contains("in use") && said.stderr.contains("--data-dir"), "{said}");
    cluster.client(0, &["ping"]).expect(0);
}

/// Case 14: an identity is never replaced silently. A key file that is cut short, empty or gone
/// beside data is a reason not to start.
#[test]
fn a_damaged_identity_is_never_replaced() {
    let mut cluster = Cluster::ring(1, Settings::quick());
    let content = data::bytes(10_000, 1);
    cluster.put(0, "k", &content);
    let id = cluster.id(0);
    cluster.stop(0);
    let dir = cluster.data_dir(0).to_owned();
    let key_file = key_file(&dir);
    let whole = fs::read(&key_file).expect("it is there");
    let dir = dir.to_str().expect("UTF-8").to_owned();
    let args = ["run", "--data-dir", &dir, "--listen", "127.0.0.1:0"];
    for cut in [Some(0), Some(whole.len() / 2), None] {
        match cut {
            Some(len) => fs::write(&key_file, &whole[..len]).expect("it is ours"),
            None => fs::remove_file(&key_file).expect("it is ours"),
        }
        let said = run(&args).expect(1);
        assert!(said.stdout.is_empty(), "{said}");
        assert!(said.stderr.contains(key_file.to_str().expect("UTF-8")), "it is named: {said}");
    }
    assert!(!key_file.exists(), "and nothing was put in its place");
    // Put back, it is the same node. Another working directory changes nothing.
    fs::write(&key_file, &whole).expect("it is ours");
    let mut again = command(&args);
    again.current_dir(cluster.path(""));
    let mut node = NodeProcess::start(again, &cluster.path("again.log"));
    assert_eq!(node.ready().id, id);
    let addr = node.ready().listen.clone();
    assert!(run(&["get", "k", "--node", &addr]).expect(0).stdout == content);
}

/// The file in a data directory that only its owner may read: the key.
fn key_file(dir: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let mut keys = fs::read_dir(dir).expect("it is there").map_while(Result::ok).filter(|entry| {
        let named = entry.file_name().to_string_lossy().contains("key");
        let mode = entry.metadata().expect("it is there").permissions().mode();
        named && mode & 0o777 == 0o600
    });
    keys.next().expect("one file holds the key, with mode 0600").path()
}

/// Case 84: a node that has lost everybody does not fill the disk with complaints.
#[test]
fn a_lonely_node_says_little() {
    let mut cluster = Cluster::ring(3, Settings::quick());
    cluster.kill(1);
    cluster.kill(2);
    let uptime = || {
        let stats = cluster.json(0, &["stats"]);
        stats["uptime_s"].as_f64().expect("a number")
    };
    wait_for("it notices", || {
        let stats = cluster.json(0, &["stats"]);
        if stats["state"] == "isolated" { Ok(()) } else { Err(stats.to_string()) }
    });
    let (from, began) = (cluster.log(0).len(), uptime());
    wait_for("fifteen seconds of solitude", || {
        let now = uptime();
        if now >= began + 15.0 { Ok(()) } else { Err(format!("{now}")) }
    });
    let said = cluster.log(0).len() - from;
    // 100 kB in ten minutes are 2.5 kB in fifteen seconds.
    assert!(said < 2500, "{said} bytes in fifteen seconds:\n{}", &cluster.log(0)[from..]);
}
