//! Which program this is.

use std::sync::LazyLock;

/// Version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The same with the commit it was built from and the version of the protocol it speaks.
pub(crate) fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let (commit, protocol) = (env!("DHT_NODE_COMMIT"), dht_net::PROTOCOL_VERSION);
        format!("{VERSION} (commit {commit}, protocol {protocol})")
    });
    &TEXT
}
