//! `lookup --compare`: one key under all routings, each step with what it could choose from.

mod text;

use std::collections::BTreeMap;

use dht_core::message::Forwarding;
use dht_core::message::client::{LookupReport, NeighborhoodReport};
use dht_core::message::ring::Routing;
use dht_core::register::Key;
use dht_core::{Contact, Id, between};

use super::steps;
use crate::cli::exit::Failure;
use crate::cli::json::{ChoiceJson, CompareJson, ComparedJson, EntryJson, PeerJson};
use crate::cli::keys::KeyJson;
use crate::cli::output::Output;
use crate::client::{Choice, Client, Listed, LookupTarget, choices};

pub(super) use text::for_people;

/// Makes the lookups one after the other at the same member, then asks the nodes of all ways what they
/// hold.
pub(super) async fn gather(
    client: &Client,
    key: &Key,
    depth: Option<u16>,
    output: Output,
) -> Result<CompareJson, Failure> {
    let progress = output.progress();
    let member = client.member();
    let mine = member.neighborhood().await?;
    let mut lookups = Vec::new();
    for routing in Routing::ALL {
        // A map is not built everywhere; where it is, the member says so.
        if routing == Routing::Full && !mine.routings.contains(&routing) {
            continue;
        }
        progress.message(routing.as_str());
        let target = LookupTarget {
            id: key.id(),
            routing: Some(routing),
            depth,
            // Whoever carries it sees every step.
            forwarding: Some(Forwarding::Iterative),
        };
        lookups.push(member.lookup(target).await?);
    }
    let mut told = BTreeMap::from([(mine.contact.id, mine.clone())]);
    let ways = lookups.iter().flat_map(|lookup| &lookup.path);
    let wanted: BTreeMap<Id, &Contact> =
        ways.map(|step| (step.contact.id, &step.contact)).collect();
    for (done, (id, contact)) in wanted.iter().enumerate() {
        progress.count(done as u64, wanted.len() as u64);
        if !told.contains_key(id)
            && let Some(report) = client.neighborhood_of(contact).await
        {
            told.insert(*id, report);
        }
    }
    Ok(shape(key, &mine.contact, &lookups, &told))
}

fn shape(
    key: &Key,
    asker: &Contact,
    lookups: &[LookupReport],
    told: &BTreeMap<Id, NeighborhoodReport>,
) -> CompareJson {
    let compared = |lookup: &LookupReport| ComparedJson {
        routing: lookup.routing.as_str(),
        depth: lookup.depth,
        hops: lookup.hops,
        timeouts: lookup.timeouts,
        owner: lookup.owner.as_ref().map(PeerJson::of),
        elapsed_us: lookup.elapsed_us,
        steps: choices(lookup, told).iter().map(|choice| step(choice, lookup)).collect(),
        detours: steps(lookup).1,
    };
    CompareJson {
        key: KeyJson::of(key.as_bytes()),
        id: key.id(),
        asker: PeerJson::of(asker),
        routings: lookups.iter().map(compared).collect(),
    }
}

fn step(choice: &Choice, lookup: &LookupReport) -> ChoiceJson {
    let (me, key) = (choice.at.id, lookup.id);
    let place = choice.place();
    let entries = choice.entries.iter().enumerate().map(|(at, entry)| {
        let (list, number) = match entry.listed {
            Listed::Successor(at) => ("successor", at),
            Listed::Predecessor(at) => ("predecessor", at),
            Listed::Finger(exponent) => ("finger", exponent.into()),
        };
        let id = entry.contact.id;
        EntryJson {
            list,
            place: number,
            peer: PeerJson::of(&entry.contact),
            ahead: me.distance_to(id).as_fraction(),
            before_key: between(me, id, key),
            failed: lookup.detours.iter().any(|detour| detour.contact.id == id),
            chosen: place == Some(at),
        }
    });
    ChoiceJson {
        peer: PeerJson::of(&choice.at),
        key_ahead: me.distance_to(key).as_fraction(),
        chosen: choice.chosen.as_ref().map(PeerJson::of),
        why: choice.why.as_str(),
        listed: choice.chosen.as_ref().map(|_| place.is_some()),
        entries: entries.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{contact, lookup, report};

    pub(super) fn key() -> Key {
        Key::new("photos.tar").expect("a key")
    }

    pub(super) fn sample() -> CompareJson {
        let members = [
            report(0, &[10, 20, 30], &[90], &[(5, 40), (6, 70)]),
            report(20, &[30, 40, 50], &[10], &[]),
            report(70, &[80, 90, 0], &[60, 50], &[]),
        ];
        let told = members.map(|member| (member.contact.id, member)).into();
        let walk = lookup(Routing::Successors, 2, 35, &[0, 20, 40]);
        let fingers = lookup(Routing::Fingers, 2, 85, &[0, 70, 90]);
        shape(&key(), &contact(0), &[walk, fingers], &told)
    }

    /// One step from 0 to 40, with a list of forty.
    pub(super) fn long_list() -> CompareJson {
        let list: Vec<u64> = (1..=40).collect();
        let told = [(Id::ZERO, report(0, &list, &[], &[]))].into();
        let far = lookup(Routing::Successors, 40, 100, &[0, 40, 101]);
        shape(&key(), &contact(0), &[far], &told)
    }

    #[test]
    fn every_step_has_its_entries_and_its_reason() {
        let json = sample();
        let whys = |at: usize| -> Vec<&str> {
            json.routings[at].steps.iter().map(|step| step.why).collect()
        };
        assert_eq!(whys(0), ["farthest", "owner", "mine"]);
        assert_eq!(whys(1), ["finger", "owner", "mine"]);
        let first = &json.routings[1].steps[0];
        let entries: Vec<(&str, usize, bool, bool)> = first
            .entries
            .iter()
            .map(|entry| (entry.list, entry.place, entry.before_key, entry.chosen))
            .collect();
        let expected = [
            ("successor", 0, true, false),
            ("successor", 1, true, false),
            ("finger", 5, true, false),
            ("finger", 6, true, true),
        ];
        assert_eq!(entries, expected);
        assert_eq!((first.listed, json.routings[1].steps[2].listed), (Some(true), None));
    }
}
