//! The stored forms of registers, their places, and chunks. Bytes that outlive a process: each form
//! is pinned by a test.

use dht_core::id::Id;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::peer::PeerKey;
use dht_core::register::{Ballot, Key, Register, Value};

/// First byte of a stored register: the form of the rest.
const REGISTER_FORM: u8 = 1;
/// How many bytes of the BLAKE3 of a stored register go before it. Eight tell a damaged record from
/// a whole one; nobody has to be kept from forging his own disk.
const CHECK_LEN: usize = 8;
/// Length of the row of a place.
pub(crate) const PLACE_LEN: usize = 49;
/// Length of the row of a chunk.
pub(crate) const CHUNK_LEN: usize = 36;

/// Where a register is filed in circle order: its point, then its key, so that keys whose SHA-1
/// collide do not overwrite each other.
pub(crate) fn place_key(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(Id::LEN + key.as_bytes().len());
    bytes.extend_from_slice(&key.id().to_bytes());
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

/// The point and the name in a [`place_key`].
pub(crate) fn split_place_key(bytes: &[u8]) -> Option<(Id, &[u8])> {
    let (id, name) = bytes.split_first_chunk::<{ Id::LEN }>()?;
    Some((Id::from_bytes(*id), name))
}

/// What is known of a register without its value, so that comparing and counting does not read
/// manifests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Of the accepted write.
    pub(crate) ballot: Ballot,
    /// Whether it is a tombstone.
    pub(crate) deleted: bool,
}

impl Place {
    /// Of a register.
    pub(crate) fn of(register: &Register) -> Place {
        Place { ballot: register.ballot, deleted: register.value == Value::Deleted }
    }

    /// Epoch and counter, big-endian, the peer, then 1 for a tombstone.
    pub(crate) fn to_bytes(self) -> [u8; PLACE_LEN] {
        let mut bytes = [0; PLACE_LEN];
        bytes[..8].copy_from_slice(&self.ballot.epoch.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.ballot.counter.to_be_bytes());
        bytes[16..48].copy_from_slice(self.ballot.peer.as_bytes());
        bytes[48] = u8::from(self.deleted);
        bytes
    }

    /// `None` if this is no such row.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Place> {
        let bytes: &[u8; PLACE_LEN] = bytes.try_into().ok()?;
        let (epoch, rest) = bytes.split_first_chunk()?;
        let (counter, rest) = rest.split_first_chunk()?;
        let (peer, deleted) = rest.split_first_chunk()?;
        let ballot = Ballot {
            epoch: u64::from_be_bytes(*epoch),
            counter: u64::from_be_bytes(*counter),
            peer: PeerKey(*peer),
        };
        match deleted {
            [0] => Some(Place { ballot, deleted: false }),
            [1] => Some(Place { ballot, deleted: true }),
            _ => None,
        }
    }
}

/// Form byte, check, postcard.
pub(crate) fn register_to_bytes(register: &Register) -> Vec<u8> {
    let body = postcard::to_allocvec(register).expect("a register in memory always serializes");
    let mut bytes = Vec::with_capacity(1 + CHECK_LEN + body.len());
    bytes.push(REGISTER_FORM);
    bytes.extend_from_slice(&check(&body));
    bytes.extend_from_slice(&body);
    bytes
}

/// `None` if the bytes are not as they were written.
pub(crate) fn register_from_bytes(bytes: &[u8]) -> Option<Register> {
    let (form, rest) = bytes.split_first()?;
    let (sum, body) = rest.split_first_chunk::<CHECK_LEN>()?;
    if *form != REGISTER_FORM || check(body) != *sum {
        return None;
    }
    postcard::from_bytes(body).ok()
}

fn check(body: &[u8]) -> [u8; CHECK_LEN] {
    let hash = blake3::hash(body);
    *hash.as_bytes().first_chunk().expect("a hash is longer than a check")
}

