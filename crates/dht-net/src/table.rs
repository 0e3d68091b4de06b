//! Which connections there are, and which of them is in use for each peer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dht_core::{PeerKey, PeerRecord};
use tokio::sync::watch;

use crate::codes;
use crate::error::DialError;
use crate::link::Link;

/// The connections of an endpoint. One per peer is in use; a second one, when both sides dialled at
/// once or a peer came back, is kept only until its requests are done.
#[derive(Debug)]
pub(crate) struct Table {
    me: PeerKey,
    most: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    slots: HashMap<PeerKey, Slot>,
    links: usize,
}

#[derive(Debug, Default)]
struct Slot {
    /// The last one is in use.
    links: Vec<Arc<Link>>,
    /// Told when the dial under way ends, or the peer has called meanwhile.
    dial: Option<watch::Sender<Outcome>>,
}

/// What a dial came to; `None` while it is under way.
pub(crate) type Outcome = Option<Result<Arc<Link>, DialError>>;

/// How somebody who needs a connection gets it.
pub(crate) enum Dial {
    /// It is there.
    Done(Arc<Link>),
    /// Somebody else dials already.
    Wait(watch::Receiver<Outcome>),
    /// Dial, then say so by [`Table::end_dial`].
    Begin(watch::Receiver<Outcome>),
}

/// There are as many connections as may be, and all are in use.
#[derive(Debug)]
pub(crate) struct Full;

impl Table {
    pub(crate) fn new(me: PeerKey, most: usize) -> Table {
        Table { me, most, inner: Mutex::default() }
    }

    /// The connection in use with this peer.
    pub(crate) fn current(&self, key: &PeerKey) -> Option<Arc<Link>> {
        self.lock().current(key)
    }

    /// The connection to use for a peer in the life that its record tells of: one to that very life
    /// if it is open. A process that came later with the same key - a copied identity - must not
    /// answer for the one that others know.
    pub(crate) fn for_life(&self, record: &PeerRecord) -> Option<Arc<Link>> {
        let inner = self.lock();
        let links = inner.slots.get(&record.key).map_or(&[][..], |slot| &slot.links);
        let is_meant =
            |link: &&Arc<Link>| link.is_open() && link.incarnation() == Some(record.incarnation);
        links.iter().rev().find(is_meant).cloned().or_else(|| inner.current(&record.key))
    }

    /// A connection to whoever is at this address.
    pub(crate) fn at(&self, addr: SocketAddr) -> Option<Arc<Link>> {
        let addr = crate::link::canonical(addr);
        let inner = self.lock();
        let mut in_use = inner.slots.values().filter_map(|slot| slot.links.last());
        in_use.find(|link| link.remote == addr && link.is_open()).cloned()
    }

    /// The connection to this peer, or the dial that will bring it.
    pub(crate) fn join_dial(&self, key: PeerKey) -> Dial {
        let mut inner = self.lock();
        if let Some(link) = inner.current(&key) {
            return Dial::Done(link);
        }
        let slot = inner.slots.entry(key).or_default();
        match &slot.dial {
            Some(dial) => Dial::Wait(dial.subscribe()),
            None => {
                let (dial, outcome) = watch::channel(None);
                slot.dial = Some(dial);
                Dial::Begin(outcome)
            }
        }
    }

    /// The dial has ended. If the peer has called meanwhile, that connection counts.
    pub(crate) fn end_dial(&self, key: PeerKey, result: Result<Arc<Link>, DialError>) {
        let mut inner = self.lock();
        let Some(slot) = inner.slots.get_mut(&key) else { return };
        if let Some(dial) = slot.dial.take() {
            dial.send_if_modified(|outcome| {
                let first = outcome.is_none();
                if first {
                    *outcome = Some(result);
                }
                first
            });
        }
        inner.tidy(&key);
    }

