//! What the node says of itself: its signed record, its ring, whether it has its place.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use dht_core::config::RingParams;
use dht_core::message::Hello;
use dht_core::message::client::NodeState;
use dht_core::{Contact, PeerKey, PeerRecord};
use dht_net::{Endpoint, Identity};
use tokio::sync::watch;

use super::driver::Status;
use super::observed::OwnAddrs;

/// The node's own word about itself, kept the same everywhere: in the hello, in the state machine,
/// in what clients are told.
#[derive(Debug)]
pub(super) struct Presence {
    identity: Arc<Identity>,
    incarnation: u64,
    /// Drawn at every start; tells our own echo from a second process with our key.
    instance: u64,
    said: Mutex<Said>,
    contact: watch::Sender<Contact>,
}

#[derive(Debug)]
struct Said {
    addrs: OwnAddrs,
    revision: u32,
    ring: Option<RingParams>,
    member: bool,
}

impl Presence {
    /// Without any address: the socket is not bound yet.
    pub(super) fn new(identity: Arc<Identity>, incarnation: u64) -> Presence {
        let record = identity.record(incarnation, 0, Vec::new());
        let (contact, _) = watch::channel(Contact::new(Arc::new(record), 0));
        let said = Said { addrs: OwnAddrs::unknown(), revision: 0, ring: None, member: false };
        Presence {
            identity,
            incarnation,
            instance: rand::random(),
            said: Mutex::new(said),
            contact,
        }
    }

    /// The socket is bound: from now on addresses are told.
    pub(super) fn bound(&self, addrs: OwnAddrs, endpoint: &Endpoint) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.addrs = addrs;
        let record = self.sign(&mut said);
        drop(said);
        self.contact.send_replace(Contact::new(record, 0));
        endpoint.set_hello(self.hello());
    }

    /// To watch the node's place with its newest record.
    pub(super) fn watch(&self) -> watch::Receiver<Contact> {
        self.contact.subscribe()
    }

    /// The node's place, with its newest record.
    pub(super) fn contact(&self) -> Contact {
        self.contact.borrow().clone()
    }

    /// What is said to peers now.
    pub(super) fn hello(&self) -> Hello {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        Hello {
            ring: said.ring,
            record: Some((*self.contact.borrow().record).clone()),
            instance: self.instance,
            observed: None,
            member: said.member,
        }
    }

    /// Names the ring from now on, or none.
    pub(super) fn set_ring(&self, ring: Option<RingParams>, endpoint: &Endpoint) {
        self.change(endpoint, |said| said.ring = ring);
    }

    /// A peer said where it reached this node. If that makes the addresses others, the record is
    /// signed anew and told to peers; the new one is returned, for the state machine.
    pub(super) fn observe(
        &self,
        reporter: PeerKey,
        addr: SocketAddr,
        endpoint: &Endpoint,
    ) -> Option<Arc<PeerRecord>> {
        let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let record = {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            if !said.addrs.observe(reporter, addr) {
                return None;
            }
            self.sign(&mut said)
        };
        tracing::info!(addrs = ?record.addrs, "peers reach this node at");
        self.contact.send_replace(Contact::new(record.clone(), 0));
        endpoint.set_hello(self.hello());
        Some(record)
    }

    /// Keeps what is said of ring and place in step with the state machine.
    pub(super) async fn follow(&self, mut status: watch::Receiver<Status>, endpoint: &Endpoint) {
        loop {
            let (params, state) = {
                let status = status.borrow_and_update();
                (status.params, status.state)
            };
            if params.is_some() {
                self.change(endpoint, |said| {
                    said.ring = params;
                    said.member = matches!(state, NodeState::Member | NodeState::Isolated);
                });
            }
            if status.changed().await.is_err() {
                return;
            }
        }
    }

    fn sign(&self, said: &mut Said) -> Arc<PeerRecord> {
        said.revision = said.revision.saturating_add(1);
        Arc::new(self.identity.record(self.incarnation, said.revision, said.addrs.list()))
    }

    fn change(&self, endpoint: &Endpoint, change: impl FnOnce(&mut Said)) {
        let changed = {
            let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
            let before = (said.ring, said.member);
            change(&mut said);
            before != (said.ring, said.member)
        };
        if changed {
            endpoint.set_hello(self.hello());
        }
    }
}
