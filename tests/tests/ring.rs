//! Living in a ring: lookups and their hops, deaths, departures, restarts.

use std::collections::BTreeSet;

use serde_json::Value;

use dht_tests::client::run;
use dht_tests::wait::wait_for;
use dht_tests::{Cluster, Settings};

/// Ids of the members in ring order, as one node tells.
fn order(cluster: &Cluster, number: usize) -> Vec<String> {
    let ring = cluster.json(number, &["ring"]);
    let members = ring["members"].as_array().expect("a list");
    let mut ids: Vec<String> =
        members.iter().map(|member| member["id"].as_str().expect("hex").to_owned()).collect();
    ids.sort();
    ids
}

/// The index in `ids`, sorted, of the first one at or after a point.
fn owner_of(ids: &[String], point: &str) -> usize {
    ids.iter().position(|id| id.as_str() >= point).unwrap_or(0)
}

/// "Must show" 4: at depth 1 a lookup walks every place on the way; its path is the ring's order, and
/// its length the hops it reports. At depth k the walk over d places takes d/k hops, rounded up.
#[test]
fn a_lookup_shows_its_path_along_the_successors() {
    const SIZE: usize = 8;
    let cluster = Cluster::ring(SIZE, Settings::quick());
    let ids = order(&cluster, 0);
    let mut hops_seen = BTreeSet::new();
    for n in 0..12 {
        let key = format!("some key {n}");
        let asker = n % SIZE;
        let said = cluster.json(asker, &["lookup", &key, "--depth", "1"]);
        let owner = owner_of(&ids, said["id"].as_str().expect("hex"));
        assert_eq!(said["owner"]["id"], ids[owner].as_str(), "{said}");
        let from = ids.iter().position(|id| *id == cluster.id(asker)).expect("a member");
        let places = (owner + SIZE - from) % SIZE;
        let expected: Vec<&str> =
            (1..=places).map(|step| ids[(from + step) % SIZE].as_str()).collect();
        let path = said["path"].as_array().expect("a list");
        let walked: Vec<&str> = path.iter().map(|step| step["id"].as_str().expect("hex")).collect();
        assert_eq!(walked, expected, "{said}");
        assert_eq!(said["hops"], places, "{said}");
        assert!(path.iter().all(|step| step["rtt_us"].as_u64().is_some_and(|us| us > 0)), "{said}");
        assert_eq!((&said["routing"], &said["depth"]), (&"successors".into(), &1.into()), "{said}");
        assert_eq!(said["detours"], Value::Array(Vec::new()), "{said}");
        hops_seen.insert(places);
        for depth in [2, 3, 16] {
            let text = depth.to_string();
            let said = cluster.json(asker, &["lookup", &key, "--depth", &text]);
            assert_eq!(said["hops"], places.div_ceil(depth), "{said}");
            assert_eq!(said["owner"]["id"], ids[owner].as_str(), "{said}");
        }
    }
    assert!(hops_seen.len() > 2, "keys and askers were all alike: {hops_seen:?}");
    it_is_drawn(&cluster, &ids);
    it_is_compared(&cluster);
    the_ring_is_drawn(&cluster, &ids);
}

