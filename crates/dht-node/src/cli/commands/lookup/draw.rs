//! `lookup --draw`: the way of a lookup on a circle.

use std::collections::BTreeMap;

use dht_core::Id;
use dht_core::register::Key;

use super::shape;
use crate::cli::circle::{BESIDE, Circle, ROWS};
use crate::cli::commands::info::short;
use crate::cli::exit::Failure;
use crate::cli::json::{DrawnJson, LookupJson, PlaceJson};
use crate::cli::keys::show_key;
use crate::cli::output::Output;
use crate::cli::units::{count, show_micros};
use crate::client::{Client, LookupTarget};

/// Largest ring whose members are all drawn: it takes a question to each of them, and the circle has
/// about as many characters (guess).
const MOST_MEMBERS: f64 = 128.0;

/// Looks the key up, and asks who the members are if they are few.
pub(super) async fn gather(
    client: &Client,
    key: &Key,
    target: LookupTarget,
    output: Output,
) -> Result<DrawnJson, Failure> {
    let lookup = shape(key, client.lookup(target).await?)?;
    let progress = output.progress();
    progress.message("asking who the members are");
    let is_small = client.stats().await?.estimated_nodes <= MOST_MEMBERS;
    let walk = if is_small { Some(client.walk().await?) } else { None };
    let members = walk.as_ref().map(|walk| walk.ids()).unwrap_or_default();
    let complete = walk.is_some_and(|walk| walk.complete);
    let places = places(&lookup, &members);
    Ok(DrawnJson { lookup, complete, places })
}

/// Every place once, clockwise from the top; the key apart from whoever has its point.
fn places(lookup: &LookupJson, members: &[Id]) -> Vec<PlaceJson> {
    let mut nodes: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    let ends = [lookup.asker.id, lookup.owner.id];
    members.iter().chain(&ends).for_each(|id| _ = nodes.entry(*id).or_default());
    for (at, step) in lookup.path.iter().enumerate() {
        nodes.entry(step.peer.id).or_default().push(at + 1);
    }
    let node = |(id, steps): (Id, Vec<usize>)| {
        let role = match id {
            id if id == lookup.asker.id => "asker",
            id if id == lookup.owner.id => "owner",
            _ if !steps.is_empty() => "step",
            _ => "member",
        };
        PlaceJson { id, at: id.as_fraction(), role, steps }
    };
    let at = lookup.id.as_fraction();
    let key = PlaceJson { id: lookup.id, at, role: "key", steps: Vec::new() };
    let mut places: Vec<PlaceJson> = nodes.into_iter().map(node).chain([key]).collect();
    places.sort_by_key(|place| place.id);
    places
}

pub(super) fn for_people(json: &DrawnJson, key: &Key) -> String {
    let lookup = &json.lookup;
    let title = format!(
        "{} along {}, depth {}, {}: {}",
        count(lookup.hops.into(), "hop"),
        lookup.routing,
        lookup.depth,
        show_micros(lookup.elapsed_us),
        show_key(key.as_bytes()),
    );
    let path = lookup.path.iter().map(|step| step.peer.id.as_fraction());
    let nodes = json.places.iter().filter(|place| place.role != "key");
    let circle = Circle {
        members: nodes.map(|place| place.at).collect(),
        way: std::iter::once(lookup.asker.id.as_fraction()).chain(path).collect(),
        arrived: lookup.path.last().is_some_and(|last| last.peer.id == lookup.owner.id),
        key: lookup.id.as_fraction(),
        beside: beside(json),
    };
    let members = match json.complete {
        true => "o .  members",
        false => "o  on the way; other members are not drawn",
    };
    let title = cut(&title, 80);
    format!("{title}\n{}A  asker   O  owner   K  key   {members}\n", circle.text())
}

