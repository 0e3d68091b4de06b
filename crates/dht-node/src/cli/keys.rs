//! Keys as people write and read them.

use dht_core::register::{Key, KeyError, MAX_KEY_LEN};
use serde::Serialize;

use crate::client::hex;

/// Why a text is no key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum KeyTextError {
    /// Its length is out of bounds.
    #[error("{0}")]
    Length(KeyError),
    /// It holds the byte zero. With `--key-hex` every byte can be given.
    #[error("a key holds no NUL; give its bytes with --key-hex")]
    Nul,
    /// Not pairs of hexadecimal digits.
    #[error("'{text}' is no key in hex: pairs of hexadecimal digits are needed")]
    BadHex {
        /// The text.
        text: String,
    },
}

/// Reads a key: its text, or with `hex` its bytes as pairs of hexadecimal digits.
pub(crate) fn parse_key(text: &str, hex: bool) -> Result<Key, KeyTextError> {
    let bytes = if hex {
        parse_hex(text).ok_or_else(|| KeyTextError::BadHex { text: text.to_owned() })?
    } else if text.contains('\0') {
        return Err(KeyTextError::Nul);
    } else {
        text.as_bytes().to_vec()
    };
    Key::new(bytes).map_err(KeyTextError::Length)
}

/// Reads what begins a key, for `ls`: like a key, but it may be empty.
pub(crate) fn parse_prefix(text: &str, hex: bool) -> Result<Vec<u8>, KeyTextError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    parse_key(text, hex).map(|key| key.as_bytes().to_vec())
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || text.len() > 4 * MAX_KEY_LEN {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

/// A key in JSON: `key` if it is text, else `key_hex`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct KeyJson {
    /// The key as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The bytes of a key that is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_hex: Option<String>,
}

impl KeyJson {
    /// The JSON form of a key.
    pub(crate) fn of(key: &[u8]) -> KeyJson {
        match std::str::from_utf8(key) {
            Ok(text) if !text.contains('\0') => {
                KeyJson { key: Some(text.to_owned()), key_hex: None }
            }
            _ => KeyJson { key: None, key_hex: Some(hex(key)) },
        }
    }
}

/// A key for people: control characters, with which a key could write all over the terminal, are
/// escaped; bytes that are no text are shown as hex.
pub(crate) fn show_key(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) => show_text(text),
        Err(_) => format!("hex:{}", hex(key)),
    }
}

/// A text of somebody else's for people: control characters are escaped.
pub(crate) fn show_text(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, c| {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_of_1_to_1024_bytes_without_nul() {
        assert_eq!(parse_key("a b", false).expect("a key").as_bytes(), b"a b");
        assert_eq!(parse_key("", false), Err(KeyTextError::Length(KeyError::Empty)));
        assert_eq!(parse_key("a\0b", false), Err(KeyTextError::Nul));
        assert!(parse_key(&"x".repeat(1024), false).is_ok());
        assert!(parse_key(&"x".repeat(1025), false).is_err());
        assert!(parse_key(&"ж".repeat(513), false).is_err(), "bytes count, not letters");
    }

    #[test]
    fn hex_gives_any_bytes() {
        assert_eq!(parse_key("00ff1A", true).expect("a key").as_bytes(), [0, 255, 26]);
        for text in ["", "0", "0g", "+f", "жж"] {
            assert!(parse_key(text, true).is_err(), "{text:?}");
        }
        assert!(parse_key(&"00".repeat(1024), true).is_ok());
        assert!(parse_key(&"00".repeat(1025), true).is_err());
    }

    #[test]
    fn keys_are_shown_without_harm() {
        assert_eq!(show_key("a\u{1b}[2J\n".as_bytes()), "a\\u{1b}[2J\\n");
        assert_eq!(show_key(&[0xff, 0]), "hex:ff00");
        let json = |key: &[u8]| serde_json::to_string(&KeyJson::of(key)).expect("JSON");
        assert_eq!(json(b"k"), r#"{"key":"k"}"#);
        assert_eq!(json(&[0xff]), r#"{"key_hex":"ff"}"#);
        assert_eq!(json(b"a\0"), r#"{"key_hex":"6100"}"#);
    }
}
