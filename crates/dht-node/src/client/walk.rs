//! The walk round the ring: from member to member along their own links.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::message::client::{NeighborhoodReport, NodeState};
use dht_core::message::ring::Routing;
use dht_core::{Contact, Id};

use super::Client;
use super::error::ClientError;
use super::problems::{Problem, find_problems};

/// One member as the walk found it.
#[derive(Clone, PartialEq, Debug)]
pub struct WalkedMember {
    /// What it says of its links and its load.
    pub report: NeighborhoodReport,
    /// Its share of the circle, from the member before it on this walk; in `0.0..=1.0`, and 0 for a
    /// node without a place, or where the walk does not tell who is before it.
    pub arc: f64,
}

impl WalkedMember {
    /// The member.
    pub fn contact(&self) -> &Contact {
        &self.report.contact
    }
}

/// What a walk found.
#[derive(Clone, PartialEq, Debug)]
pub struct Walk {
    /// The members in the order they were met, clockwise from the one that was asked first.
    pub members: Vec<WalkedMember>,
    /// Whether the walk came back to its start.
    pub complete: bool,
    /// What is wrong with the links.
    pub problems: Vec<Problem>,
}

impl Walk {
    /// The members' places, in the order of the circle from the first one.
    pub fn ids(&self) -> Vec<Id> {
        self.members.iter().map(|member| member.contact().id).collect()
    }

    /// Whether every member keeps state for a routing.
    pub fn keeps(&self, routing: Routing) -> bool {
        self.members.iter().all(|member| member.report.routings.contains(&routing))
    }

    /// The greatest depth that every member's list serves; 0 without members.
    pub fn depth(&self) -> u16 {
        self.members.iter().map(|member| member.report.depth).min().unwrap_or(0)
    }

    /// Whether every member keeps state for a routing and lists that serve the depth.
    pub fn serves(&self, routing: Routing, depth: u16) -> bool {
        let back = || self.members.iter().map(|member| member.report.depth_back).min();
        self.keeps(routing)
            && depth <= self.depth()
            && (routing != Routing::BothWays || back().is_some_and(|back| depth <= back))
    }
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WalkEnd {
    /// Back at the start.
    Complete,
    /// At a member that was met before, which is not the start: the start hangs off the ring.
    Loop(Id),
    /// Nobody in this member's list answered, or there is nobody in it.
    Stuck(Id),
    /// After [`MAX_WALK`] members.
    TooLong,
}

/// Everything the walk saw, before it is judged.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    pub(super) reports: Vec<NeighborhoodReport>,
    pub(super) end: WalkEnd,
    /// Contacts of lists that did not answer.
    pub(super) silent: BTreeSet<Id>,
}

/// Walks along first live successors from the member the client is connected to.
pub(super) async fn walk(client: &Client) -> Result<Walk, ClientError> {
    let start = client.ask_any(async |member| member.neighborhood().await).await?;
    let mut trail = follow(client, start).await;
    ask_the_unmet(client, &mut trail).await;
    let problems = find_problems(&trail);
    let complete = trail.end == WalkEnd::Complete;
    let ids: Vec<Id> = trail.reports.iter().map(|report| report.contact.id).collect();
    let members = trail
        .reports
        .into_iter()
        .enumerate()
        .map(|(at, report)| {
            let is_known = report.state != NodeState::Joining && (at > 0 || complete);
            let arc = if is_known { arc_of(&ids, at) } else { 0.0 };
            WalkedMember { report, arc }
        })
        .collect();
    Ok(Walk { members, complete, problems })
}

