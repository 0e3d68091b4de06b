//! Five nodes in this process form a ring; one is killed, and the others close the gap.
//!
//! `cargo run --release --example ring_of_five`

use std::error::Error;

use dht_node::client::{Client, ClientConfig, Walk};
use dht_node::node::{DataPlace, JoinAddr, Node, NodeConfig};

const SIZE: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..SIZE {
        let mut config = NodeConfig::new(DataPlace::Ephemeral);
        config.listen = Some(([127, 0, 0, 1], 0).into());
        // The first one founds the ring; the others need the address of any member.
        config.join =
            nodes.iter().take(1).map(|first| JoinAddr::from_socket(first.listen())).collect();
        let node = Node::start(config).await?;
        node.ready().await?;
        nodes.push(node);
    }

    let members = vec![JoinAddr::from_socket(nodes[0].listen())];
    let client = Client::connect(ClientConfig::new(members)).await?;
    show("five nodes", &walk_until(&client, SIZE).await?);

    // No word to anybody: the neighbours find out by themselves.
    nodes.pop().expect("five were started").kill();
    show("one was killed", &walk_until(&client, SIZE - 1).await?);

    client.close().await;
    for node in &nodes {
        node.stop().await;
    }
    Ok(())
}

/// Walks round the ring, again and again, until it has so many members and nothing is wrong.
async fn walk_until(client: &Client, size: usize) -> Result<Walk, Box<dyn Error>> {
    loop {
        let walk = client.walk().await?;
        if walk.complete && walk.problems.is_empty() && walk.members.len() == size {
            return Ok(walk);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

fn show(title: &str, walk: &Walk) {
    println!("{title}:");
    for member in &walk.members {
        let share = 100.0 * member.arc;
        println!("  {}  owns {share:4.1} % of the circle", member.contact().id);
    }
}
