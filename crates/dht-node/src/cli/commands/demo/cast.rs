//! The nodes of a demo.

use std::time::Duration;

use dht_core::Id;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::cli::args::Globals;
use crate::cli::exit::{Failure, Kind, one_line};
use crate::client::{Client, ClientConfig, Walk};
use crate::node::{DataPlace, JoinAddr, Node, NodeConfig};

/// Nodes in this process, on loopback, with everything in memory.
#[derive(Debug)]
pub(super) struct Cast {
    nodes: Vec<Node>,
    timeout: Duration,
    /// When patience ends.
    deadline: Option<Instant>,
}

impl Cast {
    /// Starts so many nodes, one by one, each joined through one that is there already. `progress`
    /// is told how many run.
    pub(super) async fn start(
        count: usize,
        globals: &Globals,
        mut progress: impl FnMut(u64),
    ) -> Result<Cast, Failure> {
        let patience = globals.deadline.unwrap_or(PATIENCE);
        let deadline = Instant::now().checked_add(patience);
        let mut cast = Cast { nodes: Vec::new(), timeout: globals.timeout, deadline };
        for number in 0..count {
            let mut config = NodeConfig::new(DataPlace::Ephemeral);
            config.listen = Some(([127, 0, 0, 1], 0).into());
            config.ring_name = RING.to_owned();
            let via = cast.nodes.get(number / 2);
            config.join =
                via.map(|node| JoinAddr::from_socket(node.listen())).into_iter().collect();
            let node = Node::start(config).await.map_err(|error| failed(&error))?;
            let ready = node.ready();
            let told = cast.in_time("the nodes were not ready", ready).await?;
            told.map_err(|reason| failed(&reason))?;
            cast.nodes.push(node);
            progress(cast.nodes.len() as u64);
        }
        Ok(cast)
    }

    /// A client of node number `at` that lives.
    pub(super) async fn client(&self, at: usize) -> Result<Client, Failure> {
        let node = &self.nodes[at % self.nodes.len()];
        let mut config = ClientConfig::new(vec![JoinAddr::from_socket(node.listen())]);
        config.ring_name = RING.to_owned();
        config.timeout = self.timeout;
        Ok(Client::connect(config).await?)
    }

    /// A client of some node that is none of these, if there is such a one.
    pub(super) async fn client_at_none_of(&self, but: &[Id]) -> Result<Client, Failure> {
        let at = self.nodes.iter().rposition(|node| !but.contains(&node.contact().id));
        self.client(at.unwrap_or(0)).await
    }

    /// Ends a node at once, as a power cut would.
    pub(super) fn kill(&mut self, id: Id) {
        // Dropping it would do the same; saying it is clearer.
        self.nodes.iter().filter(|node| node.contact().id == id).for_each(Node::kill);
        self.nodes.retain(|node| node.contact().id != id);
    }

    /// Waits until all nodes that live are in one ring, and all links and lists are right.
    pub(super) async fn wait_for_one_ring(&self) -> Result<(), Failure> {
        let client = self.client(0).await?;
        let outcome = self.in_time("the ring did not come right", self.come_right(&client)).await;
        client.close().await;
        outcome?
    }

    async fn come_right(&self, client: &Client) -> Result<(), Failure> {
        while !self.is_right(&client.walk().await?) {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn is_right(&self, walk: &Walk) -> bool {
        walk.complete && walk.problems.is_empty() && walk.members.len() == self.nodes.len()
    }

    /// Stops all nodes in order, all at the same time.
    pub(super) async fn stop(&self) {
        join_all(self.nodes.iter().map(Node::stop)).await;
    }

    async fn in_time<T>(&self, late: &str, work: impl Future<Output = T>) -> Result<T, Failure> {
        let Some(deadline) = self.deadline else { return Ok(work.await) };
        tokio::time::timeout_at(deadline, work).await.map_err(|_| {
            Failure::new(Kind::TimedOut, format!("{late} in time; allow more with --deadline"))
        })
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Kind::Failed, format!("a node of the demo: {}", one_line(&error.to_string())))
}

/// The demo's own ring.
const RING: &str = "demo";
/// How long a demo may take without `--deadline`: six times what 32 nodes need on two slow
/// processors.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks at the ring (guess: short beside the second that mending takes).
const LOOK_EVERY: Duration = Duration::from_millis(50);