async fn follow(client: &Client, start: NeighborhoodReport) -> Trail {
    let start_id = start.contact.id;
    let mut trail = Trail { reports: vec![start], end: WalkEnd::TooLong, silent: BTreeSet::new() };
    let mut met = BTreeSet::from([start_id]);
    while trail.reports.len() <= MAX_WALK {
        let here = trail.reports.last().expect("it begins with one");
        let (here_id, list) = (here.contact.id, here.successors.clone());
        // A member that knows nobody else is a ring of its own; others have lost theirs.
        let is_alone = here.state == NodeState::Member && here_id == start_id;
        let mut next = (list.is_empty() && is_alone).then_some(WalkEnd::Complete);
        for contact in list {
            if contact.id == start_id {
                next = Some(WalkEnd::Complete);
                break;
            }
            if met.contains(&contact.id) {
                next = Some(WalkEnd::Loop(contact.id));
                break;
            }
            if trail.silent.contains(&contact.id) {
                continue;
            }
            match ask(client, &contact).await {
                Some(report) => {
                    met.insert(report.contact.id);
                    trail.reports.push(report);
                    break;
                }
                None => {
                    trail.silent.insert(contact.id);
                }
            }
        }
        let stands_still = trail.reports.last().map(|report| report.contact.id) == Some(here_id);
        if let Some(end) = next.or(stands_still.then_some(WalkEnd::Stuck(here_id))) {
            trail.end = end;
            return trail;
        }
    }
    trail
}

/// Links that the walk did not follow may be dead too: each is asked once.
async fn ask_the_unmet(client: &Client, trail: &mut Trail) {
    let met: BTreeSet<Id> = trail.reports.iter().map(|report| report.contact.id).collect();
    let mut unmet: BTreeMap<Id, Contact> = BTreeMap::new();
    for report in &trail.reports {
        let links = report.successors.iter().chain(&report.predecessor);
        for contact in links {
            if !met.contains(&contact.id) && !trail.silent.contains(&contact.id) {
                unmet.insert(contact.id, contact.clone());
            }
        }
    }
    for (id, contact) in unmet.into_iter().take(MAX_UNMET) {
        if ask(client, &contact).await.is_none() {
            trail.silent.insert(id);
        }
    }
}

/// One member's report, if it gives it in time.
pub(super) async fn ask(client: &Client, contact: &Contact) -> Option<NeighborhoodReport> {
    let member = tokio::time::timeout(DIAL_WITHIN, client.dial(contact)).await.ok()?.ok()?;
    // A connection may lead to one that died without a word.
    let report = tokio::time::timeout(ANSWER_WITHIN, member.neighborhood()).await.ok()?.ok()?;
    // Whoever answers speaks of itself, or the walk could be led in circles of made-up members.
    (report.contact.id == contact.id).then_some(report)
}

/// The share of the circle of member number `at`, from the one before it.
fn arc_of(ids: &[Id], at: usize) -> f64 {
    if ids.len() == 1 {
        return 1.0;
    }
    let before = ids[(at + ids.len() - 1) % ids.len()];
    before.distance_to(ids[at]).as_fraction()
}

/// Most members a walk goes through; a longer ring is reported as not complete (guess).
pub const MAX_WALK: usize = 10_000;
/// How long a member may take to be connected to. 2.5 s (guess): time for one lost first packet, which
/// goes out again after 1 s (RFC 9002, section 6.2.2); a dead neighbour must not make the rest of the
/// walk old news.
const DIAL_WITHIN: Duration = Duration::from_millis(2500);
/// How long a member may take to answer then. 3 s (guess: as long as members give each other).
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Most links that are asked whether they live, beside the walk (guess).
const MAX_UNMET: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_fill_the_circle() {
        let ids: Vec<Id> = ["1", "4", "c"]
            .map(|digit| format!("{digit}{}", "0".repeat(39)).parse().expect("an id"))
            .to_vec();
        let arcs: Vec<f64> = (0..3).map(|at| arc_of(&ids, at)).collect();
        assert_eq!(arcs, [5.0 / 16.0, 3.0 / 16.0, 8.0 / 16.0]);
        assert_eq!(arc_of(&ids[..1], 0), 1.0);
    }
}
