//! A client of a ring: typed requests to any member, files streamed in and out with every byte
//! checked, the walk round the ring and the measurement of hops.
//!
//! A client has a key for the moment only and no place on the circle. The member it is connected to
//! is the asker of its lookups: hops count from there.

mod candidates;
mod choice;
mod config;
mod connect;
mod error;
mod exact;
mod member;
mod pace;
mod problems;
mod survey;
#[cfg(test)]
mod tests;
mod transfer;
mod walk;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dht_core::message::Hello;
use dht_core::message::client::{
    ClientErrorCode, FileReport, InfoReport, ListedKey, LookupReport, NeighborhoodReport, PutReport,
};
use dht_core::register::{Key, OperationId};
use dht_core::stats::StatsReport;
use dht_core::{Contact, PeerKey};
use dht_net::{Endpoint, EndpointConfig, Identity};
use tokio::io::{AsyncRead, AsyncWrite};

pub use candidates::{
    Candidate, Listed, candidates, entries_held, upkeep_between, upkeep_bytes_per_s,
};
pub use choice::{Choice, Why, choices};
pub use config::{ClientConfig, DEFAULT_TIMEOUT, MAX_NODES};
pub use error::{Attempt, AttemptError, ClientError, Doing};
pub(crate) use exact::without_dust;
pub use exact::{ExactHops, chi_square_p};
pub use member::{IdentityReport, LookupTarget, MAX_LISTED_CHUNKS, Member, Page};
pub use problems::{Problem, ProblemKind};
pub use survey::{SurveyPlan, SurveyRow, survey};
pub use transfer::{PutOptions, new_operation};
pub use walk::{MAX_WALK, Walk, WalkedMember};

#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::candidates::tests::{contact, report};
    pub(crate) use super::choice::tests::lookup;
}
pub(crate) use error::hex;
use pace::Pace;

/// A connection to a ring through any of several members. Requests that may safely be repeated move
/// on to the next member when one does not answer.
#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    key: PeerKey,
    config: ClientConfig,
    pace: Pace,
    current: Mutex<Current>,
}

/// The member that is asked now, and which of the configured nodes it is.
#[derive(Clone, Debug)]
struct Current {
    node: usize,
    member: Member,
}

impl Client {
    /// Connects to the first of `config.nodes` that answers; each is tried a little after the one
    /// before. Must be called inside a tokio runtime. The deadline runs from here.
    pub async fn connect(config: ClientConfig) -> Result<Client, ClientError> {
        let hello = Hello {
            ring: None,
            record: None,
            instance: rand::random(),
            observed: None,
            member: false,
        };
        let identity = config.identity.clone().unwrap_or_else(|| Arc::new(Identity::generate()));
        let key = identity.key();
        let (endpoint, _nobody_calls_a_client) =
            Endpoint::bind(EndpointConfig::new(config.ring_name.clone()), identity, hello)?;
        let pace = Pace::new(config.timeout, config.deadline);
        let current = connect::first_to_answer(&endpoint, pace, &config.nodes, &[]).await?;
        Ok(Client { endpoint, key, config, pace, current: Mutex::new(current) })
    }

    /// The client's public key.
    pub fn key(&self) -> PeerKey {
        self.key
    }

    /// The member that is asked now.
    pub fn member(&self) -> Member {
        self.current().member
    }

    /// Another member of the ring, by what a list says of it.
    pub async fn dial(&self, contact: &Contact) -> Result<Member, ClientError> {
        connect::to_contact(&self.endpoint, self.pace, contact).await
    }

    /// What another member says of its lists and its load, by what a list says of it; `None` if it does
    /// not answer within seconds, or another one does.
    pub async fn neighborhood_of(&self, contact: &Contact) -> Option<NeighborhoodReport> {
        walk::ask(self, contact).await
    }

    /// Ends the connections in order: uploads under way are told that they will not be completed.
    pub async fn close(&self) {
        self.endpoint.close(CLOSE_WITHIN).await;
    }

    /// Asks who the member is.
    pub async fn identify(&self) -> Result<IdentityReport, ClientError> {
        self.ask_any(async |member| member.identify().await).await
    }

