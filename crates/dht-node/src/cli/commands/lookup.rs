//! `lookup`: who owns a key, and the way there: as a table, on a circle, or under all routings.

mod compare;
mod draw;

use dht_core::message::Forwarding;
use dht_core::message::client::{DetourReason, LookupFailure, LookupReport};
use dht_core::message::forward::GaveUp;
use dht_core::register::Key;

use super::{named_forwarding, routing_named, with_client};
use crate::cli::args::{Globals, LookupArgs};
use crate::cli::exit::{Exit, Failure, Kind};
use crate::cli::json::{DetourJson, LookupJson, PeerJson, StepJson};
use crate::cli::keys::{KeyJson, parse_key, show_key};
use crate::cli::output::{Output, table_text};
use crate::cli::units::{count, show_micros};
use crate::client::LookupTarget;

pub(super) fn run(globals: &Globals, args: &LookupArgs, output: Output) -> Result<Exit, Failure> {
    let routing = args.routing.as_deref().map(routing_named).transpose()?;
    let key =
        parse_key(&args.key, args.key_hex).map_err(|error| Failure::usage(error.to_string()))?;
    let forwarding = args.forwarding.as_deref().map(named_forwarding).transpose()?;
    let target = LookupTarget { id: key.id(), routing, depth: args.depth, forwarding };
    with_client(globals, async |client| {
        if args.compare {
            let json = compare::gather(client, &key, args.depth, output).await?;
            output.result(&json, || compare::for_people(&json, &key, output))?;
            return Ok(Exit::Done);
        }
        if args.draw {
            let json = draw::gather(client, &key, target, output).await?;
            output.result(&json, || draw::for_people(&json, &key))?;
            return Ok(Exit::Done);
        }
        let json = shape(&key, client.lookup(target).await?)?;
        output.result(&json, || for_people(&json, &key, output))?;
        Ok(Exit::Done)
    })
}

fn shape(key: &Key, report: LookupReport) -> Result<LookupJson, Failure> {
    let Some(owner) = &report.owner else { return Err(nobody(key, &report)) };
    let (path, detours) = steps(&report);
    let handed = report.handed.as_ref();
    let forwarding = if handed.is_some() { Forwarding::Recursive } else { Forwarding::Iterative };
    Ok(LookupJson {
        key: KeyJson::of(key.as_bytes()),
        id: report.id,
        routing: report.routing.as_str(),
        depth: report.depth,
        forwarding: forwarding.as_str(),
        gave_up: handed.and_then(|held| held.gave_up).map(GaveUp::as_str),
        hops: report.hops,
        timeouts: report.timeouts,
        asker: PeerJson::of(&report.asker),
        owner: PeerJson::of(owner),
        path,
        detours,
        elapsed_us: report.elapsed_us,
    })
}

/// The way and the failed contacts: as members handed the question on, and as its asker went on by itself.
fn steps(report: &LookupReport) -> (Vec<StepJson>, Vec<DetourJson>) {
    let own = report.path.iter().map(|step| StepJson {
        peer: PeerJson::of(&step.contact),
        connect_us: Some(step.connect_us),
        rtt_us: Some(step.rtt_us),
        fell_back: step.fell_back,
    });
    let own_detours = report.detours.iter().map(|detour| DetourJson {
        peer: PeerJson::of(&detour.contact),
        reason: word(detour.reason),
    });
    let Some(handed) = &report.handed else { return (own.collect(), own_detours.collect()) };
    let path = handed.path.iter().map(|step| StepJson {
        peer: PeerJson::of_mark(&step.place),
        connect_us: None,
        rtt_us: None,
        fell_back: step.fell_back,
    });
    let detours = handed.detours.iter().map(|detour| DetourJson {
        peer: PeerJson::of_mark(&detour.place),
        reason: word(detour.reason),
    });
    // Of a way that was given up only the failed contacts count: whoever goes on begins anew.
    let path = if handed.gave_up.is_none() { path.collect() } else { own.collect() };
    (path, detours.chain(own_detours).collect())
}

fn nobody(key: &Key, report: &LookupReport) -> Failure {
    let (kind, why) = match report.failure {
        Some(LookupFailure::NotMember) => {
            (Kind::NotMember, "the member asked has no place in its ring")
        }
        Some(LookupFailure::TooManyHops) => (Kind::Unreachable, "more steps than any ring needs"),
        Some(LookupFailure::TimedOut) => (Kind::TimedOut, "it took too long"),
        Some(LookupFailure::Overloaded) => {
            (Kind::Unreachable, "the member asked has too many lookups under way")
        }
        Some(LookupFailure::Exhausted) | None => {
            (Kind::Unreachable, "everybody that could be asked failed")
        }
    };
    let key = show_key(key.as_bytes());
    let steps = count(report.hops.into(), "hop");
    let detours = count(report.detours.len() as u64, "failed contact");
    Failure::new(
        kind,
        format!(
            "no owner found for {key}: {why}, after {steps} and {detours}; try again, or ask another member with --node"
        ),
    )
}

fn word(reason: DetourReason) -> &'static str {
    match reason {
        DetourReason::TimedOut => "timed_out",
        DetourReason::Unreachable => "unreachable",
        DetourReason::NotMember => "not_member",
        DetourReason::NoProgress => "no_progress",
        DetourReason::Busy => "busy",
    }
}

