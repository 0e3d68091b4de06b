//! Who we are: one ed25519 key, made once and never replaced.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dht_core::peer::{MAX_ADDRS, Signature};
use dht_core::{PeerKey, PeerRecord};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::error::IdentityError;
use crate::record::{is_dialable, signed_bytes};

/// The secret key of a peer. It signs the TLS handshakes and the records of its owner.
///
/// Signing is left to `ring`, which rustls brings along anyway: the same code then judges both
/// kinds of signature, and it is fast in unoptimised builds too.
pub struct Identity {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
    key: PeerKey,
}

impl Identity {
    /// A new key from the system's randomness, kept nowhere: for clients and ephemeral nodes.
    pub fn generate() -> Identity {
        let seed: [u8; 32] = ring::rand::generate(&ring::rand::SystemRandom::new())
            .expect("the system gives randomness, or no key can be made at all")
            .expose();
        Identity::from_seed(seed)
    }

    /// The key with these 32 secret bytes (RFC 8032, section 5.1.5): for tests that need the same
    /// key twice.
    pub fn from_seed(seed: [u8; 32]) -> Identity {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .expect("every 32 bytes are the seed of an ed25519 key");
        let mut key = [0; 32];
        key.copy_from_slice(pair.public_key().as_ref());
        Identity { seed, pair, key: PeerKey(key) }
    }

