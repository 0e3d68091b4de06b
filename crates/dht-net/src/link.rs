//! One connection to one peer: requests go out over it, and hellos both ways.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dht_core::message::{Answer, Frame, Hello, Refusal};
use dht_core::{PeerKey, PeerRecord};
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::body::{BodyReader, BodyWriter, FrameFault, checked_answer};
use crate::codes;
use crate::error::{BodyError, Lost, RequestError};
use crate::frame::{Kind, Question};
use crate::peer::{PendingReply, Reply};
use crate::shared::Shared;

/// One connection. Whoever holds it may find it closed at any time.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: quinn::Connection,
    /// The key that the other side proved.
    pub(crate) key: PeerKey,
    /// Where it was when the connection was made.
    pub(crate) remote: SocketAddr,
    /// Whether we dialled.
    pub(crate) dialled: bool,
    theirs: RwLock<Option<Arc<Greeting>>>,
    /// Version of our hello that the peer has heard; 0 is none.
    told: AtomicU64,
    telling: Mutex<()>,
    /// So few bodies that, even if all of them stand still, control messages still get through.
    bulk: Arc<Semaphore>,
    gate: Gate,
    began: Instant,
    /// When the last request ended, in milliseconds since `began`.
    last_used_ms: AtomicU64,
    retired: AtomicBool,
    pub(crate) retirement: Notify,
}

/// What a peer said of itself, with its record as the shared copy.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) hello: Hello,
    pub(crate) record: Option<Arc<PeerRecord>>,
}

/// Why a request over one connection failed.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The peer has not taken it: it may be sent again over another connection.
    NotTaken(RequestError),
    /// It may have been taken, or never will be.
    Final(RequestError),
}

impl AskError {
    pub(crate) fn into_inner(self) -> RequestError {
        match self {
            AskError::NotTaken(error) | AskError::Final(error) => error,
        }
    }
}

impl Link {
    /// A connection over which no hello has passed yet.
    pub(crate) fn new(
        shared: Arc<Shared>,
        connection: quinn::Connection,
        key: PeerKey,
        dialled: bool,
    ) -> Arc<Link> {
        let remote = canonical(connection.remote_address());
        let bulk = Arc::new(Semaphore::new(shared.limits.max_bulk_per_peer));
        Arc::new(Link {
            shared,
            connection,
            key,
            remote,
            dialled,
            theirs: RwLock::new(None),
            told: AtomicU64::new(0),
            telling: Mutex::new(()),
            bulk,
            gate: Gate::default(),
            began: Instant::now(),
            last_used_ms: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            retirement: Notify::new(),
        })
    }

    /// Sends a request and waits for its answer. Dropping the future resets the stream.
    pub(crate) async fn ask(
        self: &Arc<Link>,
        question: Question,
        connect_us: u64,
    ) -> Result<Reply, AskError> {
        self.tell().await?;
        self.ask_untold(question, connect_us).await
    }

    /// Sends a request whose bytes the caller then writes.
    pub(crate) async fn ask_body(
        self: &Arc<Link>,
        question: Question,
        connect_us: u64,
    ) -> Result<(BodyWriter, PendingReply), AskError> {
        self.tell().await?;
        let Question { frame, kind, .. } = question;
        let permit = self.bulk_permit().await;
        let (mut writer, reader) = self.open(kind).await?;
        writer.hold(permit);
        writer.write_piece(frame).await.map_err(lost_or_final)?;
        writer.yield_to_others();
        Ok((writer, PendingReply { reader, kind, connect_us }))
    }

    /// Makes sure that the peer has heard our latest hello.
    pub(crate) async fn tell(self: &Arc<Link>) -> Result<(), AskError> {
        if self.told.load(Ordering::Acquire) == self.shared.own.version() {
            return Ok(());
        }
        let _one_at_a_time = self.telling.lock().await;
        let (version, hello) = self.shared.own.for_peer(self.remote);
        if self.told.load(Ordering::Acquire) == version {
            return Ok(());
        }
        let question = self.shared.question(&Frame::Hello(hello)).map_err(AskError::Final)?;
        let reply = self.ask_untold(question, 0).await?;
        let error = match reply.answer {
            Answer::Hello(theirs) => match self.hear(theirs) {
                Ok(_) => {
                    self.told.store(version, Ordering::Release);
                    return Ok(());
                }
                Err(Refusal::OtherRing { ours, yours }) => {
                    RequestError::OtherRing { ours, theirs: yours }
                }
                Err(_) => RequestError::BadAnswer,
            },
            Answer::Refused(Refusal::OtherRing { ours, yours }) => {
                RequestError::OtherRing { ours: yours, theirs: ours }
            }
            Answer::Refused(refusal) => RequestError::Refused(refusal),
            _ => RequestError::BadAnswer,
        };
        let other_ring = matches!(error, RequestError::OtherRing { .. });
        self.close(if other_ring { codes::OTHER_RING } else { codes::BAD_HELLO });
        Err(AskError::Final(error))
    }

