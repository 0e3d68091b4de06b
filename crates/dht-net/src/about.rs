//! What tells one ring's protocol from another's before anything else is said.

/// The protocol version and ring name of an endpoint. They are the ALPN of its connections: a peer
/// with others never gets past the TLS handshake. Why, it may ask with [`About::ALPN`], which every
/// version answers alike and with nothing but this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// Of the protocol.
    pub(crate) version: u16,
    /// The first eight bytes of the BLAKE3 hash of the ring's name.
    pub(crate) ring_name_hash: [u8; 8],
}

impl About {
    /// To ask who is there. Never changes.
    pub(crate) const ALPN: &'static [u8] = b"dht-node/about";

    pub(crate) fn new(ring_name: &str) -> About {
        let mut ring_name_hash = [0; 8];
        ring_name_hash.copy_from_slice(&blake3::hash(ring_name.as_bytes()).as_bytes()[..8]);
        About { version: VERSION, ring_name_hash }
    }

    /// `dht-node/1/` and the hash in hexadecimal digits.
    pub(crate) fn alpn(&self) -> Vec<u8> {
        let hash = u64::from_be_bytes(self.ring_name_hash);
        format!("dht-node/{}/{hash:016x}", self.version).into_bytes()
    }

    /// Version and hash, big-endian: the reason phrase that answers the question.
    pub(crate) fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..2].copy_from_slice(&self.version.to_be_bytes());
        bytes[2..].copy_from_slice(&self.ring_name_hash);
        bytes
    }

    /// Reads the answer. A later version may add to it, never change it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<About> {
        let version = u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?);
        Some(About { version, ring_name_hash: bytes.get(2..10)?.try_into().ok()? })
    }
}

/// Version of the protocol: changes when old and new nodes could not understand each other.
pub const VERSION: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_pinned() {
        let about = About::new("default");
        assert_eq!(about.alpn(), b"dht-node/1/f78761cf8c3621e8");
        let bytes = about.to_bytes();
        assert_eq!(bytes, [0, 1, 0xf7, 0x87, 0x61, 0xcf, 0x8c, 0x36, 0x21, 0xe8]);
        assert_eq!(About::from_bytes(&bytes), Some(about));
        assert_eq!(About::from_bytes(&[&bytes[..], b"more"].concat()), Some(about));
        assert_eq!(About::from_bytes(&bytes[..9]), None);
        assert_ne!(About::new("other").alpn(), about.alpn());
    }
}
