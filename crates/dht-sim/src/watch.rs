//! Looks on after every step: keeps the links of all nodes, checks the invariants whose condition
//! holds, and knows which conditions a fault has broken.

mod heard;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dht_core::message::client::NodeState;
use dht_core::node::Node;
use dht_core::{Contact, Id, Instant};

use crate::invariants::{
    Links, NodeLinks, Problem, Violation, adopts_no_dead, joins_with_list, lists_in_order, mine,
    one_live_successor, one_ring, predecessor_kept, sufficient_principals,
};

use heard::Heard;
use shape::Shape;

/// Most problems that are kept: the first ones tell the story.
const MAX_PROBLEMS: usize = 64;

/// How long a node may keep a list that it has heard of until it adopts it, at the end of a step. The
/// proofs know neither messages nor steps: what was sent before the ring was as they have it may still be
/// adopted later. 1 s: longer than two questions take, on any way that is drawn (guess).
const STEP_LIFE: Duration = Duration::from_secs(1);

/// Which condition of the proofs the environment has broken. Until the world is quiet again, only
/// what holds without conditions is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breach {
    /// A fault took away the last live entry of this node's list.
    ListDied {
        /// Whose.
        node: Id,
    },
    /// A fault left fewer than `r + 1` principals.
    FewPrincipals,
    /// A node called a live member dead.
    FalseVerdict {
        /// Who judged.
        by: Id,
        /// Whom.
        about: Id,
    },
    /// Messages between some nodes do not get through.
    Cut,
    /// An isolated node let another one in, or a founder without memory founded its ring again: a
    /// ring of its own until it meets the rest.
    SecondRing {
        /// Who was let in, or the founder.
        node: Id,
    },
}

/// The onlooker of one world.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    links: Links,
    shape: Shape,
    heard: Heard,
    /// Members whose list is shorter than it should be.
    short: BTreeSet<Id>,
    /// How many nodes look for a place.
    joining: usize,
    breach: Option<Breach>,
    /// How often a condition was broken.
    breaches: u64,
    /// Since when all of them hold, if they do.
    calm_since: Instant,
    /// The state of the proofs has been reached since the last breach: `r + 1` principals, and all
    /// lists full.
    reached: bool,
    /// Since when it has held without a break.
    based_since: Option<Instant>,
    /// Whom each node has held as its predecessor and has no reason to believe gone; after a breach
    /// only the last one.
    known: BTreeMap<Id, BTreeSet<Id>>,
    /// Whom each node has ever heard of in this life or an earlier one that it remembers.
    acquainted: BTreeMap<Id, BTreeSet<Id>>,
    /// Whom each node has rightly found dead.
    found_dead: BTreeMap<Id, BTreeSet<Id>>,
    /// Points that lookups are under way for, and who said "mine" meanwhile.
    asked: BTreeMap<Id, Asked>,
    last_change: Instant,
    problems: Vec<Problem>,
}

#[derive(Clone, Debug, Default)]
struct Asked {
    lookups: usize,
    said_mine: BTreeSet<Id>,
}

impl Watch {
    pub(crate) fn new(depth: usize, predecessors: usize) -> Watch {
        Watch {
            links: Links { depth, predecessors, nodes: BTreeMap::new() },
            shape: Shape::default(),
            heard: Heard::default(),
            short: BTreeSet::new(),
            joining: 0,
            breach: None,
            breaches: 0,
            calm_since: Instant::ZERO,
            reached: false,
            based_since: None,
            known: BTreeMap::new(),
            acquainted: BTreeMap::new(),
            found_dead: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_change: Instant::ZERO,
            problems: Vec::new(),
        }
    }

    /// Whether a node points elsewhere than it did when it was looked at last.
    pub(crate) fn is_news(&self, node: &Node) -> bool {
        let same = |ids: &[Id], list: &[Contact]| {
            ids.len() == list.len() && ids.iter().zip(list).all(|(id, held)| *id == held.id)
        };
        self.links.nodes.get(&node.me().id).is_none_or(|held| {
            held.state != node.state()
                || held.alone != node.is_alone()
                || held.predecessor != node.predecessor().map(|held| held.id)
                || !same(&held.successors, node.successors())
                || !same(&held.predecessors, node.predecessors())
        })
    }

