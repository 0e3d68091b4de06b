//! What worlds need to know of a node without looking into it again.

use dht_core::message::client::NodeState;
use dht_core::message::ring::{Neighbors, Response};
use dht_core::node::Node;
use dht_core::node::steer::{Alarm, CallKind};
use dht_core::{Contact, between};

use super::letters::Body;
use super::local::{place_of, point};
use crate::invariants::{Links, NodeLinks, lists_in_order};

/// A place and a life.
pub(super) type Known = (u8, u64);

/// A node at a glance.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Summary {
    pub(super) place: usize,
    pub(super) life: u64,
    pub(super) state: NodeState,
    pub(super) alone: bool,
    pub(super) successors: Vec<Known>,
    pub(super) predecessor: Option<Known>,
    /// Whom it would ask for a way back.
    pub(super) remembered: Vec<Known>,
    /// The calls that wait for an answer, as bits.
    pub(super) calls: u64,
    /// The same, one by one: number, place, whether it asks for a place in the ring.
    pub(super) waiting: Vec<(u8, u8, bool)>,
    /// Whose questions wait here, as bits.
    pub(super) questions: u8,
    pub(super) alarms: Vec<Alarm>,
    /// Whether its own pointers are in doubt.
    pub(super) is_in_doubt: bool,
    pub(super) seeks: bool,
    pub(super) is_in_order: bool,
}

impl Summary {
    pub(super) fn of(node: &Node) -> Summary {
        let known = |list: &[Contact]| list.iter().map(known).collect::<Vec<Known>>();
        let calls = node.calls();
        let waiting = calls
            .iter()
            .map(|call| (call.rpc.0 as u8, place_of(&call.to) as u8, call.kind == CallKind::Join));
        Summary {
            place: place_of(node.me()),
            life: node.me().incarnation(),
            state: node.state(),
            alone: node.is_alone(),
            successors: known(node.successors()),
            predecessor: node.predecessor().map(self::known),
            remembered: node.remembered().map(self::known).collect(),
            calls: calls.iter().fold(0, |all, call| all | (1 << call.rpc.0)),
            waiting: waiting.collect(),
            questions: node
                .open_questions()
                .iter()
                .fold(0, |all, reply| all | (1 << (reply.0 - 1))),
            alarms: node.alarms(),
            is_in_doubt: calls.iter().any(|call| call.rpc.0 == 1),
            seeks: node.seeks_place(),
            is_in_order: is_in_order(node),
        }
    }

    pub(super) fn is_member(&self) -> bool {
        self.state == NodeState::Member
    }

    /// Whether it lets others in.
    pub(super) fn is_host(&self) -> bool {
        matches!(self.state, NodeState::Member | NodeState::Isolated)
    }

    /// Whether it would let this one in now, as far as its list says.
    pub(super) fn would_host(&self, joiner: usize) -> bool {
        let head = self.successors.iter().map(|held| usize::from(held.0)).find(|at| *at != joiner);
        self.is_host() && head.is_none_or(|head| is_between(self.place, joiner, head))
    }

    /// Whether its list, without `gone`, names one of these.
    pub(super) fn has_entry(&self, among: u8) -> bool {
        self.successors.iter().any(|held| among & (1 << held.0) != 0)
    }
}

fn known(contact: &Contact) -> Known {
    (place_of(contact) as u8, contact.incarnation())
}

fn is_in_order(node: &Node) -> bool {
    let nodes = [(node.me().id, NodeLinks::of(node))].into();
    let links = Links { depth: usize::MAX, predecessors: usize::MAX, nodes };
    lists_in_order::check(&links).is_empty()
}

/// Whether `x` lies strictly between two places, clockwise.
pub(super) fn is_between(a: usize, x: usize, b: usize) -> bool {
    between(point(a), point(x), point(b))
}

/// Whether `taken` lies between `held` and the node.
pub(super) fn is_closer(node: usize, held: usize, taken: usize) -> bool {
    is_between(held, taken, node)
}

/// Whom a joiner would have in its list, as bits, when this answer lets it in.
pub(super) fn let_in_by(body: &Body, member: usize) -> Option<u8> {
    match body {
        Body::Answer { response: Response::Joined(Neighbors { successors, .. }), .. } => {
            Some(successors.iter().fold(1 << member, |all, held| all | (1 << place_of(held))))
        }
        _ => None,
    }
}