/// The way stands on a circle among all members, in eighty columns and twenty-four lines.
fn it_is_drawn(cluster: &Cluster, ids: &[String]) {
    let args = ["lookup", "some key 3", "--depth", "1", "--draw"];
    let said = cluster.json(2, &args);
    let places = said["places"].as_array().expect("a list");
    let of_role = |role: &str| places.iter().filter(|place| place["role"] == role).count();
    assert_eq!((places.len(), of_role("key"), of_role("asker")), (ids.len() + 1, 1, 1), "{said}");
    assert_eq!(said["complete"], true, "{said}");
    let steps: usize = places.iter().map(|at| at["steps"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(said["hops"], steps, "{said}");
    let text = cluster.client(2, &args).expect(0);
    let drawn = String::from_utf8(text.stdout.clone()).expect("UTF-8");
    assert!(drawn.lines().count() <= 23 && drawn.lines().all(|line| line.len() <= 80), "{text}");
    assert!(!drawn.contains('\u{1b}'), "no colour where there is no terminal: {text}");
    let owner = said["owner"]["id"].as_str().expect("hex");
    assert!(drawn.contains(&owner[..8]) && drawn.contains("K  key"), "{text}");
    cluster.client(2, &[&args[..], &["--compare"]].concat()).expect(2);
}

/// The whole ring as a picture with lookups, and as a graph.
fn the_ring_is_drawn(cluster: &Cluster, ids: &[String]) {
    let path = |name: &str| cluster.path(name).to_string_lossy().into_owned();
    let (svg, dot) = (path("ring.svg"), path("ring.dot"));
    let args = ["ring", "--svg", &svg, "--lookups", "5", "--depth", "1", "--dot", &dot];
    let said = cluster.json(1, &args);
    let lookups = said["lookups"].as_array().expect("a list");
    assert_eq!(lookups.len(), 5, "{said}");
    for lookup in lookups {
        let owner = owner_of(ids, lookup["id"].as_str().expect("hex"));
        assert_eq!((&lookup["owner"], &lookup["depth"]), (&ids[owner].as_str().into(), &1.into()));
        assert_eq!(lookup["hops"], lookup["path"].as_array().map_or(0, Vec::len), "{lookup}");
    }
    let picture = std::fs::read_to_string(&svg).expect("it was written");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains("5 lookups at random, successors at depth 1"), "{picture}");
    assert!(ids.iter().all(|id| picture.contains(&format!(">{}</text>", &id[..8]))), "{picture}");
    let graph = std::fs::read_to_string(&dot).expect("it was written");
    let printed = cluster.client(1, &["ring", "--dot"]).expect(0).stdout;
    for graph in [graph, String::from_utf8(printed).expect("UTF-8")] {
        assert!(graph.starts_with("digraph \"default\" {") && graph.ends_with("}\n"), "{graph}");
        // Every list has all others, and everybody a predecessor.
        let links = ids.len() * (ids.len() - 1) + ids.len();
        assert!(graph.matches(" -> ").count() >= links, "{graph}");
    }
    cluster.client(1, &["ring", "--dot", "--json"]).expect(2);
    cluster.client(1, &["ring", "--svg", &svg, "--dot", &svg]).expect(2);
}

/// Every node of every way tells what it chose from, and the chosen one is among it.
fn it_is_compared(cluster: &Cluster) {
    let args = ["lookup", "some key 3", "--depth", "2", "--compare"];
    let said = cluster.json(2, &args);
    let rows = said["routings"].as_array().expect("a list");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["routing"].as_str()).collect();
    assert!(names.starts_with(&["successors", "both-ways", "fingers"]), "{said}");
    for row in rows.iter().filter(|row| row["routing"] != "full") {
        assert_eq!((&row["depth"], &row["owner"]), (&2.into(), &rows[0]["owner"]), "{said}");
        let (last, steps) = row["steps"].as_array().and_then(|all| all.split_last()).expect("one");
        assert_eq!((&row["hops"], &last["why"]), (&steps.len().into(), &"mine".into()), "{row}");
        for step in steps {
            let entries = step["entries"].as_array().expect("a list");
            let taken: Vec<&Value> = entries.iter().filter(|one| one["chosen"] == true).collect();
            assert_eq!((&step["listed"], taken.len()), (&true.into(), 1), "{step}");
            assert_eq!(taken[0]["id"], step["chosen"]["id"], "{step}");
            let near = entries.iter().filter(|one| one["list"] == "successor").count();
            assert!(near <= 2 && step["why"] != "otherwise", "{step}");
        }
    }
    let text = cluster.client(2, &args).expect(0);
    let told = String::from_utf8_lossy(&text.stdout);
    assert!(told.contains("both-ways, depth 2") && told.contains("owns the key"), "{text}");
}

