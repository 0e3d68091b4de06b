//! `get`: the manifest, then chunk by chunk from whoever holds it, each verified before it goes on,
//! a few read ahead, no faster than the client takes them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::manifest::{ChunkRef, Content};
use dht_core::message::Answer;
use dht_core::message::client::{ClientErrorCode, ClientResponse};
use dht_core::register::Key;
use dht_net::Responder;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

use super::failure::ClientFailure;
use super::manifest::{self, File};
use super::read::read_chunk;
use super::refs::RefReader;
use crate::node::shared::Shared;

/// Sends a file.
pub(super) async fn get(shared: &Arc<Shared>, key: Key, responder: Responder) {
    match open(shared, key).await {
        Ok((file, first, rest)) => send(file, first, rest, responder).await,
        Err(failure) => responder.answer(Answer::Client(failure.into_response())).await,
    }
}

/// Reads the manifest and the first piece: most of what can fail fails before the client is
/// promised a file.
async fn open(
    shared: &Arc<Shared>,
    key: Key,
) -> Result<(File, Option<Bytes>, ReadAhead), ClientFailure> {
    let params = super::place(shared).await?;
    let file = manifest::read(shared, key).await?;
    let mut rest = ReadAhead::new(shared.clone(), params, file.manifest.content.clone());
    let first = rest.next().await?;
    Ok((file, first, rest))
}

async fn send(file: File, first: Option<Bytes>, mut rest: ReadAhead, responder: Responder) {
    let size = file.manifest.size;
    let answer = Answer::Client(ClientResponse::Found(file.report));
    let mut body = responder.answer_with_body(answer).await;
    let mut sent = 0;
    let mut piece: Result<Option<Bytes>, ClientFailure> = Ok(first);
    loop {
        match piece {
            Ok(Some(bytes)) => {
                sent += bytes.len() as u64;
                if body.write(bytes).await.is_err() {
                    return;
                }
            }
            Ok(None) if sent == size => {
                let _ = body.finish();
                return;
            }
            Ok(None) => return body.reset(ClientErrorCode::Incomplete as u64),
            Err(failure) => {
                tracing::warn!(?failure, "a file could not be sent whole");
                return body.reset(failure.code as u64);
            }
        }
        piece = rest.next().await;
    }
}

/// The pieces of a file in order, a few chunks ahead of whoever takes them.
struct ReadAhead {
    shared: Arc<Shared>,
    params: RingParams,
    inline: Option<Bytes>,
    /// Chunks of content that are known but not yet asked for.
    queue: VecDeque<ChunkRef>,
    /// Chunks that hold the rest of the list.
    lists: VecDeque<ChunkRef>,
    list: Option<RefReader>,
    pending: VecDeque<Pending>,
    /// Memory of the piece that was given out last.
    given: Option<OwnedSemaphorePermit>,
}

struct Pending {
    chunk: AbortOnDropHandle<Option<Result<Bytes, ClientFailure>>>,
    memory: OwnedSemaphorePermit,
}

impl ReadAhead {
    fn new(shared: Arc<Shared>, params: RingParams, content: Content) -> ReadAhead {
        let (inline, queue, lists) = match content {
            Content::Inline(bytes) => (Some(bytes), Vec::new(), Vec::new()),
            Content::Chunks(refs) => (None, refs, Vec::new()),
            Content::ChunkList(lists) => (None, Vec::new(), lists),
        };
        let list = (!lists.is_empty()).then(RefReader::new);
        ReadAhead {
            shared,
            params,
            inline: inline.filter(|bytes| !bytes.is_empty()),
            queue: queue.into(),
            lists: lists.into(),
            list,
            pending: VecDeque::new(),
            given: None,
        }
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ClientFailure> {
        self.given = None;
        if let Some(bytes) = self.inline.take() {
            return Ok(Some(bytes));
        }
        loop {
            self.read_on().await?;
            if let Some(Pending { chunk, memory }) = self.pending.pop_front() {
                let bytes = chunk.await.ok().flatten().ok_or_else(going_down)??;
                self.given = Some(memory);
                return Ok(Some(bytes));
            }
            let Some(list) = self.lists.pop_front() else { return Ok(None) };
            let piece = read_chunk(self.shared.clone(), self.params, list).await?;
            self.extend(&piece)?;
        }
    }

    /// Starts to read as many chunks as the window and the memory allow, at least one.
    async fn read_on(&mut self) -> Result<(), ClientFailure> {
        while self.pending.len() < WINDOW
            && let Some(chunk) = self.queue.front().copied()
        {
            let room = self.shared.gateway.downloads.clone();
            let kib = chunk.len.div_ceil(1024);
            let memory = if self.pending.is_empty() {
                // Nobody waits for memory while holding some: two readers cannot block each other.
                room.acquire_many_owned(kib).await.map_err(|_| going_down())?
            } else {
                match room.try_acquire_many_owned(kib) {
                    Ok(memory) => memory,
                    Err(_) => return Ok(()),
                }
            };
            self.queue.pop_front();
            let read = read_chunk(self.shared.clone(), self.params, chunk);
            let chunk = AbortOnDropHandle::new(self.shared.clients.spawn(read));
            self.pending.push_back(Pending { chunk, memory });
        }
        Ok(())
    }

    fn extend(&mut self, piece: &[u8]) -> Result<(), ClientFailure> {
        let broken = || {
            ClientFailure::new(
                ClientErrorCode::Incomplete,
                "the file's chunk list cannot be read; store the file again",
            )
        };
        let Some(list) = &mut self.list else { return Err(broken()) };
        self.queue.extend(list.feed(piece).map_err(|_| broken())?);
        if self.lists.is_empty() && !list.is_complete() {
            return Err(broken());
        }
        Ok(())
    }
}

fn going_down() -> ClientFailure {
    ClientFailure::new(ClientErrorCode::Unreachable, "the member is going down; ask another")
}

/// Chunks read ahead of the client (guess: hides a round trip and a disk read behind the sending).
const WINDOW: usize = 4;
