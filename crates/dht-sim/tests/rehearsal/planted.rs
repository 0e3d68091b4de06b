//! Naive rules, planted in the nodes: the checkers cry. Without them the same worlds are fine, which
//! shows that it is the rule they see.

use dht_core::planted::Planted;
use dht_sim::check::{CheckConfig, WorldKind, draw};
use dht_sim::script::{Outcome, Play, parse, play};

/// Within so many worlds of each kind each of them must be seen.
const MAX_WORLDS: u64 = 400;

const TIMED: CheckConfig = CheckConfig { nodes: 12, minutes: 4, kind: WorldKind::Any };
const STEPPED: CheckConfig = CheckConfig { nodes: 10, minutes: 1, kind: WorldKind::Steps };

fn live(config: CheckConfig, seed: u64, planted: Option<Planted>) -> Outcome {
    let script = parse(&draw(config, seed).to_string()).expect("what is drawn makes sense");
    play(&script, Play { seed, lines: 0, planted }).0
}

/// The first world that shows a rule.
fn seen(planted: Planted) -> Option<(CheckConfig, u64)> {
    let worlds = (1..=MAX_WORLDS).flat_map(|seed| [(STEPPED, seed), (TIMED, seed)]);
    let mut shows = worlds.filter(|(config, seed)| !live(*config, *seed, Some(planted)).ok);
    shows.next()
}

#[test]
fn every_naive_rule_is_seen() {
    for planted in Planted::ALL {
        let (config, seed) = seen(planted).unwrap_or_else(|| panic!("{planted:?} is not seen"));
        let without = live(config, seed, None);
        assert!(without.ok, "{config:?}, seed {seed}: {:?}", without.problems);
    }
}
