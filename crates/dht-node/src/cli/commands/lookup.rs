//! `lookup`: who owns a key, and the way there: as a table, on a circle, or under all routings.

mod compare;
mod draw;

use dht_core::message::client::{DetourReason, LookupFailure, LookupReport};
use dht_core::register::Key;

use super::{routing_named, with_client};
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
    let target = LookupTarget { id: key.id(), routing, depth: args.depth, forwarding: None };
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
    let path: Vec<StepJson> = report
        .path
        .iter()
        .map(|step| StepJson {
            peer: PeerJson::of(&step.contact),
            connect_us: step.connect_us,
            rtt_us: step.rtt_us,
            fell_back: step.fell_back,
        })
        .collect();
    Ok(LookupJson {
        key: KeyJson::of(key.as_bytes()),
        id: report.id,
        routing: report.routing.as_str(),
        depth: report.depth,
        hops: report.hops,
        timeouts: report.timeouts,
        asker: PeerJson::of(&report.asker),
        owner: PeerJson::of(owner),
        path,
        detours: detours(&report),
        elapsed_us: report.elapsed_us,
    })
}

/// The failed contacts of a lookup.
fn detours(report: &LookupReport) -> Vec<DetourJson> {
    let told = report.detours.iter().map(|detour| DetourJson {
        peer: PeerJson::of(&detour.contact),
        reason: word(detour.reason),
    });
    told.collect()
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
            if step.connect_us == 0 { "-".to_owned() } else { show_micros(step.connect_us) },
            show_micros(step.rtt_us),
        ]);
    }
    text.push_str(&table_text(&table));
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
