//! What an endpoint is started with, and its limits. Every bound of the transport is here.

use std::net::SocketAddr;
use std::time::Duration;

use dht_core::PeerKey;

/// How one endpoint behaves. [`EndpointConfig::new`] is a working client.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// UDP address to bind; port 0 picks a free one. `None`: a client, which dials from a free port
    /// and answers nobody.
    pub listen: Option<SocketAddr>,
    /// Name of the ring. Its hash is part of the ALPN: endpoints of other names never get past the
    /// TLS handshake.
    pub ring_name: String,
    /// Keys that may ask admin requests from anywhere; over loopback everybody may.
    pub admins: Vec<PeerKey>,
    /// The bounds.
    pub limits: Limits,
}

impl EndpointConfig {
    /// A client of this ring, with the default limits.
    pub fn new(ring_name: impl Into<String>) -> EndpointConfig {
        EndpointConfig {
            listen: None,
            ring_name: ring_name.into(),
            admins: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// Bounds of frames, streams, connections, memory and time. All of them hold per endpoint unless
/// the field says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest frame or answer in bytes, without its four bytes of length. 256 KiB by default: the
    /// longest register value (160 KiB) and the longest list of contacts (256 of at most 350 bytes)
    /// both fit. Both sides of a request must agree, so that what one sends the other takes.
    pub max_frame: usize,
    /// Most connections with a peer at the other end. 1,024 by default (guess): one for each member
    /// of a large ring, 90 MiB at the 88 KiB that an idle connection was measured to take. At the
    /// bound the connection that was idle for longest is closed; if none is idle, a caller is
    /// refused and a dial fails.
    pub max_connections: usize,
    /// Most requests that one peer may have open here at once. 256 by default (guess). The next
    /// one waits at the peer: that is QUIC's own stream limit.
    pub max_streams_per_peer: u32,
    /// Most handshakes of callers at once. 256 by default (guess); from a quarter of it on, callers
    /// must show first that they receive at the address they claim (RFC 9000, section 8.1.2), so
    /// that forged first packets take no place.
    pub max_handshakes: usize,
    /// Most requests that wait for the owner of the endpoint. 1,024 by default (guess: a few
    /// milliseconds of work). Further ones wait in their streams, and are refused as `Overloaded`
    /// after `read_timeout`.
    pub max_queued: usize,
    /// How long connecting may take: handshake and hello together, at either end. 5 s by default:
    /// first packets go out at 0, 1 and 3 s (RFC 9002, section 6.2.2, doubling from 1 s).
    pub handshake_timeout: Duration,
    /// A connection without an open request is closed after so long. 30 s by default (guess): ring
    /// neighbours, which talk every second, stay connected; lookup steps are often repeated at once.
    pub idle_timeout: Duration,
    /// A peer from which nothing at all arrives for so long is gone. 30 s by default, QUIC's usual
    /// value. While a request is open, a quiet connection is probed at a third of this.
    pub silence_timeout: Duration,
    /// How long a caller's frame may take to arrive once its stream is open. 10 s by default (guess:
    /// 256 KiB at 200 kbit/s).
    pub read_timeout: Duration,
    /// Longest pause in the middle of a body, reading or writing. 60 s by default (guess): above the
    /// 30 s that a client waits for progress, so that the client's own time-out speaks first.
    pub stall_timeout: Duration,
    /// The next address of a peer is tried so long after the one before, if that one is still
    /// silent. 200 ms by default: within the 100 ms to 2 s of RFC 8305, section 5, and three dead
    /// addresses before the live one still connect within a second.
    pub dial_stagger: Duration,
    /// An address at which a peer did not answer is left alone for so long, doubling up to
    /// `max_backoff`. 1 s by default (`docs/protocol.md`, the delays of a join).
    pub min_backoff: Duration,
    /// Longest time an address is left alone. 60 s by default (guess): a neighbour that is dead for
    /// ten minutes is then dialled at most 15 times.
    pub max_backoff: Duration,
    /// Of two connections to one peer, the one given up stays open for so long after its last
    /// request: by then the other side knows the one that is kept. 2 s by default (guess: several
    /// round trips).
    pub retire_after: Duration,
    /// Most bodies that we ask or send at once over one connection; more wait their turn. 3 by
    /// default (guess: enough to keep the connection full). See `connection_window`.
    pub max_bulk_per_peer: usize,
    /// Bytes that one stream may have on the way to us. 2 MiB by default (guess: 160 Mbit/s over
    /// 100 ms). Only bulk comes near it.
    pub stream_window: u32,
    /// Bytes that one connection may have on the way to us, and that we keep for a peer until it
    /// acknowledges them: the memory that one peer can take. 16 MiB by default. It must exceed the
    /// windows of all bodies of both sides, `2 * max_bulk_per_peer * stream_window`, by at least one
    /// more: then bodies that stand still never hold up a control message.
    pub connection_window: u32,
    /// Wanted size of the socket's two buffers in bytes; the system may grant less. 4 MiB by default
    /// (measured: with smaller ones, bulk at full speed loses packets).
    pub socket_buffer: usize,
    /// Longest UDP payload. 6,500 bytes by default (measured on loopback; never above: ten segments
    /// sent in one call must fit the 64 KiB of a UDP datagram).
    pub max_udp_payload: u16,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_frame: 256 * 1024,
            max_connections: 1024,
            max_streams_per_peer: 256,
            max_handshakes: 256,
            max_queued: 1024,
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            silence_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            dial_stagger: Duration::from_millis(200),
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            retire_after: Duration::from_secs(2),
            max_bulk_per_peer: 3,
            stream_window: 2 * 1024 * 1024,
            connection_window: 16 * 1024 * 1024,
            socket_buffer: 4 * 1024 * 1024,
            max_udp_payload: 6500,
        }
    }
}
