//! Making connections.

use std::net::SocketAddr;
use std::sync::Arc;

use dht_core::message::Refusal;
use dht_core::{PeerKey, PeerRecord};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectError, ConnectionError};
use tokio::time::{Instant, timeout};

use crate::about::About;
use crate::codes;
use crate::error::{DialError, Lost, RequestError};
use crate::link::{Link, canonical};
use crate::race::race;
use crate::refusal::refused;
use crate::serve::serve;
use crate::shared::Shared;
use crate::table::Dial;
use crate::tls::{ExpectKey, proven_key};

/// The connection to a peer, dialling it if there is none, and how long that took in microseconds.
/// All who ask for the same peer share one dial, which goes on if they give up: so its outcome is
/// always learned.
pub(crate) async fn link_to(
    shared: &Arc<Shared>,
    to: &PeerRecord,
) -> Result<(Arc<Link>, u64), DialError> {
    if let Some(link) = shared.table.for_life(to) {
        return Ok((link, 0));
    }
    let began = Instant::now();
    if to.key == shared.me {
        // Never a connection of use: this only finds out who it is.
        return Err(match dial_any(shared, &to.addrs, Some(to.key)).await {
            Err(error) => error,
            Ok(link) => DialError::Myself { addr: link.remote },
        });
    }
    let mut outcome = match shared.table.join_dial(to.key) {
        Dial::Done(link) => return Ok((link, 0)),
        Dial::Wait(outcome) => outcome,
        Dial::Begin(outcome) => {
            let dial = OwnedDial::new(shared, to.key);
            match usable_addrs(shared, to) {
                Ok(addrs) => shared.spawn(run_dial(dial, addrs)),
                Err(error) => dial.end(Err(error)),
            }
            outcome
        }
    };
    let ended = outcome.wait_for(Option::is_some).await.map_err(|_| DialError::Closed)?;
    let link = ended.clone().unwrap_or(Err(DialError::Closed))?;
    Ok((link, u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)))
}

/// A new connection through the first of these addresses that answers. With `expect`, only to that
/// peer.
pub(crate) async fn dial_any(
    shared: &Arc<Shared>,
    addrs: &[SocketAddr],
    expect: Option<PeerKey>,
) -> Result<Arc<Link>, DialError> {
    dial_through(shared, addrs, expect, |addr| connect(shared, addr, expect)).await
}

/// The same for addresses that a person gave: a host that says that nothing listens is believed at
/// once. Not so for members, of whom only silence is news: one that restarts closes its port for a
/// moment.
pub(crate) async fn dial_named(
    shared: &Arc<Shared>,
    addrs: &[SocketAddr],
    expect: Option<PeerKey>,
) -> Result<Arc<Link>, DialError> {
    let attempt = |addr| async move {
        tokio::select! {
            connected = connect(shared, addr, expect) => connected,
            () = refused(canonical(addr)) => Err(DialError::NothingListens { addr }),
        }
    };
    dial_through(shared, addrs, expect, attempt).await
}

