//! Getting into a ring: bootstrap addresses, joins, identities. The case numbers are those of
//! `docs/faults.md`: faults that people reported about programs of this kind.

use std::net::UdpSocket;
use std::process::Command;

use dht_tests::client::run;
use dht_tests::process::{NodeProcess, isolate};
use dht_tests::wait::{WATCHDOG, wait_for};
use dht_tests::{Cluster, Settings};

/// A UDP port that was free a moment ago.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has free ports");
    socket.local_addr().expect("it is bound").port()
}

/// The address of this host on its network, if it has one.
fn lan_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: connecting a datagram socket only chooses the route.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// A node that listens on the host's own address is administered from there as over loopback.
#[test]
fn whoever_is_on_the_host_may_ask_a_node_to_leave() {
    let Some(host) = lan_address() else { return };
    let mut cluster = Cluster::empty(Settings::quick());
    let addr = format!("{host}:{}", free_port());
    let number = cluster.begin_with(&["--listen", &addr]);
    cluster.ready(number);
    let left = run(&["leave", "--json", "--node", &addr]).expect(0).json();
    assert_eq!(left["left"], true);
}

/// Case 1: a node that is told to join itself is a ring of one, and says so once.
#[test]
fn joining_oneself_is_founding() {
    let mut cluster = Cluster::empty(Settings::quick());
    let mut ways =
        vec![("127.0.0.1", "127.0.0.1".to_owned()), ("127.0.0.1", "localhost".to_owned())];
    if UdpSocket::bind("[::1]:0").is_ok() {
        ways.push(("[::]", "[::1]".to_owned()));
    }
    ways.extend(lan_address().map(|addr| ("0.0.0.0", addr)));
    for (listen, join) in ways {
        let port = free_port();
        let (listen, join) = (format!("{listen}:{port}"), format!("{join}:{port}"));
        let number = cluster.begin_with(&["--listen", &listen, "--join", &join]);
        cluster.ready(number);
        let told = cluster.log(number);
        let notices = told.lines().filter(|line| line.contains("itself")).count();
        assert_eq!(notices, 1, "--listen {listen} --join {join}:\n{told}");
        let addr = format!("127.0.0.1:{port}");
        let ring = run(&["ring", "--json", "--node", &addr]).expect(0).json();
        assert_eq!((&ring["nodes"], &ring["complete"]), (&1.into(), &true.into()), "{ring}");
        cluster.stop(number);
    }
}

/// Cases 3 and 4: while no bootstrap node answers, clients are served and the log stays short; when
/// one appears, the joiner finds it.
#[test]
fn a_bootstrap_node_that_comes_late_is_found() {
    let mut cluster = Cluster::empty(Settings::quick());
    let (mine, theirs) = (free_port(), free_port());
    let (listen, join) = (format!("127.0.0.1:{mine}"), format!("127.0.0.1:{theirs}"));
    let joiner = cluster.begin_with(&["--listen", &listen, "--join", &join]);
    wait_for("clients are served while joining", || {
        let said = run(&["stats", "--json", "--node", &listen]);
        let joining = said.code == 0 && said.json()["state"] == "joining";
        if joining { Ok(()) } else { Err(said.to_string()) }
    });
    let status = run(&["status", "--node", &listen]);
    assert_ne!(status.code, 0, "a node that joins is no healthy member: {status}");
    // By the node's own clock: several rounds of its backoff.
    wait_for("8 s of trying", || {
        let said = run(&["stats", "--json", "--node", &listen]).expect(0).json();
        let uptime = said["uptime_s"].as_f64().expect("a number");
        if uptime >= 8.0 { Ok(()) } else { Err(said.to_string()) }
    });
    let log = cluster.log(joiner);
    assert!(log.lines().count() <= 10, "too much to say about nothing:\n{log}");
    assert!(cluster.process(joiner).waiting_lines().is_empty(), "it was never ready");

    let listen = format!("127.0.0.1:{theirs}");
    let founder = cluster.begin_with(&["--listen", &listen]);
    cluster.ready(founder);
    cluster.ready(joiner);
    cluster.wait_complete();
}

/// Case 6: a name with several addresses, and several members of which most are dead. Case 7: a name
/// that does not exist costs a warning, not the start.
#[test]
fn one_good_address_among_bad_ones_is_enough() {
    let mut cluster = Cluster::ring(1, Settings::quick());
    let port = cluster.addr(0).rsplit_once(':').expect("host and port").1.to_owned();
    let by_name = format!("localhost:{port}");
    let dead = format!("127.0.0.1:{}", free_port());
    let good = cluster.addr(0);
    let ways: [Vec<&str>; 3] = [
        vec!["--join", &by_name],
        vec!["--join", "nope.invalid:1", "--join", &good],
        vec!["--join", &dead, "--join", "127.0.0.1:9", "--join", "[::1]:9", "--join", &good],
    ];
    for flags in &ways {
        let number = cluster.begin_with(flags);
        cluster.ready(number);
        let names_it = cluster.log(number).contains("nope.invalid");
        assert_eq!(names_it, flags.contains(&"nope.invalid:1"), "{}", cluster.log(number));
    }
    cluster.wait_complete();
}

