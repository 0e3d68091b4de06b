//! Taking connections of callers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dht_core::message::{Answer, Frame, Hello, Refusal};
use tokio::time::timeout;

use crate::codes;
use crate::dial::RETRY_AFTER_MS;
use crate::link::Link;
use crate::serve::{Request, serve};
use crate::shared::Shared;
use crate::table::Listed;
use crate::tls::{asks_about, proven_key};

/// Takes callers until the endpoint is closed.
pub(crate) async fn accept(shared: Arc<Shared>, quinn: quinn::Endpoint) {
    while let Some(caller) = quinn.accept().await {
        on_caller(&shared, caller);
    }
}

fn on_caller(shared: &Arc<Shared>, caller: quinn::Incoming) {
    let most = shared.limits.max_handshakes;
    let under_way = shared.handshakes.load(Ordering::Relaxed);
    if shared.stop.is_cancelled() || under_way >= most {
        return turn_away(caller);
    }
    if under_way >= most / 4 && !caller.remote_address_validated() {
        // From now on a place costs a round trip: a forged sender address never gets one.
        if let Err(error) = caller.retry() {
            turn_away(error.into_incoming());
        }
        return;
    }
    let place = Place::new(shared);
    // The handshakes run side by side: a slow one delays nobody.
    shared.spawn(receive(shared.clone(), caller, place));
}

/// Takes no connection. A caller that was made to prove its address must not be refused by the
/// library's means, which once made it panic (GHSA-vr26-jcq5-fjj8): it is taken and closed.
fn turn_away(caller: quinn::Incoming) {
    if caller.may_retry() {
        caller.refuse();
    } else {
        // Dropping the connection closes it.
        drop(caller.accept());
    }
}

/// One of the handshakes that may run at once.
struct Place(Arc<Shared>);

impl Place {
    fn new(shared: &Arc<Shared>) -> Place {
        shared.handshakes.fetch_add(1, Ordering::Relaxed);
        Place(shared.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// From first packet to last, the task of one caller's connection.
async fn receive(shared: Arc<Shared>, caller: quinn::Incoming, place: Place) {
    let patience = shared.limits.handshake_timeout;
    let Ok(connecting) = caller.accept() else { return };
    let Ok(Ok(connection)) = timeout(patience, connecting).await else { return };
    if asks_about(&connection) {
        connection.close(codes::ABOUT.into(), &shared.about.to_bytes());
        return;
    }
    let Some(key) = proven_key(&connection) else { return };
    let link = Link::new(shared.clone(), connection, key, false);
    let Some(incoming) = shared.incoming() else {
        return link.close(codes::SHUTTING_DOWN);
    };
    match timeout(patience, first_hello(&link)).await {
        Ok(Some(listed)) => {
            drop(place);
            serve(listed, incoming).await;
        }
        Ok(None) => {}
        Err(_) => link.close(codes::BAD_HELLO),
    }
}

/// Waits for the caller's hello and answers it; `None` if the connection is of no use.
async fn first_hello(link: &Arc<Link>) -> Option<Listed> {
    let shared = &link.shared;
    let Some((request, hello)) = await_hello(link).await else {
        link.close(codes::BAD_HELLO);
        return None;
    };
    let instance = hello.instance;
    if let Err(refusal) = link.hear(hello) {
        request.refuse_for_good(refusal).await;
        return None;
    }
    let (version, ours) = shared.own.for_peer(link.remote);
    if link.key == shared.me {
        if instance != shared.own.instance() {
            tracing::warn!(remote = %link.remote, "another process uses this node's own key");
        }
        request.answer_and_close(Answer::Hello(ours), codes::SAME_IDENTITY).await;
        return None;
    }
    let Ok(listed) = shared.table.insert(link) else {
        let refusal = Refusal::Overloaded { retry_after_ms: RETRY_AFTER_MS };
        request.answer_and_close(Answer::Refused(refusal), codes::OVERLOADED).await;
        return None;
    };
    // It is alive, so its addresses are worth another try.
    shared.backoffs.forget(link.key);
    request.into_responder().answer(Answer::Hello(ours)).await;
    link.set_told(version);
    Some(listed)
}

async fn await_hello(link: &Arc<Link>) -> Option<(Request, Hello)> {
    for _ in 0..MAX_EARLY {
        let stream = link.connection.accept_bi().await.ok()?;
        let request = Request::new(link, stream)?;
        match request.read().await {
            Some((request, Frame::Hello(hello))) => return Some((request, hello)),
            Some((request, _)) => request.refuse(Refusal::NoHello, codes::CANCELLED).await,
            None => {}
        }
    }
    None
}

/// Requests before the hello that are refused one by one; then the connection is closed (guess).
const MAX_EARLY: usize = 16;
