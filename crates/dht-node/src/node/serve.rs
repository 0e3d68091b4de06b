//! Takes requests off the endpoint and gives each to whom it concerns.

use std::sync::Arc;

use dht_core::Contact;
use dht_core::message::client::{AdminRequest, AdminResponse};
use dht_core::message::{Answer, Frame, Refusal};
use dht_net::{Incoming, Responder};
use tokio::sync::{Semaphore, mpsc};

use super::gateway;
use super::shared::{Order, Shared};

/// Serves until it is dropped. When [`MAX_SERVING`] requests are under way the next waits in the
/// endpoint, which refuses what waits too long.
pub(super) async fn accept(shared: Arc<Shared>, mut requests: mpsc::Receiver<Incoming>) {
    let serving = Arc::new(Semaphore::new(MAX_SERVING));
    while let Some(incoming) = requests.recv().await {
        let Ok(slot) = serving.clone().acquire_owned().await else { return };
        let is_client = matches!(incoming.frame, Frame::Client(_) | Frame::Admin(_));
        let tasks = if is_client { &shared.clients } else { &shared.tasks };
        let shared = shared.clone();
        tasks.spawn(async move {
            let _slot = slot;
            serve(&shared, incoming).await;
        });
    }
}

async fn serve(shared: &Arc<Shared>, incoming: Incoming) {
    if let (Some(record), Some(hello)) = (&incoming.contact_record, &incoming.hello)
        && let Some(addr) = hello.observed
    {
        let (endpoint, driver) = (&shared.endpoint, &shared.driver);
        shared.presence.observe(record.key, addr, endpoint, driver).await;
    }
    let Incoming { contact_record, frame, body, responder, is_admin, .. } = incoming;
    match frame {
        Frame::Ring { to, .. } if to != 0 => {
            responder.answer(Answer::Refused(Refusal::NoSuchPlace { index: to })).await;
        }
        Frame::Ring { from, request, .. } => {
            let Some(record) = contact_record else {
                responder.answer(Answer::Refused(Refusal::NoHello)).await;
                return;
            };
            let contact = Contact::new(record, from);
            tokio::select! {
                response = shared.driver.ring_request(contact, request) => {
                    responder.answer(Answer::Ring(response)).await;
                }
                () = responder.closed() => {}
            }
        }
        Frame::Chunk(_) if contact_record.is_none() => {
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
            (status.left, status.missing)
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
