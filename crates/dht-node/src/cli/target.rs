//! A file to be written that appears whole or not at all.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tokio::fs::File;

use super::exit::{Failure, Kind};

/// A path that may be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    path: PathBuf,
    how: How,
}

/// How a path is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Under a temporary name first; nothing may be there at the end.
    New,
    /// Under a temporary name first, then in the place of what is there.
    Replace,
    /// Straight into it: a device such as /dev/null, which must not be replaced by a file.
    Into,
}

impl Target {
    /// Looks at what is there; `force` allows to overwrite it. A link is followed, so that it stays
    /// a link to what is written.
    pub(crate) fn choose(path: &Path, force: bool) -> Result<Target, Failure> {
        let io = |text: String| Failure::new(Kind::Io, text);
        let mut written = path.to_owned();
        let how = match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => {
                return Err(io(format!("{} is a directory; name a file in it", path.display())));
            }
            Ok(_) if !force => return Err(exists(path)),
            Ok(there) if there.is_file() => {
                written = std::fs::canonicalize(path).map_err(|error| unwritable(path, &error))?;
                How::Replace
            }
            Ok(there) => match odd(&there.file_type(), path) {
                None => How::Into,
                Some(what) => {
                    let path = path.display();
                    return Err(io(format!("{path} is {what}; name a file")));
                }
            },
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(unwritable(path, &error));
            }
            Err(_) if std::fs::symlink_metadata(path).is_ok() => {
                return Err(io(format!("{} is a link to nothing; name a file", path.display())));
            }
            Err(_) => How::New,
        };
        let target = Target { path: written, how };
        if how != How::Into && !target.folder().is_dir() {
            return Err(io(format!(
                "the directory of {} does not exist; make it first",
                path.display()
            )));
        }
        Ok(target)
    }

    /// Opens what is written to. Dropped before [`Draft::finish`], it leaves nothing behind.
    pub(crate) async fn begin(&self) -> Result<Draft, Failure> {
        let failed = |error: io::Error| unwritable(&self.path, &error);
        if self.how == How::Into {
            // Some devices wait for their other side; whoever waits here can give up.
            let opened = File::options().write(true).open(&self.path).await;
            let writer = opened.map_err(failed)?;
            return Ok(Draft { writer, temporary: None, target: self.clone() });
        }
        let temporary = self.temporary()?;
        let writer = File::from_std(temporary.as_file().try_clone().map_err(failed)?);
        Ok(Draft { writer, temporary: Some(temporary), target: self.clone() })
    }

    /// Tells before long work whether its result could be written. Nothing is left behind.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.how {
            // Opening a device may already be a use of it.
            How::Into => Ok(()),
            How::New | How::Replace => self.temporary().map(drop),
        }
    }

    /// Writes all of a file that is small. One that is there already is replaced, also if it came
    /// after the choice.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), Failure> {
        let failed = |error: io::Error| unwritable(&self.path, &error);
        if self.how == How::Into {
            let opened = std::fs::File::options().write(true).open(&self.path);
            return opened.and_then(|mut device| device.write_all(content)).map_err(failed);
        }
        let mut temporary = self.temporary()?;
        temporary.write_all(content).map_err(failed)?;
        temporary.as_file().sync_all().map_err(failed)?;
        temporary.persist(&self.path).map_err(|error| failed(error.error))?;
        sync_folder(self.folder()).map_err(failed)
    }

    /// The file beside its place that is renamed when it is whole, and removed when it is dropped.
    fn temporary(&self) -> Result<NamedTempFile, Failure> {
        let mut builder = tempfile::Builder::new();
        // `docs/cli.md` names this form: SIGKILL and power cuts leave the file behind.
        builder.prefix(".dht-node-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What the user's mask leaves of it, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        builder.tempfile_in(self.folder()).map_err(|error| unwritable(&self.path, &error))
    }

    /// Whether both are one file, also if they are written differently.
    pub(crate) fn is_same(&self, other: &Target) -> bool {
        let place = |target: &Target| {
            let folder = std::fs::canonicalize(target.folder()).ok();
            (folder, target.path.file_name().map(ToOwned::to_owned))
        };
        self.how != How::Into && place(self) == place(other)
    }

    fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }
}

/// A file on its way.
#[derive(Debug)]
pub(crate) struct Draft {
    writer: File,
    temporary: Option<NamedTempFile>,
    target: Target,
}

impl Draft {
    /// To write to.
    pub(crate) fn writer(&mut self) -> &mut File {
        &mut self.writer
    }

    /// Makes it durable and gives it its name.
    pub(crate) async fn finish(self) -> Result<(), Failure> {
        let Draft { writer, temporary, target } = self;
        let Some(temporary) = temporary else { return Ok(()) };
        let failed = |error: io::Error| unwritable(&target.path, &error);
        writer.sync_all().await.map_err(failed)?;
        let named = match target.how {
            How::New => temporary.persist_noclobber(&target.path),
            How::Replace | How::Into => temporary.persist(&target.path),
        };
        match named {
            Ok(_) => {}
            // Somebody else was faster.
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                return Err(exists(&target.path));
            }
            Err(error) => return Err(failed(error.error)),
        }
        sync_folder(target.folder()).map_err(failed)
    }
}

