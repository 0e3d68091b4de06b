//! Why the store refused or failed, what is still true, and what to do next.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dht_core::id::Id;
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::register::Key;

/// Why a call on an open store came to nothing. Nothing of it was acknowledged; unless a variant
/// says otherwise nothing was changed either, and the store goes on working.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The disk has too little room, or what is left is kept for the index. What is held stays
    /// readable; free some space, or give the node another disk, and ask again.
    #[error(
        "no space for {}: {}; free some space, then try again",
        path.display(),
        available.map_or("the disk is full".to_owned(), |available| format!(
            "{needed} bytes are needed beside {reserve} that are kept for the index, {available} \
             are free"
        ))
    )]
    NoSpace {
        /// The file or directory whose disk is full.
        path: PathBuf,
        /// Bytes that were asked for; 0 if the system did not say.
        needed: u64,
        /// Bytes that were free, if the system said so.
        available: Option<u64>,
        /// Bytes that are kept free for the index.
        reserve: u64,
    },
    /// The system refused to do something to a file. Look at the disk; asking again is safe.
    #[error("cannot {action} {}: {source}; look at the disk, then try again", path.display())]
    Io {
        /// What was tried, as in "cannot write".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The index failed, and failed again after it was reopened. What was acknowledged is safe;
    /// this change is there as a whole or not at all. Asking again is safe.
    #[error(
        "the index {} failed: {source}; what was acknowledged is safe: look at the disk, then try \
         again",
        path.display()
    )]
    Index {
        /// The index.
        path: PathBuf,
        /// What the database said.
        source: Arc<redb::Error>,
    },
    /// The disk failed to make a change of the index durable. What it still holds of that change
    /// only a new start can tell, so the index answers nothing more; what was acknowledged before
    /// is safe. Check the disk, then start the node again.
    #[error(
        "the disk failed to sync the index {}: it is closed, so that nothing is acknowledged that \
         may be lost; check the disk, then start again",
        path.display()
    )]
    SyncFailed {
        /// The index.
        path: PathBuf,
    },
    /// A record on the disk is not what was written there. Only that record is lost here.
    #[error("{record}")]
    Corrupt {
        /// Which.
        record: Damaged,
    },
    /// The bytes of a chunk do not match its name, or their number is wrong. The sender is at
    /// fault: nothing was kept; send it again from the original.
    #[error(
        "the bytes of a chunk do not match: {} bytes of hash {} were announced, {received} came{}",
        chunk.len,
        hex(&chunk.hash),
        actual.map_or(String::new(), |hash| format!(" with hash {}", hex(&hash)))
    )]
    Mismatch {
        /// The chunk as it was announced.
        chunk: ChunkRef,
        /// How many bytes came; those beyond the announced length were not read.
        received: u64,
        /// The hash of what came, if the length was right.
        actual: Option<ContentHash>,
    },
    /// Longer than what is accepted at all: split it.
    #[error("{len} bytes are too many: at most {max} are accepted; split them")]
    TooLong {
        /// Bytes asked for.
        len: u64,
        /// Most that is accepted.
        max: u64,
    },
    /// The store was closed: everything acknowledged is on disk. Open it again.
    #[error("the store is closed; open it again")]
    Closed,
}

impl StoreError {
    /// Names a failed call of the system, and tells a full disk from other faults.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if is_no_space(&source) {
            return StoreError::NoSpace { path, needed: 0, available: None, reserve: 0 };
        }
        StoreError::Io { action, path, source: Arc::new(source) }
    }
}

/// A record that does not read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// A register. The other members of its replica set hold it; the next write of the key, or the
    /// same one again, replaces it here.
    #[error(
        "the register of key {key:?} is damaged on this disk; its other replicas are not: read or \
         write the key through another member, then check this disk"
    )]
    Register {
        /// Its key.
        key: Key,
    },
    /// A row of the index that says where a register or a chunk lies.
    #[error("the index entry at {id} is damaged on this disk; check the disk, then start again")]
    Place {
        /// The point it is filed under.
        id: Id,
    },
}

/// Why a directory was not opened as a store. Nothing was changed in it, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused to do something to a file. Mend what it says, then start again.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as in "cannot read".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process, or another store of this process, has the directory open.
    #[error(
        "the directory {} is in use by {}: stop it, or use another directory",
        dir.display(),
        holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that holds it, if it had written its number by then.
        holder: Option<u32>,
    },
    /// There is no store here, and none was to be made: a disk that is not mounted looks like that.
    #[error(
        "there is no store in {}: if its disk is not mounted, mount it; if it shall be new, say so",
        dir.display()
    )]
    Missing {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has other things in it and no marker of ours: a disk that is not mounted, a
    /// wrong path, or a copy that lost files.
    #[error(
        "{} is not empty (it has '{found}') but has no `format` file, so it is no store: mount its \
         disk, mend the path, or say that a store shall be made in it",
        dir.display()
    )]
    NotAStore {
        /// The directory.
        dir: PathBuf,
        /// One of the things in it.
        found: String,
    },
    /// A later version of this program wrote the directory.
    #[error(
        "{} has format {found}, this program reads formats up to {supported}: use a newer program",
        dir.display()
    )]
    FutureFormat {
        /// The directory.
        dir: PathBuf,
        /// The format it has.
        found: u32,
        /// The latest format this program reads.
        supported: u32,
    },
    /// The marker is there but says nothing that makes sense.
    #[error(
        "the marker {} is damaged (it should read 'dht-store 1'): restore it from a copy",
        path.display()
    )]
    MarkerDamaged {
        /// The marker file.
        path: PathBuf,
    },
    /// The index is gone. The chunks can be found again by looking at their files; the registers
    /// held here cannot, and would have to come back from other members.
    #[error(
        "the index {} is gone: restore it from a copy, or give up the registers it held on this \
         node (chunks are found again, registers come back from other members)",
        path.display()
    )]
    IndexMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The store had a folder of chunks and has none: its disk may not be mounted. Started without it,
    /// the node would count copies that it does not have.
    #[error(
        "the folder of chunks {} is gone: mount its disk or restore it; if the chunks are lost, make \
         an empty folder there, and they come back from other members as they are missed",
        path.display()
    )]
    ChunksMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The index does not open: it was cut short or overwritten from outside. The chunks can be
    /// found again by looking at their files; the registers held here cannot, and would have to
    /// come back from other members.
    #[error(
        "the index {} is damaged ({source}): restore it from a copy, or set it aside and give up \
         the registers it held on this node (chunks are found again, registers come back from \
         other members)",
        path.display()
    )]
    IndexDamaged {
        /// The index.
        path: PathBuf,
        /// What the database said.
        source: Box<redb::Error>,
    },
    /// The store opened, but could not be brought in order. It is as it was.
    #[error("the store in {} cannot be brought in order: {source}", dir.display())]
    Store {
        /// The directory.
        dir: PathBuf,
        /// What failed.
        source: StoreError,
    },
}

/// Whether an error of the system means a full disk or quota.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
