//! Chunk bytes between members: asked of others, and served to them. They go from socket to disk
//! and back without passing through the state machine.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::bulk::{ChunkRequest, ChunkResponse, MAX_CHUNK_LEN};
use dht_core::message::{Answer, Frame, Refusal};
use dht_core::{Contact, PeerKey};
use dht_net::{BodyReader, Endpoint, Responder};
use dht_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::disk::Disk;

/// Reads and writes chunks at any peer, this one too. Clones share their bounds.
#[derive(Clone, Debug)]
pub(super) struct ChunkPeers {
    me: PeerKey,
    endpoint: Endpoint,
    disk: Disk,
    /// Memory for chunks that others write to us and read from us, in KiB.
    serving: Arc<Semaphore>,
}

/// Why a peer did not keep a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteFailure {
    /// Its disk is full.
    NoSpace,
    /// Its disk failed, or it says that the bytes do not match.
    Refused,
    /// It could not be reached, or not in time.
    Silent,
}

/// Why a chunk did not come from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadFailure {
    /// It does not hold it, or not whole.
    Absent,
    /// What came is not the chunk.
    Corrupt,
    /// It could not be reached, or not in time.
    Silent,
}

impl ChunkPeers {
    pub(super) fn new(me: PeerKey, endpoint: Endpoint, disk: Disk) -> Self {
        let serving = Arc::new(Semaphore::new(SERVING_KIB as usize));
        ChunkPeers { me, endpoint, disk, serving }
    }

    /// Makes a chunk durable at a peer.
    pub(super) async fn write(
        &self,
        to: &Contact,
        chunk: ChunkRef,
        bytes: Bytes,
    ) -> Result<(), WriteFailure> {
        if to.key() == self.me {
            return self.write_here(chunk, bytes).await;
        }
        match timeout(CHUNK_TIMEOUT, self.send(to, chunk, bytes)).await {
            Ok(Some(Answer::Chunk(ChunkResponse::Stored))) => Ok(()),
            Ok(Some(Answer::Chunk(ChunkResponse::NoSpace))) => Err(WriteFailure::NoSpace),
            Ok(Some(_)) => Err(WriteFailure::Refused),
            Ok(None) | Err(_) => Err(WriteFailure::Silent),
        }
    }

    /// The whole chunk from a peer, checked against its name.
    pub(super) async fn read(&self, from: &Contact, chunk: ChunkRef) -> Result<Bytes, ReadFailure> {
        if from.key() == self.me {
            return self.disk.chunk(chunk.hash).await.ok_or(ReadFailure::Absent);
        }
        let bytes = timeout(CHUNK_TIMEOUT, self.receive(from, chunk))
            .await
            .unwrap_or(Err(ReadFailure::Silent))?;
        verified(&self.disk, chunk, bytes).await.ok_or(ReadFailure::Corrupt)
    }

    /// Which of these chunks a peer holds; `None` if it does not say.
    pub(super) async fn held(&self, at: &Contact, hashes: Vec<ContentHash>) -> Option<Vec<bool>> {
        let asked = hashes.len();
        let held = if at.key() == self.me {
            self.disk.held(hashes).await.ok()?
        } else {
            let frame = Frame::Chunk(ChunkRequest::Have { hashes });
            let reply = timeout(HAVE_TIMEOUT, self.endpoint.request(&at.record, frame)).await;
            match reply.ok()?.ok()?.answer {
                Answer::Chunk(ChunkResponse::Have { held }) => held,
                _ => return None,
            }
        };
        (held.len() == asked).then_some(held)
    }

    /// Answers another member.
    pub(super) async fn serve(
        &self,
        request: ChunkRequest,
        body: BodyReader,
        responder: Responder,
    ) {
        match request {
            ChunkRequest::Put { chunk } => {
                let answer = self.serve_put(chunk, body).await;
                responder.answer(answer).await;
            }
            ChunkRequest::Get { hash } => self.serve_get(hash, responder).await,
            ChunkRequest::Have { hashes } => {
                let answer = match self.disk.held(hashes).await {
                    Ok(held) => ChunkResponse::Have { held },
                    Err(_) => ChunkResponse::Failed,
                };
                responder.answer(Answer::Chunk(answer)).await;
            }
        }
    }

    async fn write_here(&self, chunk: ChunkRef, bytes: Bytes) -> Result<(), WriteFailure> {
        match self.disk.put_chunk(chunk, bytes).await {
            Ok(()) => Ok(()),
            Err(StoreError::NoSpace { .. }) => Err(WriteFailure::NoSpace),
            Err(_) => Err(WriteFailure::Refused),
        }
    }

    async fn send(&self, to: &Contact, chunk: ChunkRef, bytes: Bytes) -> Option<Answer> {
        let frame = Frame::Chunk(ChunkRequest::Put { chunk });
        let (mut body, pending) = self.endpoint.request_body(&to.record, frame).await.ok()?;
        // Whoever refuses may stop reading before the end: its answer says why.
        if body.write(bytes).await.is_ok() {
            let _ = body.finish();
        }
        pending.await.ok().map(|reply| reply.answer)
    }

