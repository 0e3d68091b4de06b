//! dht-node