/// Nodes that hand their lookups on answer as those do that carry them themselves, and say which they did.
#[test]
fn a_lookup_may_be_handed_on() {
    const SIZE: usize = 6;
    let cluster = Cluster::ring(SIZE, Settings::quick().flag("--forwarding").flag("recursive"));
    let way = |said: &Value| -> Vec<String> {
        let path = said["path"].as_array().expect("a list");
        path.iter().map(|step| step["id"].as_str().expect("hex").to_owned()).collect()
    };
    let mut compared = 0;
    for n in 0..12 {
        let (asker, key) = (n % SIZE, format!("some key {n}"));
        let lookup = ["lookup", &key, "--depth", "1"];
        let own = cluster.json(asker, &[&lookup[..], &["--forwarding", "iterative"]].concat());
        let handed = cluster.json(asker, &lookup);
        assert_eq!((&own["forwarding"], &own["gave_up"]), (&"iterative".into(), &Value::Null));
        assert_eq!(handed["forwarding"], "recursive", "{handed}");
        assert_eq!(own["owner"], handed["owner"], "{own} {handed}");
        // A busy machine may make a node seem silent.
        let is_plain = |said: &Value| said["timeouts"] == 0 && said["gave_up"].is_null();
        if is_plain(&own) && is_plain(&handed) {
            assert_eq!((&own["hops"], way(&own)), (&handed["hops"], way(&handed)), "{handed}");
            let path = handed["path"].as_array().expect("a list");
            assert!(path.iter().all(|step| step["rtt_us"].is_null()), "{handed}");
            compared += usize::from(!path.is_empty());
        }
    }
    assert!(compared > 0, "every pair met somebody silent");
    let stats = cluster.json(0, &["stats"]);
    assert_eq!(stats["forwarding"], "recursive", "{stats}");
    assert!(stats["forwards"]["taken"].as_u64().is_some_and(|taken| taken > 0), "{stats}");
}

/// `hops` lays what was measured beside the formula; `stats` counts each lookup once.
#[test]
fn hops_are_measured_and_counted() {
    const SIZE: usize = 6;
    let cluster = Cluster::ring(SIZE, Settings::quick());
    let path = |name: &str| cluster.path(name).to_string_lossy().into_owned();
    let (plot, csv) = (path("hops.svg"), path("hops.csv"));
    let hops = ["hops", "--samples", "3000", "--plot", &plot, "--csv", &csv];
    let said = cluster.json(2, &hops);
    assert_eq!(said["nodes"], SIZE, "{said}");
    let rows = said["routings"].as_array().expect("a list");
    for depth in [1, 2, 4, 8, 16] {
        let is_row = |row: &&Value| row["routing"] == "successors" && row["depth"] == depth;
        let row = rows.iter().find(is_row).unwrap_or_else(|| panic!("no depth {depth}: {said}"));
        let (quotient, rest) = ((SIZE - 1) / depth, (SIZE - 1) % depth);
        let (k, q, s) = (depth as f64, quotient as f64, rest as f64);
        let formula = (q + 1.0) * (k * q / 2.0 + s) / SIZE as f64;
        let field = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert!((field("expected") - formula).abs() < 1e-6, "{formula}: {row}");
        // Six standard errors: one run in five hundred million fails by chance.
        let error = 6.0 * field("stddev") / f64::sqrt(3000.0);
        let off = (field("mean") - field("expected_here")).abs();
        assert!(off <= error.max(1e-6), "off by {off}, allowed {error}: {row}");
        assert_eq!((&row["failed"], &row["growth"]), (&0.into(), &"O(N)".into()), "{row}");
        // A detour round a node that was slow to answer may add a hop.
        let longest = (SIZE - 1).div_ceil(depth) as f64;
        assert!(field("max") <= longest || field("timeouts") > 0.0, "{row}");
        assert_eq!(field("state"), (SIZE - 1).min(depth) as f64, "{row}");
        assert!(field("upkeep_bytes_per_s") > 0.0, "{row}");
    }
    // Two panels: formulas with a mark for each row, and a chart of bars for each.
    let picture = std::fs::read_to_string(&plot).expect("it was written");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert!(picture.contains(">this ring: 6 nodes</text>"), "{picture}");
    assert_eq!(picture.matches("fill-opacity").count(), rows.len(), "{picture}");
    let table = std::fs::read_to_string(&csv).expect("it was written");
    assert!(table.lines().next().is_some_and(|names| names.contains(",state,")), "{table}");
    assert_eq!(table.lines().count(), 1 + rows.len(), "{table}");

    let before = lookups(&cluster.json(0, &["stats"]));
    for n in 0..10 {
        cluster.json(0, &["lookup", &format!("counted {n}")]);
    }
    let stats = cluster.json(0, &["stats"]);
    assert_eq!(lookups(&stats) - before, 10, "{stats}");
}

