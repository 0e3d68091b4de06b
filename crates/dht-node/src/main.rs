//! The `dht-node` binary.
fn main() {}
