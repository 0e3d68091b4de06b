//! Files in and out: sizes, keys, copies, failures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use dht_tests::wait::wait_for;
use dht_tests::{Cluster, Settings, client, data, process};

/// "Must show" 2: files of many sizes, stored at one of eight processes, are fetched at every other
/// one; two processes are killed, and everything is fetched again from every survivor; the ring is
/// whole, and the copies come back.
///
/// The largest file is 20 MiB; `DHT_TEST_LARGE_MIB=100` makes it 100 MiB.
#[test]
fn files_outlive_two_of_eight_processes() {
    let large_mib: usize = std::env::var("DHT_TEST_LARGE_MIB")
        .ok()
        .map_or(20, |text| text.parse().expect("DHT_TEST_LARGE_MIB is a number"));
    let mut cluster = Cluster::ring(8, Settings::default());
    let sizes = [0, 1, 64 << 10, 1 << 20, (1 << 20) + 1, large_mib << 20];
    let files: Vec<(String, Vec<u8>)> = sizes
        .iter()
        .enumerate()
        .map(|(at, size)| (format!("file of {size}"), data::bytes(*size, at as u64)))
        .collect();
    for (at, (key, content)) in files.iter().enumerate() {
        let said = cluster.put(at, key, content);
        assert!(said["acks"].as_u64().is_some_and(|acks| acks >= 2), "{said}");
        assert_eq!(said["chunks"], chunks_of(content.len()), "{said}");
    }
    for number in cluster.live() {
        files.iter().for_each(|(key, content)| cluster.check(number, key, content));
    }

    cluster.kill(3);
    cluster.kill(6);
    for number in cluster.live() {
        files.iter().for_each(|(key, content)| cluster.check(number, key, content));
    }
    cluster.wait_complete();
    wait_for("three copies of every chunk again", || {
        let missing: Vec<&str> = files
            .iter()
            .map(|(key, _)| key.as_str())
            .filter(|key| !is_whole(&cluster.json(0, &["info", key]), 3))
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}")) }
    });
    let mut copied = 0;
    for number in cluster.live() {
        let stats = cluster.json(number, &["stats"]);
        copied += stats["repair"]["copied"].as_u64().expect("a count");
        let histogram = stats["lookups"]["hops"]["histogram"].as_array().expect("a list");
        let counted: u64 = histogram.iter().filter_map(Value::as_u64).sum();
        assert!(counted > 0, "this node looked up every key: {stats}");
    }
    assert!(copied > 0, "two of eight nodes held something");
    for number in cluster.live() {
        files.iter().for_each(|(key, content)| cluster.check(number, key, content));
    }
}

/// How many chunks a file has: none up to the inline limit of 4 KiB, else one a MiB.
fn chunks_of(size: usize) -> usize {
    if size <= 4096 { 0 } else { size.div_ceil(1 << 20) }
}

/// Whether every chunk has so many copies and every replica of the manifest is current.
fn is_whole(info: &Value, copies: u64) -> bool {
    let chunks = info["chunks"].as_array().expect("a list");
    let replicas = info["replicas"].as_array().expect("a list");
    chunks.iter().all(|chunk| chunk["copies"].as_u64().is_some_and(|held| held >= copies))
        && replicas.iter().all(|replica| replica["state"] == "current")
}

/// Case 17: one node is a ring. Case 62: an empty file is a file.
#[test]
fn a_single_node_keeps_files() {
    let cluster = Cluster::ring(1, Settings::quick());
    let content = data::bytes(3_000_000, 1);
    let said = cluster.put(0, "k", &content);
    assert_eq!((&said["acks"], &said["hops"]), (&1.into(), &0.into()), "{said}");
    assert_eq!(said["replicas"].as_array().map(Vec::len), Some(1), "{said}");
    cluster.check(0, "k", &content);
    let info = cluster.json(0, &["info", "k"]);
    assert_eq!((&info["size"], &info["hash"]), (&content.len().into(), &said["hash"]), "{info}");
    assert!(is_whole(&info, 1), "{info}");

    let said = cluster.put(0, "nothing", b"");
    assert_eq!((&said["size"], &said["chunks"]), (&0.into(), &0.into()), "{said}");
    cluster.check(0, "nothing", b"");
    let out = cluster.path("nothing.out");
    let out_text = out.to_str().expect("UTF-8");
    let got = cluster.json(0, &["get", "nothing", "-o", out_text]);
    assert_eq!((&got["size"], &got["verified"]), (&0.into(), &true.into()), "{got}");
    assert_eq!(fs::read(&out).expect("it was written"), b"");
    let info = cluster.json(0, &["info", "nothing"]);
    assert_eq!((&info["size"], &info["hash"]), (&0.into(), &data::hash(b"").into()), "{info}");
    assert_eq!(cluster.client(0, &["status"]).code, 0);
}

