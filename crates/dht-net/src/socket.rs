//! The UDP socket: exclusive, with large buffers, counted, and not brought down by one error.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use dht_core::stats::TrafficReport;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use socket2::{Domain, Protocol, Type};
use tokio::time::Sleep;

use crate::error::BindError;

/// Binds the address that was asked for, or for a client any free port.
pub(crate) fn bind(
    listen: Option<SocketAddr>,
    buffer: usize,
) -> Result<std::net::UdpSocket, BindError> {
    match listen {
        Some(addr) => bind_to(addr, buffer),
        // Both families if the system has both.
        None => bind_to((Ipv6Addr::UNSPECIFIED, 0).into(), buffer)
            .or_else(|_| bind_to((Ipv4Addr::UNSPECIFIED, 0).into(), buffer)),
    }
}

fn bind_to(addr: SocketAddr, buffer: usize) -> Result<std::net::UdpSocket, BindError> {
    let open = || -> io::Result<std::net::UdpSocket> {
        let socket =
            socket2::Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            // A v6 wildcard takes v4 too, so that two nodes never share a port between the families.
            socket.set_only_v6(!addr.ip().is_unspecified())?;
        }
        // No address reuse of any kind: with it, two processes would share one port's packets.
        // The kernel cuts the buffers to what it allows; smaller ones still work.
        let _ = socket.set_recv_buffer_size(buffer);
        let _ = socket.set_send_buffer_size(buffer);
        socket.set_nonblocking(true)?;
        socket.bind(&addr.into())?;
        Ok(socket.into())
    };
    let socket = open().map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortInUse { addr },
        _ => BindError::Io { addr, source },
    })?;
    Ok(socket)
}

/// Counts what passes, and hides receive errors from quinn, whose driver would end for good at the
/// first one: a network that goes down and comes back must not take the node with it.
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    meter: Arc<Meter>,
    pause: Mutex<Option<Pin<Box<Sleep>>>>,
}

/// What a socket counts. Unlike the socket itself it may be held for ever.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    /// Receive errors since the last datagram.
    errors: AtomicU32,
    /// Whether nothing may leave any more.
    is_muted: AtomicBool,
}

impl Meter {
    pub(crate) fn traffic(&self) -> TrafficReport {
        TrafficReport {
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    /// From now on nothing leaves: the peers see what they would see of a killed process.
    pub(crate) fn mute(&self) {
        self.is_muted.store(true, Ordering::Relaxed);
    }

    /// Whether receiving works, as far as can be told.
    pub(crate) fn is_healthy(&self) -> bool {
        self.errors.load(Ordering::Relaxed) < MAX_ERRORS
    }
}

impl Socket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, meter: Arc<Meter>) -> Socket {
        Socket { inner, meter, pause: Mutex::new(None) }
    }

    /// `Ready` when receiving may be tried again.
    fn poll_pause(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sleep) = &mut *pause {
            std::task::ready!(sleep.as_mut().poll(cx));
            *pause = None;
        }
        Poll::Ready(())
    }

    fn on_error(&self, error: &io::Error) {
        let errors = self.meter.errors.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if errors == MAX_ERRORS {
            tracing::warn!(%error, "the UDP socket only gives errors; trying on");
        }
        if errors >= MAX_ERRORS {
            let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
            *pause = Some(Box::pin(tokio::time::sleep(PAUSE)));
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.meter.is_muted.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.try_send(transmit)?;
        self.meter.bytes_out.fetch_add(transmit.contents.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            if !self.meter.is_healthy() {
                std::task::ready!(self.poll_pause(cx));
            }
            match std::task::ready!(self.inner.poll_recv(cx, bufs, meta)) {
                Ok(count) => {
                    self.meter.errors.store(0, Ordering::Relaxed);
                    let bytes: usize = meta[..count].iter().map(|meta| meta.len).sum();
                    self.meter.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => self.on_error(&error),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Receive errors in a row from which on the socket counts as broken (guess: a network that goes
/// down reports one for each interface).
const MAX_ERRORS: u32 = 8;
/// Pause between tries then (guess).
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Case 20: no second socket on a port, whatever the family.
    #[test]
    fn a_port_belongs_to_one_socket() {
        let pairs = [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("0.0.0.0:0", "0.0.0.0"),
            ("[::]:0", "0.0.0.0"),
            ("[::]:0", "127.0.0.1"),
            ("0.0.0.0:0", "::"),
            ("127.0.0.1:0", "::"),
            ("[::]:0", "::1"),
        ];
        for (first, second) in pairs {
            let held = bind(Some(first.parse().expect("an address")), 4096).expect("free");
            let port = held.local_addr().expect("bound").port();
            let addr = SocketAddr::new(second.parse().expect("an address"), port);
            let error = bind(Some(addr), 4096).expect_err("taken");
            assert!(matches!(error, BindError::PortInUse { .. }), "{first} {second}: {error:?}");
            assert!(error.to_string().contains(&port.to_string()), "{error}");
        }
    }

    #[test]
    fn a_client_socket_is_bound_to_some_port() {
        let socket = bind(None, 4096).expect("free");
        assert_ne!(socket.local_addr().expect("bound").port(), 0);
    }

    /// Answers every receive with the next scripted result.
    #[derive(Debug)]
    struct Scripted(Mutex<VecDeque<io::Result<usize>>>);

    #[derive(Debug)]
    struct Never;

    impl UdpPoller for Never {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncUdpSocket for Scripted {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Never)
        }

        fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            match self.0.lock().expect("one user").pop_front() {
                Some(result) => {
                    meta[0].len = 100;
                    Poll::Ready(result)
                }
                None => Poll::Pending,
            }
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    /// Case 88: whatever a receive reports, receiving goes on.
    #[tokio::test(start_paused = true)]
    async fn receive_errors_do_not_reach_the_driver() {
        let kinds = [
            io::ErrorKind::NetworkDown,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
        ];
        let errors =
            |count: usize| (0..count).map(move |n| Err(io::Error::from(kinds[n % kinds.len()])));
        let script: VecDeque<io::Result<usize>> =
            errors(4).chain([Ok(1)]).chain(errors(20)).chain([Ok(1)]).collect();
        let meter = Arc::new(Meter::default());
        let socket = Socket::new(Arc::new(Scripted(Mutex::new(script))), meter.clone());
        let receive = || {
            std::future::poll_fn(|cx| {
                let mut bytes = [0; 8];
                let mut bufs = [IoSliceMut::new(&mut bytes)];
                socket.poll_recv(cx, &mut bufs, &mut [RecvMeta::default()])
            })
        };
        assert_eq!(receive().await.expect("no error"), 1);
        assert!(meter.is_healthy());
        {
            let mut second = std::pin::pin!(receive());
            assert!(futures_util::poll!(second.as_mut()).is_pending(), "it pauses");
            assert!(!meter.is_healthy(), "and says so");
            assert_eq!(second.await.expect("no error"), 1);
        }
        assert!(meter.is_healthy());
        assert_eq!(meter.traffic(), TrafficReport { bytes_in: 200, bytes_out: 0 });
    }
}
