//! Support for the scenarios: the workspace's own files, and clusters of real `dht-node` processes
//! on loopback.
//!
//! Nothing here sleeps for a fixed time: [`wait::wait_for`] polls a condition under a generous
//! watchdog. Every process started here dies with the test, however that ends ([`guard`]).

pub mod binary;
pub mod client;
pub mod cluster;
pub mod data;
pub mod guard;
pub mod process;
pub mod wait;
pub mod workspace;

pub use client::Outcome;
pub use cluster::{Cluster, Settings};
pub use process::NodeProcess;
