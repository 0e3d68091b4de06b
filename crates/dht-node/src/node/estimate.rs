//! How many nodes a ring has, judged from the spacing of one node's neighbours.

use dht_core::node::Snapshot;
use dht_core::{Contact, Id};

/// Estimates the number of live places. Exact when the lists hold the whole ring; else the density
/// of the neighbourhood: k neighbours on an arc of share s make (k - 1) / s, which is unbiased for
/// random ids.
pub(super) fn nodes(snapshot: &Snapshot) -> f64 {
    let successors = &snapshot.successors;
    if snapshot.sees_whole_ring() {
        return successors.len() as f64 + 1.0;
    }
    let me = snapshot.me.id;
    let ahead = |contact: &Contact| share(me, contact.id);
    match successors.last().map(ahead) {
        Some(arc) if arc > 0.0 => {
            ((successors.len() as f64 - 1.0) / arc).max(successors.len() as f64 + 1.0)
        }
        Some(_) | None => 1.0,
    }
}

/// The arc from one point clockwise to another, as a share of the circle.
pub(super) fn share(from: Id, to: Id) -> f64 {
    let bytes = from.distance_to(to).to_bytes();
    // 53 bits of a double are fewer than the first eight bytes.
    bytes[..8].iter().fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte)) / 2f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_circle() {
        let mut half = [0; 20];
        half[0] = 0x80;
        let half = Id::from_bytes(half);
        assert_eq!(share(Id::ZERO, half), 0.5);
        assert_eq!(share(half, Id::ZERO), 0.5);
        assert_eq!(share(half, half), 0.0);
    }
}
