//! The command line as a contract: exit codes, JSON, what goes where.

use dht_tests::client::{finish, run, run_with};
use dht_tests::process::{NodeProcess, Signal, command, signal_process};
use dht_tests::wait::wait_for;
use dht_tests::{Cluster, Settings, data};

/// A port on which nothing listens: the discard service.
const NOBODY: &str = "127.0.0.1:9";

/// Case 69: every failure has its code, usage errors go to stderr, and nothing else goes to stdout.
#[test]
fn failures_have_fixed_codes() {
    let cluster = Cluster::ring(1, Settings::quick());
    let addr = cluster.addr(0);
    let table: &[(&[&str], i32)] = &[
        (&["get", "absent", "--node", &addr], 3),
        (&["info", "absent", "--node", &addr], 3),
        (&["rm", "absent", "--node", &addr], 3),
        (&["get", "k", "--no-such-flag"], 2),
        (&["no-such-command"], 2),
        (&["put"], 2),
        (&["get"], 2),
        (&["sim"], 2),
        (&["lookup", "k", "--depth", "many", "--node", &addr], 2),
        (&["get", "k", "--node", "no address at all"], 2),
        (&["get", "k", "--node", NOBODY, "--timeout", "1s"], 4),
        (&["put", "k", "-", "--node", NOBODY, "--timeout", "1s"], 4),
        (&["ls", "--node", NOBODY, "--timeout", "1s"], 4),
        (&["status", "--node", NOBODY, "--timeout", "1s"], 4),
        (&["ping", "--node", NOBODY, "--timeout", "1s"], 4),
        (&["get", "k", "--node", &addr, "--ring", "another"], 4),
    ];
    for (args, code) in table {
        let said = run(args).expect(*code);
        assert!(said.stdout.is_empty(), "{said}");
        assert!(!said.stderr.is_empty(), "{said}");
        assert_eq!(said.stderr.lines().count(), 1, "one line says what to do next: {said}");
    }
}

/// With `--json`, before or after the command, an error is one object on stdout.
#[test]
fn json_errors_carry_code_and_exit() {
    let cluster = Cluster::ring(1, Settings::quick());
    let addr = cluster.addr(0);
    let absent = run(&["--json", "get", "absent", "-o", "x", "--node", &addr]).expect(3);
    assert_eq!(absent.error_code(), "not_found");
    assert_eq!(
        run(&["rm", "absent", "--json", "--node", &addr]).expect(3).error_code(),
        "not_found"
    );
    let nobody = run(&["ls", "--json", "--node", NOBODY, "--timeout", "1s"]).expect(4);
    assert_eq!(nobody.error_code(), "unreachable");
    let other = run(&["ls", "--json", "--node", &addr, "--ring", "another"]).expect(4);
    assert!(
        other.json()["error"]["message"].as_str().is_some_and(|m| m.contains("ring")),
        "{other}"
    );
    let flag = run(&["ls", "--json", "--lmit", "3"]).expect(2);
    assert_eq!(flag.error_code(), "usage");
    let needs_file = run(&["get", "k", "--json", "--node", &addr]).expect(2);
    assert!(
        needs_file.stderr.contains("-o") || needs_file.stdout.starts_with(b"{"),
        "{needs_file}"
    );
}

/// What is not built answers with exit 2 and its name; its off value is accepted.
#[test]
fn what_is_not_built_says_so() {
    let cluster = Cluster::ring(1, Settings::quick().flag("--http").flag("off"));
    let addr = cluster.addr(0);
    let secret = cluster.file("secret", b"0123456789abcdef0123456789abcdef");
    let run_flags: &[&[&str]] =
        &[&["--virtual-nodes", "4"], &["--http", "127.0.0.1:0"], &["--ring-secret-file", &secret]];
    for flags in run_flags {
        let mut args = vec!["run", "--ephemeral", "--listen", "127.0.0.1:0"];
        args.extend(*flags);
        let said = run(&args).expect(2);
        assert!(said.stderr.contains(flags[0]), "it is named: {said}");
        assert!(said.stdout.is_empty(), "{said}");
    }
    let commands: &[&[&str]] = &[
        &["get", "k", "--range", "0-5"],
        &["put", "k", "-", "--if-absent"],
        &["put", "k", "-", "--if-match", "1-1-00000000"],
        &["put", "k", "-", "--ttl", "5m"],
        &["repair"],
        &["bench"],
    ];
    for words in ["repair --now --json", "placement locate --json"] {
        let said = run(&words.split(' ').collect::<Vec<_>>()).expect(2);
        assert_eq!(said.error_code(), "usage", "{words}: {said}");
    }
    for args in commands {
        let mut all = args.to_vec();
        all.extend(["--node", &addr]);
        run(&all).expect(2);
    }
    // Off values and defaults.
    let mut node = NodeProcess::start(
        command(&[
            "run",
            "--ephemeral",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "off",
            "--virtual-nodes",
            "1",
            "--routing",
            "successors",
            "--ring",
            "another",
            "--keep",
            "successors",
        ]),
        &cluster.path("off.log"),
    );
    assert_eq!(node.ready().ring, "another");
}