    /// Reads the key from a file that [`Identity::create`] wrote. A file that is anything else is an
    /// error that says what to do, and is left as it is: a new key over an old one would orphan all
    /// data stored under the old one's name.
    pub fn load(path: &Path) -> Result<Identity, IdentityError> {
        let io_error = |source| IdentityError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => IdentityError::Missing { path: path.to_owned() },
            _ => io_error(source),
        })?;
        let metadata = file.metadata().map_err(io_error)?;
        if metadata.len() != FILE_LEN as u64 {
            let (len, expected) = (metadata.len(), FILE_LEN as u64);
            return Err(IdentityError::WrongSize { path: path.to_owned(), len, expected });
        }
        warn_if_readable_by_others(path, &metadata);
        let mut bytes = [0; FILE_LEN];
        file.read_exact(&mut bytes).map_err(io_error)?;
        Identity::from_file_bytes(&bytes)
            .ok_or_else(|| IdentityError::Corrupt { path: path.to_owned() })
    }

    /// Makes a new key and keeps it in a new file, readable by its owner only. It is complete on
    /// disk, or not there, whatever happens meanwhile.
    pub fn create(path: &Path) -> Result<Identity, IdentityError> {
        let identity = Identity::generate();
        write_new(path, &identity.to_file_bytes()).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => IdentityError::Exists { path: path.to_owned() },
            _ => IdentityError::Io { path: path.to_owned(), source },
        })?;
        Ok(identity)
    }

    /// The key from the file, or a new one if there is no file. Any other trouble is an error.
    pub fn load_or_create(path: &Path) -> Result<Identity, IdentityError> {
        match Identity::load(path) {
            Err(IdentityError::Missing { .. }) => Identity::create(path),
            other => other,
        }
    }

    /// The public half.
    pub fn key(&self) -> PeerKey {
        self.key
    }

    /// A signed record of this peer. `(incarnation, revision)` must grow with every record that
    /// says something else. Of the addresses, best first, those that name no host are left out, and
    /// those beyond [`MAX_ADDRS`](dht_core::peer::MAX_ADDRS): nobody would believe the record.
    pub fn record(&self, incarnation: u64, revision: u32, addrs: Vec<SocketAddr>) -> PeerRecord {
        let addrs = addrs.into_iter().filter(is_dialable).take(MAX_ADDRS).collect();
        let signature = Signature([0; 64]);
        self.sign(PeerRecord { key: self.key, incarnation, revision, addrs, signature })
    }

    /// Signs a record as it is, good or not.
    pub(crate) fn sign(&self, mut record: PeerRecord) -> PeerRecord {
        let signature = self.pair.sign(&signed_bytes(&record));
        record.signature.0.copy_from_slice(signature.as_ref());
        record
    }

    /// What TLS presents: the raw public key (RFC 7250) and the means to sign for it.
    pub(crate) fn certified(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Arc<CertifiedKey>, rustls::Error> {
        let mut pkcs8 = PKCS8_PREFIX.to_vec();
        pkcs8.extend_from_slice(&self.seed);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8));
        let signer = provider.key_provider.load_private_key(key)?;
        let spki = CertificateDer::from(spki_of(&self.key));
        Ok(Arc::new(CertifiedKey::new(vec![spki], signer)))
    }

    /// A secret that only this identity can derive, for one named use.
    pub(crate) fn derive_secret(&self, context: &str) -> [u8; 32] {
        blake3::derive_key(context, &self.seed)
    }

    fn to_file_bytes(&self) -> [u8; FILE_LEN] {
        let mut bytes = [0; FILE_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..40].copy_from_slice(&self.seed);
        bytes[40..].copy_from_slice(self.key.as_bytes());
        bytes
    }

    fn from_file_bytes(bytes: &[u8; FILE_LEN]) -> Option<Identity> {
        let seed: [u8; 32] = bytes[8..40].try_into().ok()?;
        let identity = Identity::from_seed(seed);
        (&bytes[..8] == MAGIC && &bytes[40..] == identity.key.as_bytes()).then_some(identity)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed must not get into a log.
        f.debug_struct("Identity").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The DER form of an ed25519 public key (RFC 8410, section 4).
pub(crate) fn spki_of(key: &PeerKey) -> Vec<u8> {
    let mut spki = SPKI_PREFIX.to_vec();
    spki.extend_from_slice(key.as_bytes());
    spki
}

/// The key in such a DER form; `None` if it is any other kind of key.
pub(crate) fn key_of_spki(spki: &[u8]) -> Option<PeerKey> {
    let key = spki.strip_prefix(SPKI_PREFIX)?;
    key.try_into().ok().map(PeerKey)
}

/// Writes a file that was not there, all or nothing: under another name first, and durable before
/// it gets its own.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = folder.join(name);
    let written = write_durably(&draft, bytes).and_then(|()| {
        // Unlike a rename, a link never replaces what is there.
        match fs::hard_link(&draft, path) {
            Err(error) if links_are_missing(&error) => write_durably(path, bytes),
            other => other,
        }
    });
    // A draft left behind holds a key that nobody uses; the file itself decides.
    let _ = fs::remove_file(&draft);
    written?;
    File::open(&folder)?.sync_all()
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Some file systems (FAT) know no links.
fn links_are_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

#[cfg(unix)]
fn warn_if_readable_by_others(path: &Path, metadata: &fs::Metadata) {
    use std::os::unix::fs::PermissionsExt;
    if metadata.permissions().mode() & 0o077 != 0 {
        tracing::warn!(
            path = %path.display(),
            "others can read the identity key; `chmod 600` it, since whoever has it can act as this node"
        );
    }
}

#[cfg(not(unix))]
fn warn_if_readable_by_others(_: &Path, _: &fs::Metadata) {}

/// Marks an identity file of this form; then follow the seed and, as a check, the public key.
const MAGIC: &[u8; 8] = b"dhtkey\x00\x01";
/// Length of an identity file in bytes.
const FILE_LEN: usize = 8 + 32 + 32;
/// DER of an ed25519 private key up to its 32 bytes (RFC 8410, section 7).
const PKCS8_PREFIX: &[u8] =
    &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// DER of an ed25519 public key up to its 32 bytes (RFC 8410, section 4).
const SPKI_PREFIX: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("identity.key");
        (folder, path)
    }

    #[test]
    fn a_created_identity_is_loaded_again_and_belongs_to_its_owner_alone() {
        let (folder, path) = place();
        let made = Identity::load_or_create(&path).expect("made");
        let again = Identity::load_or_create(&path).expect("read");
        assert_eq!(made.key(), again.key());
        let names: Vec<_> = fs::read_dir(folder.path()).expect("readable").collect();
        assert_eq!(names.len(), 1, "no draft is left behind");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn an_existing_file_is_never_replaced() {
        let (_folder, path) = place();
        let made = Identity::create(&path).expect("made");
        assert!(matches!(Identity::create(&path), Err(IdentityError::Exists { .. })));
        assert_eq!(Identity::load(&path).expect("as before").key(), made.key());
    }

    /// Case 14: a truncated key file stops the start and stays as it is.
    #[test]
    fn a_truncated_file_is_an_error_that_says_what_to_do() {
        for kept in [0, FILE_LEN / 2, FILE_LEN - 1, FILE_LEN + 1] {
            let (_folder, path) = place();
            Identity::create(&path).expect("made");
            let file = OpenOptions::new().write(true).open(&path).expect("writable");
            file.set_len(kept as u64).expect("cut");
            let before = fs::read(&path).expect("readable");
            let error = Identity::load_or_create(&path).expect_err("no key");
            assert!(matches!(error, IdentityError::WrongSize { .. }), "{kept}: {error:?}");
            assert!(error.to_string().contains("restore it from a copy"), "{error}");
            assert_eq!(fs::read(&path).expect("readable"), before, "untouched");
        }
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed() {
        for at in 0..FILE_LEN {
            let (_folder, path) = place();
            Identity::create(&path).expect("made");
            let mut bytes = fs::read(&path).expect("readable");
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("writable");
            let error = Identity::load_or_create(&path).expect_err("no key");
            assert!(matches!(error, IdentityError::Corrupt { .. }), "byte {at}: {error:?}");
        }
    }

    #[test]
    fn the_der_forms_belong_together() {
        let identity = Identity::from_seed([7; 32]);
        let spki = spki_of(&identity.key());
        assert_eq!(key_of_spki(&spki), Some(identity.key()));
        assert_eq!(key_of_spki(&spki[1..]), None);
        assert_eq!(key_of_spki(&[&spki[..], &[0]].concat()), None);
        let provider = rustls::crypto::ring::default_provider();
        let certified = identity.certified(&provider).expect("rustls reads the key");
        let public = certified.key.public_key().expect("ring tells the public key");
        assert_eq!(public.as_ref(), spki);
    }
}
