//! Which program this is.

/// Version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The same with the commit it was built from and the version of the protocol it speaks.
pub(crate) const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("DHT_NODE_COMMIT"), ", protocol 1)");