/// A member that dies while hops are counted fails what was left of its share at once, instead of a
/// time-out for every sixteen lookups; later rows are asked by the others, and the result says that it
/// went.
#[test]
fn a_member_that_dies_while_hops_are_counted_is_given_up() {
    let mut cluster = Cluster::ring(4, Settings::quick());
    let at = cluster.addr(0);
    let counting = std::thread::spawn(move || {
        let args = ["hops", "--node", &at, "--samples", "1000", "--json", "--deadline", "5m"];
        run(&args).expect(0).json()
    });
    wait_for("lookups at node 3", || match lookups(&cluster.json(3, &["stats"])) {
        0 => Err("none yet".to_owned()),
        _ => Ok(()),
    });
    cluster.kill(3);
    let said = counting.join().expect("it was run");
    assert_eq!((&said["nodes"], &said["came"], &said["went"]), (&4.into(), &0.into(), &1.into()));
    let rows = said["routings"].as_array().expect("a list");
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{row}"));
    for row in rows {
        let counts = row["histogram"].as_array().expect("a list");
        let found: u64 = counts.iter().filter_map(Value::as_u64).sum();
        assert_eq!(found + number(row, "failed"), 1000, "{row}");
        // Three of four askers live, give or take seven standard deviations.
        assert!(found > 650, "{row}");
    }
    let last = rows.last().expect("a row");
    assert_eq!((&last["routing"], &last["failed"]), (&"full".into(), &0.into()), "{said}");
    assert!(rows.iter().any(|row| number(row, "failed") > 0), "{said}");
}