/// Case 42: what `put` acknowledged is there although the owner dies at once.
#[test]
fn an_acknowledged_file_outlives_its_owner() {
    let mut cluster = Cluster::ring(5, Settings::quick());
    let small = data::bytes(1000, 1);
    let large = data::bytes(2_500_000, 2);
    for (key, content) in [("small", &small), ("large", &large)] {
        // The first node may have been the owner before, and dead by now.
        let found = cluster.json(cluster.live()[0], &["lookup", key]);
        let owner = found["owner"]["id"].as_str().map(str::to_owned);
        let owner = cluster.number_of(&owner.expect("hex"));
        let gateway = cluster.live().into_iter().find(|number| *number != owner);
        let said = cluster.put(gateway.expect("others live"), key, content);
        cluster.kill(owner);
        assert!(said["acks"].as_u64().is_some_and(|acks| acks >= 2), "{said}");
        for number in cluster.live() {
            cluster.check(number, key, content);
        }
        // Each death is mended before the next: two at once are more than two acks promise.
        cluster.wait_complete();
        wait_for("the copies are back", || {
            let info = cluster.json(cluster.live()[0], &["info", key]);
            if is_whole(&info, 3) { Ok(()) } else { Err(info.to_string()) }
        });
    }
}

/// Case 59: a key is bytes, whatever they look like.
#[test]
fn keys_may_look_like_anything() {
    let cluster = Cluster::ring(2, Settings::quick());
    let long = "x".repeat(1024);
    let keys = [
        "a%23b", "a#b", "a?b", "a b", " a ", "a+b", "//x", "/x", "x/", "a\\b", "..", ".", "CON",
        "a:b*", "]", "-", "--node", "-o", "ключ", "🗝", "a\nb", "'", "\"", "$HOME", "*", "~", &long,
    ];
    for (at, key) in keys.iter().enumerate() {
        // What follows `--` is no flag, whatever it looks like.
        let content = format!("content {at}");
        let put = ["put", "--json", "--node", &cluster.addr(at % 2), "--", key, "-"];
        let said = client::run_with(&put, content.as_bytes()).expect(0).json();
        assert_eq!(said["key"], *key, "{said}");
        let get = ["get", "--node", &cluster.addr((at + 1) % 2), "--", key];
        assert_eq!(client::run(&get).expect(0).stdout, content.as_bytes(), "{key:?}");
        let info = ["info", "--json", "--node", &cluster.addr(0), "--", key];
        assert_eq!(client::run(&info).expect(0).json()["key"], *key);
    }
    let listed = cluster.json(1, &["ls"]);
    let names: Vec<&str> = listed["keys"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["key"].as_str().expect("text"))
        .collect();
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    assert_eq!(names, sorted, "all of them, in order of their bytes");
    for key in keys {
        let rm = ["rm", "--node", &cluster.addr(0), "--", key];
        client::run(&rm).expect(0);
        let get = ["get", "--node", &cluster.addr(1), "--", key];
        client::run(&get).expect(3);
    }
    assert_eq!(cluster.json(0, &["ls"])["keys"], Value::Array(Vec::new()));
    let too_long = "x".repeat(1025);
    for bad in ["", &too_long] {
        let put = ["put", "--node", &cluster.addr(0), "--", bad, "-"];
        client::run_with(&put, b"x").expect(2);
    }
}

