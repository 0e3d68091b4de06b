//! The bytes of every message are pinned: `messages.txt` has one line for each variant of each enum
//! that crosses the wire. A change of an old line means that old and new nodes no longer understand
//! each other; new variants are new lines, and only at the end of their enum.

mod client;
mod plain;
mod ring;
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use dht_core::message::{Answer, Frame};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Names every variant of an enum, so that one without a sample is noticed: the match does not
/// compile without it, and [`Pinned::add_all`] wants a sample for each name.
macro_rules! variants {
    ($enum:ident: $($variant:ident),+ $(,)?) => {
        $crate::Variants {
            name: stringify!($enum),
            all: &[$(stringify!($variant)),+],
            of: |value: &$enum| match value {
                $($enum::$variant { .. } => stringify!($variant),)+
            },
        }
    };
}

pub(crate) use variants;

/// The variants of one enum.
pub(crate) struct Variants<E> {
    pub(crate) name: &'static str,
    pub(crate) all: &'static [&'static str],
    pub(crate) of: fn(&E) -> &'static str,
}

/// Samples by name, as hexadecimal digits.
#[derive(Default)]
pub(crate) struct Pinned(BTreeMap<String, String>);

impl Pinned {
    /// Adds samples of an enum: at least one of each variant, in any order. Several of one variant
    /// are numbered.
    pub(crate) fn add_all<E>(&mut self, variants: Variants<E>, samples: Vec<E>)
    where
        E: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let mut seen = BTreeSet::new();
        for sample in samples {
            let variant = (variants.of)(&sample);
            let place = variants.all.iter().position(|name| *name == variant).expect("listed");
            let bytes = postcard::to_allocvec(&sample).expect("plain data");
            assert_eq!(bytes[0] as usize, place, "{}::{variant} has moved", variants.name);
            let back: E = postcard::from_bytes(&bytes).expect("what was written can be read");
            assert_eq!(back, sample);
            // A cut message is never taken for a whole one.
            for len in 0..bytes.len() {
                assert!(postcard::from_bytes::<E>(&bytes[..len]).is_err(), "{sample:?} at {len}");
            }
            seen.insert(variant);
            let name = format!("{}::{variant}", variants.name);
            let again = self.0.keys().filter(|key| key.split(' ').next() == Some(&name)).count();
            let name = if again == 0 { name } else { format!("{name} {}", again + 1) };
            let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(self.0.insert(name, hex).is_none());
        }
        let all: BTreeSet<&str> = variants.all.iter().copied().collect();
        assert_eq!(seen, all, "every variant of {} has a sample", variants.name);
    }
}

#[test]
fn every_message_has_the_bytes_it_always_had() {
    let mut pinned = Pinned::default();
    plain::add(&mut pinned);
    ring::add(&mut pinned);
    client::add(&mut pinned);
    let golden: BTreeMap<String, String> = include_str!("messages.txt")
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, hex)| (name.to_owned(), hex.to_owned()))
        .collect();
    let mut wrong = Vec::new();
    for (name, hex) in &pinned.0 {
        if golden.get(name) != Some(hex) {
            wrong.push(format!("{name} = {hex}"));
        }
    }
    let gone: Vec<&String> = golden.keys().filter(|name| !pinned.0.contains_key(*name)).collect();
    assert!(
        wrong.is_empty() && gone.is_empty(),
        "not as in messages.txt:\n{}\nnot made any more: {gone:?}",
        wrong.join("\n")
    );
}

proptest! {
    /// Whatever arrives, decoding it is an error or a message, and a message comes back the same.
    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        decode_and_back::<Frame>(&bytes)?;
        decode_and_back::<Answer>(&bytes)?;
    }

    /// Nearly right bytes get further into the decoder than random ones.
    #[test]
    fn decoding_damaged_messages_never_panics(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let lines: Vec<&str> = include_str!("messages.txt")
            .lines()
            .filter(|line| line.starts_with("Frame") || line.starts_with("Answer"))
            .filter_map(|line| line.split_once(" = ").map(|(_, hex)| hex))
            .collect();
        let hex = lines[pick.index(lines.len())].as_bytes();
        let mut bytes: Vec<u8> = hex
            .chunks(2)
            .map(|pair| {
                let pair = std::str::from_utf8(pair).expect("digits");
                u8::from_str_radix(pair, 16).expect("digits")
            })
            .collect();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode_and_back::<Frame>(&bytes)?;
        decode_and_back::<Answer>(&bytes)?;
        bytes.truncate(cut.index(bytes.len()));
        decode_and_back::<Frame>(&bytes)?;
        decode_and_back::<Answer>(&bytes)?;
    }
}

/// Floats may be NaN, so bytes are compared instead of messages.
fn decode_and_back<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(message) = postcard::from_bytes::<T>(bytes) {
        let once = postcard::to_allocvec(&message).expect("plain data");
        let again: T = postcard::from_bytes(&once).expect("what was written can be read");
        prop_assert_eq!(postcard::to_allocvec(&again).expect("plain data"), once);
    }
    Ok(())
}
