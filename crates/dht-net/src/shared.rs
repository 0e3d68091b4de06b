//! What the tasks of one endpoint share.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use dht_core::PeerKey;
use dht_core::message::{Frame, Hello, RingId};
use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::about::About;
use crate::backoff::Backoffs;
use crate::codes;
use crate::config::Limits;
use crate::error::RequestError;
use crate::frame::{Question, encode};
use crate::incoming::Incoming;
use crate::record::RecordBook;
use crate::socket::Meter;
use crate::table::Table;
use crate::tasks::Tasks;
use crate::tls::Tls;

/// One endpoint's state.
pub(crate) struct Shared {
    pub(crate) me: PeerKey,
    pub(crate) about: About,
    /// Whether nobody is meant to ask us.
    pub(crate) is_client: bool,
    pub(crate) limits: Limits,
    pub(crate) admins: HashSet<PeerKey>,
    pub(crate) own: OwnHello,
    pub(crate) book: RecordBook,
    pub(crate) table: Table,
    pub(crate) backoffs: Backoffs,
    pub(crate) tls: Tls,
    pub(crate) transport: Arc<quinn::TransportConfig>,
    pub(crate) meter: Arc<Meter>,
    /// `None` once closed: then the socket is free again.
    pub(crate) quinn: Mutex<Option<quinn::Endpoint>>,
    /// `None` once closed: then the owner's receiver ends.
    pub(crate) incoming: Mutex<Option<mpsc::Sender<Incoming>>>,
    /// Cancelled when nothing new is to be taken any more.
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: Tasks,
    /// Callers whose connection is not yet usable.
    pub(crate) handshakes: AtomicUsize,
    pub(crate) idle: Notify,
}

impl Shared {
    /// The socket's owner; `None` once closed.
    pub(crate) fn quinn(&self) -> Option<quinn::Endpoint> {
        self.quinn.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where requests go; `None` once closed.
    pub(crate) fn incoming(&self) -> Option<mpsc::Sender<Incoming>> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a task that [`Endpoint::close`](crate::Endpoint::close) waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Takes nothing new from now on, neither of us nor of others.
    pub(crate) fn begin_to_stop(&self) {
        self.stop.cancel();
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Closes every connection and lets go of the socket.
    pub(crate) fn shut(&self) -> Option<quinn::Endpoint> {
        let quinn = self.quinn.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        quinn.close(codes::SHUTTING_DOWN.into(), &[]);
        Some(quinn)
    }

    /// The frame of a message, if it is not too long.
    pub(crate) fn encode<T: Serialize>(&self, message: &T) -> Result<Bytes, RequestError> {
        let limit = self.limits.max_frame;
        encode(message, limit).map_err(|too| RequestError::TooLarge { len: too.len, limit })
    }

    /// A request as it goes out, if it is not too long.
    pub(crate) fn question(&self, message: &Frame) -> Result<Question, RequestError> {
        let limit = self.limits.max_frame;
        Question::new(message, limit).map_err(|too| RequestError::TooLarge { len: too.len, limit })
    }

    /// A connection has no request under way any more.
    pub(crate) fn on_link_idle(&self) {
        if self.stop.is_cancelled() {
            self.idle.notify_one();
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("me", &self.me).finish_non_exhaustive()
    }
}

/// What we say of ourselves. Every change has a new version, so that each connection knows whether
/// its peer has heard it.
#[derive(Debug)]
pub(crate) struct OwnHello {
    version: AtomicU64,
    hello: RwLock<(u64, Hello)>,
}

impl OwnHello {
    pub(crate) fn new(hello: Hello) -> OwnHello {
        OwnHello { version: AtomicU64::new(1), hello: RwLock::new((1, hello)) }
    }

    pub(crate) fn set(&self, hello: Hello) {
        let mut own = self.hello.write().unwrap_or_else(PoisonError::into_inner);
        if own.1 != hello {
            *own = (own.0 + 1, hello);
            self.version.store(own.0, Ordering::Release);
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The hello for a peer at this address, and its version.
    pub(crate) fn for_peer(&self, remote: SocketAddr) -> (u64, Hello) {
        let own = self.hello.read().unwrap_or_else(PoisonError::into_inner);
        (own.0, Hello { observed: Some(remote), ..own.1.clone() })
    }

    pub(crate) fn ring(&self) -> Option<RingId> {
        let own = self.hello.read().unwrap_or_else(PoisonError::into_inner);
        own.1.ring.map(|ring| ring.id)
    }

    pub(crate) fn instance(&self) -> u64 {
        self.hello.read().unwrap_or_else(PoisonError::into_inner).1.instance
    }
}
