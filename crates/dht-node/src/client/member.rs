//! One member as a client sees it: a typed method for every request.

use std::net::SocketAddr;

use dht_core::message::client::{
    AdminRequest, AdminResponse, ClientRequest, ClientResponse, InfoReport, ListedKey,
    LookupReport, NeighborhoodReport, NodeState, SampleReport,
};
use dht_core::message::ring::Routing;
use dht_core::message::{Answer, Forwarding, Frame, RingId};
use dht_core::register::{Key, OperationId};
use dht_core::stats::StatsReport;
use dht_core::{Contact, Id, PeerKey};
use dht_net::{BodyError, Peer, Reply, RequestError};

use super::error::{ClientError, Doing};
use super::failure_of_code;
use super::pace::Pace;

/// A member that answered. Its methods ask it and nobody else.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) peer: Peer,
    pub(super) pace: Pace,
}

/// Who a member is.
#[derive(Clone, PartialEq, Debug)]
pub struct IdentityReport {
    /// Its place.
    pub contact: Contact,
    /// Its ring, if it has one.
    pub ring: Option<RingId>,
    /// Name of the ring.
    pub ring_name: String,
    /// What it is doing.
    pub state: NodeState,
    /// Version of its program.
    pub version: String,
}

/// A lookup to be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupTarget {
    /// The point.
    pub id: Id,
    /// How to route; the member's own routing if none.
    pub routing: Option<Routing>,
    /// With how many entries; the member's own depth if none.
    pub depth: Option<u16>,
    /// Who carries it from node to node; the member's own forwarding if none.
    pub forwarding: Option<Forwarding>,
}

/// A page of keys to be asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Only keys that start so.
    pub prefix: Vec<u8>,
    /// Only keys after this one.
    pub after: Option<Vec<u8>>,
    /// At most so many; at most
    /// [`MAX_LISTED`](dht_core::message::client::MAX_LISTED) come at once.
    pub limit: u32,
}

/// Many lookups of random points to be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    pub(super) lookups: u32,
    pub(super) routing: Routing,
    pub(super) depth: u16,
    pub(super) seed: u64,
}

impl Member {
    pub(super) fn new(peer: Peer, pace: Pace) -> Member {
        Member { peer, pace }
    }

    /// Its key, as the connection proved it.
    pub fn key(&self) -> PeerKey {
        self.peer.key
    }

    /// Its first place on the circle.
    pub fn id(&self) -> Id {
        Id::of_place(&self.peer.key, 0)
    }

    /// Where it answers.
    pub fn remote(&self) -> SocketAddr {
        self.peer.remote
    }

