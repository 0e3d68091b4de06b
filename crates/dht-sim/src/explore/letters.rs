//! Messages in flight: what they say is kept once and named by a number.

use dht_core::message::ring::{Neighbors, Request, Response};

use super::fingerprint;
use super::table::Table;

/// A message on its way: what it says, from whom, to whom, and of which call, packed into one
/// number. Call 0 is no call: nobody waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Letter(pub(super) u32);

/// What sort of message it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Tell,
    Ask,
    Answer,
    /// An answer to one who asked for a place, and no place.
    Refusal,
}

impl Letter {
    fn new(body: u32, sort: Sort, from: usize, to: usize, rpc: u8) -> Letter {
        debug_assert!(from < 8 && to < 8 && rpc < 64);
        let parts =
            (body << 14) | ((sort as u32) << 12) | ((from as u32) << 9) | ((to as u32) << 6);
        Letter(parts | u32::from(rpc))
    }

    pub(super) fn body(self) -> u32 {
        self.0 >> 14
    }

    pub(super) fn sort(self) -> Sort {
        match (self.0 >> 12) & 3 {
            0 => Sort::Tell,
            1 => Sort::Ask,
            2 => Sort::Answer,
            _ => Sort::Refusal,
        }
    }

    pub(super) fn from(self) -> usize {
        (self.0 >> 9) as usize & 7
    }

    pub(super) fn to(self) -> usize {
        (self.0 >> 6) as usize & 7
    }

    pub(super) fn rpc(self) -> u8 {
        (self.0 & 63) as u8
    }

    /// Whether it belongs to this call of this node.
    pub(super) fn is_of(self, asker: usize, rpc: u8) -> bool {
        self.rpc() == rpc && self.asker() == Some(asker)
    }

    /// Who made the call that it belongs to.
    pub(super) fn asker(self) -> Option<usize> {
        match self.sort() {
            Sort::Tell => None,
            Sort::Ask => Some(self.from()),
            Sort::Answer | Sort::Refusal => Some(self.to()),
        }
    }
}

/// What a message says.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Body {
    /// Nobody waits for the answer. `life`: of the sender.
    Tell { life: u64, request: Request },
    /// Somebody waits.
    Ask { life: u64, request: Request },
    /// The answer. `life`: of the answerer; none where only a ping was answered.
    Answer { life: Option<u64>, response: Response },
}

impl Body {
    fn sort(&self) -> Sort {
        match self {
            Body::Tell { .. } => Sort::Tell,
            Body::Ask { .. } => Sort::Ask,
            Body::Answer { response, .. } => match response {
                Response::Busy | Response::NotMember | Response::JoinElsewhere { .. } => {
                    Sort::Refusal
                }
                _ => Sort::Answer,
            },
        }
    }

    /// Whether somebody asks for a place.
    pub(super) fn is_join(&self) -> bool {
        matches!(self, Body::Ask { request: Request::Join, .. })
    }
}

/// All that was ever said, each once.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    held: Vec<Body>,
    index: Table,
}

impl Bodies {
    /// The number of this body.
    pub(super) fn number(&mut self, body: Body) -> u32 {
        let key = fingerprint::of(&body);
        if let Some(number) = self.index.find(key) {
            return number;
        }
        let number = self.held.len() as u32;
        assert!(number < 1 << 18, "a letter has room for 262,144 bodies");
        self.held.push(body);
        self.index.set(key, number);
        number
    }

    /// A letter of this body.
    pub(super) fn letter(&self, body: u32, from: usize, to: usize, rpc: u8) -> Letter {
        Letter::new(body, self.get(body).sort(), from, to, rpc)
    }

    pub(super) fn get(&self, number: u32) -> &Body {
        &self.held[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}

/// A request without what has no say in the ring: stamps, which only spare a list its way, and the
/// predecessor list of a notification, where predecessor lists hold one entry.
pub(super) fn plain_request(request: Request) -> Request {
    match request {
        Request::Neighbors { .. } => Request::Neighbors { stamp: None },
        Request::Notify { .. } => Request::Notify { predecessors: Vec::new() },
        Request::Push(pushed) => Request::Push(plain(pushed)),
        other => other,
    }
}

/// The same for an answer.
pub(super) fn plain_response(response: Response) -> Response {
    match response {
        Response::Neighbors(said) => Response::Neighbors(plain(said)),
        Response::Joined(said) => Response::Joined(plain(said)),
        other => other,
    }
}

fn plain(said: Neighbors) -> Neighbors {
    Neighbors { stamp: 0, ..said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_keeps_its_parts() {
        let letter = Letter::new(77_000, Sort::Ask, 3, 5, 61);
        let parts = (letter.body(), letter.sort(), letter.from(), letter.to(), letter.rpc());
        assert_eq!(parts, (77_000, Sort::Ask, 3, 5, 61));
        assert!(letter.is_of(3, 61) && !letter.is_of(5, 61));
    }

    #[test]
    fn what_is_said_twice_is_kept_once() {
        let mut bodies = Bodies::default();
        let tell = |life| Body::Tell { life, request: Request::Ping };
        assert_eq!(bodies.number(tell(0)), bodies.number(tell(0)));
        assert_ne!(bodies.number(tell(0)), bodies.number(tell(1)));
        assert_eq!(bodies.len(), 2);
    }
}
