//! Records of peers: their signatures, and what this endpoint learned of others' records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use dht_core::peer::MAX_ADDRS;
use dht_core::{PeerKey, PeerRecord};
use ring::signature::{ED25519, UnparsedPublicKey};

/// Whether a record can be believed and used: signed by its own key, at most
/// [`MAX_ADDRS`](dht_core::peer::MAX_ADDRS) addresses, each of them one that can be dialled - no
/// wildcard, no group, no port 0. A record without any address is fine: its peer does not know yet
/// how it is reached.
pub fn verify_record(record: &PeerRecord) -> bool {
    record.addrs.len() <= MAX_ADDRS
        && record.addrs.iter().all(is_dialable)
        && UnparsedPublicKey::new(&ED25519, record.key.as_bytes())
            .verify(&signed_bytes(record), &record.signature.0)
            .is_ok()
}

/// Whether an address names one host and a port there: a wildcard, as in `listen`, or a group does
/// not.
pub fn is_dialable(addr: &std::net::SocketAddr) -> bool {
    let ip = addr.ip().to_canonical();
    addr.port() != 0 && !ip.is_unspecified() && !ip.is_multicast()
}

/// What a record's signature is over: a name for the purpose, so that no other signature of the key
/// can pass for one, then everything in the record but the signature.
pub(crate) fn signed_bytes(record: &PeerRecord) -> Vec<u8> {
    let content = (record.key, record.incarnation, record.revision, &record.addrs);
    postcard::to_extend(&content, DOMAIN.to_vec()).expect("a vector takes everything")
}

/// Records that were verified, so that the same one costs no second signature check, and the newest
/// one of each peer, so that a stale second-hand copy is never dialled.
///
/// Peers are kept in two generations; when the young one is full the old one goes. So the book has
/// at most twice [`GENERATION`] peers, and those in use stay.
#[derive(Debug, Default)]
pub(crate) struct RecordBook {
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<PeerKey, Known>,
    old: HashMap<PeerKey, Known>,
}

/// Two records of one peer: lists carry the older one for a while after a change.
#[derive(Debug, Clone)]
struct Known {
    newest: Arc<PeerRecord>,
    before: Option<Arc<PeerRecord>>,
}

impl RecordBook {
    /// The record, verified, as one shared copy; `None` if it cannot be believed.
    pub(crate) fn admit(&self, record: Arc<PeerRecord>) -> Option<Arc<PeerRecord>> {
        let known = self.lock().find(&record.key);
        if let Some(same) = known.and_then(|known| known.same_as(&record)) {
            return Some(same);
        }
        // The check takes longest, and is done without the lock.
        if !verify_record(&record) {
            return None;
        }
        self.lock().learn(record.clone());
        Some(record)
    }

    /// The newest record known of the same peer: this one, or one that came since.
    pub(crate) fn newest(&self, record: &PeerRecord) -> Option<Arc<PeerRecord>> {
        let known = self.lock().find(&record.key)?;
        (known.newest.sequence() > record.sequence()).then_some(known.newest)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        // Nothing is left half-done when a holder panics.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn find(&mut self, key: &PeerKey) -> Option<Known> {
        if let Some(known) = self.young.get(key) {
            return Some(known.clone());
        }
        let known = self.old.remove(key)?;
        self.keep(*key, known.clone());
        Some(known)
    }

    fn learn(&mut self, record: Arc<PeerRecord>) {
        let key = record.key;
        let known = match self.find(&key) {
            None => Known { newest: record, before: None },
            Some(known) if record.sequence() >= known.newest.sequence() => {
                Known { newest: record, before: Some(known.newest) }
            }
            Some(known) => Known { newest: known.newest, before: Some(record) },
        };
        self.keep(key, known);
    }

    fn keep(&mut self, key: PeerKey, known: Known) {
        if self.young.len() >= GENERATION && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }
}

