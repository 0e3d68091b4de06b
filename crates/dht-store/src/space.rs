//! How much room the disk has, and what of it is kept for the index.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Room of the file system that holds a store, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Size of the file system.
    pub total: u64,
    /// What an ordinary user may still write: the "Avail" of `df`, on any kind of mount.
    pub available: u64,
}

/// Answers how much room the file system of a path has; `None` where the system does not say.
/// Tests bring their own.
pub type SpaceProbe = Arc<dyn Fn(&Path) -> io::Result<Option<Space>> + Send + Sync>;

/// Asks the system.
#[cfg(unix)]
pub(crate) fn system_space(path: &Path) -> io::Result<Option<Space>> {
    let figures = rustix::fs::statvfs(path)?;
    Ok(Some(Space {
        total: figures.f_blocks.saturating_mul(figures.f_frsize),
        available: figures.f_bavail.saturating_mul(figures.f_frsize),
    }))
}

/// Asks nobody: then only the system's own refusal says that a disk is full.
#[cfg(not(unix))]
pub(crate) fn system_space(_path: &Path) -> io::Result<Option<Space>> {
    Ok(None)
}

/// Bytes to keep free for the index on a file system of this size: `most`, but never more than a
/// twentieth of it (guess: a small disk must stay usable, and 20 MiB still leave 1 MiB, enough for
/// hundreds of registers).
pub(crate) fn reserve(most: u64, total: u64) -> u64 {
    most.min(total / 20)
}

/// Bytes that open writers have been promised and have not written yet, so that writers side by
/// side cannot all be promised the same room.
#[derive(Debug, Default)]
pub(crate) struct Promised {
    bytes: AtomicU64,
}

impl Promised {
    /// Promises `bytes` if they fit beside all earlier promises into `room`; else says how many
    /// bytes of the room are left.
    pub(crate) fn promise(self: &Arc<Self>, bytes: u64, room: u64) -> Result<Promise, u64> {
        let added = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, |promised| {
            promised.checked_add(bytes).filter(|sum| *sum <= room)
        });
        match added {
            Ok(_) => Ok(Promise { promised: self.clone(), bytes }),
            Err(promised) => Err(room.saturating_sub(promised)),
        }
    }
}

/// One promise; what is left of it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Promise {
    promised: Arc<Promised>,
    bytes: u64,
}

impl Promise {
    /// So many of the promised bytes are on the disk now, where the system counts them.
    pub(crate) fn written(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.promised.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.promised.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_small_on_small_disks() {
        const MIB: u64 = 1024 * 1024;
        assert_eq!(reserve(16 * MIB, 20 * MIB), MIB);
        assert_eq!(reserve(16 * MIB, 1 << 40), 16 * MIB);
        assert_eq!(reserve(16 * MIB, 0), 0);
    }

    #[test]
    fn writers_side_by_side_are_not_promised_the_same_room() {
        let promised = Arc::new(Promised::default());
        let mut first = promised.promise(6, 10).expect("fits");
        assert_eq!(promised.promise(5, 10).expect_err("4 are left"), 4);
        first.written(2);
        let second = promised.promise(4, 10).expect("fits to the byte");
        assert_eq!(promised.promise(1, 8).expect_err("promised before the room shrank"), 0);
        drop((first, second));
        assert!(promised.promise(10, 10).is_ok());
        assert!(promised.promise(u64::MAX, u64::MAX).is_ok(), "and no sum overflows");
    }

    #[cfg(unix)]
    #[test]
    fn the_system_knows_its_figures() {
        let space = system_space(Path::new("/")).expect("asks").expect("answers");
        assert!(space.total > 0 && space.available <= space.total);
        assert!(system_space(Path::new("/no/such/place")).is_err());
    }
}