fn for_people(json: &LookupJson, key: &Key, output: Output) -> String {
    let addr = |peer: &PeerJson| peer.addr.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut text = format!(
        "{} lies at {}\nowned by {} at {}: {} along {} at depth {}, {}\n\n",
        show_key(key.as_bytes()),
        json.id,
        json.owner.id,
        addr(&json.owner),
        count(json.hops as u64, "hop"),
        json.routing,
        json.depth,
        show_micros(json.elapsed_us),
    );
    let mut table = output.table(&[">hop", "node", "address", ">connect", ">round trip"]);
    let asker = &json.asker;
    table.add_row(["asker", &asker.id.to_string(), &addr(asker), "", ""]);
    for (at, step) in json.path.iter().enumerate() {
        table.add_row([
            (at + 1).to_string(),
            step.peer.id.to_string(),
            addr(&step.peer),
            step.connect_us.filter(|us| *us > 0).map_or("-".to_owned(), show_micros),
            step.rtt_us.map_or("-".to_owned(), show_micros),
        ]);
    }
    text.push_str(&table_text(&table));
    let is_handed_on = json.hops > 0 || json.gave_up.is_some();
    if json.forwarding == Forwarding::Recursive.as_str() && is_handed_on {
        let told = match json.gave_up {
            None => {
                "Members handed the question on: how long each step took is not known.".to_owned()
            }
            Some(why) => format!(
                "Members handed the question on and came to nothing ({why}): the member asked went on by itself."
            ),
        };
        text.push_str(&format!("\n{told}\n"));
    }
    let fell_back: Vec<String> = json
        .path
        .iter()
        .enumerate()
        .filter(|(_, step)| step.fell_back)
        .map(|(at, _)| (at + 1).to_string())
        .collect();
    if !fell_back.is_empty() {
        text.push_str(&format!(
            "\nHop {}: whoever named that node keeps no state for {}, and went by its successor list or its \
             predecessor.\n",
            fell_back.join(", "),
            json.routing,
        ));
    }
    if json.detours.is_empty() {
        return text;
    }
    let mut table = output.table(&["failed contact", "address", "reason"]);
    for detour in &json.detours {
        table.add_row([&detour.peer.id.to_string(), &addr(&detour.peer), detour.reason]);
    }
    text.push('\n');
    text.push_str(&table_text(&table));
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dht_core::message::client::{Detour, PathStep};
    use dht_core::message::forward::{HandedDetour, HandedReport, HandedStep, PlaceMark};
    use dht_core::message::ring::Routing;
    use dht_core::peer::Signature;
    use dht_core::{Contact, PeerKey, PeerRecord};

    use super::*;

    fn contact(n: u8) -> Contact {
        let addrs = vec![([127, 0, 0, 1], 4000 + u16::from(n)).into()];
        let (key, signature) = (PeerKey([n; 32]), Signature([0; 64]));
        Contact::new(Arc::new(PeerRecord { key, incarnation: 1, revision: 0, addrs, signature }), 0)
    }

    fn report(gave_up: Option<GaveUp>, own: Vec<PathStep>) -> LookupReport {
        let place = |n| PlaceMark::of(&contact(n));
        LookupReport {
            id: contact(9).id,
            routing: Routing::Fingers,
            depth: 16,
            asker: contact(1),
            owner: Some(contact(3)),
            hops: 2,
            timeouts: 2,
            path: own,
            detours: vec![Detour { contact: contact(5), reason: DetourReason::TimedOut }],
            elapsed_us: 3000,
            failure: None,
            handed: Some(HandedReport {
                path: vec![2, 3]
                    .into_iter()
                    .map(|n| HandedStep { place: place(n), fell_back: false })
                    .collect(),
                detours: vec![HandedDetour { place: place(4), reason: DetourReason::Busy }],
                gave_up,
            }),
        }
    }

    #[test]
    fn a_way_that_others_went_has_no_made_up_times() {
        let key = Key::new("k").expect("short");
        let json = shape(&key, report(None, vec![])).expect("an owner");
        assert_eq!((json.forwarding, json.gave_up, json.path.len()), ("recursive", None, 2));
        assert!(json.path.iter().all(|step| (step.connect_us, step.rtt_us) == (None, None)));
        assert_eq!(json.path[1].peer, json.owner);
        assert_eq!(
            json.detours.iter().map(|held| held.reason).collect::<Vec<_>>(),
            ["busy", "timed_out"]
        );
        let text = for_people(&json, &key, Output::bare(false));
        assert!(text.contains("handed the question on: how long"), "{text}");
        let step = PathStep { contact: contact(3), connect_us: 0, rtt_us: 700, fell_back: false };
        let own = report(Some(GaveUp::NextSilent), vec![step]);
        let json = shape(&key, own).expect("an owner");
        assert_eq!((json.gave_up, json.path.len()), (Some("next_silent"), 1));
        assert_eq!(json.path[0].rtt_us, Some(700));
        let text = for_people(&json, &key, Output::bare(false));
        assert!(text.contains("came to nothing (next_silent)"), "{text}");
    }
}
