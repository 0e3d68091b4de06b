//! How a store on disk is opened.

use std::fmt;
use std::sync::Arc;

use crate::space::{SpaceProbe, system_space};

/// How to open a store. The default is right for a node.
#[derive(Clone)]
pub struct Options {
    /// Whether a store may be made where there is none.
    pub create: Create,
    /// What to do with an index that is gone or does not open.
    pub damaged_index: DamagedIndex,
    /// Bytes of memory for pages of the index; half of them at most wait to be written. More: fewer
    /// reads through the system's cache, which holds the file anyway. 1 MiB by default: 32 idle
    /// nodes in one process must stay below 12 MiB each in all, and a page that is not here costs
    /// microseconds (measured: a scan of 100,000 registers takes 0.11 s at 1 MiB).
    pub cache_bytes: usize,
    /// Most bytes of the disk that chunks leave free for the index. 16 MiB by default (guess: some
    /// ten thousand registers), and never more than a twentieth of the file system.
    pub reserve_bytes: u64,
    /// Who says how much room the disk has. The system, by default.
    pub space: SpaceProbe,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create: Create::IfEmpty,
            damaged_index: DamagedIndex::Refuse,
            cache_bytes: 1024 * 1024,
            reserve_bytes: 16 * 1024 * 1024,
            space: Arc::new(system_space),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("create", &self.create)
            .field("damaged_index", &self.damaged_index)
            .field("cache_bytes", &self.cache_bytes)
            .field("reserve_bytes", &self.reserve_bytes)
            .finish_non_exhaustive()
    }
}

/// Whether a store may be made where there is no `format` marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Create {
    /// If the directory is empty or absent. A directory with other things in it is refused: it may
    /// be the mount point of a disk that is not mounted.
    IfEmpty,
    /// Never: for a node that had a store before.
    Never,
    /// Even beside other things. An index and chunks that are there are taken over.
    Always,
}

/// What to do with an index that is gone or does not open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamagedIndex {
    /// Refuse to open: somebody must decide, for the registers in it are lost to this node.
    Refuse,
    /// Move it aside, start a new one, and find the chunks again by looking at their files.
    SetAside,
}