/// Case 10: a node that listens on every interface is known by addresses that work; `--advertise`
/// wins.
#[test]
fn wildcards_are_never_passed_on() {
    let mut cluster = Cluster::empty(Settings::quick());
    let ports = [free_port(), free_port(), free_port()];
    let first = format!("127.0.0.1:{}", ports[0]);
    for (at, port) in ports.iter().enumerate() {
        let listen = format!("0.0.0.0:{port}");
        let advertised = format!("127.0.0.1:{port}");
        let mut flags = vec!["--listen", &listen];
        if at > 0 {
            flags.extend(["--join", &first]);
        }
        if at == 2 {
            flags.extend(["--advertise", &advertised]);
        }
        let number = cluster.begin_with(&flags);
        cluster.ready(number);
    }
    let ask = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--json", "--node", &first]);
        run(&all).expect(0).json()
    };
    let ring = wait_for("a complete ring of three", || {
        let ring = ask(&["ring"]);
        let whole = ring["nodes"] == 3 && ring["complete"] == true;
        if whole { Ok(ring) } else { Err(ring.to_string()) }
    });
    for text in [ring.to_string(), ask(&["stats"]).to_string()] {
        assert!(!text.contains("0.0.0.0") && !text.contains("[::]"), "{text}");
    }
    let members = ring["members"].as_array().expect("a list");
    let advertised = format!("127.0.0.1:{}", ports[2]);
    assert!(members.iter().any(|member| member["addr"] == advertised), "{ring}");
    // A bad one is refused with its reason.
    let bad = run(&["--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:4433"]);
    assert_ne!(bad.code, 0, "{bad}");
    assert!(bad.stderr.contains("advertise"), "{bad}");
}

/// Case 15: many nodes join through one at the same moment; keys stay readable all the while.
#[test]
fn many_joins_at_once_lose_no_key() {
    const JOINERS: usize = 12;
    let mut cluster = Cluster::ring(2, Settings::quick());
    let keys: Vec<(String, Vec<u8>)> = (0..30u64)
        .map(|n| (format!("key-{n}"), dht_tests::data::bytes(100 + 700 * n as usize, n)))
        .collect();
    for (key, content) in &keys {
        cluster.put(0, key, content);
    }
    let joiners: Vec<usize> = (0..JOINERS).map(|_| cluster.begin()).collect();
    for (key, content) in &keys {
        cluster.check(1, key, content);
    }
    for number in joiners {
        cluster.ready(number);
        let (key, content) = &keys[number % keys.len()];
        cluster.check(number, key, content);
    }
    cluster.wait_complete();
    let ring = cluster.json(0, &["ring"]);
    let ids: Vec<&str> = ring["members"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|member| member["id"].as_str().expect("hex"))
        .collect();
    let turns = ids.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(turns <= 1, "the walk goes round once: {ids:?}");
    for (at, (key, content)) in keys.iter().enumerate() {
        cluster.check(at % (JOINERS + 2), key, content);
    }
}

/// Case 20: a port that is taken is named, and no two processes share it.
#[test]
fn a_port_that_is_taken_is_refused() {
    let cluster = Cluster::ring(1, Settings::quick());
    let taken = cluster.addr(0);
    let port = taken.rsplit_once(':').expect("host and port").1;
    let mut listens = vec![taken.clone(), format!("0.0.0.0:{port}")];
    if UdpSocket::bind("[::1]:0").is_ok() {
        // The IPv6 wildcard takes both families, and one of them is taken.
        listens.push(format!("[::]:{port}"));
    }
    for listen in listens {
        let said = run(&["--listen", &listen, "--ephemeral"]).expect(1);
        assert!(said.stderr.contains(port) && said.stderr.contains("--listen"), "{said}");
        assert!(said.stdout.is_empty(), "{said}");
    }
    cluster.wait_complete();
}

/// Case 8: a resolver that never answers holds up nothing but its own name.
///
/// The node sees a `/etc/resolv.conf` of the test's in a mount namespace of its own, and asks a
/// socket of the test's that only listens. Where the system allows neither, there is nothing to see.
#[test]
fn a_silent_resolver_holds_up_nothing() {
    let cluster = Cluster::ring(1, Settings::quick());
    let Ok(resolver) = UdpSocket::bind("127.0.0.77:53") else {
        eprintln!("left out: port 53 of loopback cannot be bound here");
        return;
    };
    let config = cluster.file("resolv.conf", b"nameserver 127.0.0.77\noptions timeout:30\n");
    let script = format!("mount --bind {config} /etc/resolv.conf && exec \"$@\"");
    let unshare = ["--map-root-user", "--mount", "sh", "-c", &script, "sh"];
    let mut probe = Command::new("unshare");
    if !probe.args(unshare).arg("true").output().is_ok_and(|said| said.status.success()) {
        eprintln!("left out: no mount namespaces here");
        return;
    }
    let log = cluster.path("silent.log");
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let first = cluster.addr(0);
    let mut node = Command::new("unshare");
    node.args(unshare).arg(dht_tests::binary::dht_node());
    node.args(["run", "--ephemeral", "--listen", &listen, "--join", "silent.example:4433"]);
    isolate(&mut node);
    let mut node = NodeProcess::start(node, &log);
    wait_for("clients are served", || {
        let said = run(&["stats", "--json", "--node", &listen]);
        let joining = said.code == 0 && said.json()["state"] == "joining";
        if joining { Ok(()) } else { Err(said.to_string()) }
    });
    resolver.set_read_timeout(Some(WATCHDOG)).expect("a time-out can be set");
    resolver.recv(&mut [0; 512]).expect("the resolver was asked");
    node.kill();

    // With a good address beside it, the node joins through that one.
    let mut node = Command::new("unshare");
    node.args(unshare).arg(dht_tests::binary::dht_node());
    node.args(["run", "--ephemeral", "--listen", "127.0.0.1:0"]);
    node.args(["--join", "silent.example:4433", "--join", &first]);
    isolate(&mut node);
    let mut node = NodeProcess::start(node, &log);
    node.ready();
    let ring = cluster.json(0, &["ring"]);
    assert_eq!(ring["nodes"], 2, "{ring}");
}
