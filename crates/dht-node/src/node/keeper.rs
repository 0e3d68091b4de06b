//! Brings the node to its end: in order, for good, or at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dht_core::Command;
use dht_core::event::Memory;
use tokio::sync::watch;

use super::driver::Status;
use super::error::StopReason;
use super::shared::{Order, Shared};

/// Waits for an order and carries it out.
pub(super) struct Keeper {
    pub(super) shared: Arc<Shared>,
    /// What the next life will know.
    pub(super) memory: watch::Receiver<Option<Memory>>,
    /// Told when all is closed.
    pub(super) stopped: watch::Sender<Option<StopReason>>,
}

impl Keeper {
    /// Runs for the life of the node.
    pub(super) async fn run(self) {
        let reason = self.wait().await;
        match reason {
            StopReason::Stopped | StopReason::Left => tracing::info!(%reason, "stopping"),
            // Whoever waits for the end is told, and says so.
            _ => tracing::debug!(%reason, "stopping"),
        }
        match reason {
            StopReason::Killed => self.kill().await,
            _ => self.close(&reason).await,
        }
        let Keeper { shared, stopped, .. } = self;
        // The endpoint frees its socket with its last owner.
        drop(shared);
        stopped.send_replace(Some(reason));
    }

    /// Until it is time to go; the state machine has taken its leave then, if it could.
    async fn wait(&self) -> StopReason {
        let mut orders = self.shared.orders.watch();
        let mut status = self.shared.status.clone();
        let mut leaving = false;
        loop {
            let order = orders.borrow_and_update().clone();
            match order {
                Order::Halt(reason) => return reason,
                Order::Stop => return self.stop(&mut orders).await,
                Order::Leave if !leaving => {
                    leaving = true;
                    self.shared.driver.command(Command::Leave).await;
                }
                Order::Leave | Order::Run => {}
            }
            let now = status.borrow_and_update().clone();
            // A node without a ring has nobody to hand anything to.
            if leaving && (now.left || now.params.is_none()) {
                return StopReason::Left;
            }
            if let Some(twin) = now.twin.filter(|_| !now.ready) {
                let addr = twin.record.addrs.first().copied();
                return StopReason::IdInUse {
                    addr: addr.unwrap_or(self.shared.endpoint.local_addr()),
                };
            }
            tokio::select! {
                _ = orders.changed() => {}
                _ = status.changed() => {}
                () = self.shared.disk.failed() => return StopReason::StoreFailed,
            }
        }
    }

    /// Clients first, while everything still works; then the neighbours.
    async fn stop(&self, orders: &mut watch::Receiver<Order>) -> StopReason {
        let orderly = async {
            self.drain_clients().await;
            self.shared.driver.command(Command::Stop).await;
            let begun = self.shared.params().is_some();
            let mut status = self.shared.status.clone();
            let left = status.wait_for(|status: &Status| status.left || !begun);
            let _ = tokio::time::timeout(UNLINK_LIMIT, left).await;
        };
        tokio::select! {
            () = orderly => StopReason::Stopped,
            halted = orders.wait_for(|order| matches!(order, Order::Halt(_))) => {
                match halted.as_deref() {
                    Ok(Order::Halt(reason)) => reason.clone(),
                    _ => StopReason::Stopped,
                }
            }
        }
    }

    /// Takes no more clients, and gives those that are at something the time to end it. Once.
    async fn drain_clients(&self) {
        if self.shared.closing.swap(true, Ordering::Relaxed) {
            return;
        }
        let transfers = self.shared.clients.len();
        if transfers > 0 {
            tracing::info!(transfers, "waiting for clients to finish");
        }
        self.shared.clients.finish(DRAIN_LIMIT).await;
    }

    async fn close(&self, reason: &StopReason) {
        self.drain_clients().await;
        self.shared.endpoint.close(CLOSE_LIMIT).await;
        self.end_tasks().await;
        if *reason == StopReason::Left {
            self.forget_place().await;
        }
        self.shared.disk.close().await;
    }

    async fn kill(&self) {
        // First of all: what the tasks below say at their end must not be heard either.
        self.shared.endpoint.abort(CLOSE_LIMIT).await;
        self.shared.clients.cancel();
        self.end_tasks().await;
        self.shared.disk.close().await;
    }

    async fn end_tasks(&self) {
        let clients = self.shared.clients.end(TASK_LIMIT).await;
        let others = self.shared.tasks.end(TASK_LIMIT).await;
        if !(clients && others) {
            tracing::warn!("some tasks of the node did not end in time");
        }
    }

    /// Who left for good holds no arc when it comes back. The last peer of a ring keeps everything.
    async fn forget_place(&self) {
        let memory = self.memory.borrow().clone();
        if let Some(Memory { contacts, .. }) = memory.filter(|memory| !memory.contacts.is_empty()) {
            self.shared.disk.remember(Memory { contacts, ..Memory::default() }).await;
        }
    }
}

/// How long a stop waits for clients in the middle of a transfer (guess; idle nodes do not wait).
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long the neighbours may take to hear that we go: a little more than the core's own patience.
const UNLINK_LIMIT: Duration = Duration::from_millis(1200);
/// How long open requests of other members may take (guess: an idle stop ends within 2 s).
const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// How long a dropped task may take to notice (guess: it waits for nothing).
const TASK_LIMIT: Duration = Duration::from_secs(5);
