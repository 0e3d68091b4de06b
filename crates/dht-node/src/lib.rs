//! The running parts of dht-node: a [`node`] that takes its place in a ring, a [`client`] that talks
//! to one, and the command line over both.

pub mod client;
pub mod node;
