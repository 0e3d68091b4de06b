//! Why a client's request failed, with what to do next.

use dht_core::event::{ReadOutcome, WriteOutcome};
use dht_core::message::client::{ClientErrorCode, ClientResponse, LookupFailure};

use crate::node::driver::NotRunning;

/// The code for scripts, the text for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ClientFailure {
    pub(super) code: ClientErrorCode,
    message: String,
}

impl ClientFailure {
    pub(super) fn new(code: ClientErrorCode, message: impl Into<String>) -> ClientFailure {
        ClientFailure { code, message: message.into() }
    }

    /// The request broke a bound.
    pub(super) fn usage(message: impl Into<String>) -> ClientFailure {
        ClientFailure::new(ClientErrorCode::Usage, message)
    }

    pub(super) fn not_found() -> ClientFailure {
        ClientFailure::new(
            ClientErrorCode::NotFound,
            "there is no such key; `dht-node ls` shows those that there are",
        )
    }

    pub(super) fn not_member() -> ClientFailure {
        ClientFailure::new(
            ClientErrorCode::NotMember,
            "this node has no place in a ring yet; wait until it is ready, or ask another member",
        )
    }

    pub(super) fn isolated() -> ClientFailure {
        ClientFailure::new(
            ClientErrorCode::NotMember,
            "all neighbours of this node fell silent; start them again, or ask another member",
        )
    }

    /// The store of this very member failed.
    pub(super) fn disk() -> ClientFailure {
        ClientFailure::new(
            ClientErrorCode::Failed,
            "the member's disk failed; its log says how; ask another member",
        )
    }

    fn overloaded() -> ClientFailure {
        ClientFailure::new(
            ClientErrorCode::Unreachable,
            "the member has too many lookups under way; try again in a few seconds, or ask another",
        )
    }

    pub(super) fn lookup(failure: LookupFailure) -> ClientFailure {
        let message = match failure {
            LookupFailure::NotMember => return ClientFailure::not_member(),
            LookupFailure::Exhausted => "nobody on the way to the owner answers",
            LookupFailure::TooManyHops => "the way to the owner has no end",
            LookupFailure::TimedOut => "the way to the owner took too long",
            LookupFailure::Overloaded => return ClientFailure::overloaded(),
        };
        let message = format!("{message}; the ring may be mending: try again in a few seconds");
        ClientFailure::new(ClientErrorCode::Unreachable, message)
    }

    pub(super) fn no_quorum(answered: usize, needed: usize) -> ClientFailure {
        let message = format!(
            "{answered} of the {needed} copies that are needed answered, and nothing was changed; \
             start the members that are down, or try again when the ring has replaced them"
        );
        ClientFailure::new(ClientErrorCode::NoQuorum, message)
    }

    /// What a read came to, if not to a value.
    pub(super) fn of_read(outcome: ReadOutcome) -> ClientFailure {
        match outcome {
            ReadOutcome::Unreachable(failure) => ClientFailure::lookup(failure),
            ReadOutcome::NoQuorum { answered, needed } => {
                ClientFailure::no_quorum(answered, needed)
            }
            ReadOutcome::Value { .. } => ClientFailure::not_found(),
        }
    }

    /// What a write came to, if it is not done.
    pub(super) fn of_write(outcome: WriteOutcome) -> ClientFailure {
        match outcome {
            WriteOutcome::Unreachable(failure) => ClientFailure::lookup(failure),
            WriteOutcome::NoQuorum { answered, needed } => {
                ClientFailure::no_quorum(answered, needed)
            }
            WriteOutcome::UnknownOutcome { acked, needed } => {
                let message = format!(
                    "{acked} of the {needed} copies that are needed were confirmed: the change may \
                     appear later; read the key to see, or do it again"
                );
                ClientFailure::new(ClientErrorCode::UnknownOutcome, message)
            }
            WriteOutcome::Done { .. } => {
                ClientFailure::new(ClientErrorCode::Failed, "the member contradicts itself: a bug")
            }
        }
    }

    pub(super) fn into_response(self) -> ClientResponse {
        ClientResponse::Failed { code: self.code, message: self.message }
    }
}

impl From<NotRunning> for ClientFailure {
    fn from(_: NotRunning) -> ClientFailure {
        ClientFailure::not_member()
    }
}