/// The stops in order, each as its share of the circle and what it took to get there.
fn beside(json: &DrawnJson) -> Vec<String> {
    let lookup = &json.lookup;
    let percent = |id: Id| format!("{:5.1} %", 100.0 * id.as_fraction());
    let mut lines = vec![
        format!("  K  {}  {}", short(&lookup.id), percent(lookup.id)),
        format!("  A  {}  {}", short(&lookup.asker.id), percent(lookup.asker.id)),
    ];
    let is_long = lookup.path.len() + lines.len() > ROWS;
    for (at, step) in lookup.path.iter().enumerate() {
        // Of a long way its beginning and its end.
        let (first, last) = (SHOWN_FIRST, lookup.path.len().saturating_sub(SHOWN_LAST));
        if is_long && (first..last).contains(&at) {
            if at == first {
                lines.push(format!("     ... {} more", last - first));
            }
            continue;
        }
        let id = step.peer.id;
        // Nobody measured it where members handed the question on.
        let rtt = step.rtt_us.map_or(String::new(), show_micros);
        let line = format!("{:3}  {}  {}  {rtt}", at + 1, short(&id), percent(id));
        lines.push(line.trim_end().to_owned());
    }
    if lookup.hops == 0 {
        lines.push("     it owns the key".to_owned());
    }
    if !lookup.detours.is_empty() && lines.len() < ROWS {
        lines.push(format!("     {}", count(lookup.timeouts, "failed contact")));
    }
    lines.into_iter().map(|line| cut(&line, BESIDE)).collect()
}

/// Steps of a long way that are told: with the key, the asker and a gap they fit beside the circle.
const SHOWN_FIRST: usize = ROWS - 3 - SHOWN_LAST;
const SHOWN_LAST: usize = 4;

/// The first characters of a line.
fn cut(line: &str, most: usize) -> String {
    match line.chars().count() > most {
        true => line.chars().take(most.saturating_sub(3)).chain("...".chars()).collect(),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use dht_core::message::ring::Routing;

    use super::*;
    use crate::client::testing;

    fn key() -> Key {
        Key::new("photos.tar").expect("a key")
    }

    fn lookup(way: &[u64]) -> LookupJson {
        shape(&key(), testing::lookup(Routing::Successors, 1, 25, way)).expect("found")
    }

    #[test]
    fn every_place_stands_once_with_what_it_is() {
        let lookup = lookup(&[0, 10, 20, 30]);
        let members: Vec<Id> = [0, 10, 20, 30, 40].map(Id::from_u64).to_vec();
        let places = places(&lookup, &members);
        let told: Vec<(&str, &[usize])> =
            places.iter().map(|place| (place.role, &place.steps[..])).collect();
        let expected: [(&str, &[usize]); 6] = [
            ("asker", &[]),
            ("step", &[1]),
            ("step", &[2]),
            ("key", &[]),
            ("owner", &[3]),
            ("member", &[]),
        ];
        assert_eq!(told, expected);
        assert_eq!(super::places(&lookup, &[]).len(), 5, "the way alone");
    }

    #[test]
    fn a_long_way_is_told_by_its_ends() {
        let way: Vec<u64> = (0..200).collect();
        let lookup = lookup(&way);
        let places = places(&lookup, &[]);
        let json = DrawnJson { lookup, complete: false, places };
        let lines = beside(&json);
        assert!(lines.len() <= ROWS, "{lines:#?}");
        assert!(lines.iter().any(|line| line == "     ... 182 more"), "{lines:#?}");
        assert!(lines.last().is_some_and(|line| line.starts_with("199  ")), "{lines:#?}");
        let text = anstream::adapter::strip_str(&for_people(&json, &key())).to_string();
        assert_eq!(text.lines().count(), ROWS + 2, "a line stays for the prompt");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("not drawn"), "{text}");
    }

    #[test]
    fn who_owns_the_key_itself_asks_nobody() {
        let lookup = lookup(&[30]);
        let places = places(&lookup, &[]);
        let json = DrawnJson { lookup, complete: true, places };
        let text = for_people(&json, &key());
        assert!(text.starts_with("0 hops along successors, depth 1") && text.contains("it owns"));
    }
}
