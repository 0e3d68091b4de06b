//! The two halves of a stream: frames first, then bulk bytes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dht_core::PeerRecord;
use dht_core::message::Answer;
use futures_util::FutureExt;
use quinn::{ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::check::check_answer;
use crate::codes;
use crate::error::{BodyError, Lost};
use crate::frame::{Deframed, Deframer, Kind, decode};
use crate::link::Busy;
use crate::record::RecordBook;
use crate::shared::Shared;

/// Bytes that follow a frame or an answer, as they arrive. Dropped before the end, it tells the
/// other side to stop.
#[derive(Debug)]
pub struct BodyReader {
    shared: Arc<Shared>,
    /// `None` once the end, or an error, was seen.
    open: Option<(RecvStream, Busy)>,
    deframer: Deframer,
    failed: Option<BodyError>,
    kind: Kind,
}

impl BodyReader {
    pub(crate) fn new(recv: RecvStream, busy: Busy, kind: Kind) -> BodyReader {
        let shared = busy.shared().clone();
        BodyReader {
            shared,
            open: Some((recv, busy)),
            deframer: Deframer::default(),
            failed: None,
            kind,
        }
    }

    /// The next bytes, at most `max` of them (and at least one, unless `max` is 0); `None` at the
    /// end. A reset is an error, never an end: see [`BodyError::Reset`]. Errors repeat.
    pub async fn read(&mut self, max: usize) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(bytes) = self.deframer.take(max) {
                return Ok(Some(bytes));
            }
            if max == 0 {
                return Ok(Some(Bytes::new()));
            }
            if !self.fill_in_time().await? {
                return Ok(None);
            }
        }
    }

    /// Like [`BodyReader::read`], with all that has arrived behind it, as far as `max`, in one piece:
    /// for whoever pays for each piece, as a file does with a system call. Bytes come in datagrams
    /// of a few KiB. Waits for nothing but the first byte.
    pub async fn read_gathered(&mut self, max: usize) -> Result<Option<Bytes>, BodyError> {
        let Some(first) = self.read(max).await? else { return Ok(None) };
        let mut gathered = BytesMut::new();
        loop {
            let room = max - first.len().max(gathered.len());
            if let Some(more) = self.deframer.take(room) {
                if gathered.is_empty() {
                    gathered.reserve(max);
                    gathered.extend_from_slice(&first);
                }
                gathered.extend_from_slice(&more);
            } else if room == 0 || !matches!(self.fill().now_or_never(), Some(Ok(true))) {
                // An error is told by the next read.
                return Ok(Some(if gathered.is_empty() { first } else { gathered.freeze() }));
            }
        }
    }

    /// The next answer where several follow each other; `None` at the end.
    pub async fn next_answer(&mut self) -> Result<Option<Answer>, BodyError> {
        loop {
            match self.deframer.frame(self.shared.limits.max_frame) {
                Deframed::Frame(bytes) => {
                    let answer = checked_answer(&bytes, self.kind, &self.shared.book);
                    return answer.map(Some).ok_or_else(|| self.fail(BodyError::BadAnswer));
                }
                Deframed::TooLong => return Err(self.fail(BodyError::BadAnswer)),
                Deframed::More => {
                    if !self.fill_in_time().await? {
                        let cut = !self.deframer.is_empty();
                        return if cut { Err(self.fail(BodyError::BadAnswer)) } else { Ok(None) };
                    }
                }
            }
        }
    }

    /// The next frame as bytes, without a time-out of its own.
    pub(crate) async fn read_frame(&mut self, limit: usize) -> Result<Bytes, FrameFault> {
        loop {
            match self.deframer.frame(limit) {
                Deframed::Frame(bytes) => {
                    // The end comes in the same packet as a short frame: seen at once, it frees the
                    // stream without a word to the other side.
                    if self.deframer.is_empty() {
                        let _ = self.fill().now_or_never();
                    }
                    return Ok(bytes);
                }
                Deframed::TooLong => return Err(FrameFault::TooLong),
                Deframed::More => {
                    if !self.fill().await.map_err(FrameFault::Body)? {
                        return Err(FrameFault::Cut);
                    }
                }
            }
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What the peer said of itself last, as long as the body has not come to its end.
    pub(crate) fn peer_record(&self) -> Option<Arc<PeerRecord>> {
        self.open.as_ref().and_then(|(_, busy)| busy.peer_record())
    }

    /// Keeps a turn for bulk until the end.
    pub(crate) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if let Some((_, busy)) = &mut self.open {
            busy.hold(permit);
        }
    }

    /// Which answers may follow; known once the frame is read.
    pub(crate) fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Tells the other side to send no more, with a reason.
    pub(crate) fn stop(&mut self, code: u64) {
        if let Some((mut recv, _)) = self.open.take() {
            // An error means that there is nothing to stop any more.
            let _ = recv.stop(varint(code));
        }
    }

    async fn fill_in_time(&mut self) -> Result<bool, BodyError> {
        let patience = self.shared.limits.stall_timeout;
        match timeout(patience, self.fill()).await {
            Ok(filled) => filled,
            Err(_) => {
                self.stop(codes::STALLED);
                Err(self.fail(BodyError::Stalled))
            }
        }
    }

    /// Takes in what arrived; `false` at the end. Loses nothing if it is dropped half-way.
    async fn fill(&mut self) -> Result<bool, BodyError> {
        let Some((recv, _)) = &mut self.open else {
            return self.failed.map_or(Ok(false), Err);
        };
        match recv.read_chunk(PIECE, true).await {
            Ok(Some(chunk)) => {
                self.deframer.push(chunk.bytes);
                Ok(true)
            }
            Ok(None) => {
                self.open = None;
                Ok(false)
            }
            Err(error) => Err(self.fail(read_error(error))),
        }
    }

    fn fail(&mut self, error: BodyError) -> BodyError {
        self.stop(codes::CANCELLED);
        self.failed = Some(error);
        error
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.stop(codes::CANCELLED);
    }
}

