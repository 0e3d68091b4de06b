//! TLS 1.3 both ways with raw public keys (RFC 7250): there is no certificate, so nothing expires
//! and no clock matters. The key that the handshake proves is the peer.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use dht_core::PeerKey;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    SignatureScheme,
};

use crate::about::About;
use crate::identity::{Identity, key_of_spki};

/// Makes the TLS settings of one endpoint.
#[derive(Debug)]
pub(crate) struct Tls {
    provider: Arc<CryptoProvider>,
    certified: Arc<CertifiedKey>,
    /// What we speak; as a server also what we answer.
    alpn: Vec<u8>,
    answered: Vec<Vec<u8>>,
}

impl Tls {
    pub(crate) fn new(identity: &Identity, about: &About) -> Result<Tls, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certified = identity.certified(&provider)?;
        let alpn = about.alpn();
        let answered = vec![alpn.clone(), About::ALPN.to_vec()];
        Ok(Tls { provider, certified, alpn, answered })
    }

    /// A server of another protocol.
    #[cfg(test)]
    pub(crate) fn set_answered(&mut self, answered: Vec<Vec<u8>>) {
        self.answered = answered;
    }

    /// For callers: whoever names our ALPN, or asks who is here.
    pub(crate) fn server(&self) -> Result<QuicServerConfig, Error> {
        let verifier = Arc::new(AnyKey { algorithms: self.algorithms() });
        let resolver = AlwaysResolvesServerRawPublicKeys::new(self.certified.clone());
        let mut tls = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(resolver));
        tls.alpn_protocols = self.answered.clone();
        // A resumed session would skip the proof of the key.
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        QuicServerConfig::try_from(tls).map_err(|_| Error::General(NO_SUITE.to_owned()))
    }

    /// For one dial. With `expect`, the handshake fails unless that key is proven.
    pub(crate) fn client(&self, expect: Option<PeerKey>) -> Result<DialTls, Error> {
        self.client_for(self.alpn.clone(), expect)
    }

    /// For one dial that only asks who is there.
    pub(crate) fn client_about(&self) -> Result<DialTls, Error> {
        self.client_for(About::ALPN.to_vec(), None)
    }

    fn client_for(&self, alpn: Vec<u8>, expect: Option<PeerKey>) -> Result<DialTls, Error> {
        let algorithms = self.algorithms();
        let verifier = Arc::new(ExpectKey { expect, presented: OnceLock::new(), algorithms });
        let resolver = AlwaysResolvesClientRawPublicKeys::new(self.certified.clone());
        let mut tls = rustls::ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_cert_resolver(Arc::new(resolver));
        tls.alpn_protocols = vec![alpn];
        tls.resumption = Resumption::disabled();
        // There is no name to indicate.
        tls.enable_sni = false;
        let config =
            QuicClientConfig::try_from(tls).map_err(|_| Error::General(NO_SUITE.to_owned()))?;
        Ok(DialTls { config, verifier })
    }

    fn algorithms(&self) -> WebPkiSupportedAlgorithms {
        self.provider.signature_verification_algorithms
    }
}

/// TLS of one dial.
pub(crate) struct DialTls {
    pub(crate) config: QuicClientConfig,
    pub(crate) verifier: Arc<ExpectKey>,
}

/// The key that a finished handshake proved; `None` cannot happen with our verifiers.
pub(crate) fn proven_key(connection: &quinn::Connection) -> Option<PeerKey> {
    let identity: Box<dyn Any> = connection.peer_identity()?;
    let keys = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    key_of_spki(keys.first()?)
}

/// Whether the caller only asks who is here.
pub(crate) fn asks_about(connection: &quinn::Connection) -> bool {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    data.is_some_and(|data| data.protocol.as_deref() == Some(About::ALPN))
}

/// At the dialler: takes the expected key, or any if none is expected, and notes what was presented.
#[derive(Debug)]
pub(crate) struct ExpectKey {
    expect: Option<PeerKey>,
    presented: OnceLock<PeerKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ExpectKey {
    /// The key that was presented instead of the expected one. Its owner has not proven to have it.
    pub(crate) fn mismatch(&self) -> Option<(PeerKey, PeerKey)> {
        let (expected, presented) = (self.expect?, *self.presented.get()?);
        (expected != presented).then_some((expected, presented))
    }
}

impl ServerCertVerifier for ExpectKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = key_of_spki(end_entity).ok_or(CertificateError::BadEncoding)?;
        let presented = *self.presented.get_or_init(|| key);
        match self.expect {
            Some(expected) if expected != presented => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_raw(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// At the acceptor: takes every ed25519 key; what it may do is decided request by request.
#[derive(Debug)]
struct AnyKey {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        key_of_spki(end_entity).ok_or(CertificateError::BadEncoding)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_raw(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn verify_raw(
    message: &[u8],
    spki: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let spki = SubjectPublicKeyInfoDer::from(spki.as_ref());
    verify_tls13_signature_with_raw_key(message, &spki, dss, algorithms)
}

/// rustls with `ring` always has the suite that QUIC's first packets need.
const NO_SUITE: &str = "the crypto provider lacks TLS13_AES_128_GCM_SHA256";
