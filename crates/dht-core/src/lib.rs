//! The ring of dht-node as a state machine: facts in, effects out.
//!
//! Nothing here knows a socket, a file, a clock, a thread or a task. A driver - the real node, or
//! the simulator - tells [`node::Node`] what happened and does what it orders:
//!
//! ```text
//! Node::new(me, params, config, seed, now)
//! node.handle_event(now, event)         node.handle_timeout(now)
//! node.poll_effect() -> Option<Effect>  node.poll_timeout() -> Option<Instant>
//! ```
//!
//! Same inputs, same effects, byte for byte: time is an argument, chance is one seed, collections
//! are ordered.

mod budget;
pub mod config;
pub mod event;
mod fingers;
mod forward;
pub mod id;
pub mod interval;
mod links;
mod liveness;
pub mod lookup;
pub mod manifest;
mod map;
pub mod message;
pub mod node;
mod outbox;
pub mod peer;
#[doc(hidden)]
pub mod planted;
mod quorum;
pub mod register;
mod remembered;
mod replication;
mod ring;
pub mod route;
mod rtt;
pub mod stats;
mod surroundings;
#[cfg(test)]
mod testing;
pub mod theory;
pub mod time;
mod timer;

pub use config::{Config, RingParams};
pub use event::{Command, Effect, Event, Notice};
pub use id::{Id, between};
pub use interval::{Interval, IntervalSet};
pub use peer::{Contact, PeerKey, PeerRecord};
pub use time::Instant;
