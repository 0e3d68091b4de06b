//! What all tasks of one node share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use dht_core::config::RingParams;
use dht_core::{Config, Contact, PeerKey};
use dht_net::Endpoint;
use tokio::sync::watch;

use super::budget::HopBudget;
use super::chunks::ChunkPeers;
use super::config::NodeConfig;
use super::disk::Disk;
use super::driver::{DriverHandle, Status};
use super::error::StopReason;
use super::gateway::Gateway;
use super::latency::Latency;
use super::presence::Presence;
use super::tasks::Tasks;
use super::upkeep::UpkeepMeter;

/// One node, as its tasks see it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: NodeConfig,
    pub(super) key: PeerKey,
    pub(super) presence: Presence,
    pub(super) endpoint: Endpoint,
    pub(super) disk: Disk,
    pub(super) driver: DriverHandle,
    pub(super) status: watch::Receiver<Status>,
    pub(super) orders: Orders,
    pub(super) chunks: ChunkPeers,
    pub(super) gateway: Gateway,
    pub(super) latency: Arc<Latency>,
    pub(super) upkeep: Arc<UpkeepMeter>,
    pub(super) budget: Arc<HopBudget>,
    /// Everything but requests of clients.
    pub(super) tasks: Tasks,
    /// Requests of clients, which a stop waits for.
    pub(super) clients: Tasks,
    /// Set when no more clients are served.
    pub(super) closing: AtomicBool,
    pub(super) started: Instant,
}

impl Shared {
    /// The ring's settings; `None` while there is no ring.
    pub(super) fn params(&self) -> Option<RingParams> {
        self.status.borrow().params
    }

    /// How many entries the successor list is kept at.
    pub(super) fn list_len(&self) -> usize {
        self.core_config().list_len()
    }

    /// How many entries the predecessor list is kept at.
    pub(super) fn list_len_back(&self) -> usize {
        self.core_config().predecessors_wanted()
    }

    fn core_config(&self) -> Config {
        let config = &self.config.core;
        self.params().map_or(config.clone(), |params| config.for_ring(&params))
    }

    /// The node's place, with its newest record.
    pub(super) fn contact(&self) -> Contact {
        self.presence.contact()
    }

    /// Whether no more clients are served.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// What the node was told about its own end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// None yet.
    Run,
    /// Hand off, then go for good.
    Leave,
    /// Stop in order, to come back.
    Stop,
    /// End now. Nobody is told of a kill.
    Halt(StopReason),
}

/// Gives orders about the node's end; one that is given stays, unless a more urgent one comes.
#[derive(Clone, Debug)]
pub(super) struct Orders(watch::Sender<Order>);

impl Orders {
    pub(super) fn new() -> Orders {
        Orders(watch::channel(Order::Run).0)
    }

    /// Gives an order.
    pub(super) fn give(&self, order: Order) {
        self.0.send_if_modified(|held| {
            let more_urgent = order.urgency() > held.urgency();
            if more_urgent {
                *held = order;
            }
            more_urgent
        });
    }

    /// Runs a task that the node cannot do without: if it panics, the node ends.
    pub(super) async fn guard<F: Future>(self, vital: F) -> F::Output {
        let _ends_all = EndOnPanic(self);
        vital.await
    }

    /// To watch what was ordered.
    pub(super) fn watch(&self) -> watch::Receiver<Order> {
        self.0.subscribe()
    }
}

struct EndOnPanic(Orders);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give(Order::Halt(StopReason::Crashed));
        }
    }
}

impl Order {
    fn urgency(&self) -> u8 {
        match self {
            Order::Run => 0,
            Order::Leave => 1,
            Order::Stop => 2,
            Order::Halt(StopReason::Killed) => 4,
            Order::Halt(_) => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_vital_task_ends_the_node() {
        let orders = Orders::new();
        let tasks = Tasks::new();
        let ended = tasks.spawn(orders.clone().guard(async {}));
        ended.await.expect("no panic");
        assert_eq!(*orders.watch().borrow(), Order::Run);
        let ended = tasks.spawn(orders.clone().guard(async { panic!("on purpose") }));
        assert!(ended.await.is_err());
        assert_eq!(*orders.watch().borrow(), Order::Halt(StopReason::Crashed));
    }

    #[test]
    fn only_more_urgent_orders_count() {
        let orders = Orders::new();
        let seen = orders.watch();
        orders.give(Order::Stop);
        orders.give(Order::Leave);
        assert_eq!(*seen.borrow(), Order::Stop);
        orders.give(Order::Halt(StopReason::Crashed));
        orders.give(Order::Halt(StopReason::StoreFailed));
        assert_eq!(*seen.borrow(), Order::Halt(StopReason::Crashed));
        orders.give(Order::Halt(StopReason::Killed));
        assert_eq!(*seen.borrow(), Order::Halt(StopReason::Killed));
    }
}
