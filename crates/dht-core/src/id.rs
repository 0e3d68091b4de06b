//! Points on the circle of 2^160 and the arithmetic between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha1::{Digest, Sha1};

use crate::peer::PeerKey;

/// A point on the identifier circle modulo 2^160 (Chord, SIGCOMM 2001, section 4.1).
///
/// Kept as three big-endian limbs: the derived order is the numeric one, and comparing limbs is
/// several times as fast as comparing twenty bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id {
    high: u64,
    middle: u64,
    low: u32,
}

impl Id {
    /// The point zero.
    pub const ZERO: Id = Id { high: 0, middle: 0, low: 0 };
    /// The last point, 2^160 - 1.
    pub const MAX: Id = Id { high: u64::MAX, middle: u64::MAX, low: u32::MAX };
    /// Length of the byte form.
    pub const LEN: usize = 20;

    /// Where a key lies: SHA-1 over its bytes.
    pub fn of_key(name: &[u8]) -> Id {
        Id::from_bytes(Sha1::digest(name).into())
    }

    /// Where place number `index` of a peer lies: SHA-1 over the 32 raw key bytes and the index as
    /// a big-endian `u32`. Anybody can check it, nobody can choose it without grinding keys.
    pub fn of_place(key: &PeerKey, index: u8) -> Id {
        let mut hash = Sha1::new();
        hash.update(key.as_bytes());
        hash.update(u32::from(index).to_be_bytes());
        Id::from_bytes(hash.finalize().into())
    }

    /// Where a chunk lies: SHA-1 over the 32 bytes of its BLAKE3 hash.
    pub fn of_chunk(hash: &[u8; 32]) -> Id {
        Id::of_key(hash)
    }

    /// Reads the big-endian byte form.
    pub fn from_bytes(bytes: [u8; Id::LEN]) -> Id {
        let limb = |range: std::ops::Range<usize>| {
            bytes[range].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        Id { high: limb(0..8), middle: limb(8..16), low: limb(16..20) as u32 }
    }

    /// The big-endian byte form.
    pub fn to_bytes(self) -> [u8; Id::LEN] {
        let mut bytes = [0; Id::LEN];
        bytes[..8].copy_from_slice(&self.high.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.middle.to_be_bytes());
        bytes[16..].copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// A small number as a point, for scripts and tests.
    pub fn from_u64(value: u64) -> Id {
        Id { high: 0, middle: value >> 32, low: value as u32 }
    }

    /// The point `self + other` modulo 2^160.
    pub fn wrapping_add(self, other: Id) -> Id {
        let (low, carry) = self.low.overflowing_add(other.low);
        let (middle, carry_a) = self.middle.overflowing_add(other.middle);
        let (middle, carry_b) = middle.overflowing_add(u64::from(carry));
        let high = self
            .high
            .wrapping_add(other.high)
            .wrapping_add(u64::from(carry_a) + u64::from(carry_b));
        Id { high, middle, low }
    }

    /// The point `self - other` modulo 2^160.
    pub fn wrapping_sub(self, other: Id) -> Id {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let (middle, borrow_a) = self.middle.overflowing_sub(other.middle);
        let (middle, borrow_b) = middle.overflowing_sub(u64::from(borrow));
        let high = self
            .high
            .wrapping_sub(other.high)
            .wrapping_sub(u64::from(borrow_a) + u64::from(borrow_b));
        Id { high, middle, low }
    }

    /// How far it is clockwise from here to `other`; zero only to itself.
    pub fn distance_to(self, other: Id) -> Id {
        other.wrapping_sub(self)
    }

    /// The next point clockwise.
    pub fn next(self) -> Id {
        self.wrapping_add(Id { high: 0, middle: 0, low: 1 })
    }

    /// The point 2^exponent; `exponent` is below 160.
    pub fn power_of_two(exponent: u32) -> Id {
        debug_assert!(exponent < 160);
        match exponent {
            0..32 => Id { low: 1 << exponent, ..Id::ZERO },
            32..96 => Id { middle: 1 << (exponent - 32), ..Id::ZERO },
            _ => Id { high: 1 << ((exponent - 96) % 64), ..Id::ZERO },
        }
    }

    /// Half of the number, rounded down.
    pub fn halved(self) -> Id {
        Id {
            high: self.high >> 1,
            middle: self.middle >> 1 | self.high << 63,
            low: self.low >> 1 | (self.middle as u32) << 31,
        }
    }

    /// The first multiple of 2^exponent at or after this point; `exponent` is below 160.
    pub fn round_up(self, exponent: u32) -> Id {
        let rest = Id::power_of_two(exponent).wrapping_sub(Id::ZERO.next());
        let up = self.wrapping_add(rest);
        Id { high: up.high & !rest.high, middle: up.middle & !rest.middle, low: up.low & !rest.low }
    }

    /// How many binary digits the number has: `2^(bits - 1)` is the greatest power that is not above it,
    /// and zero has none.
    pub fn bits(self) -> u32 {
        match self {
            Id { high: 0, middle: 0, low } => u32::BITS - low.leading_zeros(),
            Id { high: 0, middle, .. } => 96 - middle.leading_zeros(),
            Id { high, .. } => 160 - high.leading_zeros(),
        }
    }

    /// This point as a share of the circle, in `0.0..1.0`.
    pub fn as_fraction(self) -> f64 {
        self.high as f64 / 2f64.powi(64) + self.middle as f64 / 2f64.powi(128)
    }

    /// Which of the `2^bits` equal parts of the circle the point lies in (`bits` at most 16).
    pub fn part(self, bits: u8) -> u16 {
        debug_assert!((1..=16).contains(&bits));
        (self.high >> (64 - u32::from(bits))) as u16
    }
}

/// Whether `x` lies strictly inside the clockwise arc from `a` to `b`; if `a == b`, the arc is
/// everything but `a` (Zave 2017, section 3: `between`).
pub fn between(a: Id, x: Id, b: Id) -> bool {
    let to_x = a.distance_to(x);
    to_x != Id::ZERO && (a == b || to_x < a.distance_to(b))
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}{:08x}", self.high, self.middle, self.low)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high == 0 {
            // Scripts use small numbers; 40 digits of zeros would hide them.
            write!(f, "#{}", u128::from(self.middle) << 32 | u128::from(self.low))
        } else {
            write!(f, "{:08x}..", (self.high >> 32) as u32)
        }
    }
}

