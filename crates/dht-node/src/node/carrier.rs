//! Carries out what the state machine orders: messages over the endpoint, records to the disk.
//! Nothing here waits; every order becomes a task that tells the driver what came of it.

use std::collections::HashMap;
use std::sync::Arc;

use dht_core::event::{Failure, FetchId, Memory, RpcId, StoreCommand, StoreId};
use dht_core::manifest::ChunkRef;
use dht_core::message::ring::{Request, Response};
use dht_core::message::{Answer, Frame, Refusal};
use dht_core::{Contact, Event, PeerRecord};
use dht_net::{DialError, Endpoint, Reply, RequestError};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::chunks::ChunkPeers;
use super::disk::Disk;
use super::driver::DriverHandle;
use super::tasks::Tasks;
use super::upkeep::UpkeepMeter;

/// Carries out orders.
#[derive(Debug)]
pub(super) struct Carrier {
    endpoint: Endpoint,
    disk: Disk,
    chunks: ChunkPeers,
    driver: DriverHandle,
    tasks: Tasks,
    /// Requests under way, so that they can be called off. As many as the core has calls.
    sends: HashMap<RpcId, AbortHandle>,
    memory: watch::Sender<Option<Memory>>,
    upkeep: Arc<UpkeepMeter>,
}

impl Carrier {
    pub(super) fn new(
        endpoint: Endpoint,
        disk: Disk,
        chunks: ChunkPeers,
        driver: DriverHandle,
        tasks: Tasks,
        memory: watch::Sender<Option<Memory>>,
        upkeep: Arc<UpkeepMeter>,
    ) -> Carrier {
        tasks.spawn(keep_memory(disk.clone(), memory.subscribe()));
        Carrier { endpoint, disk, chunks, driver, tasks, sends: HashMap::new(), memory, upkeep }
    }

    /// Asks a member.
    pub(super) fn send(&mut self, rpc: RpcId, to: Contact, request: Request) {
        let (endpoint, driver) = (self.endpoint.clone(), self.driver.clone());
        let upkeep = self.upkeep.clone();
        let task = self.tasks.spawn(async move {
            let frame = Frame::Ring { from: 0, to: to.index, request };
            let cost = upkeep.of_request(&frame);
            let event = match endpoint.request(&to.record, frame).await {
                Ok(Reply { answer, record, connect_us, .. }) => {
                    cost.into_iter().for_each(|cost| upkeep.sent(cost));
                    match answer {
                        Answer::Ring(response) => {
                            Event::Response { rpc, response, record, connect_us }
                        }
                        Answer::Refused(refusal) => refused(rpc, refusal, record, connect_us),
                        _ => Event::Failed { rpc, failure: Failure::Unreachable },
                    }
                }
                Err(error) => Event::Failed { rpc, failure: failure_of(&error) },
            };
            driver.event(event).await;
        });
        self.sends.insert(rpc, task.abort_handle());
    }

    /// Calls a request off: its stream is reset.
    pub(super) fn cancel(&mut self, rpc: RpcId) {
        if let Some(task) = self.sends.remove(&rpc) {
            task.abort();
        }
    }

    /// A request came to its end.
    pub(super) fn sent(&mut self, rpc: RpcId) {
        self.sends.remove(&rpc);
    }

    /// Does something to the store.
    pub(super) fn store(&mut self, store: StoreId, command: StoreCommand) {
        let (disk, driver) = (self.disk.clone(), self.driver.clone());
        self.tasks.spawn(async move {
            let outcome = disk.carry_out(command).await;
            driver.event(Event::Stored { store, outcome }).await;
        });
    }

    /// Copies a chunk from another member; one that is held already is not copied again.
    pub(super) fn fetch(&mut self, fetch: FetchId, chunk: ChunkRef, from: Contact) {
        let (disk, driver) = (self.disk.clone(), self.driver.clone());
        let chunks = self.chunks.clone();
        self.tasks.spawn(async move {
            let held = disk.held(vec![chunk.hash]).await.is_ok_and(|held| held == [true]);
            let stored = held
                || match chunks.read(&from, chunk).await {
                    Ok(bytes) => disk.put_chunk(chunk, bytes).await.is_ok(),
                    Err(_) => false,
                };
            driver.event(Event::Fetched { fetch, stored }).await;
        });
    }

    /// Keeps this for the next life instead of what was kept before.
    pub(super) fn persist(&mut self, memory: Memory) {
        self.memory.send_replace(Some(memory));
    }
}

/// Writes what the next life should know, always the newest, one write at a time.
async fn keep_memory(disk: Disk, mut newest: watch::Receiver<Option<Memory>>) {
    while newest.changed().await.is_ok() {
        let memory = newest.borrow_and_update().clone();
        if let Some(memory) = memory {
            disk.remember(memory).await;
        }
    }
}

fn refused(
    rpc: RpcId,
    refusal: Refusal,
    record: Option<Arc<PeerRecord>>,
    connect_us: u64,
) -> Event {
    let answered = |response| Event::Response { rpc, response, record, connect_us };
    match refusal {
        // The contact is void: another ring lives there, or no such place.
        Refusal::OtherRing { .. } | Refusal::NoSuchPlace { .. } => {
            Event::Failed { rpc, failure: Failure::NotThatPeer }
        }
        Refusal::ShuttingDown => answered(Response::NotMember),
        Refusal::Overloaded { .. } => answered(Response::Busy),
        refusal => answered(Response::Refused(refusal)),
    }
}

/// What a failed request says of the contact.
fn failure_of(error: &RequestError) -> Failure {
    match error {
        RequestError::SameIdentity { .. } => Failure::SameIdentity,
        // An address of ours filed under another id is as void as a stranger's (case 2).
        RequestError::Myself { .. }
        | RequestError::OtherRing { .. }
        | RequestError::Refused(Refusal::OtherRing { .. })
        | RequestError::Dial(
            DialError::WrongPeer { .. }
            | DialError::OtherRingName { .. }
            | DialError::OtherVersion { .. }
            | DialError::OtherProtocol { .. },
        ) => Failure::NotThatPeer,
        _ => Failure::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use dht_core::PeerKey;
    use dht_core::message::RingId;

    use super::*;

    #[test]
    fn errors_say_whether_the_contact_is_void() {
        let addr: SocketAddr = ([127, 0, 0, 1], 9).into();
        let wrong =
            DialError::WrongPeer { addr, expected: PeerKey([1; 32]), presented: PeerKey([2; 32]) };
        assert_eq!(failure_of(&RequestError::Dial(wrong)), Failure::NotThatPeer);
        assert_eq!(failure_of(&RequestError::Myself { addr }), Failure::NotThatPeer);
        let silent = RequestError::Dial(DialError::NoAnswer { addr });
        assert_eq!(failure_of(&silent), Failure::Unreachable);
        let twin = RequestError::SameIdentity { addr };
        assert_eq!(failure_of(&twin), Failure::SameIdentity);
        let other = Refusal::OtherRing { ours: RingId(1), yours: RingId(2) };
        let event = refused(RpcId(1), other, None, 0);
        assert_eq!(event, Event::Failed { rpc: RpcId(1), failure: Failure::NotThatPeer });
    }
}
