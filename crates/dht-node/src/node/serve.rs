//! Takes requests off the endpoint and gives each to whom it concerns.

use std::sync::Arc;

use dht_core::message::client::{AdminRequest, AdminResponse};
use dht_core::message::ring::Request;
use dht_core::message::{Answer, Frame, Refusal};
use dht_core::{Command, Contact};
use dht_net::{Incoming, Responder};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::driver::DriverHandle;
use super::gateway;
use super::shared::{Order, Shared};
use super::upkeep::{UpkeepMeter, kept_by};

/// Serves until it is dropped. When [`MAX_SERVING`] requests are under way the next waits in the
/// endpoint, which refuses what waits too long.
pub(super) async fn accept(shared: Arc<Shared>, mut requests: mpsc::Receiver<Incoming>) {
    let serving = Arc::new(Semaphore::new(MAX_SERVING));
    while let Some(incoming) = requests.recv().await {
        let Ok(slot) = serving.clone().acquire_owned().await else { return };
        note_observation(&shared, &incoming);
        let shared = shared.clone();
        match incoming {
            // There are many of these, and they are over at once: their tasks are kept small.
            Incoming {
                frame: Frame::Ring { from, to: 0, request },
                contact_record: Some(record),
                responder,
                ..
            } => {
                let contact = Contact::new(record, from);
                let (driver, upkeep) = (shared.driver.clone(), shared.upkeep.clone());
                let serving = serve_ring(driver, upkeep, contact, request, responder, slot);
                shared.tasks.spawn(serving);
            }
            incoming => {
                let is_client = matches!(incoming.frame, Frame::Client(_) | Frame::Admin(_));
                let owner = shared.clone();
                let tasks = if is_client { &owner.clients } else { &owner.tasks };
                tasks.spawn(Box::pin(async move {
                    let _slot = slot;
                    serve(&shared, incoming).await;
                }));
            }
        }
    }
}

async fn serve_ring(
    driver: DriverHandle,
    upkeep: Arc<UpkeepMeter>,
    from: Contact,
    request: Request,
    responder: Responder,
    _slot: OwnedSemaphorePermit,
) {
    let kept = kept_by(from.id, &request);
    let response = tokio::select! {
        response = driver.ring_request(from, request) => response,
        () = responder.closed() => return,
    };
    kept.into_iter().for_each(|kept| upkeep.sent(UpkeepMeter::of_answer(kept, &response)));
    responder.answer(Answer::Ring(response)).await;
}

/// Members say where they reach this node.
fn note_observation(shared: &Arc<Shared>, incoming: &Incoming) {
    let observed = incoming.hello.as_ref().and_then(|hello| hello.observed);
    if let (Some(record), Some(addr)) = (&incoming.contact_record, observed)
        && let Some(record) = shared.presence.observe(record.key, addr, &shared.endpoint)
    {
        let driver = shared.driver.clone();
        shared.tasks.spawn(async move { driver.command(Command::Renew { record }).await });
    }
}

async fn serve(shared: &Arc<Shared>, incoming: Incoming) {
    let Incoming { contact_record, frame, body, responder, is_admin, .. } = incoming;
    match frame {
        Frame::Ring { .. } | Frame::Chunk(_) if contact_record.is_none() => {
            responder.answer(Answer::Refused(Refusal::NoHello)).await;
        }
        Frame::Chunk(request) => shared.chunks.serve(request, body, responder).await,
        Frame::Client(_) if shared.is_closing() => {
            responder.answer(Answer::Refused(Refusal::ShuttingDown)).await;
        }
        Frame::Client(request) => gateway::serve(shared, request, body, responder).await,
        Frame::Admin(_) if !is_admin => {
            responder.answer(Answer::Refused(Refusal::NotAdmin)).await;
        }
        Frame::Admin(AdminRequest::Leave) => leave(shared, responder).await,
        Frame::Ring { to, .. } => {
            responder.answer(Answer::Refused(Refusal::NoSuchPlace { index: to })).await;
        }
        Frame::Hello(_) => responder.answer(Answer::Refused(Refusal::Unsupported)).await,
    }
}

/// Leaves, and tells the asker how far that is. An asker that goes away does not stop it.
async fn leave(shared: &Shared, mut responder: Responder) {
    tracing::info!("asked to leave");
    shared.orders.give(Order::Leave);
    let mut status = shared.status.clone();
    let mut told = None;
    loop {
        let (left, missing) = {
            let status = status.borrow_and_update();
            // A node without a ring has nothing to leave, and ends at once.
            (status.left || status.params.is_none(), status.missing)
        };
        if left {
            let delivered = responder.closed();
            responder.answer(Answer::Admin(AdminResponse::Left)).await;
            // The stop that follows waits for this task, and so for the answer to arrive.
            let _ = tokio::time::timeout(gateway::DELIVERY_LIMIT, delivered).await;
            return;
        }
        if told != Some(missing) {
            told = Some(missing);
            responder.progress(Answer::Admin(AdminResponse::Leaving { missing })).await;
        }
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            () = responder.closed() => return,
        }
    }
}

/// Requests under way at once. 4,096 by default (guess: at a few KiB each 20 MiB).
const MAX_SERVING: usize = 4096;