async fn dial_through<F>(
    shared: &Arc<Shared>,
    addrs: &[SocketAddr],
    expect: Option<PeerKey>,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<Arc<Link>, DialError>
where
    F: Future<Output = Result<Greeted, DialError>>,
{
    let settles = |error: &DialError| expect.is_some() && error.is_by_the_peer();
    let finish = race(addrs, shared.limits.dial_stagger, attempt, settles).await;
    if let Some(key) = expect {
        finish.failed.iter().for_each(|(addr, _)| shared.backoffs.failed(key, *addr));
        finish.overtaken.iter().for_each(|addr| shared.backoffs.failed(key, *addr));
    }
    match finish.winner {
        Some((addr, greeted)) => {
            let link = greeted.adopt()?;
            shared.backoffs.succeeded(link.key, addr);
            Ok(link)
        }
        None => {
            let errors = finish.failed.into_iter().map(|(_, error)| error);
            // The one that tells most, and of equals the first.
            Err(errors.min_by_key(DialError::rank).unwrap_or(DialError::NoAddress))
        }
    }
}

impl DialError {
    /// Whether the peer itself said so: its other addresses would bring the same.
    fn is_by_the_peer(&self) -> bool {
        matches!(
            self,
            DialError::OtherRing { .. }
                | DialError::Refused { .. }
                | DialError::Myself { .. }
                | DialError::SameIdentity { .. }
                | DialError::Closed
        )
    }

    /// Of several errors the one with the lowest rank tells most.
    fn rank(&self) -> u8 {
        match self {
            DialError::Closed => 0,
            DialError::SameIdentity { .. } => 1,
            DialError::Myself { .. } => 2,
            DialError::OtherRing { .. } => 3,
            DialError::Refused { .. } => 4,
            DialError::OtherRingName { .. } => 5,
            DialError::OtherVersion { .. } => 6,
            DialError::WrongPeer { .. } => 7,
            DialError::TooMany { .. } => 8,
            DialError::OtherProtocol { .. } => 9,
            DialError::Broken { .. } => 10,
            DialError::NoAnswer { .. } => 11,
            DialError::NothingListens { .. } => 12,
            DialError::BackingOff { .. } => 13,
            DialError::Unroutable { .. } => 14,
            DialError::NoAddress => 15,
        }
    }
}

/// Where to dial a peer: by its newest record, without the addresses that failed a moment ago.
fn usable_addrs(shared: &Shared, to: &PeerRecord) -> Result<Vec<SocketAddr>, DialError> {
    let newest = shared.book.newest(to);
    let addrs = newest.as_ref().map_or(&to.addrs, |newest| &newest.addrs);
    let usable = shared.backoffs.usable(to.key, addrs);
    usable.map_err(|retry_after| DialError::BackingOff { retry_after })
}

/// A dial that others wait for: it ends exactly once, even if its task is dropped.
struct OwnedDial {
    shared: Arc<Shared>,
    key: PeerKey,
}

impl OwnedDial {
    fn new(shared: &Arc<Shared>, key: PeerKey) -> OwnedDial {
        OwnedDial { shared: shared.clone(), key }
    }

    fn end(self, result: Result<Arc<Link>, DialError>) {
        self.shared.table.end_dial(self.key, result);
    }
}

impl Drop for OwnedDial {
    fn drop(&mut self) {
        // Does nothing after `end`.
        self.shared.table.end_dial(self.key, Err(DialError::Closed));
    }
}

async fn run_dial(dial: OwnedDial, addrs: Vec<SocketAddr>) {
    let shared = dial.shared.clone();
    tokio::select! {
        () = shared.stop.cancelled() => dial.end(Err(DialError::Closed)),
        result = dial_any(&shared, &addrs, Some(dial.key)) => {
            if let Err(error) = &result {
                tracing::debug!(key = ?dial.key, %error, "a peer cannot be reached");
            }
            dial.end(result);
        }
    }
}

/// A connection whose hellos are exchanged, until somebody takes it into use. Dropped, it is closed
/// so that the peer knows that nothing was lost with it.
struct Greeted(Option<Arc<Link>>);

impl Greeted {
    fn adopt(mut self) -> Result<Arc<Link>, DialError> {
        let Some(link) = self.0.take() else { return Err(DialError::Closed) };
        let shared = &link.shared;
        let Some(incoming) = shared.incoming() else {
            link.close(codes::SHUTTING_DOWN);
            return Err(DialError::Closed);
        };
        let Ok(listed) = shared.table.insert(&link) else {
            link.close(codes::REDUNDANT);
            return Err(DialError::TooMany { limit: shared.limits.max_connections });
        };
        shared.spawn(serve(listed, incoming));
        // Of two connections the other one may be the one to use.
        Ok(shared.table.current(&link.key).unwrap_or(link))
    }
}

impl Drop for Greeted {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.close(codes::REDUNDANT);
        }
    }
}

async fn connect(
    shared: &Arc<Shared>,
    addr: SocketAddr,
    expect: Option<PeerKey>,
) -> Result<Greeted, DialError> {
    let addr = canonical(addr);
    let attempt = async {
        let link = handshake(shared, addr, expect).await?;
        let greeted = Greeted(Some(link.clone()));
        let told = link.tell().await;
        if link.key == shared.me {
            link.close(codes::SAME_IDENTITY);
            let theirs = link.theirs().map(|theirs| theirs.hello.instance);
            return Err(match told {
                Ok(()) if theirs == Some(shared.own.instance()) => DialError::Myself { addr },
                _ => DialError::SameIdentity { addr },
            });
        }
        told.map_err(|error| hello_failed(error.into_inner(), addr))?;
        Ok(greeted)
    };
    match timeout(shared.limits.handshake_timeout, attempt).await {
        Ok(result) => result,
        Err(_) => Err(DialError::NoAnswer { addr }),
    }
}

pub(crate) async fn handshake(
    shared: &Arc<Shared>,
    addr: SocketAddr,
    expect: Option<PeerKey>,
) -> Result<Arc<Link>, DialError> {
    let tls = shared.tls.client(expect).map_err(|_| broken(addr, Lost::Here))?;
    let connection = match start(shared, addr, tls.config)?.await {
        Ok(connection) => connection,
        Err(error) => return Err(explain(shared, addr, &error, &tls.verifier).await),
    };
    match proven_key(&connection) {
        Some(key) if expect.is_none_or(|expected| expected == key) => {
            Ok(Link::new(shared.clone(), connection, key, true))
        }
        // The verifier has let nothing else through.
        _ => Err(DialError::OtherProtocol { addr }),
    }
}

