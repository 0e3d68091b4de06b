//! Registers and chunks of a node, on disk or in memory, behind one trait.
//!
//! [`Store`] is what a node asks; [`DiskStore`] keeps what it acknowledged through a kill at any
//! moment and, as far as the disk keeps its word, through a loss of power; [`MemoryStore`] is its
//! twin for nodes that keep nothing. Both answer every question alike: one test-suite and one
//! random model run over both.
//!
//! Every call blocks until it is done. An async caller goes through `spawn_blocking`.
//!
//! `docs/store.md` has the layout of the directory and the durability argument step by step.

mod arcs;
mod disk;
mod error;
mod memory;
mod options;
mod record;
mod space;
mod store;

pub use disk::{DiskStore, Recovery};
pub use error::{Damaged, OpenError, StoreError};
pub use memory::MemoryStore;
pub use options::{Create, DamagedIndex, Options};
pub use space::{Space, SpaceProbe};
pub use store::{ChunkReader, ChunkWriter, MAX_META_LEN, MAX_NAMES_BYTES, Store};
