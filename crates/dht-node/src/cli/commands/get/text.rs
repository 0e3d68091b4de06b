//! What may go to a terminal: text.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

/// Passes text on and refuses bytes that are none: on a terminal they would be commands.
#[derive(Debug)]
pub(super) struct TextOnly<W> {
    to: W,
    /// Whether the beginning was looked at.
    looked_at: bool,
}

impl<W> TextOnly<W> {
    pub(super) fn new(to: W) -> TextOnly<W> {
        TextOnly { to, looked_at: false }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for TextOnly<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The beginning tells, as it does for diff and grep.
        if !self.looked_at && !is_text(bytes) {
            return Poll::Ready(Err(io::Error::other(Binary)));
        }
        self.looked_at = true;
        Pin::new(&mut self.to).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(context)
    }
}

/// Whether an error of the output says that the bytes are no text.
pub(super) fn is_binary(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Binary>())
}

/// The bytes are no text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the bytes are no text")]
struct Binary;

fn is_text(bytes: &[u8]) -> bool {
    let complete = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // A letter cut at the end of a piece is no fault.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !complete.contains(['\0', '\u{1b}'])
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn only_text_goes_to_a_terminal() {
        for (bytes, fine) in [
            (&b"plain\ttext\n"[..], true),
            ("слово".as_bytes(), true),
            (&"слово".as_bytes()[..3], true),
            (b"\x89PNG\r\n", false),
            (b"a\0b", false),
            (b"\x1b[2J", false),
        ] {
            let outcome = TextOnly::new(Vec::new()).write_all(bytes).await;
            assert_eq!(outcome.is_ok(), fine, "{bytes:?}");
            assert_eq!(outcome.is_err_and(|error| is_binary(&error)), !fine, "{bytes:?}");
        }
    }
}