/// Case 63: sizes next to the borders of chunks, frames, and of what fits into the manifest.
#[test]
fn sizes_at_every_border() {
    const CHUNK: usize = 64 << 10;
    let cluster = Cluster::ring(3, Settings::quick());
    let borders = [4096, CHUNK, 2 * CHUNK, 256 << 10];
    let mut sizes: Vec<usize> = borders.iter().flat_map(|at| [at - 1, *at, at + 1]).collect();
    sizes.push(5 * CHUNK + 7);
    for (at, size) in sizes.into_iter().enumerate() {
        let content = data::bytes(size, 7);
        let key = format!("{size} bytes");
        let args = ["put", "--json", "--chunk-size", "65536", &key, "-"];
        let said = cluster.client_with(at % 3, &args, &content).expect(0).json();
        let chunks = if size <= 4096 { 0 } else { size.div_ceil(CHUNK) };
        assert_eq!((&said["size"], &said["chunks"]), (&size.into(), &chunks.into()), "{said}");
        assert_eq!(said["hash"], data::hash(&content), "{said}");
        cluster.check((at + 1) % 3, &key, &content);
    }
}

/// Case 63, the border of the manifest itself: the list of a file's chunks is too long for one
/// register, and is chunked too. The file repeats seven chunks, so that its list is long and its
/// content small.
#[test]
fn a_chunk_list_too_long_for_its_register() {
    const CHUNK: usize = 64 << 10;
    // 37 bytes a chunk fill the 160 KiB of a register at about 4,400 chunks.
    const CHUNKS: usize = 4700;
    let cluster = Cluster::ring(1, Settings::quick().flag("--ephemeral"));
    let pattern = data::bytes(7 * CHUNK, 8);
    let content: Vec<u8> = pattern.iter().copied().cycle().take(CHUNKS * CHUNK + 1).collect();
    let source = cluster.file("long", &content);
    let said = cluster.json(0, &["put", "long", &source, "--chunk-size", "65536"]);
    assert_eq!(said["chunks"], CHUNKS + 1, "{said}");
    assert_eq!(said["hash"], data::hash(&content), "{said}");
    let info = cluster.json(0, &["info", "long"]);
    assert_eq!(info["chunk_count"], CHUNKS + 1, "{}", info["key"]);
    cluster.check(0, "long", &content);
}

/// Case 64: more bytes than 32 bits count, in little memory on every process.
///
/// Run it with `cargo test --release -p dht-tests --test files -- --ignored beyond_32_bits`.
#[test]
#[ignore = "writes 4 GiB and takes minutes: run it by hand before a release"]
fn beyond_32_bits() {
    const MOST_MEMORY: u64 = 200 << 20;
    let mut cluster = Cluster::ring(3, Settings::default());
    let size = (4u64 << 30) + 1;
    let source = cluster.path("sparse");
    fs::File::create(&source).and_then(|file| file.set_len(size)).expect("a sparse file");
    let source = source.to_str().expect("UTF-8").to_owned();
    let target = cluster.path("fetched");
    let target = target.to_str().expect("UTF-8").to_owned();
    // Minutes without an answer are no fault here.
    let said = transfer(&["put", "huge", &source, "--node", &cluster.addr(0)]);
    assert_eq!(said["size"], size, "{said}");
    let got = transfer(&["get", "huge", "-o", &target, "--node", &cluster.addr(1)]);
    assert_eq!((&got["size"], &got["hash"]), (&size.into(), &said["hash"]), "{got}");
    let mut hasher = blake3::Hasher::new();
    let file = fs::File::open(&target).expect("it was written");
    hasher.update_reader(file).expect("it can be read");
    assert_eq!(said["hash"], hasher.finalize().to_hex().as_str());
    for number in cluster.live() {
        let peak = cluster.process(number).peak_memory();
        assert!(peak < MOST_MEMORY, "node {number} once had {peak} bytes");
    }
}

