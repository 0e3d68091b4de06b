//! Opening a store: whose directory it is, whether there is one, and what a crash left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::backend::{Opener, open_file};
use super::chunks::ChunkFolders;
use super::commit::Committer;
use super::files::Files;
use super::index::{Index, create_database};
use super::layout::{Found, Layout, open_io};
use super::lock::DirLock;
use super::reconcile::{Recovery, reconcile};
use super::tables::{CLEAN, Change, state};
use super::{DiskStore, Shared};
use crate::error::{OpenError, StoreError};
use crate::options::{DamagedIndex, Options};

/// As [`DiskStore::open`], on files that may fail.
pub(super) fn open(
    dir: &Path,
    options: Options,
    files: Arc<dyn Files>,
) -> Result<DiskStore, OpenError> {
    let layout = Layout { dir: dir.to_owned() };
    if layout.inspect(options.create)? == Found::Nothing {
        layout.create_dir(&*files)?;
    }
    let lock = DirLock::take(dir, &layout.lock())?;
    // Looked at again: another process may have made or changed it before we had the lock.
    let found = layout.inspect(options.create)?;
    layout.create_tmp(&*files)?;
    let mut recovery = Recovery { temporary: layout.clear_tmp(&*files)?, ..Recovery::default() };
    if found == Found::Nothing {
        layout.write_marker(&*files, false)?;
    }
    let chunks = layout.chunks();
    let has_chunks = chunks.try_exists().map_err(|source| open_io("read", &chunks, source))?;
    if found == Found::Store && !has_chunks {
        return Err(OpenError::ChunksMissing { path: chunks });
    }
    layout.create_folders(&*files)?;
    let open = || Index::open(&layout.index(), opener(layout.index(), options.cache_bytes, false));
    let index = if found == Found::Store {
        open_index(&layout, &*files, &options, &open, &mut recovery)?
    } else {
        if !layout.index().exists() {
            create_index(&layout, &*files, options.cache_bytes)?;
        }
        let index = open().map_err(|error| damaged(&layout, error))?;
        layout.write_marker(&*files, true)?;
        index
    };
    let chunks = ChunkFolders::new(layout.clone(), files, options.space, options.reserve_bytes);
    put_in_order(&layout, &chunks, &index, &mut recovery)
        .map_err(|source| OpenError::Store { dir: dir.to_owned(), source })?;
    let committer = Committer::new(layout.index());
    let lock = Mutex::new(Some(lock));
    let shared = Arc::new(Shared { chunks, index, committer, layout, lock });
    Ok(DiskStore { shared, recovery })
}

/// Opens the index of a store that has one, or does about it what the options say.
fn open_index(
    layout: &Layout,
    files: &dyn Files,
    options: &Options,
    open: &dyn Fn() -> Result<Index, Box<redb::Error>>,
    recovery: &mut Recovery,
) -> Result<Index, OpenError> {
    let path = layout.index();
    let there = path.try_exists().map_err(|source| open_io("read", &path, source))?;
    if there {
        match open() {
            Ok(index) => return Ok(index),
            // A disk that fails or is full says nothing about the index: it is left alone.
            Err(error) if !is_damage(&error) => return Err(damaged(layout, error)),
            Err(error) if options.damaged_index == DamagedIndex::Refuse => {
                return Err(damaged(layout, error));
            }
            Err(error) => {
                let aside = aside_name(layout);
                tracing::warn!(index = %path.display(), aside = %aside.display(), %error,
                    "the index is damaged: set aside, its registers are lost here");
                files.rename(&path, &aside).map_err(|source| open_io("move", &path, source))?;
                recovery.damaged_index = Some(aside);
            }
        }
    } else if options.damaged_index == DamagedIndex::Refuse {
        return Err(OpenError::IndexMissing { path });
    }
    create_index(layout, files, options.cache_bytes)?;
    open().map_err(|error| damaged(layout, error))
}

/// A name for a damaged index that nothing bears yet.
fn aside_name(layout: &Layout) -> PathBuf {
    (0u32..)
        .map(|n| layout.quarantine().join(format!("index.redb.{n}")))
        .find(|path| !path.exists())
        .expect("a directory has fewer names than there are numbers")
}

/// Makes an empty index under another name and moves it into place whole.
fn create_index(layout: &Layout, files: &dyn Files, cache_bytes: usize) -> Result<(), OpenError> {
    let path = layout.new_index();
    create_database(&opener(path.clone(), cache_bytes, true)).map_err(|error| match *error {
        redb::Error::Io(source) => open_io("make", &path, source),
        other => OpenError::IndexDamaged { path: path.clone(), source: Box::new(other) },
    })?;
    files
        .rename(&path, &layout.index())
        .and_then(|()| files.sync_dir(&layout.dir))
        .map_err(|source| open_io("move into place", layout.index(), source))
}

/// Whether the file itself is wrong, not the disk under it.
fn is_damage(error: &redb::Error) -> bool {
    match error {
        redb::Error::Io(source) => {
            matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        }
        redb::Error::Corrupted(_) | redb::Error::UpgradeRequired(_) => true,
        _ => false,
    }
}

fn damaged(layout: &Layout, error: Box<redb::Error>) -> OpenError {
    let path = layout.index();
    if is_damage(&error) {
        return OpenError::IndexDamaged { path, source: error };
    }
    match *error {
        redb::Error::Io(source) => open_io("open", path, source),
        other => open_io("open", path, io::Error::other(other)),
    }
}

/// Looks after a crash whether files and rows agree, and notes durably that from now on they may
/// not.
fn put_in_order(
    layout: &Layout,
    chunks: &ChunkFolders,
    index: &Index,
    recovery: &mut Recovery,
) -> Result<(), StoreError> {
    recovery.clean = index.read(|transaction| Ok(state(transaction, CLEAN)? == 1))?;
    if !recovery.clean {
        reconcile(layout, chunks, index, recovery)?;
    }
    index.apply(&[Change::Clean(false)])?;
    Ok(())
}

/// Opens the database at `path`, and makes it if `create` says so.
fn opener(path: PathBuf, cache_bytes: usize, create: bool) -> Opener {
    Box::new(move |health| open_file(&path, cache_bytes, create, health))
}
