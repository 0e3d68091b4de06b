//! Whole rings of dht-core under a virtual clock.
//!
//! A [`world::World`] drives the very state machine that real nodes run, and answers its effects:
//! messages with delay and loss, a disk, crashes, restarts, partitions. Everything is drawn from
//! one seed, so the same seed gives the same trace, byte for byte. After every event the invariants
//! of [`invariants`] are checked.
//!
//! - [`script`] plays one scenario, step by step (`dht-node sim script`);
//! - [`check`] draws such scripts from seeds, in which everything goes wrong that can be named, and cuts
//!   down what fails (`dht-node sim check`);
//! - [`explore`] tries out everything that can happen in a small world
//!   (`dht-node sim check --exhaustive`);
//! - [`churn`] measures lookups and traffic while members come and go (`dht-node sim churn`);
//! - [`hops`] walks lookups over rings of any size, by the rule that real nodes route by
//!   (`dht-node sim hops`).
//!
//! `docs/simulation.md` shows how to use them.

pub mod check;
pub mod churn;
mod disk;
pub mod explore;
pub mod faults;
pub mod hops;
pub mod invariants;
mod ledger;
mod member;
pub mod script;
pub mod trace;
pub mod traffic;
mod watch;
pub mod world;

pub use watch::Breach;