    async fn receive(&self, from: &Contact, chunk: ChunkRef) -> Result<Bytes, ReadFailure> {
        let frame = Frame::Chunk(ChunkRequest::Get { hash: chunk.hash });
        let reply = self.endpoint.request(&from.record, frame).await;
        let mut reply = reply.map_err(|_| ReadFailure::Silent)?;
        match reply.answer {
            Answer::Chunk(ChunkResponse::Found { len }) if len == chunk.len => {}
            Answer::Chunk(ChunkResponse::Found { .. }) => return Err(ReadFailure::Corrupt),
            Answer::Chunk(_) => return Err(ReadFailure::Absent),
            _ => return Err(ReadFailure::Silent),
        }
        collect(&mut reply.body, chunk.len).await.ok_or(ReadFailure::Corrupt)
    }

    async fn serve_put(&self, chunk: ChunkRef, mut body: BodyReader) -> Answer {
        if chunk.len > MAX_CHUNK_LEN {
            return Answer::Refused(Refusal::TooLarge { limit: MAX_CHUNK_LEN.into() });
        }
        let Some(_memory) = self.memory(chunk.len).await else { return overloaded() };
        let collected = timeout(CHUNK_TIMEOUT, collect(&mut body, chunk.len)).await;
        let response = match collected.ok().flatten() {
            None => ChunkResponse::Mismatch,
            Some(bytes) => match self.disk.put_chunk(chunk, bytes).await {
                Ok(()) => ChunkResponse::Stored,
                Err(StoreError::Mismatch { .. }) => ChunkResponse::Mismatch,
                Err(StoreError::NoSpace { .. }) => ChunkResponse::NoSpace,
                Err(_) => ChunkResponse::Failed,
            },
        };
        Answer::Chunk(response)
    }

    async fn serve_get(&self, hash: ContentHash, responder: Responder) {
        // Its length is known only when it has been read; then the rest is given back.
        let Some(mut memory) = self.memory(MAX_CHUNK_LEN).await else {
            responder.answer(overloaded()).await;
            return;
        };
        let Some(bytes) = self.disk.chunk(hash).await else {
            responder.answer(Answer::Chunk(ChunkResponse::Absent)).await;
            return;
        };
        drop(memory.split(memory.num_permits().saturating_sub(bytes.len().div_ceil(1024))));
        let found = ChunkResponse::Found { len: bytes.len() as u32 };
        let sending = async {
            let mut body = responder.answer_with_body(Answer::Chunk(found)).await;
            if body.write(bytes).await.is_ok() {
                let _ = body.finish();
            }
        };
        // A reader that is slower than that has turned to somebody else.
        let _ = timeout(CHUNK_TIMEOUT, sending).await;
    }

    /// Room for so many bytes; `None` if there is none for too long.
    async fn memory(&self, len: u32) -> Option<OwnedSemaphorePermit> {
        let room = self.serving.clone().acquire_many_owned(len.div_ceil(1024).max(1));
        timeout(MEMORY_TIMEOUT, room).await.ok()?.ok()
    }
}

/// The bytes if they are the chunk's.
async fn verified(disk: &Disk, chunk: ChunkRef, bytes: Bytes) -> Option<Bytes> {
    let hashed = disk.compute(move || (blake3::hash(&bytes), bytes)).await;
    hashed.filter(|(hash, _)| *hash.as_bytes() == chunk.hash).map(|(_, bytes)| bytes)
}

/// Exactly `len` bytes and then the end; `None` for anything else. The memory grows with what
/// arrives, not with what was announced.
async fn collect(body: &mut BodyReader, len: u32) -> Option<Bytes> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.read(PIECE).await.ok()? {
        if bytes.len() + piece.len() > len as usize {
            return None;
        }
        bytes.extend_from_slice(&piece);
    }
    (bytes.len() == len as usize).then(|| bytes.freeze())
}

fn overloaded() -> Answer {
    Answer::Refused(Refusal::Overloaded { retry_after_ms: 1000 })
}

/// Bytes taken from a stream at once (guess).
const PIECE: usize = 64 * 1024;
/// Memory for chunks on their way between other members and our disk, in KiB. 64 MiB (guess:
/// with as much for our own clients a node stays below 200 MiB).
const SERVING_KIB: u32 = 64 * 1024;
/// How long a request waits for that memory before it is refused (guess).
const MEMORY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one chunk may take to be written or read in all. 25 s by default (guess: 1 MiB at
/// 0.3 Mbit/s, and below the 30 s that a client waits for progress).
const CHUNK_TIMEOUT: Duration = Duration::from_secs(25);
/// How long a peer may take to say what it holds (guess).
const HAVE_TIMEOUT: Duration = Duration::from_secs(5);
