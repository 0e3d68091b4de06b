//! `ring --svg`: the ring as a picture, with lookups made for it.

use std::collections::BTreeSet;

use dht_core::Id;
use dht_core::message::Forwarding;
use dht_core::message::client::NodeState;
use dht_core::message::ring::Routing;
use rand::RngExt;

use crate::cli::commands::info::short;
use crate::cli::exit::Failure;
use crate::cli::json::RingLookupJson;
use crate::cli::output::Output;
use crate::cli::plot::{RingPicture, Spot, Way};
use crate::cli::units::{count, show_bytes};
use crate::client::{Client, LookupTarget, Walk, WalkedMember};

/// The lookups that are to be drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub(super) lookups: u32,
    pub(super) routing: Option<Routing>,
    pub(super) depth: Option<u16>,
}

/// Makes lookups of random points at random members. What finds nobody, or does not answer, is left out:
/// a ring may be drawn because something is wrong with it.
pub(super) async fn look_up(
    client: &Client,
    walk: &Walk,
    drawn: Drawn,
    output: Output,
) -> Result<Vec<RingLookupJson>, Failure> {
    let progress = output.progress();
    progress.message("looking up");
    let mut made = Vec::new();
    for number in 0..drawn.lookups {
        let asker = walk.members[rand::rng().random_range(0..walk.members.len())].contact();
        let id = Id::from_bytes(rand::random());
        let target = LookupTarget {
            id,
            routing: drawn.routing,
            depth: drawn.depth,
            // Whoever carries it sees every step.
            forwarding: Some(Forwarding::Iterative),
        };
        let asked = async { client.dial(asker).await?.lookup(target).await };
        progress.count(number.into(), drawn.lookups.into());
        let Ok(report) = asked.await else { continue };
        let Some(owner) = &report.owner else { continue };
        made.push(RingLookupJson {
            id: report.id,
            routing: report.routing.as_str(),
            depth: report.depth,
            asker: report.asker.id,
            owner: owner.id,
            hops: report.hops,
            path: report.path.iter().map(|step| step.contact.id).collect(),
        });
    }
    Ok(made)
}

/// The picture of a walk and of lookups.
pub(super) fn of(name: &str, walk: &Walk, lookups: &[RingLookupJson], asked: u32) -> RingPicture {
    let wrong: BTreeSet<Id> = walk.problems.iter().map(|problem| problem.id).collect();
    let reports = || walk.members.iter().map(|member| &member.report);
    let most_keys = reports().map(|report| report.keys).max().unwrap_or(0);
    let most_bytes = reports().map(|report| report.bytes).max().unwrap_or(0);
    let share = |value: u64, most: u64| value as f64 / most.max(1) as f64;
    let spot = |member: &WalkedMember| {
        let report = &member.report;
        let id = report.contact.id;
        let arc = (member.arc > 0.0).then_some(member.arc);
        let owns = arc.map_or("an unknown arc".to_owned(), |arc| format!("{:.2} %", 100.0 * arc));
        Spot {
            at: id.as_fraction(),
            arc,
            name: short(&id),
            label: format!(
                "{id}, {}: {owns}, {}, {} stored",
                report.state.as_str(),
                count(report.keys, "key"),
                show_bytes(report.bytes)
            ),
            bars: [share(report.keys, most_keys), share(report.bytes, most_bytes)],
            is_wrong: report.state != NodeState::Member || wrong.contains(&id),
        }
    };
    let mut members: Vec<&WalkedMember> = walk.members.iter().collect();
    members.sort_by_key(|member| member.contact().id);
    let state = if walk.complete { "complete" } else { "NOT complete" };
    let nodes = count(walk.members.len() as u64, "node");
    let problems = count(walk.problems.len() as u64, "problem");
    RingPicture {
        title: format!("Ring {name}: {nodes}, {state}"),
        subtitle: format!(
            "members at their points of the circle, clockwise from the top; {problems}"
        ),
        description: format!(
            "{nodes}, {problems}. Lookups drawn: {}.",
            lookups.iter().map(told).collect::<Vec<_>>().join("; ")
        ),
        members: members.into_iter().map(spot).collect(),
        bars: [
            format!("keys on the member's arc; the longest bar: {most_keys}"),
            format!("bytes the member stores; the longest bar: {}", show_bytes(most_bytes)),
        ],
        heading: heading(lookups, asked),
        ways: lookups.iter().map(way).collect(),
    }
}

