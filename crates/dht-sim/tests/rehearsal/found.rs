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

/// Ten of 15 die at once, among them two whole lists and all who joined first: what is left are two parts
/// that never heard of each other, each an ideal ring. That is no reason to expect one.
#[test]
fn parts_that_never_heard_of_each_other_stay_two_rings() {
    let dead = [6, 2, 9, 12, 8, 14, 4, 10, 5, 0];
    let fails: String = dead.iter().map(|n| format!("fail {n}\n")).collect();
    let text = format!(
        "depth 2\ntimed\nring 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14\n{fails}until ideal 3600000\n\
         wait 1000\n"
    );
    for seed in 1..=6 {
        let outcome = run(&parse(&text).expect("every line is a step"), seed);
        assert!(outcome.ok && outcome.rings.len() == 2, "{seed}: {:#?}", outcome.problems);
    }
}

/// 0 had said goodbye to 4 when 4's head still named it: 4 took it back, with a list that went with it.
#[test]
fn a_leaver_is_not_taken_back_while_its_list_dies() {
    let script = "depth 2\nring 0 1 2 3\njoin 4 via 0\nleave 0\nrestart 1\n";
    for seed in (1..=60).chain([920_818]) {
        let outcome = run(&parse(script).expect("every line is a step"), seed);
        assert!(outcome.ok, "seed {seed}, line {}: {:#?}", outcome.step, outcome.problems);
    }
}

/// The goodbye of 2's earlier life comes when the next one has its place.
#[test]
fn a_late_goodbye_is_void_for_the_next_life() {
    holds(
        "depth 3\ntimed\nring 0 1 2 3 4\nwait 1468\nslow 2 2000\nwait 33\nstop 2\nwait 53\n\
         slow 2 0\njoin 2 via 0\nwait 8000\nquiet\nexpect ring 0 1 2 3 4\n",
    );
}

/// A ring is cut, a register is written where its new keepers have not opened its arc yet, and the ring is
/// whole again at the same moment: those who wrote it down keep it no more, and nobody else has it.
#[test]
fn what_was_written_before_an_arc_was_open_is_handed_on() {
    holds(
        "depth 8\ntimed\nring 7 37 38 42 50 59 61 80 82 86 90 97 104 105 107 113\njoin 123 via 7\n\
         put 11 at 38\njoin 18 via 82\njoin 96 via 61\njoin 10 via 104\njoin 32 via 50\nwait 4692\n\
         partition 7 10 18 32 37 38 42 | 50 59 61 80 82 86 90 | 96 97 104 105 107 113 123\nwait 20556\n\
         put 11 at 59\nheal\nuntil ideal 3600000\nwait 60000\nexpect data\n",
    );
}

/// 7 had been let in by one that went: alone by then, it comes back as a ring of its own, which is no fault
/// of the others.
#[test]
fn one_that_was_alone_comes_back_alone() {
    let text = "depth 2\ntimed\nring 0 1 2 3 4 5\nnetwork delay=94..207 by-way\nwait 50\nrestart 4\n\
                join 7 via 4\nwait 1500\nleave 4\nwait 1500\nfail 7\nuntil ideal 3600000\nrestart 7\n";
    // Whether it was alone is chance.
    let mut were_alone = 0;
    for seed in 1..=120 {
        let outcome = run(&parse(text).expect("every line is a step"), seed);
        assert!(outcome.ok, "seed {seed}, line {}: {:#?}", outcome.step, outcome.problems);
        were_alone += usize::from(outcome.rings.len() == 2);
    }
    assert!(were_alone > 0);
}

/// A push comes 20 s late, and names the dead.
#[test]
fn an_old_push_does_not_replace_a_newer_list() {
    let script = "depth 2\nring 807639 157715\njoin 912761 via 807639\njoin 4976 via 912761\n\
                  join 287421 via 4976\njoin 152813 via 157715\ncrash 287421\nfail 152813\nwait 4079\n\
                  slow 157715 20000\nfail 912761\nwait 2900\nslow 157715 0\nuntil ideal 3600000\n\
                  wait 17368\n";
    let outcome = run(&parse(script).expect("every line is a step"), 12435);
    assert!(outcome.ok, "line {}: {:#?}", outcome.step, outcome.problems);
}

