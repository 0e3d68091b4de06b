//! The running parts of dht-node: a [`node`] that takes its place in a ring, a [`client`] that talks
//! to one, and the command line ([`cli`]) over both.

mod advice;
pub mod cli;
pub mod client;
pub mod node;
