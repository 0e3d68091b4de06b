//! Whether anybody listens at an address at all.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

/// Resolves when the host at `addr` says that nothing listens at the port (RFC 1122, section
/// 4.1.3.1). Never otherwise: silence tells nothing.
///
/// The endpoint's own socket does not hear such words, for it is connected to nobody. A second one
/// that is connected sends one byte, which is too short for any QUIC packet, and listens.
pub(crate) async fn refused(addr: SocketAddr) {
    match listen_for_refusal(addr).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        _ => std::future::pending().await,
    }
}

async fn listen_for_refusal(addr: SocketAddr) -> io::Result<()> {
    let any: SocketAddr = match addr {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(addr).await?;
    socket.send(&[0]).await?;
    socket.recv(&mut [0]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_port_says_so_and_an_open_one_is_silent() {
        for host in ["127.0.0.1", "[::1]"] {
            let socket = std::net::UdpSocket::bind(format!("{host}:0")).expect("a port");
            let addr = socket.local_addr().expect("bound");
            let mut asking = std::pin::pin!(refused(addr));
            assert!(futures_util::poll!(asking.as_mut()).is_pending());
            drop(socket);
            refused(addr).await;
        }
    }
}