    /// Takes a new connection in. Of two with the same peer, both sides keep the same one.
    pub(crate) fn insert(&self, link: &Arc<Link>) -> Result<Listed, Full> {
        let mut inner = self.lock();
        if inner.links >= self.most && !inner.evict_idle() {
            return Err(Full);
        }
        inner.links += 1;
        let slot = inner.slots.entry(link.key).or_default();
        slot.links.retain(|other| other.is_open());
        let keep_old = slot.links.last().is_some_and(|old| self.prefers_old(old, link));
        if keep_old {
            link.retire();
            slot.links.insert(slot.links.len() - 1, link.clone());
        } else {
            // Those to another process with this key end when they break, or when nobody uses them:
            // if that process lives, its key was copied, and it was here first.
            let instance = link.instance();
            let same = slot.links.iter().filter(|old| old.instance() == instance);
            same.for_each(|old| old.retire());
            slot.links.push(link.clone());
        }
        if slot.links.len() > MAX_LINKS {
            slot.links.remove(0).close(codes::DISCONNECTED);
        }
        if let (Some(dial), Some(current)) = (&slot.dial, slot.links.last()) {
            dial.send_replace(Some(Ok(current.clone())));
        }
        inner.recount();
        Ok(Listed(link.clone()))
    }

    fn remove(&self, link: &Arc<Link>) {
        let mut inner = self.lock();
        if let Some(slot) = inner.slots.get_mut(&link.key) {
            slot.links.retain(|other| !Arc::ptr_eq(other, link));
        }
        inner.tidy(&link.key);
        inner.recount();
    }

    /// Every connection with this peer.
    pub(crate) fn of(&self, key: &PeerKey) -> Vec<Arc<Link>> {
        self.lock().slots.get(key).map_or_else(Vec::new, |slot| slot.links.clone())
    }

    /// Every connection.
    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.lock().slots.values().flat_map(|slot| slot.links.iter().cloned()).collect()
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().links
    }

    /// Two connections of the same two processes are told apart by who dialled: the one that the
    /// smaller key dialled is kept, which both sides can see. Otherwise the peer has restarted, or
    /// dialled anew for a reason: the newer one is kept.
    fn prefers_old(&self, old: &Link, new: &Link) -> bool {
        let dialled_by_smaller = |link: &Link| link.dialled == (self.me < link.key);
        old.instance() == new.instance() && old.dialled != new.dialled && dialled_by_smaller(old)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is left half-done when a holder panics.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection in its table. Whoever serves the connection holds it: however the serving
/// ends, the table lets go.
#[derive(Debug)]
pub(crate) struct Listed(Arc<Link>);

impl Listed {
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.shared.table.remove(&self.0);
    }
}

impl Inner {
    fn current(&self, key: &PeerKey) -> Option<Arc<Link>> {
        let links = &self.slots.get(key)?.links;
        links.iter().rev().find(|link| link.is_open()).cloned()
    }

    /// Closes the connection that was idle for longest; `false` if all are busy.
    fn evict_idle(&mut self) -> bool {
        let mut idle: Vec<Arc<Link>> = self
            .slots
            .values()
            .flat_map(|slot| &slot.links)
            .filter(|link| link.is_idle())
            .cloned()
            .collect();
        idle.sort_by_key(|link| link.last_used());
        let Some(gone) = idle.iter().find(|link| link.close_if_idle(codes::IDLE)) else {
            return false;
        };
        if let Some(slot) = self.slots.get_mut(&gone.key) {
            slot.links.retain(|link| !Arc::ptr_eq(link, gone));
        }
        self.tidy(&gone.key);
        true
    }

    fn tidy(&mut self, key: &PeerKey) {
        if self.slots.get(key).is_some_and(|slot| slot.links.is_empty() && slot.dial.is_none()) {
            self.slots.remove(key);
        }
    }

    fn recount(&mut self) {
        self.links = self.slots.values().map(|slot| slot.links.len()).sum();
    }
}

/// Most connections with one peer: the one in use, the one that both dialled at once, and those of
/// a second process with the same key (guess). The oldest goes.
const MAX_LINKS: usize = 4;
