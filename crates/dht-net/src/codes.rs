//! Numbers that go with the end of a connection or a stream. Pinned: they are part of the wire.

/// Connection: no request for a while. Requests that were not read are not carried out.
pub const IDLE: u32 = 1;
/// Connection: the other one between the same two peers is kept. Requests that were not read are
/// not carried out.
pub const REDUNDANT: u32 = 2;
/// Connection: the node is going down.
pub const SHUTTING_DOWN: u32 = 3;
/// Connection: the two sides belong to different rings.
pub const OTHER_RING: u32 = 4;
/// Connection: no hello in time, or one that cannot be right.
pub const BAD_HELLO: u32 = 5;
/// Connection: too many of them.
pub const OVERLOADED: u32 = 6;
/// Connection: it was opened only to ask who is here; the reason phrase says it.
pub const ABOUT: u32 = 7;
/// Connection: both ends have the same key.
pub const SAME_IDENTITY: u32 = 8;
/// Connection: its owner wants no more of the peer.
pub const DISCONNECTED: u32 = 9;

/// Stream: whoever wanted or wrote it has gone. Numbers below 0x100 are those of
/// [`ClientErrorCode`](dht_core::message::client::ClientErrorCode).
pub const CANCELLED: u64 = 0x100;
/// Stream: the frame cannot be read.
pub const MALFORMED: u64 = 0x101;
/// Stream: the frame is too long.
pub const TOO_LARGE: u64 = 0x102;
/// Stream: the frame did not arrive in time.
pub const TIMED_OUT: u64 = 0x103;
/// Stream: the body did not move for too long.
pub const STALLED: u64 = 0x104;