/// The ready line, as text and as JSON, once and alone on stdout.
#[test]
fn ready_is_one_line() {
    let cluster = Cluster::empty(Settings::quick());
    let log = cluster.path("ready.log");
    let args = ["run", "--ephemeral", "--listen", "127.0.0.1:0"];
    let mut text = NodeProcess::start(command(&args), &log);
    let ready = text.ready().clone();
    assert!(ready.id.len() == 40 && ready.id.bytes().all(|c| c.is_ascii_hexdigit()), "{ready:?}");
    assert!(!ready.listen.ends_with(":0"), "the real port: {ready:?}");
    assert_eq!(ready.ring, "default");

    let mut args = args.to_vec();
    args.push("--json");
    let mut json = NodeProcess::start(command(&args), &log);
    let line = json.next_line().unwrap_or_else(|| panic!("no line; log:\n{}", json.log_text()));
    let said: serde_json::Value = serde_json::from_str(&line).expect("one JSON object a line");
    for field in ["id", "listen", "ring"] {
        assert!(said[field].is_string(), "{said}");
    }
    run(&["ping", "--node", said["listen"].as_str().expect("an address")]).expect(0);
    json.signal(Signal::Term);
    assert_eq!(json.wait().code(), Some(0));
    assert!(json.next_line().is_none(), "nothing else goes to stdout");
}

