//! The nodes of a demo.

use std::time::Duration;

use dht_core::message::client::NodeState;
use dht_core::node::Snapshot;
use dht_core::{Config, Id};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::cli::args::Globals;
use crate::cli::exit::{Failure, Kind, one_line};
use crate::client::{Client, ClientConfig};
use crate::node::{DataPlace, JoinAddr, Node, NodeConfig};

/// Nodes in this process, on loopback, with everything in memory.
#[derive(Debug)]
pub(super) struct Cast {
    nodes: Vec<Node>,
    timeout: Duration,
    /// How long the lists are, if there are enough nodes.
    list_len: usize,
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
        let (timeout, list_len) = (globals.timeout, Config::default().list_len());
        let mut cast = Cast { nodes: Vec::new(), timeout, list_len, deadline };
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

    /// Waits until all nodes that live are in one ring, and all links and lists are right. The nodes
    /// themselves are looked at: a walk from outside would first wait for whoever is dead.
    pub(super) async fn wait_for_one_ring(&self) -> Result<(), Failure> {
        let right = async {
            while !self.is_right().await {
                sleep(LOOK_EVERY).await;
            }
        };
        self.in_time("the ring did not come right", right).await
    }

    async fn is_right(&self) -> bool {
        let mut links = Vec::new();
        for node in &self.nodes {
            match node.snapshot().await {
                Some(snapshot) => links.push(Links::of(&snapshot)),
                None => return false,
            }
        }
        links.sort_by_key(|links| links.id);
        all_right(&links, self.list_len)
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

/// What a node holds of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Links {
    id: Id,
    is_member: bool,
    predecessor: Option<Id>,
    successors: Vec<Id>,
}

impl Links {
    fn of(snapshot: &Snapshot) -> Links {
        Links {
            id: snapshot.me.id,
            is_member: snapshot.state == NodeState::Member,
            predecessor: snapshot.predecessor.as_ref().map(|contact| contact.id),
            successors: snapshot.successors.iter().map(|contact| contact.id).collect(),
        }
    }
}

/// Whether everybody, in the order of the circle, holds just the next ones and the one before.
fn all_right(ring: &[Links], list_len: usize) -> bool {
    let size = ring.len();
    let others = size.saturating_sub(1);
    ring.iter().enumerate().all(|(at, links)| {
        let next = |step: usize| ring[(at + step) % size].id;
        let list = (1..=others.min(list_len)).map(next);
        let before = (others > 0).then(|| next(others));
        links.is_member && links.predecessor == before && links.successors.iter().copied().eq(list)
    })
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Kind::Failed, format!("a node of the demo: {}", one_line(&error.to_string())))
}

/// The demo's own ring.
const RING: &str = "demo";
/// How long a demo may take without `--deadline`: five times what 64 nodes need for 20,000 lookups a row
/// on two slow cores.
const PATIENCE: Duration = Duration::from_secs(600);
/// Pause between two looks at the ring (guess: short beside the second that mending takes).
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(list_len: usize) -> Vec<Links> {
        let id = |n: usize| Id::from_u64(n as u64 % 5);
        let links = |n: usize| Links {
            id: id(n),
            is_member: true,
            predecessor: Some(id(n + 4)),
            successors: (1..=list_len).map(|step| id(n + step)).collect(),
        };
        (0..5).map(links).collect()
    }

    #[test]
    fn one_wrong_link_is_seen() {
        assert!(all_right(&ring(2), 2));
        assert!(all_right(&ring(4), 16), "there are only four others");
        assert!(!all_right(&ring(1), 2), "a short list");
        let changes: [fn(&mut Links); 4] = [
            |links| links.is_member = false,
            |links| links.predecessor = Some(links.id),
            |links| links.predecessor = None,
            |links| links.successors.swap(0, 1),
        ];
        for change in changes {
            let mut broken = ring(2);
            change(&mut broken[3]);
            assert!(!all_right(&broken, 2), "{broken:?}");
        }
        let alone = Links { id: Id::ZERO, is_member: true, predecessor: None, successors: vec![] };
        assert!(all_right(&[alone], 16));
    }
}
