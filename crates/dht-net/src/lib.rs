//! dht-net