    /// A list arrives, its sender first; messages are numbered in the order in which they are `sent`.
    pub(crate) fn heard(&mut self, reader: Id, sent: u64, list: Vec<Id>) {
        self.heard.list(reader, sent, list);
    }

    /// What a node points to after something happened to it, if that is news. `oldest` says when the
    /// oldest message was sent that may still arrive, or just has.
    pub(crate) fn looked(
        &mut self,
        now: Instant,
        node: Id,
        links: NodeLinks,
        oldest: &dyn Fn() -> Option<Instant>,
    ) {
        let before = self.links.nodes.get(&node);
        self.last_change = now;
        let held = before.and_then(|before| before.predecessor);
        let was_member = before.is_some_and(|before| before.state == NodeState::Member);
        let was_joining = before.is_none_or(|before| before.state == NodeState::Joining);
        let is_going = was_member && links.state != NodeState::Member;
        if is_going {
            self.unlearn(node);
        }
        let is_guest = !was_member && links.state == NodeState::Member && !links.alone;
        let is_let_in = is_guest && was_joining;
        let were_full =
            is_let_in && self.breach.is_none() && self.reached && self.is_settled(now, oldest);
        let taken = links.predecessor;
        let neighbors = links.successors.iter().chain(&links.predecessors).copied();
        self.acquainted.entry(node).or_default().extend(neighbors);
        let list = self.put(node, Some(links)).map(|before| before.successors).unwrap_or_default();
        if let Some(found_dead) = self.found_dead.get(&node)
            && let Some(violation) = adopts_no_dead::check(&self.links, node, &list, found_dead)
        {
            self.report(now, violation);
        }
        if is_going {
            self.check_conditions();
        }
        if were_full && let Some(violation) = joins_with_list::check(&self.links, node) {
            self.report(now, violation);
        }
        if is_guest && !one_live_successor::check_node(&self.links, node) {
            self.broke(Breach::SecondRing { node });
        }
        let known = self.known.entry(node).or_default();
        if let Some(before) = held.filter(|before| known.contains(before))
            && let Some(violation) = predecessor_kept::check(&self.links, node, before, taken)
        {
            self.report(now, violation);
        }
        let is_member =
            |id: &Id| self.links.nodes.get(id).is_some_and(|held| held.state == NodeState::Member);
        let is_new = taken != held;
        let taken = taken.filter(|id| is_new && is_member(id));
        let known = self.known.entry(node).or_default();
        if is_new && self.breach.is_some() {
            known.clear();
        }
        known.extend(taken);
        self.check(now, node, &list, oldest);
    }

    /// A node's life is over, when `sent` was the last message. `for_good`: it left, and the others
    /// forget it.
    pub(crate) fn ended(&mut self, now: Instant, node: Id, sent: u64, for_good: bool) {
        self.last_change = now;
        self.heard.ended(node, sent);
        self.put(node, None);
        self.unlearn(node);
        self.known.remove(&node);
        if for_good {
            self.acquainted.values_mut().for_each(|known| {
                known.remove(&node);
            });
        }
        self.check_conditions();
    }

    /// After a fault: whether it broke a condition of the proofs.
    fn check_conditions(&mut self) {
        if self.breach.is_some() {
            return;
        }
        let lost = one_live_successor::check(&self.links);
        if let Some(node) = lost.first().and_then(Violation::node) {
            self.broke(Breach::ListDied { node });
        } else if self.reached && !self.has_principals() {
            self.broke(Breach::FewPrincipals);
        }
    }

    /// A new life without memory of an earlier one.
    pub(crate) fn forgot(&mut self, node: Id) {
        self.found_dead.remove(&node);
        self.found_dead.values_mut().for_each(|dead| {
            dead.remove(&node);
        });
        self.acquainted.remove(&node);
    }

    /// A node heard of others.
    pub(crate) fn acquaint(&mut self, node: Id, others: impl IntoIterator<Item = Id>) {
        self.acquainted.entry(node).or_default().extend(others);
    }