fn start(
    shared: &Arc<Shared>,
    addr: SocketAddr,
    tls: QuicClientConfig,
) -> Result<quinn::Connecting, DialError> {
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(shared.transport.clone());
    let quinn = shared.quinn().ok_or(DialError::Closed)?;
    quinn.connect_with(config, addr, SERVER_NAME).map_err(|error| match error {
        ConnectError::EndpointStopping => DialError::Closed,
        ConnectError::InvalidRemoteAddress(_) => DialError::Unroutable { addr },
        _ => broken(addr, Lost::Here),
    })
}

async fn explain(
    shared: &Arc<Shared>,
    addr: SocketAddr,
    error: &ConnectionError,
    verifier: &ExpectKey,
) -> DialError {
    if let Some((expected, presented)) = verifier.mismatch() {
        return DialError::WrongPeer { addr, expected, presented };
    }
    match Lost::from(error) {
        Lost::Protocol { code: NO_APPLICATION_PROTOCOL } => ask_about(shared, addr).await,
        Lost::Protocol { code: CONNECTION_REFUSED | APPLICATION_ERROR } => overloaded(addr),
        Lost::Silence => DialError::NoAnswer { addr },
        lost => lost_to_dial_error(addr, lost),
    }
}

/// Whoever is there does not speak our protocol for our ring: finds out what it does speak.
async fn ask_about(shared: &Arc<Shared>, addr: SocketAddr) -> DialError {
    let other = DialError::OtherProtocol { addr };
    let Ok(tls) = shared.tls.client_about() else { return other };
    let connecting = match start(shared, addr, tls.config) {
        Ok(connecting) => connecting,
        Err(error) => return error,
    };
    let Ok(connection) = connecting.await else { return other };
    let ConnectionError::ApplicationClosed(close) = connection.closed().await else {
        return other;
    };
    match About::from_bytes(&close.reason) {
        Some(_) if close.error_code != codes::ABOUT.into() => other,
        Some(theirs) if theirs.version != shared.about.version => {
            let (ours, theirs) = (shared.about.version, theirs.version);
            DialError::OtherVersion { addr, ours, theirs }
        }
        Some(theirs) if theirs != shared.about => DialError::OtherRingName { addr },
        // It has restarted as ours meanwhile: worth another try, later.
        Some(_) => broken(addr, Lost::Restarted),
        None => other,
    }
}

fn hello_failed(error: RequestError, addr: SocketAddr) -> DialError {
    match error {
        RequestError::OtherRing { ours, theirs } => DialError::OtherRing { ours, theirs },
        RequestError::Refused(refusal) => DialError::Refused { addr, refusal },
        RequestError::ShuttingDown => DialError::Refused { addr, refusal: Refusal::ShuttingDown },
        RequestError::Lost(lost) => lost_to_dial_error(addr, lost),
        RequestError::Closed => DialError::Closed,
        _ => DialError::OtherProtocol { addr },
    }
}

fn lost_to_dial_error(addr: SocketAddr, lost: Lost) -> DialError {
    match lost {
        Lost::Closed { code } if code == u64::from(codes::OVERLOADED) => overloaded(addr),
        Lost::Closed { code } if code == u64::from(codes::SHUTTING_DOWN) => {
            DialError::Refused { addr, refusal: Refusal::ShuttingDown }
        }
        lost => broken(addr, lost),
    }
}

fn overloaded(addr: SocketAddr) -> DialError {
    DialError::Refused { addr, refusal: Refusal::Overloaded { retry_after_ms: RETRY_AFTER_MS } }
}

fn broken(addr: SocketAddr, cause: Lost) -> DialError {
    DialError::Broken { addr, cause }
}

/// Peers are named by their keys; TLS wants some name all the same, and it is not sent.
const SERVER_NAME: &str = "dht-node";
/// TLS alert 120 as a QUIC error (RFC 9001, section 4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x0100 + 120;
/// RFC 9000, section 20.1: the node takes no connection.
const CONNECTION_REFUSED: u64 = 0x02;
/// RFC 9000, section 20.1: the node has closed before the handshake was over.
const APPLICATION_ERROR: u64 = 0x0c;
/// When to come back to a node that takes no connection now (guess).
pub(crate) const RETRY_AFTER_MS: u32 = 1000;
