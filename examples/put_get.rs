//! One node in this process, one client: a file goes in and comes out.
//!
//! `cargo run --release --example put_get`

use std::error::Error;

use dht_core::register::Key;
use dht_node::client::{Client, ClientConfig, PutOptions};
use dht_node::node::{DataPlace, JoinAddr, Node, NodeConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A ring of one, in memory, on a port that the system picks.
    let mut config = NodeConfig::new(DataPlace::Ephemeral);
    config.listen = Some(([127, 0, 0, 1], 0).into());
    let node = Node::start(config).await?;
    let ready = node.ready().await?;

    // Any member's address is enough for a client.
    let members = vec![JoinAddr::from_socket(ready.listen)];
    let client = Client::connect(ClientConfig::new(members)).await?;
    let key = Key::new("greeting")?;
    let mut input: &[u8] = b"hello, ring";
    let stored = client.put(&key, &PutOptions::new(), &mut input, |_| {}).await?;
    println!("stored {} bytes on {} of {} peers", stored.size, stored.acks, stored.wanted);

    // The client checks length and hash before it says that all is well.
    let mut output = Vec::new();
    let found = client.get(&key, &mut output, |_, _| {}).await?;
    println!("fetched {:?}, version {}", String::from_utf8_lossy(&output), found.version);

    client.close().await;
    node.stop().await;
    Ok(())
}