/// The name is durable when its directory is.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// Elsewhere directories cannot be opened as files.
#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Why something that is neither file nor directory cannot be written; none of a device that takes
/// bytes one after the other, or of a pipe without a name, as `/dev/stdout` may be one: its reader is
/// there already. A named pipe would wait for its reader beyond every deadline.
#[cfg(unix)]
fn odd(kind: &std::fs::FileType, path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        // The name of a pipe without a name leads nowhere.
        return std::fs::canonicalize(path).is_ok().then_some("a named pipe");
    }
    if kind.is_socket() {
        return Some("a socket");
    }
    kind.is_block_device().then_some("a disk")
}

/// Elsewhere nothing of the kind is told apart.
#[cfg(not(unix))]
fn odd(_kind: &std::fs::FileType, _path: &Path) -> Option<&'static str> {
    None
}

fn exists(path: &Path) -> Failure {
    let text = format!("{} exists already; --force overwrites it", path.display());
    Failure::new(Kind::Conflict, text)
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let kind = if error.kind() == ErrorKind::StorageFull { Kind::NoSpace } else { Kind::Io };
    Failure::new(kind, format!("cannot write {}: {error}; name another file", path.display()))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn kind(outcome: Result<Target, Failure>) -> Kind {
        match outcome {
            Err(Failure::Told { kind, .. }) => kind,
            other => panic!("no failure: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("file");
        let target = Target::choose(&path, false).expect("nothing is there");
        let mut draft = target.begin().await.expect("writable");
        draft.writer().write_all(b"half").await.expect("writable");
        assert!(!path.exists());
        drop(draft);
        let left = std::fs::read_dir(folder.path()).expect("readable").count();
        assert_eq!(left, 0, "nothing is left behind");
        let mut draft = target.begin().await.expect("writable");
        draft.writer().write_all(b"whole").await.expect("writable");
        draft.writer().flush().await.expect("writable");
        draft.finish().await.expect("nothing is in the way");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"whole");
    }

    #[tokio::test]
    async fn what_is_there_stays_unless_forced() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("file");
        let early = Target::choose(&path, false).expect("nothing is there").begin().await;
        std::fs::write(&path, b"mine").expect("writable");
        assert_eq!(kind(Target::choose(&path, false)).exit() as u8, 5);
        let late = early.expect("writable").finish().await;
        assert!(matches!(late, Err(Failure::Told { kind: Kind::Conflict, .. })), "{late:?}");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"mine");
        let mut draft =
            Target::choose(&path, true).expect("forced").begin().await.expect("writable");
        draft.writer().write_all(b"theirs").await.expect("writable");
        draft.writer().flush().await.expect("writable");
        draft.finish().await.expect("forced");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"theirs");
    }

    #[test]
    fn a_small_file_is_checked_early_and_written_late() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("file");
        let names = || std::fs::read_dir(folder.path()).expect("readable").count();
        let target = Target::choose(&path, true).expect("nothing is there");
        target.check().expect("writable");
        assert_eq!(names(), 0, "looking leaves nothing behind");
        std::fs::write(&path, b"older and longer").expect("writable");
        target.write(b"new").expect("writable");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"new");
        assert_eq!(names(), 1, "no temporary file is left");
        let gone = folder.path().join("gone");
        std::fs::create_dir(&gone).expect("writable");
        let target = Target::choose(&gone.join("file"), true).expect("a directory");
        std::fs::remove_dir(&gone).expect("empty");
        for outcome in [target.check(), target.write(b"lost")] {
            assert!(matches!(outcome, Err(Failure::Told { kind: Kind::Io, .. })), "{outcome:?}");
        }
    }

    #[test]
    fn a_directory_is_no_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(kind(Target::choose(folder.path(), true)), Kind::Io);
        let nowhere = folder.path().join("no/such/place");
        assert_eq!(kind(Target::choose(&nowhere, false)), Kind::Io);
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        let target = Target::choose(Path::new("/dev/null"), true).expect("forced");
        assert_eq!(target.how, How::Into);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_stays_a_link_to_what_is_written() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::os::unix::fs::symlink("file", &link).expect("writable");
        assert_eq!(kind(Target::choose(&link, true)), Kind::Io, "it leads nowhere");
        std::fs::write(&file, b"old").expect("writable");
        assert_eq!(kind(Target::choose(&link, false)), Kind::Conflict);
        let target = Target::choose(&link, true).expect("forced");
        let mut draft = target.begin().await.expect("writable");
        draft.writer().write_all(b"new").await.expect("writable");
        draft.writer().flush().await.expect("writable");
        draft.finish().await.expect("forced");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).expect("it is there"), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_is_refused_by_its_kind() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).expect("writable");
        assert_eq!(kind(Target::choose(&path, false)), Kind::Conflict);
        let refused = Target::choose(&path, true);
        assert!(
            matches!(&refused, Err(Failure::Told { kind: Kind::Io, message }) if message.contains("a socket")),
            "{refused:?}"
        );
    }
}