    /// A node called another one dead. `reaches` says whether the two reach each other.
    pub(crate) fn on_verdict(&mut self, by: Id, about: Id, same_life: bool, reaches: bool) {
        if let Some(known) = self.known.get_mut(&by) {
            known.remove(&about);
        }
        if !self.links.nodes.contains_key(&about) {
            self.found_dead.entry(by).or_default().insert(about);
        }
        let lives = self.links.nodes.get(&about).is_some_and(NodeLinks::is_member);
        if lives && same_life && reaches {
            self.broke(Breach::FalseVerdict { by, about });
        }
    }

    /// Some nodes do not reach each other any more; `apart` says whether these two do not.
    pub(crate) fn on_cut(&mut self, apart: impl Fn(Id, Id) -> bool) {
        for (node, known) in &mut self.known {
            known.retain(|other| !apart(*node, *other));
        }
        self.broke(Breach::Cut);
    }

    /// A node founds a ring that others are in already.
    pub(crate) fn on_second_ring(&mut self, node: Id) {
        self.broke(Breach::SecondRing { node });
    }

    /// A lookup of this point by the driver begins.
    pub(crate) fn lookup_began(&mut self, key: Id) {
        self.asked.entry(key).or_default().lookups += 1;
    }

    /// A lookup ended; at `owner`, if it found one.
    pub(crate) fn lookup_ended(&mut self, now: Instant, key: Id, owner: Option<Id>) {
        let Some(asked) = self.asked.get_mut(&key) else { return };
        let violation = owner.and_then(|owner| mine::check_end(key, owner, &asked.said_mine));
        asked.lookups -= 1;
        if asked.lookups == 0 {
            self.asked.remove(&key);
        }
        if let Some(violation) = violation {
            self.report(now, violation);
        }
    }

    /// A node said "mine" of a point, to others or to itself.
    pub(crate) fn on_mine(&mut self, now: Instant, node: Id, key: Id) {
        if let Some(asked) = self.asked.get_mut(&key) {
            asked.said_mine.insert(node);
        }
        let violation = match self.known.get(&node) {
            Some(known) => mine::check(&self.links, node, key, known),
            None => None,
        };
        if let Some(violation) = violation {
            self.report(now, violation);
        }
    }

    /// Quiet has come and what should be ideal is: the conditions hold again.
    pub(crate) fn is_quiet(&mut self, now: Instant) {
        if self.breach.take().is_some() {
            self.calm_since = now;
        }
        self.reached = self.do_proofs_apply() && self.short.is_empty() && self.has_principals();
        self.based_since = self.reached.then_some(Instant::ZERO);
    }

