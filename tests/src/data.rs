//! Bytes to store.

/// So many bytes that look random and are the same for the same seed. They do not repeat, so that no
/// two chunks are equal.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut out);
    out
}

/// The hash that the program shows for a file.
pub fn hash(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}