impl Known {
    fn same_as(&self, record: &PeerRecord) -> Option<Arc<PeerRecord>> {
        [Some(&self.newest), self.before.as_ref()]
            .into_iter()
            .flatten()
            .find(|known| ***known == *record)
            .cloned()
    }
}

/// Peers per generation: twice this many records of about 300 bytes are 1.2 MiB (guess: more peers
/// than any node keeps in its lists).
const GENERATION: usize = 2048;
/// Sets record signatures apart from TLS handshakes and from whatever else the key may sign.
const DOMAIN: &[u8] = b"dht-node peer record 1\0";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    fn record(seed: u8, incarnation: u64, addrs: &[&str]) -> PeerRecord {
        let addrs = addrs.iter().map(|addr| addr.parse().expect("an address")).collect();
        Identity::from_seed([seed; 32]).record(incarnation, 0, addrs)
    }

    #[test]
    fn only_what_the_key_signed_is_believed() {
        let good = record(1, 5, &["127.0.0.1:4433", "[::1]:4433"]);
        assert!(verify_record(&good));
        assert!(verify_record(&record(1, 5, &[])), "no address is no lie");
        let changes: [fn(&mut PeerRecord); 5] = [
            |record| record.key = Identity::from_seed([2; 32]).key(),
            |record| record.incarnation += 1,
            |record| record.revision += 1,
            |record| record.addrs[0].set_port(1),
            |record| record.signature.0[9] ^= 1,
        ];
        for change in changes {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(!verify_record(&bad), "{bad:?}");
        }
    }

    /// Case 10: no wildcard, whoever signed it.
    #[test]
    fn addresses_that_name_no_host_are_neither_made_nor_believed() {
        let identity = Identity::from_seed([1; 32]);
        for addr in ["0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1", "127.0.0.1:0", "224.0.0.1:1"] {
            assert_eq!(record(1, 1, &[addr]), record(1, 1, &[]), "{addr}");
            let addrs = vec![addr.parse().expect("an address")];
            let signed = identity.sign(PeerRecord { addrs, ..record(1, 1, &[]) });
            assert!(!verify_record(&signed), "{addr}");
        }
    }

    #[test]
    fn there_are_at_most_eight_addresses() {
        let identity = Identity::from_seed([1; 32]);
        let addrs = |count: u16| (1..=count).map(|port| ([10, 0, 0, 1], port).into()).collect();
        let eight = identity.record(1, 0, addrs(8));
        assert!(verify_record(&eight));
        assert_eq!(identity.record(1, 0, addrs(9)), eight, "the ninth is left out");
        let nine = identity.sign(PeerRecord { addrs: addrs(9), ..eight });
        assert!(!verify_record(&nine));
    }

    #[test]
    fn a_stale_record_never_hides_a_newer_one() {
        let book = RecordBook::default();
        let (old, new) = (record(1, 1, &["10.0.0.1:1"]), record(1, 2, &["10.0.0.2:1"]));
        let shared = book.admit(Arc::new(new.clone())).expect("signed");
        assert_eq!(book.newest(&old).as_deref(), Some(&new));
        assert!(book.admit(Arc::new(old.clone())).is_some(), "true in its time");
        assert_eq!(book.newest(&old).as_deref(), Some(&new));
        assert_eq!(book.newest(&new), None);
        let again = book.admit(Arc::new(new)).expect("signed");
        assert!(Arc::ptr_eq(&shared, &again), "one copy is shared");
    }

    #[test]
    fn the_book_is_bounded_and_keeps_who_is_in_use() {
        let book = RecordBook::default();
        let used = book.admit(Arc::new(record(1, 1, &[]))).expect("signed");
        // Signatures take long; strangers are put in behind the check.
        for n in 0..3 * GENERATION {
            let mut stranger = (*used).clone();
            stranger.key.0[..8].copy_from_slice(&n.to_le_bytes());
            book.lock().learn(Arc::new(stranger));
            assert!(book.lock().find(&used.key).is_some(), "in use");
        }
        let generations = book.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
    }
}
