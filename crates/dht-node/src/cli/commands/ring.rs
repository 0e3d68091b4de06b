//! `ring`: the walk from member to member.

use super::with_client;
use crate::cli::args::{Globals, RingArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{MemberJson, PeerJson, ProblemJson, RingJson};
use crate::cli::output::{Output, table_text};
use crate::cli::units::{count, show_bytes};
use crate::client::{IdentityReport, Walk};

pub(super) fn run(globals: &Globals, args: &RingArgs, output: Output) -> Result<Exit, Failure> {
    if args.svg.is_some() {
        return Err(Failure::not_built("--svg", "--json gives members, arcs and links"));
    }
    if args.dot {
        return Err(Failure::not_built("--dot", "--json gives members, arcs and links"));
    }
    with_client(globals, async |client| {
        let progress = output.progress();
        progress.message("walking");
        let identity = client.identify().await?;
        let walk = client.walk().await?;
        drop(progress);
        let json = shape(identity, walk);
        output.result(&json, || for_people(&json, output))?;
        Ok(Exit::Done)
    })
}

fn shape(identity: IdentityReport, walk: Walk) -> RingJson {
    let members = walk
        .members
        .iter()
        .map(|member| {
            let report = &member.report;
            MemberJson {
                peer: PeerJson::of(&report.contact),
                state: report.state.as_str(),
                // Places differ, so no arc is empty: 0 says that it is not known.
                arc: (member.arc > 0.0).then_some(member.arc),
                keys: report.keys,
                bytes: report.bytes,
                predecessor: report.predecessor.as_ref().map(|contact| contact.id),
                successors: report.successors.iter().map(|contact| contact.id).collect(),
            }
        })
        .collect();
    let problems = walk
        .problems
        .into_iter()
        .map(|problem| ProblemJson {
            kind: problem.kind.as_str(),
            id: problem.id,
            message: problem.message,
        })
        .collect();
    RingJson {
        ring: identity.ring_name,
        ring_id: identity.ring.map(super::ring_id),
        nodes: walk.members.len(),
        complete: walk.complete,
        members,
        problems,
    }
}

fn for_people(json: &RingJson, output: Output) -> String {
    let state = if json.complete { "complete" } else { "NOT complete" };
    let mut text = format!("ring {}: {}, {state}\n\n", json.ring, count(json.nodes as u64, "node"));
    let mut table = output.table(&["node", "address", "state", ">arc", ">keys", ">stored"]);
    for member in &json.members {
        table.add_row([
            member.peer.id.to_string(),
            member.peer.addr.clone().unwrap_or_else(|| "unknown".to_owned()),
            member.state.to_owned(),
            member.arc.map_or("-".to_owned(), |arc| format!("{:.2} %", 100.0 * arc)),
            member.keys.to_string(),
            show_bytes(member.bytes),
        ]);
    }
    text.push_str(&table_text(&table));
    text.push('\n');
    if json.problems.is_empty() {
        text.push_str("no problems\n");
        return text;
    }
    let mut table = output.table(&["problem", "node", "what"]);
    for problem in &json.problems {
        table.add_row([problem.kind, &problem.id.to_string(), &problem.message]);
    }
    text.push_str(&table_text(&table));
    text
}
