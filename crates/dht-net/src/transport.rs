//! QUIC's own settings.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use quinn_proto::HashedConnectionIdGenerator;

use crate::config::Limits;
use crate::error::BindError;
use crate::identity::Identity;

/// For every connection, whoever dialled. `limits` are valid.
pub(crate) fn config(limits: &Limits) -> TransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(limits.max_udp_payload);
    let silence = IdleTimeout::try_from(limits.silence_timeout)
        .expect("a valid time-out fits into QUIC's 62 bits of milliseconds");
    let mut cubic = CubicConfig::default();
    cubic.initial_window(INITIAL_WINDOW);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(limits.max_streams_per_peer.into())
        // Requests are the only use of a connection.
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(limits.stream_window.into())
        .receive_window(limits.connection_window.into())
        .send_window(limits.connection_window.into())
        .max_idle_timeout(Some(silence))
        // Connections without requests are closed by us (`Limits::idle_timeout`), so this only
        // keeps alive those that wait for a slow answer, and finds out when there is nobody left
        // to give it.
        .keep_alive_interval(Some(limits.silence_timeout / 3))
        .congestion_controller_factory(Arc::new(cubic))
        .mtu_discovery_config(Some(mtu));
    transport
}

/// For callers.
pub(crate) fn server_config(
    tls: QuicServerConfig,
    transport: Arc<TransportConfig>,
    limits: &Limits,
) -> quinn::ServerConfig {
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
    server
        .transport_config(transport)
        // Callers wait here only until the accepting task looks, which takes no turn of its own.
        .max_incoming(limits.max_handshakes)
        .incoming_buffer_size(INCOMING_BUFFER)
        .incoming_buffer_size_total(INCOMING_BUFFER * limits.max_handshakes as u64);
    server
}

/// For the socket.
pub(crate) fn endpoint_config(identity: &Identity, limits: &Limits) -> quinn::EndpointConfig {
    // Both are the same after a restart: peers with connections of the earlier life learn at their
    // next packet that it is over, and dial anew (RFC 9000, section 10.3). Only connection ids that
    // the generator takes for its own are answered so.
    let secret = identity.derive_secret("dht-node QUIC stateless reset tokens 1");
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
    let [a, b, c, d, e, f, g, h, ..] = identity.derive_secret("dht-node QUIC connection ids 1");
    let id_key = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let mut config = quinn::EndpointConfig::new(Arc::new(reset_key));
    config
        .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(id_key)))
        .max_udp_payload_size(limits.max_udp_payload)
        .expect("a valid limit is in QUIC's range");
    config
}

impl Limits {
    /// Checks every bound.
    pub(crate) fn validate(&self) -> Result<(), BindError> {
        let range = |field, value: u64, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(BindError::Limit { field, value, least, most }),
        };
        let time = |field, value: Duration| {
            let ms = u64::try_from(value.as_millis()).unwrap_or(u64::MAX);
            range(field, ms, 1, MAX_TIME_MS)
        };
        range("max_frame", self.max_frame as u64, MIN_FRAME, MAX_FRAME)?;
        range("max_connections", self.max_connections as u64, 1, 1 << 20)?;
        range("max_streams_per_peer", self.max_streams_per_peer.into(), 1, 1 << 20)?;
        range("max_handshakes", self.max_handshakes as u64, 1, 1 << 16)?;
        range("max_queued", self.max_queued as u64, 1, 1 << 20)?;
        range("stream_window", self.stream_window.into(), MIN_WINDOW, u32::MAX.into())?;
        range("max_bulk_per_peer", self.max_bulk_per_peer as u64, 1, MAX_BULK)?;
        let least = (2 * self.max_bulk_per_peer as u64 + 1) * u64::from(self.stream_window);
        range("connection_window", self.connection_window.into(), least, u32::MAX.into())?;
        range("max_udp_payload", self.max_udp_payload.into(), MIN_UDP, MAX_UDP)?;
        time("handshake_timeout (ms)", self.handshake_timeout)?;
        time("idle_timeout (ms)", self.idle_timeout)?;
        time("silence_timeout (ms)", self.silence_timeout)?;
        time("read_timeout (ms)", self.read_timeout)?;
        time("stall_timeout (ms)", self.stall_timeout)?;
        time("dial_stagger (ms)", self.dial_stagger)?;
        time("min_backoff (ms)", self.min_backoff)?;
        time("max_backoff (ms)", self.max_backoff)?;
        time("retire_after (ms)", self.retire_after)
    }
}

/// Bytes that a new connection may have under way. RFC 9002, section 7.2, says 14,720, which is two
/// of our longest datagrams: the probes of MTU discovery alone would fill it, and a connection that
/// is closed then would go without a word. Ten of them (guess).
const INITIAL_WINDOW: u64 = 65_000;
/// Bytes that a caller may send before it is looked at: a few packets of a handshake (guess).
const INCOMING_BUFFER: u64 = 16 * 1024;
/// Ten years: as good as never, and no clock overflows.
const MAX_TIME_MS: u64 = 10 * 365 * 24 * 3_600_000;
/// Room for every refusal and every hello.
const MIN_FRAME: u64 = 1024;
/// A frame is decoded as a whole; more belongs into a body.
const MAX_FRAME: u64 = 16 * 1024 * 1024;
/// Smaller windows would stop every body for a round trip per packet.
const MIN_WINDOW: u64 = 16 * 1024;
/// More at once make nothing faster (guess).
const MAX_BULK: u64 = 1024;
/// RFC 9000, section 14.
const MIN_UDP: u64 = 1200;
/// Ten segments sent in one call must fit a UDP datagram of 64 KiB.
const MAX_UDP: u64 = 6500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_broken_bound_is_named() {
        assert!(Limits::default().validate().is_ok());
        let broken = Limits { max_udp_payload: 6501, ..Limits::default() };
        let error = broken.validate().expect_err("eleven segments do not fit");
        assert_eq!(
            error.to_string(),
            "max_udp_payload is 6501, but must lie between 1200 and 6500"
        );
        for endless in [Duration::MAX, Duration::ZERO] {
            let broken = Limits { silence_timeout: endless, ..Limits::default() };
            assert!(matches!(broken.validate(), Err(BindError::Limit { .. })));
        }
        // The greatest values that are valid overflow nothing.
        let ten_years = Duration::from_millis(MAX_TIME_MS);
        let greatest = Limits { silence_timeout: ten_years, ..Limits::default() };
        assert!(greatest.validate().is_ok());
        config(&greatest);
    }
}