/// A client command that may take as long as it makes progress.
fn transfer(args: &[&str]) -> Value {
    let output = process::command(args).arg("--json").output().expect("the binary can be started");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Case 66: bytes come from a pipe, from nothing, or from a file by its name.
/// Case 62: the same with nothing.
#[test]
fn puts_from_pipes_and_files() {
    let cluster = Cluster::ring(1, Settings::quick());
    let content = data::bytes(200_000, 3);
    let path = cluster.file("named.bin", &content);
    let said = cluster.json(0, &["put", &path]);
    assert_eq!(said["key"], "named.bin", "the key is the file's name: {said}");
    cluster.check(0, "named.bin", &content);
    cluster.json(0, &["put", "other", &path]);
    cluster.check(0, "other", &content);

    let binary = dht_tests::binary::dht_node().to_str().expect("UTF-8").to_owned();
    let addr = cluster.addr(0);
    let scripts = [
        (format!("cat {path} | {binary} put piped - --node {addr}"), content.as_slice(), "piped"),
        (format!("{binary} put empty - --node {addr} </dev/null"), b"", "empty"),
    ];
    for (script, expected, key) in scripts {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]);
        process::isolate(&mut shell);
        client::finish(shell, b"").expect(0);
        cluster.check(0, key, expected);
    }
    // A pipe has no name: a key is needed.
    cluster.client(0, &["put", "-"]).expect(2);
    cluster.client(0, &["put", "key", "/nowhere/at/all"]).expect(1);
}

/// Case 68: what fails leaves no file, and none half-written.
#[test]
fn a_failed_get_leaves_no_file() {
    let cluster = Cluster::ring(1, Settings::quick());
    let folder = cluster.path("out");
    fs::create_dir(&folder).expect("the directory is ours");
    let target = folder.join("file");
    let out = target.to_str().expect("UTF-8");
    cluster.client(0, &["get", "absent", "-o", out]).expect(3);
    assert!(is_empty(&folder), "nothing is left behind");

    let content = data::bytes((3 << 20) + 54_321, 4);
    cluster.put(0, "k", &content);
    let got = cluster.json(0, &["get", "k", "-o", out]);
    assert_eq!((&got["verified"], &got["size"]), (&true.into(), &content.len().into()), "{got}");
    assert!(fs::read(&target).expect("it was written") == content);
    // What exists is not overwritten, unless forced.
    fs::write(&target, b"mine").expect("the directory is ours");
    cluster.client(0, &["get", "k", "-o", out]).expect(5);
    assert_eq!(fs::read(&target).expect("it is there"), b"mine");
    cluster.client(0, &["get", "k", "-o", out, "--force"]).expect(0);
    assert!(fs::read(&target).expect("it was written") == content);
    fs::remove_file(&target).expect("it is there");

    let last = chunk_file(cluster.data_dir(0), 54_321);
    fs::remove_file(&last).expect("it is there");
    let failed = cluster.client(0, &["get", "k", "-o", out, "--json"]).expect(6);
    assert_eq!(failed.error_code(), "incomplete");
    assert!(is_empty(&folder), "nothing is left behind");
    let failed = cluster.client(0, &["get", "k"]).expect(6);
    assert!(failed.stdout.len() < content.len(), "and no byte was made up");
    assert_eq!(failed.stdout, content[..failed.stdout.len()]);
}

/// A byte that is not what was stored is never given out (case 45, as far as one node can).
#[test]
fn rotten_bytes_are_not_returned() {
    let cluster = Cluster::ring(1, Settings::quick());
    let content = data::bytes(1_500_000, 6);
    cluster.put(0, "k", &content);
    let path = chunk_file(cluster.data_dir(0), content.len() % (1 << 20));
    let mut held = fs::read(&path).expect("it is there");
    let middle = held.len() / 2;
    held[middle] ^= 1;
    fs::write(&path, held).expect("it is ours");
    let failed = cluster.client(0, &["get", "k"]).expect(6);
    assert_eq!(failed.stdout, content[..failed.stdout.len()]);
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("it is there").next().is_none()
}

/// The one chunk file of that length in a data directory.
fn chunk_file(dir: &Path, len: usize) -> PathBuf {
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("it is there").map_while(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.metadata().is_ok_and(|held| held.len() == len as u64) {
                return path;
            }
        }
    }
    panic!("no file of {len} bytes in {}", dir.display());
}
