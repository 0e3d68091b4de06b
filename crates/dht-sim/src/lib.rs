//! dht-sim