/// All at once every way gets longer than the shortest time-out: late answers were thrown away, so time-outs
/// stayed as they were, and everybody was called dead for ever. Beyond the period of upkeep a round trip is
/// too long for a ring to become ideal, but not to be one again afterwards.
#[test]
fn a_ring_lives_with_longer_ways() {
    for delay in ["110..110", "0..400 by-way", "250..250", "400..400"] {
        holds(&format!(
            "timed\nring 0 1 2 3 4 5 6 7\nnetwork delay={delay}\nwait 120000\nuntil ideal 300000\n\
             expect ring 0 1 2 3 4 5 6 7\n"
        ));
    }
    for delay in ["600..600", "900..900", "2000..2000"] {
        holds(&format!(
            "timed\nring 0 1 2 3 4 5\nnetwork delay={delay}\nwait 120000\nnetwork delay=1..20\n\
             until ideal 120000\nexpect ring 0 1 2 3 4 5\n"
        ));
    }
    holds("timed\nring 0 1 2 3 4 5\nslow 3 100\nwait 120000\nuntil ideal 120000\n");
}

/// Every way gets longer than the shortest time-out, and nobody but neighbours has met since: a lookup gave up
/// one node after the other, and threw away what they answered.
#[test]
fn a_lookup_makes_use_of_late_answers() {
    let ring = (0..60).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let look = |n: u64| {
        format!(
            "look {} at {n}\nlook {} at {n}\nget 1 at {n}\n",
            (n * 7 + 13) % 60,
            (n * 7 + 26) % 60
        )
    };
    let looks: String = (0..60).map(look).collect();
    let text = format!(
        "depth 8\ntimed\nring {ring}\nnetwork delay=1..2\nput 1 at 6\nwait 5000\n{looks}wait 5000\n\
         network delay=279..284\nwait 20000\nexpect data\n"
    );
    for seed in 1..=2 {
        let outcome = run(&parse(&text).expect("every line is a step"), seed);
        assert!(outcome.ok, "seed {seed}, line {}: {:#?}", outcome.step, outcome.problems);
    }
}

/// 14 told its head of itself and died before anybody else knew. Ways are so long that somebody waits for the one
/// before it each time it looks for 14: it gave up every time, the head never heard of it, and kept its dead
/// predecessor for ever.
#[test]
fn a_head_hears_from_who_is_kept_from_asking() {
    for (before, after, joins, dies) in [
        (257, 296, 5000, 5239),
        (290, 314, 5000, 1016),
        (202, 280, 7000, 3563),
        (256, 252, 5000, 3018),
    ] {
        let text = format!(
            "depth 8\ntimed\nring 7 18 76 107 110\nnetwork delay={before}..{} by-way\nwait 3000\nfail 7\n\
             wait {joins}\njoin 14 via 107\nwait {dies}\ncrash 14\nnetwork delay={after}..{after} by-way\n\
             until ideal 600000\n",
            before + 20
        );
        let outcome = run(&parse(&text).expect("every line is a step"), 1);
        assert!(outcome.ok, "line {}: {:#?}", outcome.step, outcome.problems);
    }
}

/// Four neighbours go at once, where lists have two entries: the last list that the one before them is told of
/// goes while it is on its way. The proofs know no messages, so this is a fault and not a broken promise.
#[test]
fn a_list_may_die_on_its_way() {
    holds(
        "depth 2\ntimed\nring 0 1 2 3 4 5 6 7\nnetwork delay=1..20\nleave 6\nleave 7\nleave 0\nleave 1\n\
         until ideal 600000\nexpect ring 2 3 4 5\n",
    );
}
