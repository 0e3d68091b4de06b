//! The endpoint: one socket, its connections, its tasks.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dht_core::message::{Frame, Hello};
use dht_core::stats::TrafficReport;
use dht_core::{PeerKey, PeerRecord};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::about::About;
use crate::accept::accept;
use crate::ask::{To, ask, ask_body};
use crate::backoff::Backoffs;
use crate::body::BodyWriter;
use crate::codes;
use crate::config::EndpointConfig;
use crate::dial::dial_named;
use crate::error::{BindError, DialError, RequestError};
use crate::identity::Identity;
use crate::incoming::Incoming;
use crate::link::Link;
use crate::peer::{Peer, PendingReply, Reply};
use crate::record::RecordBook;
use crate::shared::{OwnHello, Shared};
use crate::socket::{self, Meter, Socket};
use crate::table::Table;
use crate::tasks::Tasks;
use crate::tls::Tls;
use crate::transport;

/// One UDP socket, the connections over it, and the tasks that serve them. Clones share all that;
/// when the last one is dropped, everything ends at once.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    local: SocketAddr,
    _owner: Arc<Owner>,
}

impl Endpoint {
    /// Binds the socket and starts serving. Requests come out of the receiver, which ends when the
    /// endpoint is closed. Must be called inside a tokio runtime, which then drives the endpoint.
    pub fn bind(
        config: EndpointConfig,
        identity: Arc<Identity>,
        hello: Hello,
    ) -> Result<(Endpoint, mpsc::Receiver<Incoming>), BindError> {
        let EndpointConfig { listen, ring_name, admins, limits } = config;
        limits.validate()?;
        let wanted = listen.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        let failed = |source| BindError::Io { addr: wanted, source };
        let about = About::new(&ring_name);
        let tls = Tls::new(&identity, &about).expect("the provider signs with ed25519");
        let tasks = Tasks::default();
        let udp = socket::bind(listen, limits.socket_buffer)?;
        let local = udp.local_addr().map_err(failed)?;
        let udp = quinn::Runtime::wrap_udp_socket(&tasks, udp).map_err(failed)?;
        let meter = Arc::<Meter>::default();
        let socket = Arc::new(Socket::new(udp, meter.clone()));
        let transport = Arc::new(transport::config(&limits));
        let server = listen.map(|_| {
            let tls = tls.server().expect("the provider has the suite of QUIC's first packets");
            transport::server_config(tls, transport.clone(), &limits)
        });
        let quinn = quinn::Endpoint::new_with_abstract_socket(
            transport::endpoint_config(&identity, &limits),
            server,
            socket,
            Arc::new(tasks.clone()),
        )
        .map_err(failed)?;
        let (sender, receiver) = mpsc::channel(limits.max_queued);
        let shared = Arc::new(Shared {
            me: identity.key(),
            about,
            is_client: listen.is_none(),
            admins: admins.into_iter().collect(),
            own: OwnHello::new(hello),
            book: RecordBook::default(),
            table: Table::new(identity.key(), limits.max_connections),
            backoffs: Backoffs::new(limits.min_backoff, limits.max_backoff),
            limits,
            tls,
            transport,
            meter,
            quinn: Mutex::new(Some(quinn.clone())),
            incoming: Mutex::new(Some(sender)),
            stop: CancellationToken::new(),
            tasks,
            handshakes: AtomicUsize::new(0),
            idle: Notify::new(),
        });
        shared.spawn(accept(shared.clone(), quinn));
        let owner = Arc::new(Owner(shared.clone()));
        Ok((Endpoint { shared, local, _owner: owner }, receiver))
    }

    /// The bound address, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Says something else of ourselves from now on. Peers that we are connected to hear it before
    /// our next request to them.
    pub fn set_hello(&self, hello: Hello) {
        self.shared.own.set(hello);
    }

    /// A connection to whoever answers at this address, new or not; with `expect`, only to that
    /// peer. Takes at most `handshake_timeout`.
    pub async fn dial(&self, addr: SocketAddr, expect: Option<PeerKey>) -> Result<Peer, DialError> {
        self.dial_any(&[addr], expect).await
    }

