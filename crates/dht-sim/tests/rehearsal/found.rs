//! Scripts that once failed, each with the seeds that showed it and others.

use dht_sim::script::{parse, run};

fn holds(text: &str) {
    let script = parse(text).expect("every line is a step");
    for seed in 1..=12 {
        let outcome = run(&script, seed);
        assert!(outcome.ok, "seed {seed}, line {}: {:#?}", outcome.step, outcome.problems);
    }
}

/// 2 was waiting for a verdict about the first life of 0 when it heard of the second: it waited for
/// ever, and took no predecessor any more.
#[test]
fn a_verdict_about_a_life_that_is_over_comes() {
    holds(
        "depth 2\nring 0 1 2 3 4\npartition 1\nwait 1330\nfail 0\nwait 1290\nrestart 0\nheal\n\
         quiet\nexpect ring 0 1 2 3 4\n",
    );
}

/// 8857 reaches its head only through others: a joiner waited while it was verified, again and again.
#[test]
fn a_head_that_others_reach_does_not_keep_joiners_out() {
    holds(
        "ring 8857 9143 797\ncut 9143 797\njoin 9144 via 8857\nwait 5000\nheal\nquiet\n\
         expect ring 797 8857 9143 9144\n",
    );
}

/// An isolated node lets others in, but has no list to give.
#[test]
fn a_guest_of_an_isolated_node_gets_no_list() {
    holds(
        "depth 3\nring 2 3 5 11\njoin 0 via 3\njoin 8 via 0\nfail 2\nrestart 3\njoin 10 via 3\n\
         quiet\nexpect ring 0 3 5 8 10 11\n",
    );
}

/// 21 remembers three peers, one of which lives: a round of probes finds it, whatever chance says.
#[test]
fn a_round_of_probes_misses_nobody() {
    holds(
        "depth 3\nring 4 6 22 37\nfail 4\npartition 4 22\nfail 6\njoin 21 via 37\nleave 37\nheal\n\
         quiet\nexpect ring 21 22\n",
    );
}

/// Thirteen of 43 die at once, among them two whole lists and all who joined first: what is left are two
/// parts that never heard of each other, each an ideal ring. That is no reason to expect one.
#[test]
fn parts_that_never_heard_of_each_other_stay_two_rings() {
    let ring = "2 5 6 11 15 16 17 18 21 24 25 35 36 43 47 48 49 52 53 56 58 61 62 63 64 70 71 72 77 85 86 \
                91 92 94 98 104 108 109 111 119 122 125 127";
    let dead = [58, 5, 6, 92, 71, 64, 21, 62, 15, 2, 49, 63, 77];
    let fails: String = dead.iter().map(|n| format!("fail {n}\n")).collect();
    let text = format!(
        "depth 3\ntimed\nring {ring}\n{fails}until ideal 3600000\nwait 1000\nslow 91 884\n"
    );
    let outcome = run(&parse(&text).expect("every line is a step"), 835);
    assert!(outcome.ok && outcome.rings.len() == 2, "{:#?}", outcome.problems);
    holds(&text);
}