/// Why a text is no [`Id`]: it is not 40 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError {
    /// The text.
    pub text: String,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no id: 40 hexadecimal digits are needed", self.text)
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Id, ParseIdError> {
        let error = || ParseIdError { text: text.to_owned() };
        if text.len() != 2 * Id::LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(error());
        }
        let mut bytes = [0; Id::LEN];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).map_err(|_| error())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| error())?;
        }
        Ok(Id::from_bytes(bytes))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.to_bytes().serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; Id::LEN]>::deserialize(deserializer).map(Id::from_bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::*;

    fn big(id: Id) -> BigUint {
        BigUint::from_bytes_be(&id.to_bytes())
    }

    fn modulus() -> BigUint {
        BigUint::from(1u8) << 160
    }

    /// Random points, and often the edges where arithmetic breaks (case 28).
    fn any_id() -> impl Strategy<Value = Id> {
        prop_oneof![
            4 => any::<[u8; 20]>().prop_map(Id::from_bytes),
            1 => Just(Id::ZERO),
            1 => Just(Id::MAX),
            1 => Just(Id { high: 1 << 63, middle: 0, low: 0 }),
            1 => Just(Id { high: 0, middle: u64::MAX, low: u32::MAX }),
            1 => Just(Id { high: 1, middle: 0, low: 0 }),
            1 => Just(Id { high: 0, middle: 0, low: u32::MAX }),
            1 => (0u64..4).prop_map(Id::from_u64),
        ]
    }

    #[test]
    fn powers_of_two_have_their_bits() {
        for exponent in 0..160 {
            let power = Id::power_of_two(exponent);
            assert_eq!(power.bits(), exponent + 1);
            assert_eq!(power.wrapping_sub(Id::from_u64(1)).bits(), exponent, "one less");
            let twice = power.wrapping_add(power);
            let next = if exponent == 159 { Id::ZERO } else { Id::power_of_two(exponent + 1) };
            assert_eq!(twice, next);
        }
        assert_eq!((Id::ZERO.bits(), Id::MAX.bits()), (0, 160));
    }

    proptest! {
        #[test]
        fn bytes_round_trip_and_order_is_numeric(a in any_id(), b in any_id()) {
            prop_assert_eq!(Id::from_bytes(a.to_bytes()), a);
            prop_assert_eq!(a.to_string().parse::<Id>(), Ok(a));
            prop_assert_eq!(a.cmp(&b), big(a).cmp(&big(b)));
        }

        /// Case 28: sums and distances wrap.
        #[test]
        fn arithmetic_agrees_with_big_integers(a in any_id(), b in any_id()) {
            prop_assert_eq!(big(a.wrapping_add(b)), (big(a) + big(b)) % modulus());
            prop_assert_eq!(big(a.wrapping_sub(b)), (big(a) + modulus() - big(b)) % modulus());
            prop_assert_eq!(big(a.distance_to(b)), (big(b) + modulus() - big(a)) % modulus());
            prop_assert_eq!(big(a.next()), (big(a) + 1u8) % modulus());
        }

        /// Case 28: arcs wrap.
        #[test]
        fn between_agrees_with_big_integers(a in any_id(), x in any_id(), b in any_id()) {
            // Walk the definition: how far x and b lie clockwise from a, where b = a is a full turn.
            let away = |y: Id| (big(y) + modulus() - big(a)) % modulus();
            let end = if a == b { modulus() } else { away(b) };
            let inside = away(x) > BigUint::ZERO && away(x) < end;
            prop_assert_eq!(between(a, x, b), inside);
        }

        #[test]
        fn parts_are_the_leading_bits(a in any_id(), bits in 1u8..=16) {
            let expected = big(a) >> (160 - u32::from(bits));
            prop_assert_eq!(BigUint::from(a.part(bits)), expected);
        }
    }

    /// Case 28: equal and adjacent ends.
    #[test]
    fn between_at_the_edges() {
        let (zero, one, max) = (Id::ZERO, Id::from_u64(1), Id::MAX);
        assert!(between(max, zero, one));
        assert!(!between(max, max, one));
        assert!(!between(max, one, one));
        assert!(between(zero, max, zero));
        assert!(!between(zero, zero, zero));
        assert!(!between(zero, one, one));
        assert!(!between(max, max, zero), "nothing lies between neighbouring points");
    }

    #[test]
    fn hashes_are_sha1() {
        // FIPS 180-2, appendix A.1.
        let abc = Id::of_key(b"abc");
        assert_eq!(abc.to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    #[test]
    fn texts_that_are_no_id_are_refused() {
        for text in [
            "",
            "a9",
            "a9993e364706816aba3e25717850c26c9cd0d89g",
            "é9993e364706816aba3e25717850c26c9cd0d89",
        ] {
            assert!(text.parse::<Id>().is_err(), "{text:?}");
        }
    }
}
