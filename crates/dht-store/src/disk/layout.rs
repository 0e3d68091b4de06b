//! The directory of a store: names in it, the marker that says it is one, and how it is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dht_core::manifest::ContentHash;

use super::files::Files;
use crate::error::{OpenError, hex};
use crate::options::Create;

/// The format this program writes, and the latest it reads. A later program that changes the layout
/// raises it and brings older directories up to it.
pub(crate) const FORMAT: u32 = 1;
/// What the marker file says before the number.
const MARKER: &str = "dht-store";
/// What it says after the number until the first index is there.
const UNFINISHED: &str = "new";

/// Where things are.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The directory of the store.
    pub(crate) dir: PathBuf,
}

/// What a directory was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// No store yet, and one may be made.
    Nothing,
    /// A store that was being made when its process ended: nothing was acknowledged.
    Unfinished,
    /// A store.
    Store,
}

impl Layout {
    /// Says which format the directory has.
    pub(crate) fn marker(&self) -> PathBuf {
        self.dir.join("format")
    }

    /// Held by the process that has the store open.
    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// The database of registers, chunk rows and named records.
    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index.redb")
    }

    /// An index that is being made.
    pub(crate) fn new_index(&self) -> PathBuf {
        self.tmp().join("index.redb")
    }

    /// The folders of chunk files.
    pub(crate) fn chunks(&self) -> PathBuf {
        self.dir.join("chunks")
    }

    /// One of the 256 folders of chunk files.
    pub(crate) fn folder(&self, number: u8) -> PathBuf {
        self.chunks().join(format!("{number:02x}"))
    }

    /// The file of a chunk.
    pub(crate) fn chunk(&self, hash: &ContentHash) -> PathBuf {
        self.folder(hash[0]).join(hex(hash))
    }

    /// Files that are being written; what is there when the store opens is left over.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// Chunk files whose bytes did not match, for inspection.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.dir.join("quarantine")
    }

    /// Looks what the directory is, without changing anything.
    pub(crate) fn inspect(&self, create: Create) -> Result<Found, OpenError> {
        let dir = || self.dir.clone();
        match fs::read(self.marker()) {
            Ok(text) => self.read_marker(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let stranger = self.stranger()?;
                match (create, stranger) {
                    (Create::Never, _) => Err(OpenError::Missing { dir: dir() }),
                    (Create::IfEmpty, Some(found)) => {
                        Err(OpenError::NotAStore { dir: dir(), found })
                    }
                    (Create::IfEmpty, None) | (Create::Always, _) => Ok(Found::Nothing),
                }
            }
            Err(source) => Err(open_io("read", self.marker(), source)),
        }
    }

    fn read_marker(&self, text: &[u8]) -> Result<Found, OpenError> {
        let damaged = || OpenError::MarkerDamaged { path: self.marker() };
        let text = str::from_utf8(text).map_err(|_| damaged())?;
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some(MARKER) {
            return Err(damaged());
        }
        // Later formats may say more after their number; the number is what matters then.
        let found: u32 = words.next().and_then(|word| word.parse().ok()).ok_or_else(damaged)?;
        if found > FORMAT {
            let dir = self.dir.clone();
            return Err(OpenError::FutureFormat { dir, found, supported: FORMAT });
        }
        match (found, words.next(), words.next()) {
            (FORMAT, None, None) => Ok(Found::Store),
            (FORMAT, Some(UNFINISHED), None) => Ok(Found::Unfinished),
            _ => Err(damaged()),
        }
    }

    /// The name of something in the directory that neither we nor a fresh file system put there.
    fn stranger(&self) -> Result<Option<String>, OpenError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(open_io("read", &self.dir, source)),
        };
        for entry in entries {
            let name = entry.map_err(|source| open_io("read", &self.dir, source))?.file_name();
            // The lock and `tmp` come before the marker; an empty disk has `lost+found`.
            if name != "lock" && name != "tmp" && name != "lost+found" {
                return Ok(Some(name.to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }

    /// Makes the directory itself and those above it, as far as they are not there.
    pub(crate) fn create_dir(&self, files: &dyn Files) -> Result<(), OpenError> {
        let missing: Vec<&Path> = self
            .dir
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
            .collect();
        for path in missing.into_iter().rev() {
            files.create_dir(path).map_err(|source| open_io("make", path, source))?;
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            files.sync_dir(parent).map_err(|source| open_io("sync", parent, source))?;
        }
        Ok(())
    }

    /// Makes the folder of files that are being written; the marker itself is made in it.
    pub(crate) fn create_tmp(&self, files: &dyn Files) -> Result<(), OpenError> {
        let tmp = self.tmp();
        files.create_dir(&tmp).map_err(|source| open_io("make", &tmp, source))
    }

    /// Makes the other folders, as far as they are not there.
    pub(crate) fn create_folders(&self, files: &dyn Files) -> Result<(), OpenError> {
        for path in [self.chunks(), self.quarantine()] {
            files.create_dir(&path).map_err(|source| open_io("make", &path, source))?;
        }
        files.sync_dir(&self.dir).map_err(|source| open_io("sync", &self.dir, source))
    }

    /// Replaces the marker, durably.
    pub(crate) fn write_marker(&self, files: &dyn Files, finished: bool) -> Result<(), OpenError> {
        let temporary = self.tmp().join("format");
        let text = match finished {
            true => format!("{MARKER} {FORMAT}\n"),
            false => format!("{MARKER} {FORMAT} {UNFINISHED}\n"),
        };
        let write = || {
            match files.remove(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = files.create(&temporary)?;
            file.write(text.as_bytes())?;
            file.sync()?;
            files.rename(&temporary, &self.marker())?;
            files.sync_dir(&self.dir)
        };
        write().map_err(|source| open_io("write", self.marker(), source))
    }

    /// Takes away what interrupted writers left; answers how many files that were.
    pub(crate) fn clear_tmp(&self, files: &dyn Files) -> Result<u64, OpenError> {
        let tmp = self.tmp();
        let mut removed = 0;
        for entry in fs::read_dir(&tmp).map_err(|source| open_io("read", &tmp, source))? {
            let path = entry.map_err(|source| open_io("read", &tmp, source))?.path();
            if path.is_dir() {
                continue;
            }
            files.remove(&path).map_err(|source| open_io("remove", &path, source))?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Names a failed call of the system while a store is opened.
pub(crate) fn open_io(
    action: &'static str,
    path: impl Into<PathBuf>,
    source: io::Error,
) -> OpenError {
    OpenError::Io { action, path: path.into(), source }
}
