//! Registers: the small replicated cells that hold one manifest per key, in their final form.
//!
//! Until views and agreement are built, the highest ballot wins and clocks decide nothing; the
//! form - ballot, operation ids, value - is the one CASPaxos within a view needs
//! (`docs/protocol.md`, "Registers").

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::Id;
use crate::peer::PeerKey;

/// Longest key, in bytes (`docs/cli.md`).
pub const MAX_KEY_LEN: usize = 1024;
/// Longest register value, in bytes. A manifest with the chunk list of a 1 GiB file takes 37 KiB;
/// longer lists are chunked themselves (guess: four times that).
pub const MAX_VALUE_LEN: usize = 160 * 1024;
/// How many operation ids a register remembers, so that a retried write is recognised.
pub const MAX_OPERATIONS: usize = 16;

/// The view every register is decided in until views exist: that of the founding.
pub const FIRST_EPOCH: u64 = 1;

/// The name of a file: 1 to [`MAX_KEY_LEN`] bytes, any of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Key(Bytes);

impl Key {
    /// Checks the length.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Key, KeyError> {
        let bytes = bytes.into();
        match bytes.len() {
            0 => Err(KeyError::Empty),
            len if len > MAX_KEY_LEN => Err(KeyError::TooLong { len }),
            _ => Ok(Key(bytes)),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where the key lies on the circle.
    pub fn id(&self) -> Id {
        Id::of_key(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        Key::new(Bytes::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Why bytes are no [`Key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyError {
    /// A key needs at least one byte.
    Empty,
    /// A key has at most [`MAX_KEY_LEN`] bytes.
    TooLong {
        /// How many it had.
        len: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Empty => write!(f, "a key needs at least one byte"),
            KeyError::TooLong { len } => {
                write!(f, "a key has at most {MAX_KEY_LEN} bytes, this one has {len}")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Orders the writes of one register. Epoch first, so that a newer view always stays on top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Ballot {
    /// The view the write was made in.
    pub epoch: u64,
    /// Grows with every write of the key.
    pub counter: u64,
    /// Who coordinated the write: two coordinators never make the same ballot.
    pub peer: PeerKey,
}

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = *self.peer.as_bytes();
        write!(f, "{}-{}-{a:02x}{b:02x}{c:02x}{d:02x}", self.epoch, self.counter)
    }
}

/// Names one write for its retries: drawn at random by the client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct OperationId(pub [u8; 16]);

/// What a register says of its key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Value {
    /// The key was deleted: a tombstone.
    Deleted,
    /// The manifest in its stored form; the core does not look inside.
    Present(Bytes),
}

/// One register as a member keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Register {
    /// The key, by which the register is named and listed.
    pub key: Key,
    /// Of the accepted write.
    pub ballot: Ballot,
    /// The last [`MAX_OPERATIONS`] writes, newest last.
    pub operations: Vec<OperationId>,
    /// The accepted value.
    pub value: Value,
}

impl Register {
    /// Whether this write would replace what is held.
    pub fn supersedes(&self, held: Option<&Register>) -> bool {
        held.is_none_or(|held| self.ballot > held.ballot)
    }

    /// About how many bytes the register takes in a message.
    pub fn size_hint(&self) -> usize {
        let value = match &self.value {
            Value::Deleted => 0,
            Value::Present(bytes) => bytes.len(),
        };
        64 + self.key.as_bytes().len() + 16 * self.operations.len() + value
    }

    /// The same key after one more write, with its operation remembered.
    pub fn followed_by(
        held: Option<&Register>,
        key: Key,
        epoch: u64,
        peer: PeerKey,
        operation: OperationId,
        value: Value,
    ) -> Register {
        let (held_epoch, counter) =
            held.map_or((0, 0), |held| (held.ballot.epoch, held.ballot.counter));
        let mut operations: Vec<OperationId> =
            held.map(|held| held.operations.clone()).unwrap_or_default();
        operations.push(operation);
        let surplus = operations.len().saturating_sub(MAX_OPERATIONS);
        operations.drain(..surplus);
        let ballot =
            Ballot { epoch: epoch.max(held_epoch), counter: counter.saturating_add(1), peer };
        Register { key, ballot, operations, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new("k").expect("one byte")
    }

    #[test]
    fn keys_have_1_to_1024_bytes() {
        assert_eq!(Key::new(""), Err(KeyError::Empty));
        assert!(Key::new(vec![b'x'; MAX_KEY_LEN]).is_ok());
        assert_eq!(Key::new(vec![b'x'; 1025]), Err(KeyError::TooLong { len: 1025 }));
        let wire = postcard::to_allocvec(&Bytes::from(vec![0u8; 2000])).expect("fits");
        assert!(postcard::from_bytes::<Key>(&wire).is_err(), "the wire is checked too");
    }

    #[test]
    fn a_later_write_always_has_the_higher_ballot() {
        let (a, b) = (PeerKey([1; 32]), PeerKey([2; 32]));
        let first = Register::followed_by(None, key(), 1, b, OperationId([0; 16]), Value::Deleted);
        let second =
            Register::followed_by(Some(&first), key(), 1, a, OperationId([1; 16]), Value::Deleted);
        assert!(second.supersedes(Some(&first)), "though its peer sorts first");
        assert!(!first.supersedes(Some(&second)));
        assert!(!first.supersedes(Some(&first)), "a repeated write changes nothing");
    }

    #[test]
    fn a_register_remembers_its_last_sixteen_operations() {
        let mut held = None;
        for n in 0..20 {
            let operation = OperationId([n; 16]);
            let peer = PeerKey([0; 32]);
            held = Some(Register::followed_by(
                held.as_ref(),
                key(),
                1,
                peer,
                operation,
                Value::Deleted,
            ));
        }
        let held = held.expect("written");
        assert_eq!(held.operations.len(), MAX_OPERATIONS);
        assert_eq!(held.operations.last(), Some(&OperationId([19; 16])));
        assert_eq!(held.ballot.counter, 20);
    }

    #[test]
    fn counters_saturate() {
        let ballot = Ballot { epoch: 1, counter: u64::MAX, peer: PeerKey([0; 32]) };
        let held = Register { key: key(), ballot, operations: vec![], value: Value::Deleted };
        let next = Register::followed_by(
            Some(&held),
            key(),
            1,
            PeerKey([9; 32]),
            OperationId([0; 16]),
            Value::Deleted,
        );
        assert_eq!(next.ballot.counter, u64::MAX);
    }
}
