//! Files that `put` reads: a torn one must not be stored as if it were whole.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use tokio::fs::File;
use tokio::io::{AsyncRead, ReadBuf};

use crate::cli::exit::{Failure, Kind};

/// What is known of a file without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    /// Its length.
    pub(super) len: u64,
    /// When it was written to, where the system tells.
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &std::fs::Metadata) -> Stamp {
        Stamp { len: metadata.len(), modified: metadata.modified().ok() }
    }
}

/// An open file, device or pipe. A file that is written to while it is read ends in an error.
#[derive(Debug)]
pub(super) struct Source {
    reader: File,
    /// Of a file: the same handle, to look at it, and what it should look like.
    steady: Option<(std::fs::File, Stamp)>,
}

impl Source {
    /// Opens it, once: a pipe's writer sees a second opening as a second reader. Opening a pipe
    /// waits for its writer, so this must be dropped to end the wait. `before` is what an earlier
    /// reading of the same file saw.
    pub(super) async fn open(path: &Path, before: Option<Stamp>) -> Result<Source, Failure> {
        let failed = |error| unreadable(path, &error);
        let reader = File::open(path).await.map_err(failed)?;
        let metadata = reader.metadata().await.map_err(failed)?;
        if !metadata.is_file() {
            return Ok(Source { reader, steady: None });
        }
        let handle = reader.try_clone().await.map_err(failed)?.into_std().await;
        let stamp = before.unwrap_or_else(|| Stamp::of(&metadata));
        Ok(Source { reader, steady: Some((handle, stamp)) })
    }

    /// Of a file, which can be read again; none of a device or a pipe.
    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.steady.as_ref().map(|(_, stamp)| *stamp)
    }

    fn check(&self) -> io::Result<()> {
        let Some((handle, stamp)) = &self.steady else { return Ok(()) };
        if Stamp::of(&handle.metadata()?) == *stamp { Ok(()) } else { Err(io::Error::other(Torn)) }
    }
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(context, buffer))?;
        // At the end, before anybody is told that it was the end: the put is not complete yet.
        let is_end = buffer.filled().len() == before && buffer.remaining() > 0;
        Poll::Ready(if is_end { self.check() } else { Ok(()) })
    }
}

/// The file is another one than when its reading began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the file was written to while it was read, so nothing was stored; put it again when it is \
     complete"
)]
struct Torn;

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Kind::Io, format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reads a file to its end; after the first bytes, `meddle` gets it.
    async fn read(meddle: impl FnOnce(&mut std::fs::File)) -> io::Result<usize> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(&[7; 1000]).expect("writable");
        let past = SystemTime::now() - Duration::from_secs(3600);
        file.as_file().set_modified(past).expect("it is ours");
        let mut source = Source::open(file.path(), None).await.expect("readable");
        assert_eq!(source.stamp().map(|stamp| stamp.len), Some(1000));
        source.read_exact(&mut [0; 10]).await?;
        meddle(file.as_file_mut());
        let mut rest = Vec::new();
        source.read_to_end(&mut rest).await
    }

    #[tokio::test]
    async fn a_file_that_changes_meanwhile_is_no_file() {
        assert_eq!(read(|_| {}).await.expect("nobody writes"), 990);
        let changes: [fn(&mut std::fs::File); 3] = [
            |file| file.set_len(500).expect("it shrinks"),
            |file| file.write_all(b"more").expect("it grows"),
            |file| {
                use std::io::Seek;
                file.rewind().expect("it is a file");
                file.write_all(&[8; 1000]).expect("it is rewritten");
            },
        ];
        for change in changes {
            let error = read(change).await.expect_err("it was torn");
            assert!(error.to_string().contains("nothing was stored"), "{error}");
        }
    }
}
