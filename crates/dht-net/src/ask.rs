//! Requests to a peer, over whichever connection serves.

use std::sync::Arc;

use dht_core::PeerRecord;
use dht_core::message::Frame;

use crate::body::BodyWriter;
use crate::dial::{dial_any, link_to};
use crate::error::{DialError, RequestError};
use crate::link::{AskError, Link};
use crate::peer::{Peer, PendingReply, Reply};
use crate::shared::Shared;

/// Who is asked.
#[derive(Clone, Copy)]
pub(crate) enum To<'a> {
    /// The owner of this record.
    Record(&'a PeerRecord),
    /// Whoever was dialled before.
    Peer(&'a Peer),
}

/// Asks, and asks again over another connection if the peer has certainly not taken the request.
pub(crate) async fn ask(
    shared: &Arc<Shared>,
    to: To<'_>,
    frame: Frame,
) -> Result<Reply, RequestError> {
    let question = shared.question(&frame)?;
    let mut attempt = 1;
    loop {
        let (link, connect_us) = to.link(shared).await?;
        match link.ask(question.clone(), connect_us).await {
            Ok(reply) => return Ok(reply),
            Err(error) => error.only_if_worth_another(attempt, shared)?,
        }
        attempt += 1;
    }
}

/// Asks with bytes to follow. Those are the caller's, so this tries another connection only as long
/// as none of them was taken.
pub(crate) async fn ask_body(
    shared: &Arc<Shared>,
    to: To<'_>,
    frame: Frame,
) -> Result<(BodyWriter, PendingReply), RequestError> {
    let question = shared.question(&frame)?;
    let mut attempt = 1;
    loop {
        let (link, connect_us) = to.link(shared).await?;
        match link.ask_body(question.clone(), connect_us).await {
            Ok(opened) => return Ok(opened),
            Err(error) => error.only_if_worth_another(attempt, shared)?,
        }
        attempt += 1;
    }
}

impl To<'_> {
    async fn link(self, shared: &Arc<Shared>) -> Result<(Arc<Link>, u64), DialError> {
        let peer = match self {
            To::Record(record) => return link_to(shared, record).await,
            To::Peer(peer) => peer,
        };
        if peer.link.is_open() {
            return Ok((peer.link.clone(), 0));
        }
        match shared.table.current(&peer.key) {
            Some(link) => Ok((link, 0)),
            None => Ok((dial_any(shared, &[peer.remote], Some(peer.key)).await?, 0)),
        }
    }
}

impl AskError {
    /// `Ok` if the request should be sent again.
    fn only_if_worth_another(self, attempt: u32, shared: &Shared) -> Result<(), RequestError> {
        match self {
            _ if shared.stop.is_cancelled() => Err(RequestError::Closed),
            AskError::NotTaken(_) if attempt < MAX_ATTEMPTS => Ok(()),
            error => Err(error.into_inner()),
        }
    }
}

/// Connections tried for one request. Two would do, unless the peer goes on and off (guess).
const MAX_ATTEMPTS: u32 = 3;
