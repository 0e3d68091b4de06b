//! What can go wrong for a client.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dht_core::Id;
use dht_core::manifest::ContentHash;
use dht_core::message::Refusal;
use dht_core::message::client::ClientErrorCode;
use dht_net::{BindError, BodyError, DialError, RequestError};

use crate::node::JoinAddr;

/// Why a client's request came to nothing. Unless a variant says otherwise, nothing was changed in
/// the ring.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No socket could be opened here.
    #[error("cannot open a UDP socket: {0}")]
    Bind(#[from] BindError),
    /// None of the nodes could be connected to. Start one, or name another.
    #[error("{}", attempts_text(.0))]
    NoNode(Vec<Attempt>),
    /// The request or its answer got lost. A write may have been carried out.
    #[error("{addr} gave no answer: {source}")]
    Request {
        /// Who was asked.
        addr: SocketAddr,
        /// What the transport says.
        source: Box<RequestError>,
    },
    /// The bytes of a file stopped half-way.
    #[error("the transfer with {addr} broke: {source}")]
    Body {
        /// The other side.
        addr: SocketAddr,
        /// What the transport says.
        source: BodyError,
    },
    /// The member took no request.
    #[error("{addr} refused: {}", refusal_text(.refusal))]
    Refused {
        /// Who was asked.
        addr: SocketAddr,
        /// Why.
        refusal: Refusal,
    },
    /// The member says that it could not be done, or that the file stopped half-way.
    #[error("{message}")]
    Failed {
        /// The kind of failure.
        code: ClientErrorCode,
        /// The member's own words.
        message: String,
    },
    /// Nothing moved for the time-out. A write may have been carried out.
    #[error("no progress for {after:?} while {doing}")]
    TimedOut {
        /// What was waited for.
        doing: Doing,
        /// The time-out.
        after: Duration,
    },
    /// The deadline passed. A write may have been carried out.
    #[error("not done within the deadline of {after:?}")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// The answer does not fit the question.
    #[error("{addr} gave an answer that does not fit the question")]
    BadAnswer {
        /// Who was asked.
        addr: SocketAddr,
    },
    /// The bytes that arrived are not the file: another length or another hash.
    #[error(
        "the bytes do not match the file: {size} of {expected_size} bytes, hash {} instead of {}",
        hex(.hash),
        hex(.expected_hash)
    )]
    Mismatch {
        /// How many bytes there were.
        size: u64,
        /// How many there should be.
        expected_size: u64,
        /// Their BLAKE3.
        hash: ContentHash,
        /// What it should be.
        expected_hash: ContentHash,
    },
    /// What was to be stored could not be read here.
    #[error("cannot read the input: {0}")]
    Input(#[source] io::Error),
    /// What was fetched could not be written here.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
}

impl ClientError {
    /// Whether the same request to another member may go better. Retrying is safe for whatever reads
    /// and for writes that keep their operation id.
    pub fn another_member_may_help(&self) -> bool {
        match self {
            ClientError::Request { .. }
            | ClientError::Body { .. }
            | ClientError::TimedOut { .. }
            | ClientError::BadAnswer { .. }
            | ClientError::Mismatch { .. } => true,
            ClientError::Refused { refusal, .. } => matches!(
                refusal,
                Refusal::Overloaded { .. } | Refusal::ShuttingDown | Refusal::Unsupported
            ),
            ClientError::Failed { code, .. } => matches!(
                code,
                ClientErrorCode::Unreachable
                    | ClientErrorCode::NoQuorum
                    | ClientErrorCode::UnknownOutcome
                    | ClientErrorCode::NotMember
                    | ClientErrorCode::Incomplete
            ),
            ClientError::Bind(_)
            | ClientError::NoNode(_)
            | ClientError::Deadline { .. }
            | ClientError::Input(_)
            | ClientError::Output(_) => false,
        }
    }
}

/// What a client was waiting for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Doing {
    /// A connection.
    #[error("connecting")]
    Connecting,
    /// An answer.
    #[error("waiting for an answer")]
    Answering,
    /// The member to take more bytes.
    #[error("sending")]
    Sending,
    /// More bytes of a file.
    #[error("receiving")]
    Receiving,
}

/// One node that could not be connected to.
#[derive(Debug)]
pub struct Attempt {
    /// Which.
    pub node: JoinAddr,
    /// Why.
    pub error: AttemptError,
}

/// Why one node could not be connected to.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// Its name has no address.
    #[error("the name cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// Its name resolved to nothing.
    #[error("the name has no address")]
    NoAddress,
    /// It could not be dialled.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Another node than the pinned one answers there.
    #[error("node {presented} answers there, not the pinned one")]
    WrongId {
        /// Who answers.
        presented: Id,
    },
    /// It took too long.
    #[error("no connection in time")]
    TimedOut,
}

fn attempts_text(attempts: &[Attempt]) -> String {
    let lines: Vec<String> = attempts.iter().map(attempt_text).collect();
    match lines.len() {
        0 => "no node to connect to is left".to_owned(),
        _ => format!("no node could be reached: {}", lines.join("; ")),
    }
}

/// The node and what happened; what names the address already needs no second one.
fn attempt_text(attempt: &Attempt) -> String {
    let Attempt { node, error } = attempt;
    let text = error.to_string();
    match node.numeric() {
        Some(addr) if text.contains(&addr.to_string()) => text,
        _ => format!("{node}: {text}"),
    }
}

fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotAdmin => {
            "this is taken from its own machine or from keys listed in its `admins` only".to_owned()
        }
        Refusal::Overloaded { retry_after_ms } => {
            format!("too much is going on there; try again in {retry_after_ms} ms")
        }
        Refusal::TooLarge { limit } => format!("larger than the {limit} bytes it takes"),
        Refusal::ShuttingDown => "it is going down".to_owned(),
        Refusal::Unsupported => "it does not know this request; it runs another version".to_owned(),
        Refusal::OtherRing { ours, yours } => {
            format!("it belongs to ring {:032x}, not to {:032x}", ours.0, yours.0)
        }
        Refusal::Malformed
        | Refusal::NoHello
        | Refusal::NoSuchPlace { .. }
        | Refusal::NoProgress => format!("{refusal:?}"),
    }
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::failure_of_code;

    #[test]
    fn what_is_final_is_not_asked_again() {
        let failed = |code| ClientError::Failed { code, message: String::new() };
        assert!(failed(ClientErrorCode::NoQuorum).another_member_may_help());
        assert!(!failed(ClientErrorCode::NotFound).another_member_may_help());
        assert!(!failed(ClientErrorCode::Usage).another_member_may_help());
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        let refused = |refusal| ClientError::Refused { addr, refusal };
        assert!(refused(Refusal::ShuttingDown).another_member_may_help());
        assert!(!refused(Refusal::NotAdmin).another_member_may_help());
    }

    #[test]
    fn every_kind_of_failure_has_its_number() {
        assert_eq!(failure_of_code(1), Some(ClientErrorCode::NotFound));
        assert_eq!(failure_of_code(6), Some(ClientErrorCode::Incomplete));
        assert_eq!(failure_of_code(10), Some(ClientErrorCode::NotMember));
        assert_eq!(failure_of_code(11), None);
        assert_eq!(failure_of_code(dht_net::codes::CANCELLED), None);
    }

    #[test]
    fn every_node_that_failed_is_named() {
        let node: JoinAddr = "127.0.0.1:9".parse().expect("an address");
        let error = ClientError::NoNode(vec![Attempt { node, error: AttemptError::TimedOut }]);
        let text = error.to_string();
        assert!(text.contains("127.0.0.1:9: no connection in time"), "{text}");
    }
}