    /// Stores a file of any length: what `input` gives until its end. Moves on to another member
    /// only while nothing was read from `input`; with an input that can be read again, calling once
    /// more with the same [`PutOptions::operation`] is safe. `progress` is told the bytes sent.
    pub async fn put<R: AsyncRead + Unpin>(
        &self,
        key: &Key,
        options: &PutOptions,
        input: &mut R,
        mut progress: impl FnMut(u64),
    ) -> Result<PutReport, ClientError> {
        let mut spent = Vec::new();
        loop {
            let mut sent = 0;
            let count = |bytes| {
                sent = bytes;
                progress(bytes);
            };
            match self.member().put(key, options, input, count).await {
                Err(error) if sent == 0 && self.moved_on(&error, &mut spent).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Fetches a file and checks its length and its hash. Moves on to another member only while
    /// nothing was written to `output`. `progress` is told the bytes written and the bytes in all.
    pub async fn get<W: AsyncWrite + Unpin>(
        &self,
        key: &Key,
        output: &mut W,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<FileReport, ClientError> {
        let mut spent = Vec::new();
        loop {
            let mut written = 0;
            let count = |bytes, size| {
                written = bytes;
                progress(bytes, size);
            };
            match self.member().get(key, output, count).await {
                Err(error) if written == 0 && self.moved_on(&error, &mut spent).await => {}
                outcome => return outcome,
            }
        }
    }

    /// The manifest of a file, and who holds what of it.
    pub async fn info(&self, key: &Key) -> Result<InfoReport, ClientError> {
        self.ask_any(async |member| member.info(key).await).await
    }

    /// Deletes a file; gives the version of the tombstone. One operation id names the deletion
    /// whomever it is asked of.
    pub async fn remove(&self, key: &Key, operation: OperationId) -> Result<String, ClientError> {
        self.ask_any(async |member| member.remove(key, operation).await).await
    }

    /// One page of keys in order.
    pub async fn list(&self, page: &Page) -> Result<(Vec<ListedKey>, bool), ClientError> {
        self.ask_any(async |member| member.list(page).await).await
    }

    /// One lookup with its path, asked by the member.
    pub async fn lookup(&self, target: LookupTarget) -> Result<LookupReport, ClientError> {
        self.ask_any(async |member| member.lookup(target).await).await
    }

    /// Everything the member counts.
    pub async fn stats(&self) -> Result<StatsReport, ClientError> {
        self.ask_any(async |member| member.stats().await).await
    }

    /// Walks round the whole ring, beginning at the member.
    pub async fn walk(&self) -> Result<Walk, ClientError> {
        walk::walk(self).await
    }

    /// After such an error of the member, connects to another one of the nodes; false if that would
    /// not help, or none answers. For callers that repeat a request by themselves.
    pub async fn move_on(&self, error: &ClientError) -> bool {
        self.moved_on(error, &mut Vec::new()).await
    }

    /// Asks the member, then the other nodes in turn while the trouble is one that another member
    /// may not have.
    async fn ask_any<T>(
        &self,
        ask: impl AsyncFn(Member) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut spent = Vec::new();
        loop {
            match ask(self.member()).await {
                Err(error) if self.moved_on(&error, &mut spent).await => {}
                outcome => return outcome,
            }
        }
    }

    /// Connects to a node that was not tried yet in this request; false if the error is final or no
    /// node is left.
    async fn moved_on(&self, error: &ClientError, spent: &mut Vec<usize>) -> bool {
        if !error.another_member_may_help() {
            return false;
        }
        spent.push(self.current().node);
        match connect::first_to_answer(&self.endpoint, self.pace, &self.config.nodes, spent).await {
            Ok(next) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = next;
                true
            }
            // The first trouble tells more than "and nobody else is there either".
            Err(_) => false,
        }
    }

    fn current(&self) -> Current {
        // A holder that panicked left a whole value behind.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The kind of failure that a stream was reset with; `None` if the number is no such kind.
fn failure_of_code(code: u64) -> Option<ClientErrorCode> {
    const KINDS: [ClientErrorCode; 11] = [
        ClientErrorCode::Failed,
        ClientErrorCode::NotFound,
        ClientErrorCode::Unreachable,
        ClientErrorCode::NoQuorum,
        ClientErrorCode::UnknownOutcome,
        ClientErrorCode::Conflict,
        ClientErrorCode::Incomplete,
        ClientErrorCode::Denied,
        ClientErrorCode::NoSpace,
        ClientErrorCode::Usage,
        ClientErrorCode::NotMember,
    ];
    KINDS.into_iter().find(|kind| *kind as u64 == code)
}

/// How long closing may take. Resets and the end of the connection need only be sent, which takes
/// well below a millisecond (measured: strace of `dht-node id`), and nobody acknowledges the latter
/// (RFC 9000, section 10.2); what is lost, the member notices by itself. Longer would only wait for
/// QUIC's closing period of three probe time-outs, 60 ms even on loopback, in every command. 10 ms
/// (guess: the time that a loaded machine may take).
const CLOSE_WITHIN: Duration = Duration::from_millis(10);
