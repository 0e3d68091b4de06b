//! Draws scripts: steps in any order, as long as each makes sense where it stands.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use dht_sim::script::{parse, run};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Which steps a drawn script may hold.
#[derive(Clone, Copy)]
pub struct Menu {
    /// Ids are below this.
    pub ids: u64,
    /// Most nodes of the first ring.
    pub ring: u64,
    /// Most steps.
    pub steps: usize,
    /// Partitions and heals, and steps that are begun and finished later.
    pub cuts: bool,
}

/// A script that ends healed and quiet.
pub fn draw(seed: u64, menu: Menu) -> String {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut text = format!("depth {}\nring", rng.random_range(1..=4));
    let mut live: BTreeSet<u64> = BTreeSet::new();
    for _ in 0..rng.random_range(1..=menu.ring) {
        let node = rng.random_range(0..menu.ids);
        if live.insert(node) {
            write!(text, " {node}").expect("strings grow");
        }
    }
    let mut known = live.clone();
    let mut begun: BTreeSet<u64> = BTreeSet::new();
    text.push('\n');
    for _ in 0..rng.random_range(1..=menu.steps) {
        let line = step(&mut rng, menu, &mut live, &mut known, &mut begun);
        writeln!(text, "{line}").expect("strings grow");
    }
    begun.iter().for_each(|node| writeln!(text, "finish {node}").expect("strings grow"));
    text.push_str("heal\nquiet\n");
    text
}

fn step(
    rng: &mut Pcg64Mcg,
    menu: Menu,
    live: &mut BTreeSet<u64>,
    known: &mut BTreeSet<u64>,
    begun: &mut BTreeSet<u64>,
) -> String {
    let mut pick = |from: &BTreeSet<u64>| -> Option<u64> {
        let at = rng.random_range(0..from.len().max(1));
        from.iter().nth(at).copied()
    };
    let (one, other) = (pick(live), pick(live));
    let (old, begun_one) = (pick(known), pick(begun));
    let new = rng.random_range(0..menu.ids);
    let kind = rng.random_range(0..if menu.cuts { 24 } else { 18 });
    match (kind, one, other, old) {
        (0..5, Some(via), ..) if via != new && !live.contains(&new) => {
            live.insert(new);
            known.insert(new);
            format!("join {new} via {via}")
        }
        (5..11, Some(node), ..) => format!("stabilize {node}"),
        (11, Some(node), ..) => format!("rectify {node}"),
        (12, Some(node), Some(from), _) => format!("notify {node} from {from}"),
        (13..15, Some(node), ..) if live.len() > 1 => {
            live.remove(&node);
            format!("fail {node}")
        }
        (15, Some(node), ..) if live.len() > 1 => {
            live.remove(&node);
            format!("leave {node}")
        }
        (16, _, _, Some(node)) => {
            live.insert(node);
            format!("restart {node}")
        }
        (18..20, ..) => {
            let side: Vec<String> =
                known.iter().filter(|_| rng.random()).map(u64::to_string).collect();
            match side.is_empty() {
                true => "heal".to_owned(),
                false => format!("partition {}", side.join(" ")),
            }
        }
        (20, ..) => "heal".to_owned(),
        (21..23, Some(node), ..) if begun.insert(node) => format!("begin stabilize {node}"),
        (23, ..) if begun_one.is_some() => {
            let node = begun_one.unwrap_or_default();
            begun.remove(&node);
            format!("finish {node}")
        }
        _ => format!("wait {}", rng.random_range(0..3000)),
    }
}

/// Plays drawn scripts; the ring must be ideal at the end of each, whatever happened.
fn all_hold(seeds: Range<u64>, menu: Menu) {
    for seed in seeds {
        let text = draw(seed, menu);
        let script = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let outcome = run(&script, seed);
        assert!(outcome.ok, "line {}: {:#?}\n{text}", outcome.step, outcome.problems);
    }
}

#[test]
fn drawn_scripts_end_ideal() {
    all_hold(0..250, Menu { ids: 10, ring: 5, steps: 14, cuts: false });
}

#[test]
fn drawn_scripts_with_cuts_and_late_replies_end_ideal() {
    all_hold(0..250, Menu { ids: 10, ring: 5, steps: 14, cuts: true });
}