/// What was drawn, and how many found nobody.
fn heading(lookups: &[RingLookupJson], asked: u32) -> String {
    let Some(first) = lookups.first() else { return "no lookups are drawn".to_owned() };
    let kind =
        match lookups.iter().all(|one| (one.routing, one.depth) == (first.routing, first.depth)) {
            true => format!(", {} at depth {}", first.routing, first.depth),
            false => String::new(),
        };
    let lost = match asked as usize - lookups.len().min(asked as usize) {
        0 => String::new(),
        lost => format!(" ({lost} more found nobody)"),
    };
    format!("{} at random{kind}{lost}", count(lookups.len() as u64, "lookup"))
}

fn told(lookup: &RingLookupJson) -> String {
    format!(
        "{} for {}.., {}",
        short(&lookup.asker),
        &short(&lookup.id)[..4],
        count(lookup.hops.into(), "hop"),
    )
}

fn way(lookup: &RingLookupJson) -> Way {
    let path = lookup.path.iter().map(|id| id.as_fraction());
    Way {
        stops: std::iter::once(lookup.asker.as_fraction()).chain(path).collect(),
        key: lookup.id.as_fraction(),
        name: told(lookup),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::report;
    use crate::client::{Problem, ProblemKind};

    fn lookup(depth: u16) -> RingLookupJson {
        RingLookupJson {
            id: Id::from_u64(15),
            routing: "fingers",
            depth,
            asker: Id::from_u64(0),
            owner: Id::from_u64(20),
            hops: 2,
            path: vec![Id::from_u64(10), Id::from_u64(20)],
        }
    }

    #[test]
    fn load_is_told_by_bars_against_the_most_loaded() {
        let member = |n: u64, keys: u64, bytes: u64| {
            let mut held = report(n, &[], &[], &[]);
            (held.keys, held.bytes) = (keys, bytes);
            WalkedMember { report: held, arc: 0.25 }
        };
        let id = Id::from_u64(10);
        let kind = ProblemKind::ShortList;
        let walk = Walk {
            members: vec![member(20, 4, 0), member(0, 2, 100), member(10, 0, 50)],
            complete: true,
            problems: vec![Problem { kind, id, message: String::new() }],
        };
        let picture = of("default", &walk, &[lookup(2), lookup(2)], 3);
        let bars: Vec<[f64; 2]> = picture.members.iter().map(|spot| spot.bars).collect();
        assert_eq!(bars, [[0.5, 1.0], [0.0, 0.5], [1.0, 0.0]], "in the order of the circle");
        let wrong: Vec<bool> = picture.members.iter().map(|spot| spot.is_wrong).collect();
        assert_eq!(wrong, [false, true, false]);
        assert_eq!(
            picture.heading,
            "2 lookups at random, fingers at depth 2 (1 more found nobody)"
        );
        assert_eq!(picture.ways[0].stops.len(), 3);
        assert_eq!(picture.ways[0].name, "00000000 for 0000.., 2 hops");
        assert!(picture.bars[0].ends_with(": 4") && picture.bars[1].ends_with(": 100 B"));
        crate::cli::plot::tests::well_formed(&picture.svg());
    }

    #[test]
    fn lookups_of_different_kinds_are_not_called_one() {
        assert_eq!(heading(&[lookup(1), lookup(2)], 2), "2 lookups at random");
        assert_eq!(heading(&[], 4), "no lookups are drawn");
    }
}