/// A node whose walks take more hops than they may says so once, with what would take fewer; `stats` says
/// it as long as it lasts, and lays what is expected beside what was measured.
#[test]
fn a_costly_walk_is_told_once() {
    const SIZE: usize = 8;
    let settings = Settings::quick().flag("--depth").flag("1").flag("--hop-budget").flag("2");
    let cluster = Cluster::ring(SIZE, settings);
    let before = cluster.json(0, &["stats"]);
    assert_eq!((&before["hop_budget"], &before["hint"]), (&2.0.into(), &Value::Null), "{before}");
    // A hundred and fifty of each row for every node, give or take a dozen; 64 are looked at together.
    for _ in 0..2 {
        cluster.json(0, &["hops", "--samples", "1200"]);
    }
    let stats = cluster.json(0, &["stats"]);
    let hint = &stats["hint"];
    assert!(hint["mean"].as_f64().is_some_and(|mean| mean > 2.0), "{stats}");
    assert!(hint["lookups"].as_u64().is_some_and(|lookups| lookups >= 64), "{stats}");
    let told = "lookups take more hops than they may: mean ";
    assert_eq!(cluster.log(0).matches(told).count(), 1, "{}", cluster.log(0));
    let message = hint["message"].as_str().expect("text");
    assert!(message.contains("depth 16 would make it 0.9"), "{stats}");
    assert_eq!(stats["estimated_nodes_error"], 0.0, "the list leads round: {stats}");
    let hops = &stats["lookups"]["hops"];
    let shares = hops["expected_shares"].as_array().expect("a list");
    assert!(shares.len() == SIZE && shares.iter().all(|share| *share == 0.125), "{hops}");
    let sent = &stats["upkeep_traffic"];
    assert!(sent["bytes_per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{sent}");
    assert!(sent["links"].as_u64() < stats["traffic"]["out"].as_u64(), "{stats}");
    assert_eq!(stats["advice"]["alternatives"][0]["depth"], 16, "{stats}");
    let all = cluster.json(3, &["stats", "--all"]);
    assert!(all["hints"].as_u64().is_some_and(|hints| hints >= 1), "{all}");
    let text = cluster.client(0, &["stats"]).expect(0);
    let said = String::from_utf8_lossy(&text.stdout);
    assert!(said.contains("HINT: ") && said.contains("8 nodes, all of them in its list"), "{text}");
}

/// The number of lookups, which is the sum of the histogram and of what is counted apart from it.
fn lookups(stats: &Value) -> u64 {
    let lookups = &stats["lookups"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{stats}"));
    let histogram = lookups["hops"]["histogram"].as_array().expect("a list");
    let walked: u64 = histogram.iter().map(number).sum();
    let count = number(&lookups["count"]);
    assert_eq!(count, walked + number(&lookups["failed"]) + number(&lookups["cached"]), "{stats}");
    count
}

/// Nodes that keep state for different routings are one ring: every lookup ends at the owner, and where a
/// member had to go by its links, the path says so. By a restart a node changes what it keeps.
#[test]
fn a_mixed_ring_answers_every_routing() {
    const SIZE: usize = 12;
    const ROUTINGS: [&str; 4] = ["successors", "both-ways", "fingers", "full"];
    let mut cluster = Cluster::empty(Settings::quick());
    for number in 0..SIZE {
        let keep = ROUTINGS[number % ROUTINGS.len()];
        let first = cluster.live().first().map(|first| cluster.addr(*first));
        let mut flags = vec!["--keep", keep, "--routing", keep];
        flags.extend(first.iter().flat_map(|addr| ["--join", addr.as_str()]));
        let begun = cluster.begin_with(&flags);
        cluster.ready(begun);
    }
    cluster.wait_complete();
    let ids = order(&cluster, 0);
    let fell_back = |cluster: &Cluster, routing: &str| {
        let mut steps = 0;
        for n in 0..2 * SIZE {
            let key = format!("some key {n}");
            let asked = ["lookup", &key, "--routing", routing, "--depth", "1"];
            let said = cluster.json(n % SIZE, &asked);
            let owner = owner_of(&ids, said["id"].as_str().expect("hex"));
            assert_eq!(said["owner"]["id"], ids[owner].as_str(), "{said}");
            let path = said["path"].as_array().expect("a list");
            steps += path.iter().filter(|step| step["fell_back"] == true).count();
        }
        steps
    };
    assert_eq!(fell_back(&cluster, "successors"), 0);
    for routing in ["both-ways", "fingers", "full"] {
        assert!(fell_back(&cluster, routing) > 0, "{routing}");
    }
    let is_available = |cluster: &Cluster, routing: &str| {
        let said = cluster.json(0, &["hops", "--samples", "50"]);
        let rows = said["routings"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["routing"] == routing && row["depth"] == 1);
        row.unwrap_or_else(|| panic!("no {routing}: {said}"))["available"] == true
    };
    assert!(is_available(&cluster, "successors") && !is_available(&cluster, "both-ways"));

    for number in 0..SIZE {
        cluster.stop(number);
        cluster.start(number, &["--routing", "full"]);
        cluster.ready(number);
    }
    cluster.wait_complete();
    assert_eq!(cluster.json(3, &["stats"])["routing"], "full");
    for routing in ["both-ways", "fingers", "full"] {
        assert_eq!(fell_back(&cluster, routing), 0, "{routing}");
    }
    assert!(is_available(&cluster, "both-ways"));
}

/// Case 23: neighbours in a row die at the same moment, first one fewer than the list is long, then
/// as many: then somebody's whole list is dead. Never does anybody answer for keys that others own.
#[test]
fn neighbours_in_a_row_may_die_together() {
    const SIZE: usize = 12;
    // Whatever the depth, a list runs on to eight entries.
    const LIST: usize = 8;
    for together in [LIST - 1, LIST] {
        let settings = Settings::quick().flag("--depth").flag("4");
        let mut cluster = Cluster::ring(SIZE, settings);
        let ids = order(&cluster, 0);
        let first = owner_of(&ids, &cluster.id(1));
        let dying: Vec<usize> =
            (1..=together).map(|at| cluster.number_of(&ids[(first + at) % SIZE])).collect();
        for number in dying {
            cluster.kill(number);
        }
        no_wrong_owner(&cluster, &ids);
        cluster.wait_complete();
        let left = order(&cluster, cluster.live()[0]);
        assert_eq!(left.len(), SIZE - together);
        no_wrong_owner(&cluster, &left);
    }
}

/// A lookup may fail while the ring mends, but who answers is the owner among those who live.
fn no_wrong_owner(cluster: &Cluster, before: &[String]) {
    let living: BTreeSet<String> = cluster.live().into_iter().map(|n| cluster.id(n)).collect();
    let after: Vec<String> = before.iter().filter(|id| living.contains(*id)).cloned().collect();
    for number in cluster.live() {
        let said = cluster.client(number, &["lookup", "whose", "--json"]);
        if said.code == 0 {
            let said = said.json();
            let owner = owner_of(&after, said["id"].as_str().expect("hex"));
            assert_eq!(said["owner"]["id"], after[owner].as_str(), "{said}");
        } else {
            assert_eq!(said.code, 4, "{said}");
        }
    }
}

/// Case 25: once a dead node is out of all lists, nobody talks of it or dials it any more.
#[test]
fn the_dead_are_left_in_peace() {
    let mut cluster = Cluster::ring(5, Settings::quick());
    let (dead, id) = (cluster.addr(2), cluster.id(2));
    cluster.kill(2);
    cluster.wait_complete();
    let quiet_from: Vec<(usize, usize)> =
        cluster.live().into_iter().map(|number| (number, cluster.log(number).len())).collect();
    // Twenty more rounds of upkeep, by each node's own count.
    for (number, _) in &quiet_from {
        let rounds = |stats: Value| stats["upkeep"]["stabilizations"].as_u64().expect("a count");
        let before = rounds(cluster.json(*number, &["stats"]));
        wait_for("twenty rounds of upkeep", || {
            let now = rounds(cluster.json(*number, &["stats"]));
            if now >= before + 20 { Ok(()) } else { Err(format!("{before} then, {now} now")) }
        });
    }
    for (number, from) in quiet_from {
        let log = cluster.log(number);
        let later = &log[from..];
        assert!(!later.contains(&dead) && !later.contains(&id[..8]), "node {number}:\n{later}");
    }
}

/// `leave` goes for good: copies move first, the ring closes, and the node ends by itself.
#[test]
fn a_node_that_leaves_hands_over_first() {
    let mut cluster = Cluster::ring(5, Settings::quick());
    let content = dht_tests::data::bytes(3 << 20, 5);
    for n in 0..6 {
        cluster.put(n % 5, &format!("file {n}"), &content[n..]);
    }
    for leaver in [3, 1] {
        cluster.client(leaver, &["leave"]).expect(0);
        assert_eq!(cluster.ended(leaver), 0, "{}", cluster.log(leaver));
        cluster.wait_complete();
        for number in cluster.live() {
            for n in 0..6 {
                cluster.check(number, &format!("file {n}"), &content[n..]);
            }
        }
    }
}

/// A stop mends links at once, and the node comes back as the same one, with its data and without
/// being told whom to join; even if all of them stop.
#[test]
fn a_ring_comes_back_after_all_of_it_stopped() {
    let mut cluster = Cluster::ring(4, Settings::quick());
    let content = dht_tests::data::bytes(2 << 20, 9);
    cluster.put(1, "kept", &content);
    let ids: Vec<String> = (0..4).map(|number| cluster.id(number)).collect();
    for number in 0..4 {
        cluster.stop(number);
    }
    // They come back at the addresses that the others remember.
    let addrs: Vec<String> = (0..4).map(|number| cluster.addr(number)).collect();
    for number in [2, 0, 3, 1] {
        cluster.start(number, &["--listen", &addrs[number]]);
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(cluster.ready(number).id, *id, "the identity is kept");
    }
    cluster.wait_complete();
    for number in 0..4 {
        cluster.check(number, "kept", &content);
    }
}
