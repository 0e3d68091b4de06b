//! `put`: the client's bytes become chunks, each is made durable on its replicas, and the manifest
//! is written last. So a dropped upload leaves no file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::event::WriteOutcome;
use dht_core::manifest::{ChunkRef, Content, Manifest};
use dht_core::message::bulk::{MAX_CHUNK_LEN, MIN_CHUNK_LEN};
use dht_core::message::client::{ClientErrorCode, PutReport, PutRequest};
use dht_core::register::{MAX_VALUE_LEN, Value};
use dht_net::BodyReader;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::chunker::{self, Chunker, DEFAULT_CHUNK_SIZE};
use super::failure::ClientFailure;
use super::refs::{self, MAX_DIRECT, MAX_PIECES};
use super::replicate::Replication;
use crate::node::shared::Shared;

/// Why a `put` came to nothing.
pub(super) enum PutError {
    /// The client is to hear of it.
    Failed(ClientFailure),
    /// The client gave up.
    Aborted,
}

impl From<ClientFailure> for PutError {
    fn from(failure: ClientFailure) -> PutError {
        PutError::Failed(failure)
    }
}

/// Stores a file.
pub(super) async fn put(
    shared: &Arc<Shared>,
    request: PutRequest,
    mut body: BodyReader,
) -> Result<PutReport, PutError> {
    let params = super::place(shared).await?;
    let chunk_size = request.chunk_size.unwrap_or(DEFAULT_CHUNK_SIZE);
    if !chunker::is_chunk_size(chunk_size) {
        let (least, most) = (MIN_CHUNK_LEN, MAX_CHUNK_LEN);
        let message = format!(
            "the chunk size is {chunk_size}, but must lie between {least} and {most} bytes"
        );
        return Err(ClientFailure::usage(message).into());
    }
    let mut upload = Upload::new(shared.clone(), params, chunk_size);
    while let Some(piece) = body.read_gathered(PIECE).await.map_err(|_| PutError::Aborted)? {
        upload.feed(piece).await?;
    }
    let content = upload.finish().await?;
    Ok(upload.commit(request, content, chunk_size).await?)
}

/// A file on its way in.
struct Upload {
    shared: Arc<Shared>,
    params: RingParams,
    chunk_size: u32,
    chunker: Option<Chunker>,
    /// Memory for the chunk being filled.
    filling: Option<OwnedSemaphorePermit>,
    filled: usize,
    size: u64,
    /// Of the whole file; taken while a blocking thread feeds it.
    hash: blake3::Hasher,
    refs: Vec<ChunkRef>,
    /// One counter for each chunk: how many durable copies it has.
    copies: Vec<Arc<AtomicU32>>,
    /// Chunks that are not yet safe, oldest first.
    in_flight: VecDeque<oneshot::Receiver<Result<u32, ClientFailure>>>,
    /// Smallest number of copies that there could be of any chunk so far.
    wanted: u32,
}

impl Upload {
    fn new(shared: Arc<Shared>, params: RingParams, chunk_size: u32) -> Upload {
        Upload {
            shared,
            params,
            chunk_size,
            chunker: Some(Chunker::new(chunk_size)),
            filling: None,
            filled: 0,
            size: 0,
            hash: blake3::Hasher::new(),
            refs: Vec::new(),
            copies: Vec::new(),
            in_flight: VecDeque::new(),
            wanted: u32::MAX,
        }
    }

    /// Takes the next bytes; waits while too many chunks are not yet safe.
    async fn feed(&mut self, mut piece: Bytes) -> Result<(), ClientFailure> {
        self.size += piece.len() as u64;
        while !piece.is_empty() {
            self.filled += piece.len();
            if self.filling.is_none() && self.filled > UNCOUNTED {
                self.filling = Some(self.memory(self.chunk_size).await?);
            }
            let full = self.chunker.as_mut().and_then(|chunker| chunker.feed(&mut piece));
            if let Some(chunk) = full {
                self.filled = 0;
                let memory = self.filling.take();
                self.store(chunk, memory, true).await?;
            }
        }
        Ok(())
    }

    /// After the last byte: where the content is, once all of it is safe.
    async fn finish(&mut self) -> Result<Content, ClientFailure> {
        let rest = self.chunker.take().and_then(Chunker::finish).unwrap_or_default();
        if self.refs.is_empty() && rest.len() <= self.params.inline_limit as usize {
            self.hash.update(&rest);
            return Ok(Content::Inline(rest));
        }
        let memory = self.filling.take();
        if !rest.is_empty() {
            self.store(rest, memory, true).await?;
        }
        let refs = std::mem::take(&mut self.refs);
        let content = if refs.len() <= MAX_DIRECT {
            Content::Chunks(refs)
        } else {
            for piece in refs::pieces(&refs, self.chunk_size) {
                let memory = Some(self.memory(self.chunk_size).await?);
                self.store(piece, memory, false).await?;
            }
            Content::ChunkList(std::mem::take(&mut self.refs))
        };
        while !self.in_flight.is_empty() {
            self.settle_oldest().await?;
        }
        match &content {
            Content::ChunkList(pieces) if pieces.len() > MAX_PIECES => Err(ClientFailure::usage(
                "the file has too many chunks; store it with a greater --chunk-size",
            )),
            _ => Ok(content),
        }
    }

