//! Real nodes on loopback, in one process.