/// Why there is no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameFault {
    /// It claims to be longer than the limit.
    TooLong,
    /// The stream ended before it was complete.
    Cut,
    /// The stream broke.
    Body(BodyError),
}

/// Sends bytes after a frame or an answer. Dropped before [`BodyWriter::finish`], it resets the
/// stream, so that the other side never takes a part for the whole.
#[derive(Debug)]
pub struct BodyWriter {
    /// `None` once it is finished or reset.
    open: Option<(SendStream, Busy)>,
    failed: Option<BodyError>,
}

impl BodyWriter {
    pub(crate) fn new(send: SendStream, busy: Busy) -> BodyWriter {
        BodyWriter { open: Some((send, busy)), failed: None }
    }

    /// Sends these bytes, waiting while the other side takes no more. An error may mean that the
    /// other side has already answered: whoever asks should look at its answer then.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), BodyError> {
        // In pieces, so that a slow receiver is told from one that stands still.
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.write_piece(piece).await?;
        }
        Ok(())
    }

    /// Says that this was all. The bytes are then on their way; whether they arrived, only an answer
    /// tells.
    pub fn finish(mut self) -> Result<(), BodyError> {
        self.end()
    }

    /// Gives up with a number for the other side (below 2^62; greater ones are cut).
    pub fn reset(mut self, code: u64) {
        self.abort(code);
    }

    /// Keeps a turn for bulk until the end.
    pub(crate) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        if let Some((_, busy)) = &mut self.open {
            busy.hold(permit);
        }
    }

    /// Bulk yields to control messages on the same connection.
    pub(crate) fn yield_to_others(&self) {
        if let Some((send, _)) = &self.open {
            // Fails only for a stream that has ended.
            let _ = send.set_priority(BULK_PRIORITY);
        }
    }

    pub(crate) async fn write_piece(&mut self, piece: Bytes) -> Result<(), BodyError> {
        let Some((send, busy)) = &mut self.open else {
            return Err(self.failed.unwrap_or(BodyError::Lost(Lost::Here)));
        };
        let patience = busy.shared().limits.stall_timeout;
        let failure = match timeout(patience, send.write_chunk(piece)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => write_error(error),
            Err(_) => BodyError::Stalled,
        };
        self.abort(if failure == BodyError::Stalled { codes::STALLED } else { codes::CANCELLED });
        self.failed = Some(failure);
        Err(failure)
    }

    /// Ends the stream but keeps it, so that [`BodyWriter::abort`] still can take it back.
    pub(crate) fn finish_but_keep(&mut self) {
        if let Some((send, _)) = &mut self.open {
            // Fails only for a stream that was stopped: the answer says why.
            let _ = send.finish();
        }
    }

    /// Nothing is to be taken back any more.
    pub(crate) fn settle(&mut self) {
        self.open = None;
    }

    pub(crate) fn abort(&mut self, code: u64) {
        if let Some((mut send, _)) = self.open.take() {
            // Fails only for a stream that has ended already.
            let _ = send.reset(varint(code));
        }
    }

    fn end(&mut self) -> Result<(), BodyError> {
        match self.open.take() {
            Some((mut send, _)) => send.finish().map_err(|_| BodyError::Lost(Lost::Here)),
            None => Err(self.failed.unwrap_or(BodyError::Lost(Lost::Here))),
        }
    }

    /// Resolves when the other side wants no more, or is gone.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let stopped = self.open.as_ref().map(|(send, _)| send.stopped());
        async move {
            if let Some(stopped) = stopped {
                // However it ends, nobody waits any more.
                let _ = stopped.await;
            }
        }
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.abort(codes::CANCELLED);
    }
}

/// The answer in these bytes, if it can be one to such a frame and breaks no bound.
pub(crate) fn checked_answer(bytes: &[u8], kind: Kind, book: &RecordBook) -> Option<Answer> {
    let mut answer = decode(bytes).filter(|answer| kind.fits(answer))?;
    check_answer(&mut answer, book).then_some(answer)
}

fn read_error(error: ReadError) -> BodyError {
    match error {
        ReadError::Reset(code) => BodyError::Reset { code: code.into_inner() },
        ReadError::ConnectionLost(error) => BodyError::Lost(Lost::from(&error)),
        // The rest are mistakes in the use of a stream: this side ended it.
        _ => BodyError::Lost(Lost::Here),
    }
}

fn write_error(error: WriteError) -> BodyError {
    match error {
        WriteError::Stopped(code) => BodyError::Reset { code: code.into_inner() },
        WriteError::ConnectionLost(error) => BodyError::Lost(Lost::from(&error)),
        _ => BodyError::Lost(Lost::Here),
    }
}

/// QUIC's numbers have 62 bits; whatever is greater is cut to the greatest.
pub(crate) fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// Most bytes handed to or taken from a stream in one go (guess: a UDP datagram with offload).
const PIECE: usize = 64 * 1024;
/// Below that of control streams, which keep QUIC's 0.
const BULK_PRIORITY: i32 = -1;