    /// Writes the manifest: from then on the file is there.
    async fn commit(
        &self,
        request: PutRequest,
        content: Content,
        chunk_size: u32,
    ) -> Result<PutReport, ClientFailure> {
        let hash = *self.hash.finalize().as_bytes();
        // Chunks that hold a long list of chunks are not the file's.
        let chunks = match &content {
            Content::Inline(_) => 0,
            Content::Chunks(_) | Content::ChunkList(_) => self.size.div_ceil(u64::from(chunk_size)),
        };
        let manifest = Manifest {
            form: Manifest::FORM,
            size: self.size,
            hash,
            content,
            chunk_size,
            content_type: request.content_type,
            meta: request.meta,
            created_ms: now_ms(),
        };
        let form = postcard::to_allocvec(&manifest).expect("a manifest in memory has a form");
        if form.len() > MAX_VALUE_LEN {
            let message = format!(
                "the manifest has {} bytes, but may have {MAX_VALUE_LEN}: note less with --meta",
                form.len()
            );
            return Err(ClientFailure::usage(message));
        }
        let value = Value::Present(form.into());
        match self.shared.driver.write(request.key, request.operation, value).await? {
            WriteOutcome::Done { register, acks, wanted, hops } => Ok(PutReport {
                size: self.size,
                hash,
                version: register.ballot.to_string(),
                chunks,
                acks: self.durable_copies().min(acks.len() as u32),
                wanted: self.wanted.min(wanted as u32),
                replicas: acks,
                hops,
            }),
            outcome => Err(ClientFailure::of_write(outcome)),
        }
    }

    /// Hashes a chunk and starts to write it to its replicas.
    async fn store(
        &mut self,
        bytes: Bytes,
        memory: Option<OwnedSemaphorePermit>,
        is_content: bool,
    ) -> Result<(), ClientFailure> {
        let (hash, bytes) = self.hash(bytes, is_content).await?;
        let chunk = ChunkRef { hash, len: bytes.len() as u32 };
        let copies = Arc::new(AtomicU32::new(0));
        self.refs.push(chunk);
        self.copies.push(copies.clone());
        while self.in_flight.len() >= WINDOW {
            self.settle_oldest().await?;
        }
        let (safe, is_safe) = oneshot::channel();
        let (shared, params) = (self.shared.clone(), self.params);
        let replication = Replication { shared, params, chunk, bytes, copies, _memory: memory };
        self.shared.tasks.spawn(replication.run(safe));
        self.in_flight.push_back(is_safe);
        Ok(())
    }

    /// The hash of a chunk; what belongs to the file counts in the file's hash too.
    async fn hash(
        &mut self,
        bytes: Bytes,
        is_content: bool,
    ) -> Result<([u8; 32], Bytes), ClientFailure> {
        let mut whole = std::mem::take(&mut self.hash);
        let hashed = self.shared.disk.compute(move || {
            if is_content {
                whole.update(&bytes);
            }
            (whole, *blake3::hash(&bytes).as_bytes(), bytes)
        });
        let (whole, hash, bytes) = hashed.await.ok_or_else(ClientFailure::disk)?;
        self.hash = whole;
        Ok((hash, bytes))
    }

    /// Waits until the oldest chunk in flight is safe.
    async fn settle_oldest(&mut self) -> Result<(), ClientFailure> {
        let Some(oldest) = self.in_flight.pop_front() else { return Ok(()) };
        let wanted = oldest.await.unwrap_or_else(|_| Err(ClientFailure::not_member()))?;
        self.wanted = self.wanted.min(wanted);
        Ok(())
    }

    async fn memory(&self, len: u32) -> Result<OwnedSemaphorePermit, ClientFailure> {
        let room = self.shared.gateway.uploads.clone();
        let granted = room.acquire_many_owned(len.div_ceil(1024)).await;
        granted.map_err(|_| {
            ClientFailure::new(
                ClientErrorCode::Unreachable,
                "the member is going down; ask another",
            )
        })
    }

    /// The smallest number of durable copies of any chunk now; no chunk, no bound.
    fn durable_copies(&self) -> u32 {
        let counts = self.copies.iter().map(|copies| copies.load(Ordering::Relaxed));
        counts.min().unwrap_or(u32::MAX)
    }
}

/// Milliseconds of Unix time: shown to people, never decided by.
fn now_ms() -> i64 {
    let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// Bytes taken from the client at once (guess).
const PIECE: usize = 64 * 1024;
/// Bytes of a file that are taken before memory for its chunk must be free: small files never wait
/// behind large ones.
const UNCOUNTED: usize = 64 * 1024;
/// Chunks of one file that may wait for their copies (guess: enough to keep three disks busy while
/// the next chunk is hashed).
const WINDOW: usize = 4;
