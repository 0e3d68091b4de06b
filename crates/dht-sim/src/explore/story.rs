//! A way to a state, told step by step.

use std::fmt::Write;

use dht_core::message::client::NodeState;
use dht_core::message::ring::{Neighbors, Request, Response};

use super::fair::Repaired;
use super::letters::Body;
use super::local::place_of;
use super::state::{Seat, State};
use super::steps::{Step, World};
use super::summary::Known;

/// How many steps of a fair schedule are told.
const MAX_LOG: usize = 40;

impl World {
    /// One step, as it reads before it is done.
    pub(super) fn tell(&self, state: &State, step: Step) -> String {
        match step {
            Step::Deliver(at) => {
                let letter = state.flight()[usize::from(at)];
                let (from, to) = (letter.from(), letter.to());
                match self.locals.bodies.get(letter.body()) {
                    Body::Tell { request, .. } | Body::Ask { request, .. } => {
                        format!("{to} hears from {from}: {}", request_words(request))
                    }
                    Body::Answer { response, .. } => {
                        let of = letter.rpc();
                        format!("{to} hears the answer of {from}: {} (call {of})", words(response))
                    }
                }
            }
            Step::Expire { at, rpc } => format!("{at} waits no more for its call {rpc}"),
            Step::Fire { at, alarm } => format!("{at} has waited: {alarm:?}"),
            Step::Seek { at, host } => format!("{at} asks {host} for a place"),
            Step::Fail(at) => format!("{at} dies"),
            Step::Suspect { at, about } => format!("{at} takes {about} for dead, which it is not"),
            Step::Probe { at, about } => format!("{at} pings {about}, whom it remembers"),
        }
    }

    /// Notes a step that is about to be done, if somebody listens.
    pub(super) fn note(&mut self, state: &State, step: Step) {
        if self.log.as_ref().is_some_and(|log| log.len() < MAX_LOG) {
            let line = self.tell(state, step);
            self.log.get_or_insert_default().push(line);
        }
    }

    /// What the fair schedule does with a state that it does not repair.
    pub(super) fn tell_repair(&mut self, state: &State) -> Vec<String> {
        self.log = Some(Vec::new());
        let (_, last) = self.repair(state, &mut Repaired::default());
        let mut told = self.log.take().unwrap_or_default();
        told.extend(self.picture(&last));
        told
    }

    /// The state as one line for each node, and one for what is in flight.
    pub(super) fn picture(&self, state: &State) -> Vec<String> {
        let mut lines = Vec::new();
        for (place, seat) in state.seats.iter().enumerate() {
            let Seat::Runs(node) = seat else { continue };
            let held = self.locals.summary(*node);
            let standing = match held.state {
                NodeState::Member if held.alone => "alone",
                other => other.as_str(),
            };
            let doubt = if held.is_in_doubt { ", in doubt" } else { "" };
            let predecessor = held.predecessor.as_ref().map_or("-".to_owned(), name);
            let remembered = names(&held.remembered);
            let list = names(&held.successors);
            lines.push(format!(
                "{place} {standing}{doubt}: predecessor {predecessor}, list {list}, \
                 remembers {remembered}"
            ));
        }
        for letter in state.flight() {
            let body = match self.locals.bodies.get(letter.body()) {
                Body::Tell { request, .. } | Body::Ask { request, .. } => request_words(request),
                Body::Answer { response, .. } => words(response),
            };
            let (from, to, rpc) = (letter.from(), letter.to(), letter.rpc());
            lines.push(format!("in flight {from} to {to}: {body} (call {rpc})"));
        }
        for held in state.open() {
            lines.push(format!("{} has yet to answer {} (call {})", held.at, held.asker, held.rpc));
        }
        lines
    }
}

fn name(known: &Known) -> String {
    match known {
        (place, 0) => place.to_string(),
        (place, life) => format!("{place}'{life}"),
    }
}

fn names(list: &[Known]) -> String {
    let list: Vec<String> = list.iter().map(name).collect();
    format!("[{}]", list.join(" "))
}

fn request_words(request: &Request) -> String {
    match request {
        Request::Push(pushed) => format!("push {}", said(pushed)),
        Request::Candidate { contact } => format!("candidate {}", place_of(contact)),
        Request::Unify { via, ttl } => format!("unify through {} ({ttl})", place_of(via)),
        Request::Neighbors { .. } => "neighbours?".to_owned(),
        Request::Notify { .. } => "notify".to_owned(),
        Request::Route(query) => format!("route to {:?}?", query.key),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn words(response: &Response) -> String {
    match response {
        Response::Neighbors(neighbors) => said(neighbors),
        Response::Joined(neighbors) => format!("welcome, {}", said(neighbors)),
        Response::JoinElsewhere { next } => format!("ask {}", place_of(next)),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn said(neighbors: &Neighbors) -> String {
    let mut text = String::new();
    let predecessor =
        neighbors.predecessor.as_ref().map_or("-".to_owned(), |held| place_of(held).to_string());
    let list: Vec<String> =
        neighbors.successors.iter().map(|held| place_of(held).to_string()).collect();
    // Writing to a string cannot fail.
    let _ = write!(text, "predecessor {predecessor}, list [{}]", list.join(" "));
    text
}