    /// Adds a problem; beyond [`MAX_PROBLEMS`] it is left out.
    pub(crate) fn report(&mut self, now: Instant, violation: Violation) {
        let problem = Problem { at: now, violation };
        let is_news = self.problems.iter().all(|held| held.violation != problem.violation);
        if is_news && self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Whom a node has heard of.
    pub(crate) fn acquaintances(&self, node: Id) -> Vec<Id> {
        self.acquainted.get(&node).into_iter().flatten().copied().collect()
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(crate) fn breach(&self) -> Option<Breach> {
        self.breach
    }

    /// Since when all conditions have held; `None` while one is broken.
    pub(crate) fn calm_since(&self) -> Option<Instant> {
        self.breach.is_none().then_some(self.calm_since)
    }

    /// How often a condition was broken so far.
    pub(crate) fn breaches(&self) -> u64 {
        self.breaches
    }

    /// Whether the ring is, or was before a breach, still too small for the proofs.
    pub(crate) fn is_small(&self) -> bool {
        !self.reached
    }

    /// When any pointer changed last.
    pub(crate) fn last_change(&self) -> Instant {
        self.last_change
    }

    /// Those who know of each other, through others too and in either direction, among nodes for
    /// which `together` holds: each list should become one ring.
    pub(crate) fn circles(&self, together: impl Fn(Id, Id) -> bool) -> Vec<Vec<Id>> {
        let mut beside: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        let lives = |id: &Id| self.links.nodes.contains_key(id);
        for (a, known) in self.acquainted.iter().filter(|(a, _)| lives(a)) {
            for b in known.iter().filter(|b| lives(b) && together(*a, **b)) {
                beside.entry(*a).or_default().push(*b);
                beside.entry(*b).or_default().push(*a);
            }
        }
        let mut left: BTreeSet<Id> = self.links.nodes.keys().copied().collect();
        let mut circles = Vec::new();
        while let Some(first) = left.pop_first() {
            let mut circle = vec![first];
            let mut at = 0;
            while let Some(from) = circle.get(at).copied() {
                let others = beside.get(&from).into_iter().flatten();
                circle.extend(others.filter(|to| left.remove(to)));
                at += 1;
            }
            circle.sort();
            circles.push(circle);
        }
        circles
    }

    /// How many nodes look for a place.
    pub(crate) fn joining(&self) -> usize {
        self.joining
    }

    /// A list of one dies with every head: the proofs begin with two.
    fn do_proofs_apply(&self) -> bool {
        self.links.depth >= 2
    }

    /// Whether nobody may still adopt a list that was sent before the state of the proofs was reached.
    fn is_settled(&self, now: Instant, oldest: &dyn Fn() -> Option<Instant>) -> bool {
        self.based_since.is_some_and(|since| {
            now.since(since) >= STEP_LIFE && oldest().is_none_or(|oldest| oldest >= since)
        })
    }

    fn has_principals(&self) -> bool {
        self.shape.principals() > self.links.depth
    }

    /// Keeps what a node points to; `None`: it is gone. What it pointed to before.
    fn put(&mut self, node: Id, links: Option<NodeLinks>) -> Option<NodeLinks> {
        let is_joining = |held: &NodeLinks| held.state == NodeState::Joining;
        // The proofs know no short lists: after a dead head was dropped a list lacks an entry for a
        // moment, and a joiner that takes it over may skip a member that nobody skipped before.
        let depth = self.links.depth;
        let is_short = |held: &NodeLinks| held.is_member() && held.successors.len() < depth;
        self.joining += usize::from(links.as_ref().is_some_and(is_joining));
        match links.as_ref().is_some_and(is_short) {
            true => self.short.insert(node),
            false => self.short.remove(&node),
        };
        let before = match links {
            Some(links) => self.links.nodes.insert(node, links),
            None => self.links.nodes.remove(&node),
        };
        self.joining -= usize::from(before.as_ref().is_some_and(is_joining));
        self.shape.update(&self.links, node);
        before
    }

    fn broke(&mut self, breach: Breach) {
        self.breaches += 1;
        self.breach.get_or_insert(breach);
        // Without the proofs a node may lose sight of those who came before its predecessor.
        for (node, known) in &mut self.known {
            let held = self.links.nodes.get(node).and_then(|held| held.predecessor);
            known.retain(|id| Some(*id) == held);
        }
        (self.reached, self.based_since) = (false, None);
    }

    fn unlearn(&mut self, node: Id) {
        self.known.values_mut().for_each(|known| {
            known.remove(&node);
        });
    }

    /// Checks what the change of one node's links may have broken; `before` is the list it had.
    fn check(
        &mut self,
        now: Instant,
        node: Id,
        before: &[Id],
        oldest: &dyn Fn() -> Option<Instant>,
    ) {
        let mut found = lists_in_order::check_node(&self.links, node);
        let is_lost =
            self.links.is_member(node) && !one_live_successor::check_node(&self.links, node);
        let list = self.links.nodes.get(&node).map(|held| held.successors.as_slice());
        if self.breach.is_none()
            && is_lost
            && list.is_some_and(|list| self.heard.died_on_its_way(node, list, before))
        {
            self.broke(Breach::ListDied { node });
        }
        if self.breach.is_none() && self.do_proofs_apply() {
            if !self.short.is_empty() {
                self.based_since = None;
            } else if self.has_principals() {
                self.based_since.get_or_insert(now);
                self.reached = true;
            } else if self.is_settled(now, oldest) {
                found.extend(sufficient_principals::check(&self.links));
            } else {
                self.based_since = None;
            }
            if self.reached {
                if is_lost {
                    found.push(Violation::NoLiveSuccessor { node });
                }
                if !self.shape.is_plainly_one_ring() {
                    found.extend(one_ring::check(&self.links));
                }
            }
        }
        found.into_iter().for_each(|violation| self.report(now, violation));
    }
}
