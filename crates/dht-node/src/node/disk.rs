//! The store, as asynchronous tasks see it: every call runs on a blocking thread, a bounded number
//! at a time, and writes of registers that wait together become one transaction.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dht_core::config::RingParams;
use dht_core::event::{Memory, StoreCommand, StoreOutcome};
use dht_core::manifest::{ChunkRef, ContentHash};
use dht_core::message::bulk::MAX_CHUNK_LEN;
use dht_core::message::ring::Kind;
use dht_core::register::{Ballot, Register};
use dht_core::stats::{DiskReport, StoreReport};
use dht_store::{Space, Store, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::journal::LogBudget;
use super::life;
use super::tasks::Tasks;

/// Asks the store. Clones share it.
#[derive(Clone)]
pub(super) struct Disk {
    store: Arc<dyn Store>,
    slots: Arc<Semaphore>,
    saves: mpsc::Sender<SaveJob>,
    tasks: Tasks,
    corrupt: Arc<AtomicU64>,
    failed: CancellationToken,
    log: Arc<LogBudget>,
}

#[derive(Debug)]
struct SaveJob {
    registers: Vec<Register>,
    answer: oneshot::Sender<Saved>,
}

type Saved = Result<Vec<Option<Ballot>>, StoreError>;

impl Disk {
    /// Takes over the store and starts the writer of registers.
    pub(super) fn new(store: Arc<dyn Store>) -> Disk {
        let tasks = Tasks::new();
        let (saves, jobs) = mpsc::channel(MAX_SAVES);
        tasks.spawn(write_registers(store.clone(), tasks.clone(), jobs));
        Disk {
            store,
            slots: Arc::new(Semaphore::new(MAX_JOBS)),
            saves,
            tasks,
            corrupt: Arc::default(),
            failed: CancellationToken::new(),
            log: Arc::new(LogBudget::new()),
        }
    }

    /// Carries out an order of the state machine.
    ///
    /// Two orders may be carried out in either order: a save keeps the higher ballot whatever comes
    /// first, and the core waits for a save before it reads what it saved.
    pub(super) async fn carry_out(&self, command: StoreCommand) -> StoreOutcome {
        let outcome = match command {
            StoreCommand::Save { registers } => self.save(registers).await.map(StoreOutcome::Saved),
            StoreCommand::Load { key } => {
                self.run(move |store| store.load(&key)).await.map(StoreOutcome::Loaded)
            }
            StoreCommand::LoadMany { ids } => {
                self.run(move |store| store.load_many(&ids)).await.map(StoreOutcome::LoadedMany)
            }
            StoreCommand::Digest { kind, arc } => self
                .run(move |store| store.digest(kind, arc))
                .await
                .map(|(digest, count)| StoreOutcome::Digest { digest, count }),
            StoreCommand::List { kind: Kind::Registers, arc, after, limit } => self
                .run(move |store| store.list_registers(arc, after, limit))
                .await
                .map(|(entries, last)| StoreOutcome::Registers { entries, last }),
            StoreCommand::List { kind: Kind::Chunks, arc, after, limit } => self
                .run(move |store| store.list_chunks(arc, after, limit))
                .await
                .map(|(entries, last)| StoreOutcome::Chunks { entries, last }),
        };
        outcome.unwrap_or_else(|error| {
            self.complain("the store failed", &error);
            StoreOutcome::Failed
        })
    }

    /// Keeps a chunk, durably, if its bytes match its name.
    pub(super) async fn put_chunk(&self, chunk: ChunkRef, bytes: Bytes) -> Result<(), StoreError> {
        let kept = self
            .run(move |store| {
                let mut writer = store.chunk_writer(chunk)?;
                writer.write(&bytes)?;
                writer.commit()
            })
            .await;
        if let Err(error) = &kept {
            self.complain("a chunk was not kept", error);
        }
        kept
    }

    /// The bytes of a chunk if it is held whole: they were checked against its hash. A copy that
    /// does not match is set aside, counted, and no longer held.
    pub(super) async fn chunk(&self, hash: ContentHash) -> Option<Bytes> {
        match self.run(move |store| read_chunk(store, &hash)).await {
            Ok(ReadOut::Whole(bytes)) => Some(bytes),
            Ok(ReadOut::Absent) => None,
            Ok(ReadOut::Corrupt) => {
                let total = self.corrupt.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(withheld) = self.log.admit() {
                    let chunk = blake3::Hash::from_bytes(hash);
                    tracing::error!(%chunk, total, withheld, "a stored chunk is corrupt: set aside");
                }
                None
            }
            Err(error) => {
                self.complain("a chunk cannot be read", &error);
                None
            }
        }
    }

    /// Which of these chunks are held, one flag for each in order.
    pub(super) async fn held(&self, hashes: Vec<ContentHash>) -> Result<Vec<bool>, StoreError> {
        self.run(move |store| hashes.iter().map(|hash| store.has_chunk(hash)).collect()).await
    }

    /// Keeps what the next life should know.
    pub(super) async fn remember(&self, memory: Memory) {
        if let Err(error) = self.run(move |store| life::save_memory(store, &memory)).await {
            self.complain("the remembered peers were not kept", &error);
        }
    }

    /// What is held.
    pub(super) async fn usage(&self) -> Result<StoreReport, StoreError> {
        self.run(|store| store.usage()).await
    }

    /// How much room there is, if the system says.
    pub(super) async fn space(&self) -> Result<Option<DiskReport>, StoreError> {
        let space = self.run(|store| store.space()).await?;
        Ok(space.map(|Space { total, available }| DiskReport { total, available }))
    }

    /// Stored chunks that failed their hash when they were read.
    pub(super) fn corrupt(&self) -> u64 {
        self.corrupt.load(Ordering::Relaxed)
    }

    /// Runs one job on a blocking thread.
    pub(super) async fn run<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let store = self.store.clone();
        let job = move || {
            let _slot = slot;
            job(store.as_ref())
        };
        let done = self.tasks.spawn_blocking(job).await;
        // A job that panicked took nothing with it: the store's own transactions end whole.
        done.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a computation on a blocking thread: hashing a chunk takes longer than others may wait
    /// for the event loop. `None` if it panicked.
    pub(super) async fn compute<T, F>(&self, job: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.tasks.spawn_blocking(job).await.ok()
    }

    /// Keeps the ring that the node belongs to from now on.
    pub(super) async fn save_ring(&self, params: RingParams) -> Result<(), StoreError> {
        self.run(move |store| life::save_ring(store, &params)).await
    }

    /// Resolves when the store answers nothing more until the node is started again.
    pub(super) async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Waits for the jobs under way, then closes the store.
    pub(super) async fn close(&self) {
        self.slots.close();
        if !self.tasks.end(CLOSE_LIMIT).await {
            tracing::warn!("the disk is slow: the store is closed while it is being asked");
        }
        let store = self.store.clone();
        // Not one of the tasks, which have ended; awaited right here.
        let closed = Tasks::new().spawn_blocking(move || store.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::error!(%error, "the store did not close in order; nothing acknowledged is lost");
        }
    }

    async fn save(&self, registers: Vec<Register>) -> Saved {
        let (answer, saved) = oneshot::channel();
        let job = SaveJob { registers, answer };
        self.saves.send(job).await.map_err(|_| StoreError::Closed)?;
        saved.await.unwrap_or(Err(StoreError::Closed))
    }

    fn complain(&self, what: &'static str, error: &StoreError) {
        if matches!(error, StoreError::SyncFailed { .. }) {
            self.failed.cancel();
        }
        if let Some(withheld) = self.log.admit() {
            tracing::error!(%error, withheld, "{what}");
        }
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

enum ReadOut {
    Whole(Bytes),
    Absent,
    Corrupt,
}

fn read_chunk(store: &dyn Store, hash: &ContentHash) -> Result<ReadOut, StoreError> {
    let Some((len, reader)) = store.open_chunk(hash)? else { return Ok(ReadOut::Absent) };
    let mut bytes = Vec::with_capacity(len.min(MAX_CHUNK_LEN) as usize);
    // One byte more than announced tells a file that grew from a whole one.
    let read = reader.take(u64::from(len) + 1).read_to_end(&mut bytes);
    let whole = read.is_ok()
        && bytes.len() == len as usize
        && blake3::hash(&bytes) == blake3::Hash::from_bytes(*hash);
    if whole {
        return Ok(ReadOut::Whole(bytes.into()));
    }
    store.quarantine_chunk(hash)?;
    Ok(ReadOut::Corrupt)
}

/// Writes registers: all that wait go into one transaction, since each costs one sync of the disk.
async fn write_registers(store: Arc<dyn Store>, tasks: Tasks, mut jobs: mpsc::Receiver<SaveJob>) {
    let mut batch = Vec::with_capacity(MAX_SAVES);
    while jobs.recv_many(&mut batch, MAX_SAVES).await > 0 {
        let jobs = std::mem::take(&mut batch);
        let store = store.clone();
        // A panic drops the answers, which tells those who wait.
        let _ = tasks.spawn_blocking(move || write_batch(store.as_ref(), jobs)).await;
    }
}

fn write_batch(store: &dyn Store, mut jobs: Vec<SaveJob>) {
    let all: Vec<Register> = jobs.iter().flat_map(|job| job.registers.clone()).collect();
    match store.save(all) {
        Ok(saved) => {
            let mut saved = saved.into_iter();
            for job in jobs {
                let count = job.registers.len();
                let _ = job.answer.send(Ok(saved.by_ref().take(count).collect()));
            }
        }
        Err(error) if jobs.len() == 1 => {
            if let Some(job) = jobs.pop() {
                let _ = job.answer.send(Err(error));
            }
        }
        // One bad register must not fail the others.
        Err(_) => {
            for job in jobs {
                let _ = job.answer.send(store.save(job.registers));
            }
        }
    }
}

/// How long jobs under way may take when the node stops (guess: a sync of a busy disk).
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Calls of the store at once. 8 by default (guess: more only queue at the disk).
const MAX_JOBS: usize = 8;
/// Writes of registers that may wait together (guess: at 160 KiB each 10 MiB).
const MAX_SAVES: usize = 64;
