//! `ring`: the walk from member to member, as a table, a picture or a graph.

mod dot;
mod picture;

use std::path::Path;

use super::{routing_named, with_client};
use crate::cli::args::{Globals, RingArgs};
use crate::cli::exit::{Exit, Failure};
use crate::cli::json::{MemberJson, PeerJson, ProblemJson, RingJson, RingLookupJson};
use crate::cli::output::{Output, table_text};
use crate::cli::target::Target;
use crate::cli::units::{count, show_bytes};
use crate::client::{IdentityReport, Walk};
use picture::Drawn;

pub(super) fn run(globals: &Globals, args: &RingArgs, output: Output) -> Result<Exit, Failure> {
    let files = Files::choose(args, output)?;
    let routing = args.routing.as_deref().map(routing_named).transpose()?;
    let drawn = Drawn { lookups: args.lookups, routing, depth: args.depth };
    with_client(globals, async |client| {
        let progress = output.progress();
        progress.message("walking");
        let identity = client.identify().await?;
        let walk = client.walk().await?;
        drop(progress);
        let mut lookups = None;
        if let Some((path, target)) = &files.svg {
            let made = picture::look_up(client, &walk, drawn, output).await?;
            let picture = picture::of(&identity.ring_name, &walk, &made, drawn.lookups);
            target.write(picture.svg().as_bytes())?;
            output.note(&format!("picture in {}", path.display()));
            lookups = Some(made);
        }
        match &files.dot {
            Some(Dot::Stdout) => {
                output.text(&dot::text(&identity.ring_name, &walk))?;
                return Ok(Exit::Done);
            }
            Some(Dot::File(path, target)) => {
                target.write(dot::text(&identity.ring_name, &walk).as_bytes())?;
                output.note(&format!("graph in {}", path.display()));
            }
            None => {}
        }
        let json = shape(identity, walk, lookups);
        output.result(&json, || for_people(&json, output))?;
        Ok(Exit::Done)
    })
}

/// Where pictures and graphs go, found out before anybody is asked.
struct Files<'a> {
    svg: Option<(&'a Path, Target)>,
    dot: Option<Dot<'a>>,
}

enum Dot<'a> {
    Stdout,
    File(&'a Path, Target),
}

impl<'a> Files<'a> {
    fn choose(args: &'a RingArgs, output: Output) -> Result<Files<'a>, Failure> {
        let choose = |path: &'a Path| -> Result<(&'a Path, Target), Failure> {
            let target = Target::choose(path, true)?;
            target.check()?;
            Ok((path, target))
        };
        let svg = args.svg.as_deref().map(choose).transpose()?;
        let dot = match args.dot.as_deref() {
            None => None,
            Some(path) if path == Path::new("-") && output.is_json() => {
                return Err(Failure::usage(
                    "--dot with --json needs a FILE: stdout is for the JSON",
                ));
            }
            Some(path) if path == Path::new("-") => Some(Dot::Stdout),
            Some(path) => choose(path).map(|(path, target)| Some(Dot::File(path, target)))?,
        };
        match (&svg, &dot) {
            (Some((path, svg)), Some(Dot::File(_, dot))) if svg.is_same(dot) => {
                let path = path.display();
                Err(Failure::usage(format!("--svg and --dot both name {path}; name two files")))
            }
            _ => Ok(Files { svg, dot }),
        }
    }
}

fn shape(identity: IdentityReport, walk: Walk, lookups: Option<Vec<RingLookupJson>>) -> RingJson {
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
        lookups,
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
