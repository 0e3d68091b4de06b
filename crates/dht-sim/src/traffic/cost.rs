//! What dht-net sends, measured: `cargo test -p dht-node --test traffic -- --nocapture` prints these
//! figures, and fails where the model is off by more than a tenth.
//!
//! Two endpoints talk over loopback through a relay that counts datagrams and, for a path of
//! 1,500 bytes, loses those that would not fit. Bytes of a measurement are UDP payloads; the model
//! adds [`HEADERS`] for each datagram.

use std::time::Duration;

/// Bytes on the wire and the datagrams they went in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Bytes, IP and UDP headers included.
    pub bytes: u64,
    /// Datagrams.
    pub datagrams: u64,
}

/// What kind of way datagrams take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Path {
    /// As between two hosts of the internet: packets of 1,500 bytes.
    #[default]
    Internet,
    /// Within one host: the longest datagrams that dht-net sends.
    Loopback,
    /// No search for longer datagrams: all have the 1,200 bytes that every path takes.
    Undiscovered,
}

impl Cost {
    /// From the UDP payload of some datagrams.
    pub const fn of(payload: u64, datagrams: u64) -> Cost {
        Cost { bytes: payload + datagrams * HEADERS, datagrams }
    }

    /// Both together.
    pub fn and(self, other: Cost) -> Cost {
        Cost {
            bytes: self.bytes.saturating_add(other.bytes),
            datagrams: self.datagrams.saturating_add(other.datagrams),
        }
    }

    /// What is left of it without another one.
    pub fn less(self, other: Cost) -> Cost {
        Cost {
            bytes: self.bytes.saturating_sub(other.bytes),
            datagrams: self.datagrams.saturating_sub(other.datagrams),
        }
    }

    /// The UDP payload alone.
    pub fn payload(self) -> u64 {
        self.bytes.saturating_sub(self.datagrams * HEADERS)
    }
}

impl Path {
    /// A request of so many bytes, its length included, over an open connection; and the
    /// acknowledgement of its answer.
    pub fn request(self, len: usize) -> Cost {
        self.stream(len, REQUEST_OVERHEAD).and(ACKNOWLEDGEMENT)
    }

    /// The answer, which acknowledges the request.
    pub fn answer(self, len: usize) -> Cost {
        self.stream(len, ANSWER_OVERHEAD)
    }

    /// Opening a connection: TLS handshake and hellos, both ways.
    pub fn handshake(self) -> Cost {
        Cost::of(4_370, 10)
    }

    /// The search for the longest datagram that a path takes, both ways, lost ones included.
    pub fn discovery(self) -> Cost {
        match self {
            Path::Internet => Cost::of(88_200, 144),
            Path::Loopback => Cost::of(106_900, 32),
            Path::Undiscovered => Cost::default(),
        }
    }

    /// Longest UDP payload once it is found.
    fn longest(self) -> usize {
        match self {
            Path::Internet => 1_472,
            Path::Loopback => 6_500,
            Path::Undiscovered => 1_200,
        }
    }

    fn stream(self, len: usize, overhead: u64) -> Cost {
        let room = self.longest() - FURTHER_OVERHEAD as usize;
        let datagrams = len.div_ceil(room).max(1) as u64;
        Cost::of(len as u64 + overhead + (datagrams - 1) * FURTHER_OVERHEAD, datagrams)
    }
}

/// What a connection costs that was not used for so long: both sides ask for a sign of life after
/// each third of [`SILENCE_TIMEOUT`], and after [`IDLE_TIMEOUT`] it is closed.
pub fn idle(span: Duration) -> Cost {
    let signs = |count: u64| Cost::of(135 * count, 4 * count);
    match span.as_secs() / 10 {
        0 => Cost::default(),
        thirds @ 1..3 => signs(thirds),
        _ => signs(2).and(Cost::of(74, 2)),
    }
}

/// IPv4 and UDP (RFC 791, RFC 768), without options.
pub const HEADERS: u64 = 28;
/// A connection without a request is closed after so long (`dht_net::Limits::idle_timeout`).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer from which nothing comes for so long is gone (`dht_net::Limits::silence_timeout`).
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an address that did not answer is left alone at first, and at most
/// (`dht_net::Limits::min_backoff`, `max_backoff`).
pub const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// See [`MIN_BACKOFF`].
pub const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Packet and frame headers and the seal of TLS, in the datagram of a request.
const REQUEST_OVERHEAD: u64 = 41;
/// The same of an answer, with the acknowledgement of the request.
const ANSWER_OVERHEAD: u64 = 34;
/// The same in every datagram after the first one.
const FURTHER_OVERHEAD: u64 = 33;
/// The asker acknowledges the answer 25 ms later, in a datagram of its own.
const ACKNOWLEDGEMENT: Cost = Cost::of(28, 1);
/// First packets to an address where nobody is, until the dial is given up after 5 s.
pub const DEAD_DIAL: Cost = Cost::of(7_200, 6);
/// A request over an open connection to a peer that died: sent again until 30 s are over.
pub const FIRST_UNANSWERED: Cost = Cost::of(850, 21);
/// A further one over the same connection meanwhile.
pub const NEXT_UNANSWERED: Cost = Cost::of(100, 2);