/// `id`, `ping`, `status`, `ls` and `stats` have their shapes, and any member answers.
#[test]
fn small_commands_have_their_shapes() {
    let cluster = Cluster::ring(2, Settings::quick());
    for number in 0..2 {
        let id = cluster.json(number, &["id"]);
        assert_eq!(id["id"], cluster.id(number), "{id}");
        cluster.client(number, &["ping"]).expect(0);
        cluster.client(number, &["status"]).expect(0);
        let stats = cluster.json(number, &["stats"]);
        assert_eq!((&stats["state"], &stats["id"]), (&"member".into(), &id["id"]), "{stats}");
        assert_eq!(stats["successors"].as_array().map(Vec::len), Some(1), "{stats}");
        for field in ["addr", "ring", "uptime_s", "version", "estimated_nodes", "predecessor"] {
            assert!(!stats[field].is_null(), "{field}: {stats}");
        }
        for field in ["lookups", "upkeep", "store", "repair", "traffic"] {
            assert!(stats[field].is_object(), "{field}: {stats}");
        }
    }
    for (at, key) in ["b/2", "a/1", "b/1", "c"].iter().enumerate() {
        cluster.put(at % 2, key, &data::bytes(10 + at, 0));
    }
    let names = |args: &[&str]| -> Vec<String> {
        let said = cluster.json(1, args);
        let keys = said["keys"].as_array().expect("a list");
        keys.iter().map(|entry| entry["key"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(names(&["ls"]), ["a/1", "b/1", "b/2", "c"]);
    assert_eq!(names(&["ls", "b/"]), ["b/1", "b/2"]);
    assert_eq!(names(&["ls", "--limit", "2"]), ["a/1", "b/1"]);
    assert_eq!(names(&["ls", "--after", "b/1"]), ["b/2", "c"]);
    let page = cluster.json(0, &["ls", "--limit", "2"]);
    assert_eq!(page["keys"][0]["size"], 11, "{page}");
    assert!(!page["next"].is_null(), "more follows: {page}");
    assert!(cluster.json(0, &["ls"])["next"].is_null(), "nothing follows");
}

/// What cannot be told on stdout is told on stderr, with the code of a failed write.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_no_success() {
    for (args, code) in [
        (&["--help"][..], 1),
        (&["completions", "bash"], 1),
        (&["ls", "--json", "--node", NOBODY, "--timeout", "1s"], 4),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = command(args);
        let said = command.stdout(full).output().expect("the binary can be started");
        let stderr = String::from_utf8_lossy(&said.stderr);
        assert_eq!((said.status.code(), stderr.lines().count()), (Some(code), 1), "{stderr}");
    }
}

/// A node that has no place yet is no ring: not complete, without an arc, and with a problem.
#[test]
fn a_joining_node_is_no_ring() {
    let cluster = Cluster::empty(Settings::quick());
    let log = cluster.path("joining.log");
    let listen = {
        // Freed at once: nobody else here takes ports.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
        socket.local_addr().expect("it is bound").to_string()
    };
    let args = ["run", "--ephemeral", "--listen", &listen, "--join", NOBODY];
    let mut node = NodeProcess::start(command(&args), &log);
    let walk = wait_for("it answers clients", || {
        let said = run(&["ring", "--json", "--node", &listen, "--timeout", "1s"]);
        if said.code == 0 { Ok(said.json()) } else { Err(said.to_string()) }
    });
    assert_eq!((&walk["complete"], &walk["nodes"]), (&false.into(), &1.into()), "{walk}");
    let member = &walk["members"][0];
    assert!(member["state"] == "joining" && member["arc"].is_null(), "{walk}");
    assert!(walk["problems"].as_array().is_some_and(|all| !all.is_empty()), "{walk}");
    let text = run(&["ring", "--node", &listen]).expect(0);
    assert!(String::from_utf8_lossy(&text.stdout).contains("NOT complete"), "{text}");
    assert!(node.is_running());
}

/// A failing script ends in the last lines of its trace, for people who want them.
#[test]
fn a_failing_script_says_where() {
    let cluster = Cluster::empty(Settings::default());
    let failing = cluster.file("failing.txt", b"ring 0 1 2\nfail 1\nquiet\nexpect ring 0\n");
    let said = run(&["sim", "script", &failing]).expect(1);
    assert!(String::from_utf8_lossy(&said.stdout).starts_with("failed at line 4: "), "{said}");
    assert!((2..=22).contains(&said.stderr.lines().count()), "{said}");
    for flag in ["--json", "--quiet"] {
        let said = run(&["sim", "script", &failing, flag]).expect(1);
        assert_eq!((said.stderr.as_str(), said.stdout.is_empty()), ("", false), "{said}");
    }
    let binary = cluster.file("binary", b"ring 0\n\xff\xfe\n");
    let said = run(&["sim", "script", &binary]).expect(2);
    assert!(said.stderr.contains("line 2: this is no text"), "{said}");
}

/// Every command explains itself with an example; versions and completions come without a node.
#[test]
fn help_version_and_completions() {
    let version = run(&["--version"]).expect(0);
    let text = String::from_utf8(version.stdout).expect("UTF-8");
    assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
    let commands = [
        "run",
        "put",
        "get",
        "info",
        "rm",
        "ls",
        "lookup",
        "hops",
        "ring",
        "stats",
        "status",
        "ping",
        "id",
        "leave",
        "demo",
        "sim",
        "completions",
    ];
    let top = String::from_utf8(run(&["--help"]).expect(0).stdout).expect("UTF-8");
    for name in commands {
        assert!(top.contains(name), "{name} is not in --help");
        let help = run(&[name, "--help"]).expect(0);
        let text = String::from_utf8(help.stdout).expect("UTF-8");
        assert!(text.contains("dht-node "), "{name}: an example:\n{text}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]).expect(0);
        assert!(String::from_utf8_lossy(&said.stdout).contains("dht-node"), "{shell}");
    }
}

/// Case 72: a node stops on the first signal, whatever it is doing.
#[test]
fn signals_stop_a_node() {
    let mut cluster = Cluster::ring(3, Settings::quick());
    let content = data::bytes(300_000, 1);
    cluster.put(0, "k", &content);
    for (number, signal) in [(2, Signal::Term), (1, Signal::Int)] {
        cluster.process(number).signal(signal);
        assert_eq!(cluster.ended(number), 0, "{}", cluster.log(number));
        cluster.wait_complete();
        cluster.check(0, "k", &content);
        // The store opens again, and the node finds its ring.
        cluster.start(number, &[]);
        cluster.ready(number);
        cluster.wait_complete();
        cluster.check(number, "k", &content);
    }

    // One that dials into the void stops as well.
    for signal in [Signal::Term, Signal::Int] {
        // A log of its own: what an earlier one wrote says nothing of this one.
        let log = cluster.path(&format!("void-{signal:?}.log"));
        let mut args = vec!["run", "--ephemeral", "--listen", "127.0.0.1:0"];
        args.extend(["--join", NOBODY]);
        let mut node = NodeProcess::start(command(&args), &log);
        wait_for("it logs that it cannot join", || {
            if node.log_text().is_empty() { Err("nothing yet".to_owned()) } else { Ok(()) }
        });
        node.signal(signal);
        assert_eq!(node.wait().code(), Some(0), "{}", node.log_text());
    }
}

/// Case 72: a get that nobody reads on, and copies that are being made, hold nobody back.
#[test]
fn signals_end_transfers() {
    let mut cluster = Cluster::ring(3, Settings::quick());
    // More than pipes and windows hold.
    let content = data::bytes(24 << 20, 5);
    cluster.put(0, "big", &content);
    let addr = cluster.addr(0);
    let begin = || {
        let mut child = command(&["get", "big", "--node", &addr])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let mut first = [0];
        let stdout = child.stdout.as_mut().expect("it is piped");
        std::io::Read::read_exact(stdout, &mut first).expect("it begins");
        child
    };
    let mut child = begin();
    signal_process(child.id(), "INT");
    let ended = wait_for("the client ends", || {
        child.try_wait().expect("it is ours").ok_or_else(|| "it runs".to_owned())
    });
    assert_eq!(ended.code(), Some(130));

    // A joiner takes chunks over; it is told to stop as soon as it has its place.
    let joiner = cluster.add();
    cluster.process(joiner).signal(Signal::Term);
    assert_eq!(cluster.ended(joiner), 0, "{}", cluster.log(joiner));

    let mut child = begin();
    cluster.process(0).signal(Signal::Term);
    assert_eq!(cluster.ended(0), 0, "{}", cluster.log(0));
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    cluster.start(0, &[]);
    cluster.ready(0);
    cluster.check(0, "big", &content);
}

/// Case 72: a client that is interrupted says so with its code and leaves nothing half-done.
#[test]
fn an_interrupted_put_leaves_no_file() {
    let cluster = Cluster::ring(1, Settings::quick());
    let addr = cluster.addr(0);
    let mut child = command(&["put", "half", "-", "--node", &addr])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, &data::bytes(3 << 20, 2)).expect("it reads");
    // Chunks lie at the node, the end has not come.
    wait_for("chunks arrive", || {
        let stats = cluster.json(0, &["stats"]);
        let chunks = stats["store"]["chunks"].as_u64().unwrap_or(0);
        if chunks >= 1 { Ok(()) } else { Err(stats.to_string()) }
    });
    signal_process(child.id(), "INT");
    let ended = wait_for("the client ends", || {
        child.try_wait().expect("it is ours").ok_or_else(|| "it runs".to_owned())
    });
    assert_eq!(ended.code(), Some(130));
    drop(stdin);
    cluster.client(0, &["get", "half"]).expect(3);
    assert_eq!(cluster.json(0, &["ls"])["keys"].as_array().map(Vec::len), Some(0));
}

/// Case 72: while a transfer holds up a stop, a second signal ends the node at once.
#[test]
fn a_second_signal_ends_a_node_at_once() {
    let mut cluster = Cluster::ring(1, Settings::quick());
    let addr = cluster.addr(0);
    let mut child = command(&["put", "stuck", "-", "--node", &addr, "--timeout", "2m"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, &data::bytes(2 << 20, 3)).expect("it reads");
    wait_for("chunks arrive", || {
        let stats = cluster.json(0, &["stats"]);
        let chunks = stats["store"]["chunks"].as_u64().unwrap_or(0);
        if chunks >= 1 { Ok(()) } else { Err(stats.to_string()) }
    });
    cluster.process(0).signal(Signal::Term);
    wait_for("it waits for its client", || {
        let log = cluster.log(0);
        if log.contains("waiting for clients") { Ok(()) } else { Err(log) }
    });
    cluster.process(0).signal(Signal::Int);
    assert_eq!(cluster.ended(0), 130, "{}", cluster.log(0));
    // The client cannot know that nobody is there any more; it would find out in half a minute.
    child.kill().expect("it still waits: nothing was acknowledged");
    child.wait().expect("it is ours");
    drop(stdin);
    cluster.start(0, &[]);
    cluster.ready(0);
    cluster.client(0, &["get", "stuck"]).expect(3);
}

/// Case 66: a node stays up when its standard input is closed or at its end.
#[test]
fn a_node_needs_no_standard_input() {
    let cluster = Cluster::empty(Settings::quick());
    let binary = dht_tests::binary::dht_node().to_str().expect("UTF-8");
    let script = format!("exec {binary} run --ephemeral --listen 127.0.0.1:0 <&-");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    dht_tests::process::isolate(&mut shell);
    let mut node = NodeProcess::start(shell, &cluster.path("closed.log"));
    let addr = node.ready().listen.clone();
    run_with(&["put", "k", "-", "--node", &addr], b"x").expect(0);
    assert_eq!(run(&["get", "k", "--node", &addr]).expect(0).stdout, b"x");
    assert!(node.is_running());
}

/// A node lives on when its log cannot be written, and still stops in order.
#[cfg(target_os = "linux")]
#[test]
fn a_node_needs_no_log() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    for flags in [&["--log", "debug"][..], &["--log", "debug", "--log-file", "/dev/full"]] {
        let mut args = vec!["run", "--ephemeral", "--listen", "127.0.0.1:0"];
        args.extend(flags);
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut child = command(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(full)
            .spawn()
            .expect("the binary can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it is text");
        let ready = dht_tests::process::Ready::parse(line.trim_end()).expect("the ready line");
        run_with(&["put", "k", "-", "--node", &ready.listen], b"x").expect(0);
        signal_process(child.id(), "TERM");
        let ended = wait_for("the node ends", || {
            child.try_wait().expect("it is ours").ok_or_else(|| "it runs".to_owned())
        });
        assert_eq!(ended.code(), Some(0), "{flags:?}");
    }
}

/// A named pipe can be stored, once opened and once read; nobody waits beyond a deadline for its
/// writer, and nothing is written into one.
#[cfg(unix)]
#[test]
fn pipes_with_names_hold_nobody_up() {
    let cluster = Cluster::ring(1, Settings::quick());
    let (addr, pipe) = (cluster.addr(0), cluster.path("pipe"));
    let pipe = pipe.to_str().expect("UTF-8");
    let made = std::process::Command::new("mkfifo").arg(pipe).status().expect("a Unix has it");
    assert!(made.success());
    let put = ["put", "k", pipe, "--node", &addr, "--deadline"];
    let late = run(&[&put[..], &["300ms", "--json"]].concat()).expect(4);
    assert_eq!(late.error_code(), "timed_out");

    let writer = {
        let (pipe, content) = (pipe.to_owned(), data::bytes(200_000, 4));
        std::thread::spawn(move || std::fs::write(pipe, content))
    };
    run(&[&put[..], &["60s"]].concat()).expect(0);
    writer.join().expect("no panic").expect("every byte was read");
    cluster.check(0, "k", &data::bytes(200_000, 4));

    let get = ["get", "k", "-o", pipe, "--node", &addr];
    run(&get).expect(5);
    let refused = run(&[&get[..], &["--force"]].concat()).expect(1);
    assert!(refused.stderr.contains("named pipe"), "{refused}");
    for device in ["/dev/null", "/dev/stdout"] {
        run(&["get", "k", "-o", device, "--force", "--quiet", "--node", &addr]).expect(0);
    }
}

/// `--deadline` bounds whatever runs in this process alone, too: no table of what was not done.
#[test]
fn the_deadline_bounds_every_command() {
    let cluster = Cluster::ring(2, Settings::quick());
    let addr = cluster.addr(0);
    let script = cluster.file("long.txt", b"ring 0 1\nwait 86400000\nwait 86400000\n");
    let long: &[&[&str]] = &[
        &["hops", "--samples", "3000000", "--node", &addr],
        &["sim", "hops", "--nodes", "1000000", "--lookups", "1000000"],
        &["sim", "script", &script],
        &["demo", "--nodes", "16"],
    ];
    for args in long {
        let said = run(&[*args, &["--deadline", "200ms", "--json"]].concat()).expect(4);
        assert_eq!(said.error_code(), "timed_out", "{said}");
    }
    let bound = run(&["sim", "hops", "--nodes", "4", "--lookups", "100000001"]).expect(2);
    assert!(bound.stderr.contains("100000000"), "{bound}");
}

/// `demo` is a whole ring in one process: it stores, kills, fetches, and counts hops.
#[test]
fn the_demo_runs_to_its_end() {
    let _turn = Cluster::empty(Settings::default());
    let said = finish(command(&["demo", "--nodes", "8"]), b"").expect(0);
    let text = String::from_utf8(said.stdout).expect("UTF-8");
    assert!(text.contains("hops"), "{text}");
}