    /// Asks who it is.
    pub async fn identify(&self) -> Result<IdentityReport, ClientError> {
        match self.ask(ClientRequest::Identify).await? {
            ClientResponse::Identity { contact, ring, ring_name, state, version } => {
                Ok(IdentityReport { contact, ring, ring_name, state, version })
            }
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks for the manifest of a file and who holds what of it. At most [`MAX_LISTED_CHUNKS`] chunks
    /// are listed; if the file is replaced meanwhile, the list ends early.
    pub async fn info(&self, key: &Key) -> Result<InfoReport, ClientError> {
        let mut report = self.info_from(key, 0).await?;
        loop {
            let listed = report.chunks.len();
            let left = report.chunk_count.saturating_sub(listed as u64);
            if left == 0 || listed == 0 || listed >= MAX_LISTED_CHUNKS {
                report.chunks.truncate(MAX_LISTED_CHUNKS);
                return Ok(report);
            }
            let page = self.info_from(key, listed as u64).await?;
            if page.chunks.is_empty() || page.file.version != report.file.version {
                return Ok(report);
            }
            report.chunks.extend(page.chunks);
        }
    }

    async fn info_from(&self, key: &Key, first: u64) -> Result<InfoReport, ClientError> {
        match self.ask(ClientRequest::Info { key: key.clone(), first }).await? {
            ClientResponse::Info(report) => Ok(report),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks it to delete a file; gives the version of the tombstone.
    pub async fn remove(&self, key: &Key, operation: OperationId) -> Result<String, ClientError> {
        match self.ask(ClientRequest::Remove { key: key.clone(), operation }).await? {
            ClientResponse::Removed { version } => Ok(version),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks for a page of keys, and whether there may be more.
    pub async fn list(&self, page: &Page) -> Result<(Vec<ListedKey>, bool), ClientError> {
        let Page { prefix, after, limit } = page.clone();
        match self.ask(ClientRequest::List { prefix, after, limit }).await? {
            ClientResponse::Listed { keys, more } => Ok((keys, more)),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks it to look up a point.
    pub async fn lookup(&self, target: LookupTarget) -> Result<LookupReport, ClientError> {
        let LookupTarget { id, routing, depth, forwarding } = target;
        match self.ask(ClientRequest::Lookup { id, routing, depth, forwarding }).await? {
            ClientResponse::Lookup(report) => Ok(report),
            _ => Err(self.bad_answer()),
        }
    }

    pub(super) async fn sample(&self, batch: Batch) -> Result<SampleReport, ClientError> {
        let Batch { lookups, routing, depth, seed } = batch;
        match self.ask(ClientRequest::Sample { lookups, routing, depth, seed }).await? {
            ClientResponse::Sampled(report) => Ok(report),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks for its links and its load.
    pub async fn neighborhood(&self) -> Result<NeighborhoodReport, ClientError> {
        match self.ask(ClientRequest::Neighborhood).await? {
            ClientResponse::Neighborhood(report) => Ok(report),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks for everything it counts.
    pub async fn stats(&self) -> Result<StatsReport, ClientError> {
        match self.ask(ClientRequest::Stats).await? {
            ClientResponse::Stats(report) => Ok(*report),
            _ => Err(self.bad_answer()),
        }
    }

    /// Asks it to leave its ring for good and waits until it has. `progress` is told what still
    /// lacks a new keeper, `None` while counting. Only the deadline bounds the wait.
    pub async fn leave(&self, mut progress: impl FnMut(Option<u64>)) -> Result<(), ClientError> {
        let asked = self.peer.request(Frame::Admin(AdminRequest::Leave));
        let Reply { mut answer, mut body, .. } =
            self.pace.step(Doing::Answering, asked).await?.map_err(|error| self.lost(error))?;
        loop {
            match answer {
                Answer::Admin(AdminResponse::Left) => return Ok(()),
                Answer::Admin(AdminResponse::Leaving { missing }) => progress(missing),
                other => return Err(self.unexpected(other)),
            }
            let next = self.pace.patiently(body.next_answer()).await?;
            answer = next.map_err(|error| self.broken(error))?.ok_or_else(|| self.bad_answer())?;
        }
    }

    async fn ask(&self, request: ClientRequest) -> Result<ClientResponse, ClientError> {
        let asked = self.peer.request(Frame::Client(request));
        let reply =
            self.pace.step(Doing::Answering, asked).await?.map_err(|error| self.lost(error))?;
        self.client_answer(reply.answer)
    }

    /// What the member says, its own failures as errors.
    pub(super) fn client_answer(&self, answer: Answer) -> Result<ClientResponse, ClientError> {
        match answer {
            Answer::Client(ClientResponse::Failed { code, message }) => {
                Err(ClientError::Failed { code, message })
            }
            Answer::Client(response) => Ok(response),
            other => Err(self.unexpected(other)),
        }
    }

    fn unexpected(&self, answer: Answer) -> ClientError {
        match answer {
            Answer::Refused(refusal) => ClientError::Refused { addr: self.remote(), refusal },
            _ => self.bad_answer(),
        }
    }

    pub(super) fn bad_answer(&self) -> ClientError {
        ClientError::BadAnswer { addr: self.remote() }
    }

    pub(super) fn lost(&self, source: RequestError) -> ClientError {
        match source {
            RequestError::Refused(refusal) => ClientError::Refused { addr: self.remote(), refusal },
            RequestError::Reset { code } if failure_of_code(code).is_some() => self.reset(code),
            source => ClientError::Request { addr: self.remote(), source: Box::new(source) },
        }
    }

    pub(super) fn broken(&self, source: BodyError) -> ClientError {
        match source {
            BodyError::Reset { code } if failure_of_code(code).is_some() => self.reset(code),
            source => ClientError::Body { addr: self.remote(), source },
        }
    }

    fn reset(&self, code: u64) -> ClientError {
        let code = failure_of_code(code).expect("both callers have looked");
        let message = format!("{} gave the transfer up: {code:?}", self.remote());
        ClientError::Failed { code, message }
    }
}

/// Most chunks that [`Member::info`] lists (guess: a file of 10 GiB in chunks of 1 MiB; nobody reads
/// more lines than that).
pub const MAX_LISTED_CHUNKS: usize = 10_000;