/// Hash, then the length, big-endian.
pub(crate) fn chunk_to_bytes(chunk: &ChunkRef) -> [u8; CHUNK_LEN] {
    let mut bytes = [0; CHUNK_LEN];
    bytes[..32].copy_from_slice(&chunk.hash);
    bytes[32..].copy_from_slice(&chunk.len.to_be_bytes());
    bytes
}

/// `None` if this is no such row.
pub(crate) fn chunk_from_bytes(bytes: &[u8]) -> Option<ChunkRef> {
    let bytes: &[u8; CHUNK_LEN] = bytes.try_into().ok()?;
    let (hash, len) = bytes.split_first_chunk()?;
    Some(ChunkRef { hash: *hash, len: u32::from_be_bytes(len.try_into().ok()?) })
}

/// The digest of a stretch of registers or chunks, entry by entry.
#[derive(Default)]
pub(crate) struct Digest {
    hasher: blake3::Hasher,
    count: u64,
}

impl Digest {
    /// One more register.
    pub(crate) fn add_register(&mut self, id: Id, place: &Place) {
        self.hasher.update(&id.to_bytes());
        self.hasher.update(&place.to_bytes()[..PLACE_LEN - 1]);
        self.count += 1;
    }

    /// One more chunk.
    pub(crate) fn add_chunk(&mut self, chunk: &ChunkRef) {
        self.hasher.update(&chunk.hash);
        self.count += 1;
    }

    /// The digest and the number of entries.
    pub(crate) fn finish(self) -> (ContentHash, u64) {
        (*self.hasher.finalize().as_bytes(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dht_core::register::OperationId;

    use super::*;
    use crate::error::hex;

    fn register() -> Register {
        Register {
            key: Key::new("a/b").expect("3 bytes"),
            ballot: Ballot { epoch: 1, counter: 258, peer: PeerKey([7; 32]) },
            operations: vec![OperationId([9; 16])],
            value: Value::Present(Bytes::from_static(b"xyz")),
        }
    }

    /// The golden bytes: a change here needs a new form, and a migration.
    #[test]
    fn stored_forms_stay_as_they_are() {
        let seven = "07".repeat(32);
        let nine = "09".repeat(16);
        assert_eq!(
            hex(&register_to_bytes(&register())),
            format!("01f7e11c9fab913e2203612f62018202{seven}01{nine}010378797a")
        );
        let place = Place::of(&register());
        assert_eq!(hex(&place.to_bytes()), format!("00000000000000010000000000000102{seven}00"));
        let chunk = ChunkRef { hash: [3; 32], len: 0x0102_0304 };
        assert_eq!(hex(&chunk_to_bytes(&chunk)), format!("{}01020304", "03".repeat(32)));
        let key = place_key(&register().key);
        assert_eq!(key[..Id::LEN], register().key.id().to_bytes());
        assert_eq!(split_place_key(&key), Some((register().key.id(), &b"a/b"[..])));
    }

    #[test]
    fn forms_read_back() {
        let mut register = register();
        assert_eq!(register_from_bytes(&register_to_bytes(&register)), Some(register.clone()));
        register.value = Value::Deleted;
        assert_eq!(register_from_bytes(&register_to_bytes(&register)), Some(register.clone()));
        let place = Place::of(&register);
        assert_eq!(Place::from_bytes(&place.to_bytes()), Some(place));
        let chunk = ChunkRef { hash: [3; 32], len: u32::MAX };
        assert_eq!(chunk_from_bytes(&chunk_to_bytes(&chunk)), Some(chunk));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_of_a_register_is_noticed() {
        let bytes = register_to_bytes(&register());
        for at in 0..bytes.len() {
            assert_eq!(register_from_bytes(&bytes[..at]), None, "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(register_from_bytes(&flipped), None, "bit {bit} of byte {at}");
            }
        }
        assert_eq!(Place::from_bytes(&[2; PLACE_LEN]), None);
        assert_eq!(Place::from_bytes(&[0; PLACE_LEN - 1]), None);
        assert_eq!(chunk_from_bytes(&[0; CHUNK_LEN + 1]), None);
        assert_eq!(split_place_key(&[0; Id::LEN - 1]), None);
    }
}
