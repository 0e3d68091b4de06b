//! dht-node
pub mod node;