    /// The first of these addresses that answers: each is tried a little after the one before, so
    /// that dead ones cost little. Of several failures the one that tells most is returned.
    pub async fn dial_any(
        &self,
        addrs: &[SocketAddr],
        expect: Option<PeerKey>,
    ) -> Result<Peer, DialError> {
        let table = &self.shared.table;
        let known = match expect {
            Some(key) => table.current(&key),
            None => addrs.iter().find_map(|addr| table.at(*addr)),
        };
        let link = match known {
            Some(link) => link,
            None => dial_named(&self.shared, addrs, expect).await?,
        };
        let theirs = link.theirs().ok_or(DialError::Closed)?;
        Ok(Peer { key: link.key, hello: theirs.hello.clone(), remote: link.remote, link })
    }

    /// Asks a peer, over the connection to it or a new one; for that, the newest record known of
    /// the peer counts. Has no time-out but that of connecting: the caller drops the future when it
    /// has waited for long enough, and that resets the stream.
    pub async fn request(&self, to: &PeerRecord, frame: Frame) -> Result<Reply, RequestError> {
        ask(&self.shared, To::Record(to), frame).await
    }

    /// Asks a peer, with bytes after the frame: the caller writes and finishes them, then awaits the
    /// reply.
    pub async fn request_body(
        &self,
        to: &PeerRecord,
        frame: Frame,
    ) -> Result<(BodyWriter, PendingReply), RequestError> {
        ask_body(&self.shared, To::Record(to), frame).await
    }

    /// UDP payload bytes since the start.
    pub fn traffic(&self) -> TrafficReport {
        self.shared.meter.traffic()
    }

    /// Closes every connection to this peer at once.
    pub fn disconnect(&self, key: PeerKey) {
        self.shared.table.of(&key).iter().for_each(|link| link.close(codes::DISCONNECTED));
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.shared.table.len()
    }

    /// Whether the socket receives and no task has panicked.
    pub fn is_healthy(&self) -> bool {
        self.shared.meter.is_healthy() && self.shared.tasks.are_healthy()
    }

    /// Takes nothing new, lets open requests end, tells the peers that this node goes down, and
    /// frees the socket: all within the deadline, or what is left is cut off.
    pub async fn close(&self, deadline: Duration) {
        let shared = &self.shared;
        let now = Instant::now();
        let until = now.checked_add(deadline).unwrap_or(now + FAR);
        shared.begin_to_stop();
        // What does not end in time ends below; the farewell needs some time of its own.
        let farewell = FAREWELL.min(deadline / 4);
        let _ = timeout_at(until - farewell, self.all_idle()).await;
        let Some(quinn) = shared.shut() else { return };
        // The peers acknowledge the closing, or are given up. Nobody waits for a client to come
        // back, so one packet on its way is enough there: commands should end at once.
        let heard =
            if shared.is_client { until.min(Instant::now() + CLIENT_FAREWELL) } else { until };
        let _ = timeout_at(heard, quinn.wait_idle()).await;
        drop(quinn);
        let _ = timeout_at(until, shared.tasks.ended()).await;
    }

    /// Ends everything at once and without a word, as far as the peers can tell by a kill: no packet
    /// leaves any more, so nobody hears that connections were closed. The socket is freed within the
    /// deadline, or when quinn has forgotten the connections.
    pub async fn abort(&self, deadline: Duration) {
        let shared = &self.shared;
        shared.meter.mute();
        shared.begin_to_stop();
        drop(shared.shut());
        let _ = timeout(deadline, shared.tasks.ended()).await;
    }

    async fn all_idle(&self) {
        loop {
            let changed = self.shared.idle.notified();
            if self.shared.table.all().iter().all(|link: &Arc<Link>| link.is_idle()) {
                return;
            }
            changed.await;
        }
    }
}

/// Ends everything when the last [`Endpoint`] goes.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.begin_to_stop();
        self.0.shut();
    }
}

/// Time that is kept for telling the peers and freeing the socket (guess: a few round trips).
const FAREWELL: Duration = Duration::from_millis(500);
/// The same for clients (guess: the time in which a loaded machine sends a packet).
const CLIENT_FAREWELL: Duration = Duration::from_millis(20);
/// Instead of a deadline that no clock can tell.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
