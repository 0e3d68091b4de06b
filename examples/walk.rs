//! The price of a plain walk: one key, looked up with successor lists of different depths, hop by
//! hop.
//!
//! `cargo run --release --example walk`

use std::error::Error;

use dht_core::Id;
use dht_node::client::{Client, ClientConfig, LookupTarget};
use dht_node::node::{DataPlace, JoinAddr, Node, NodeConfig};

const SIZE: usize = 12;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..SIZE {
        let mut config = NodeConfig::new(DataPlace::Ephemeral);
        config.listen = Some(([127, 0, 0, 1], 0).into());
        config.join =
            nodes.iter().take(1).map(|first| JoinAddr::from_socket(first.listen())).collect();
        let node = Node::start(config).await?;
        node.ready().await?;
        nodes.push(node);
    }

    let members = vec![JoinAddr::from_socket(nodes[0].listen())];
    let client = Client::connect(ClientConfig::new(members)).await?;
    for depth in [1, 2, 4, 8] {
        let id = Id::of_key(b"some key");
        let target = LookupTarget { id, routing: None, depth: Some(depth), forwarding: None };
        let found = client.lookup(target).await?;
        println!("depth {depth}: {} hops", found.path.len());
        for step in &found.path {
            println!("  {}  {} us", step.contact.id, step.rtt_us);
        }
    }

    client.close().await;
    for node in &nodes {
        node.stop().await;
    }
    Ok(())
}
