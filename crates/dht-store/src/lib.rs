//! dht-store