    /// Takes in what the peer says of itself, unless it cannot be right or belongs to another ring.
    pub(crate) fn hear(&self, hello: Hello) -> Result<Arc<Greeting>, Refusal> {
        let record = match &hello.record {
            None => None,
            Some(record) if record.key != self.key => return Err(Refusal::Malformed),
            Some(record) => {
                let record = self.shared.book.admit(Arc::new(record.clone()));
                Some(record.ok_or(Refusal::Malformed)?)
            }
        };
        let our_ring = self.shared.own.ring();
        if let (Some(ours), Some(theirs)) = (our_ring, hello.ring)
            && ours != theirs.id
        {
            return Err(Refusal::OtherRing { ours, yours: theirs.id });
        }
        let greeting = Arc::new(Greeting { hello, record });
        *self.theirs.write().unwrap_or_else(PoisonError::into_inner) = Some(greeting.clone());
        Ok(greeting)
    }

    /// What the peer last said of itself.
    pub(crate) fn theirs(&self) -> Option<Arc<Greeting>> {
        self.theirs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the peer is on this host. Nobody else completes a handshake from the address that its
    /// packets went to: the answers would not reach him.
    pub(crate) fn is_local(&self) -> bool {
        let remote = self.remote.ip();
        let local = self.connection.local_ip().map(|ip| ip.to_canonical());
        remote.is_loopback() || local == Some(remote)
    }

    /// Which process the peer is.
    pub(crate) fn instance(&self) -> Option<u64> {
        self.theirs().map(|theirs| theirs.hello.instance)
    }

    /// Which life of the peer it is, as far as it said.
    pub(crate) fn incarnation(&self) -> Option<u64> {
        self.theirs()?.record.as_ref().map(|record| record.incarnation)
    }

    /// The peer has heard this version of our hello, as an answer to its own.
    pub(crate) fn set_told(&self, version: u64) {
        self.told.store(version, Ordering::Release);
    }

    /// Gives the connection up: it closes once nobody uses it.
    pub(crate) fn retire(&self) {
        if !self.retired.swap(true, Ordering::AcqRel) {
            self.note_use();
            self.retirement.notify_one();
        }
    }

    /// Closes at once, whatever is under way.
    pub(crate) fn close(&self, code: u32) {
        self.connection.close(code.into(), &[]);
    }

    /// Closes if no request is under way. Nothing is lost then: no new one can start meanwhile.
    pub(crate) fn close_if_idle(&self, code: u32) -> bool {
        let idle = self.gate.shut_if_idle();
        if idle {
            self.close(code);
        }
        idle
    }

    /// Closes if the connection has been idle for as long as it may be. Otherwise tells when to look
    /// again.
    pub(crate) fn close_if_due(&self) -> Option<Instant> {
        let due = self.due();
        if Instant::now() < due {
            return Some(due);
        }
        let retired = self.retired.load(Ordering::Acquire);
        let code = if retired { codes::REDUNDANT } else { codes::IDLE };
        if self.close_if_idle(code) { None } else { Some(Instant::now() + self.patience()) }
    }

    /// When the connection will have been idle for long enough.
    pub(crate) fn due(&self) -> Instant {
        self.last_used() + self.patience()
    }

    /// When the last request ended.
    pub(crate) fn last_used(&self) -> Instant {
        self.began + Duration::from_millis(self.last_used_ms.load(Ordering::Relaxed))
    }

    /// Whether a new request may go over it.
    pub(crate) fn is_open(&self) -> bool {
        !self.gate.is_shut() && self.connection.close_reason().is_none()
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.gate.is_idle()
    }

    fn patience(&self) -> Duration {
        let limits = &self.shared.limits;
        if self.retired.load(Ordering::Acquire) { limits.retire_after } else { limits.idle_timeout }
    }

    fn note_use(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_used_ms.store(ms, Ordering::Relaxed);
    }

    async fn ask_untold(
        self: &Arc<Link>,
        question: Question,
        connect_us: u64,
    ) -> Result<Reply, AskError> {
        let Question { frame, kind, wants_bulk } = question;
        let permit = if wants_bulk { self.bulk_permit().await } else { None };
        let (mut writer, mut reader) = self.open(kind).await?;
        reader.hold(permit);
        match writer.write_piece(frame).await {
            // A peer that stops the stream has answered, or resets the other half too.
            Ok(()) | Err(BodyError::Reset { .. }) => {}
            Err(error) => return Err(lost_or_final(error)),
        }
        // One packet: nothing is sent before this task lets go. Until the answer is here, dropping
        // `writer` takes the request back.
        writer.finish_but_keep();
        let reply = read_reply(reader, kind, connect_us).await.map_err(|error| match error {
            RequestError::Lost(lost) if is_not_taken(lost) => AskError::NotTaken(error),
            error => AskError::Final(error),
        })?;
        writer.settle();
        Ok(reply)
    }

    /// Waits for a turn to use the connection for bulk.
    async fn bulk_permit(&self) -> Option<OwnedSemaphorePermit> {
        // `None` would mean that the semaphore is closed, and nobody closes it.
        self.bulk.clone().acquire_owned().await.ok()
    }

    async fn open(self: &Arc<Link>, kind: Kind) -> Result<(BodyWriter, BodyReader), AskError> {
        let busy = |link| {
            let lost = RequestError::Lost(Lost::Here);
            Busy::enter(link).ok_or(AskError::NotTaken(lost))
        };
        let (for_writer, for_reader) = (busy(self)?, busy(self)?);
        // Waits while the peer allows no further stream; the caller has a time-out.
        match self.connection.open_bi().await {
            Ok((send, recv)) => {
                Ok((BodyWriter::new(send, for_writer), BodyReader::new(recv, for_reader, kind)))
            }
            Err(error) => Err(AskError::NotTaken(RequestError::from(Lost::from(&error)))),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("key", &self.key)
            .field("remote", &self.remote)
            .field("dialled", &self.dialled)
            .finish_non_exhaustive()
    }
}

/// Reads the first answer.
pub(crate) async fn read_reply(
    mut reader: BodyReader,
    kind: Kind,
    connect_us: u64,
) -> Result<Reply, RequestError> {
    let shared = reader.shared().clone();
    let record = reader.peer_record();
    let bytes = match reader.read_frame(shared.limits.max_frame).await {
        Ok(bytes) => bytes,
        Err(FrameFault::Body(error)) => return Err(RequestError::from(error)),
        Err(FrameFault::TooLong | FrameFault::Cut) => return Err(RequestError::BadAnswer),
    };
    let answer = checked_answer(&bytes, kind, &shared.book).ok_or(RequestError::BadAnswer)?;
    Ok(Reply { answer, record, body: reader, connect_us })
}

/// The form of an address that does not depend on the socket's family.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// With these numbers a peer says that it has not read what was not answered.
fn is_not_taken(lost: Lost) -> bool {
    let codes = [codes::IDLE, codes::REDUNDANT].map(u64::from);
    matches!(lost, Lost::Closed { code } if codes.contains(&code))
}

fn lost_or_final(error: BodyError) -> AskError {
    match error {
        BodyError::Lost(lost) if is_not_taken(lost) => AskError::NotTaken(error.into()),
        error => AskError::Final(error.into()),
    }
}

/// Held while a request uses a connection, at either end of it.
#[derive(Debug)]
pub(crate) struct Busy {
    link: Arc<Link>,
    /// Of the few for bulk.
    permit: Option<OwnedSemaphorePermit>,
}

impl Busy {
    /// `None` if the connection is about to close.
    pub(crate) fn enter(link: &Arc<Link>) -> Option<Busy> {
        link.gate.enter().then(|| Busy { link: link.clone(), permit: None })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.link.shared
    }

    pub(crate) fn peer_record(&self) -> Option<Arc<PeerRecord>> {
        self.link.theirs()?.record.clone()
    }

    pub(crate) fn hold(&mut self, permit: Option<OwnedSemaphorePermit>) {
        self.permit = permit;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.link.note_use();
        if self.link.gate.leave() {
            self.link.shared.on_link_idle();
        }
    }
}

/// Counts the users of a connection, and is shut only while there are none.
#[derive(Debug, Default)]
struct Gate(AtomicUsize);

impl Gate {
    const SHUT: usize = 1 << (usize::BITS - 1);

    fn enter(&self) -> bool {
        let step = |state: usize| (state & Gate::SHUT == 0).then_some(state + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok()
    }

    /// Whether that was the last user.
    fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    fn shut_if_idle(&self) -> bool {
        self.0.compare_exchange(0, Gate::SHUT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_shut(&self) -> bool {
        self.0.load(Ordering::Acquire) & Gate::SHUT != 0
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) & !Gate::SHUT == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_shut_only_while_nobody_is_inside() {
        let gate = Gate::default();
        assert!(gate.enter() && gate.enter());
        assert!(!gate.shut_if_idle());
        assert!(!gate.leave());
        assert!(gate.leave(), "the last one");
        assert!(gate.is_idle() && !gate.is_shut());
        assert!(gate.shut_if_idle());
        assert!(!gate.enter() && gate.is_idle() && gate.is_shut());
    }

    #[test]
    fn only_idle_and_redundant_mean_not_taken() {
        for code in 0..=9 {
            let lost = Lost::Closed { code };
            assert_eq!(is_not_taken(lost), code == 1 || code == 2, "{code}");
        }
        assert!(!is_not_taken(Lost::Restarted) && !is_not_taken(Lost::Silence));
    }
}
