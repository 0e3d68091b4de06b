//! What `--join` and `--node` take: an address, or a ring ticket.
//!
//! A ticket is one word that holds the name of a ring and some of its members:
//! `dht:NAME/ID@HOST:PORT,ID@HOST:PORT`. Bytes of the name other than letters, digits, `.`, `_` and
//! `-` are written as `%` and two hexadecimal digits. `dht-node id` prints one.

use std::net::SocketAddr;

use dht_core::Id;

use crate::node::{AddrError, JoinAddr};

/// An address or a ticket, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Name of the ring, if a ticket said one.
    pub(crate) ring: Option<String>,
    /// The members named.
    pub(crate) addrs: Vec<JoinAddr>,
}

/// Why a text is neither an address nor a ticket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// It is no address.
    #[error(transparent)]
    Addr(#[from] AddrError),
    /// No host has such a name.
    #[error("'{text}' is no address: a host's name has no spaces and no control characters")]
    Spaces {
        /// The text.
        text: String,
    },
    /// It begins like a ticket and is none.
    #[error("'{text}' is no ring ticket; the form is dht:NAME/ID@HOST:PORT,...")]
    Ticket {
        /// The text.
        text: String,
    },
    /// Two tickets, or a ticket and `--ring`, name different rings.
    #[error("'{one}' and '{other}' are different rings; name members of one ring only")]
    TwoRings {
        /// One of them.
        one: String,
        /// The other one.
        other: String,
    },
    /// No ring has such a name.
    #[error(
        "'{name}' is no name of a ring: 1 to {MAX_RING_NAME} bytes without spaces and control \
         characters"
    )]
    RingName {
        /// The name.
        name: String,
    },
}

/// Reads one value of `--join` or `--node`.
pub(crate) fn parse_place(text: &str) -> Result<Place, PlaceError> {
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(PlaceError::Spaces { text: text.to_owned() });
    }
    let Some(ticket) = text.strip_prefix(TICKET) else {
        return Ok(Place { ring: None, addrs: vec![text.parse()?] });
    };
    let wrong = || PlaceError::Ticket { text: text.to_owned() };
    let (name, members) = ticket.split_once('/').ok_or_else(wrong)?;
    let ring = unescape(name).ok_or_else(wrong)?;
    check_ring_name(&ring)?;
    let addrs = members.split(',').map(str::parse).collect::<Result<Vec<JoinAddr>, _>>()?;
    Ok(Place { ring: Some(ring), addrs })
}

/// All members of several values, and the ring they must belong to, if one is named.
pub(crate) fn parse_places(
    texts: &[String],
    ring: Option<String>,
) -> Result<(Option<String>, Vec<JoinAddr>), PlaceError> {
    let mut ring = ring;
    let mut addrs = Vec::new();
    for text in texts {
        let place = parse_place(text)?;
        match (&ring, place.ring) {
            (Some(one), Some(other)) if *one != other => {
                return Err(PlaceError::TwoRings { one: one.clone(), other });
            }
            (None, Some(name)) => ring = Some(name),
            _ => {}
        }
        addrs.extend(place.addrs);
    }
    if let Some(name) = &ring {
        check_ring_name(name)?;
    }
    Ok((ring, addrs))
}

/// Checks that a ring can have this name. It stands as one word in the ready line.
pub(crate) fn check_ring_name(name: &str) -> Result<(), PlaceError> {
    let printable = |c: char| !c.is_control() && !c.is_whitespace();
    if (1..=MAX_RING_NAME).contains(&name.len()) && name.chars().all(printable) {
        Ok(())
    } else {
        Err(PlaceError::RingName { name: name.to_owned() })
    }
}

/// The ticket of a ring with one member.
pub(crate) fn ticket(ring: &str, id: Id, addr: SocketAddr) -> String {
    format!("{TICKET}{}/{id}@{addr}", escape(ring))
}

/// A name as part of a ticket or of a path: see the head of this module.
pub(crate) fn escape(name: &str) -> String {
    name.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
        escaped
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (pair, after) = after.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// How a ticket begins.
const TICKET: &str = "dht:";
/// Longest name of a ring in bytes (guess: a line of a log holds it).
pub(crate) const MAX_RING_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";

    #[test]
    fn addresses_name_no_ring() {
        for text in ["127.0.0.1:4433", "[::1]:4433", "host.example:1", &format!("{ID}@host:2")] {
            let place = parse_place(text).expect(text);
            assert_eq!(place.ring, None);
            assert_eq!(place.addrs[0].to_string(), text);
        }
        for text in ["", ":1", "no address at all", "host:0", "xyz@host:1", "dht:", "dht:x"] {
            assert!(parse_place(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_ticket_says_what_it_was_made_of() {
        for name in ["default", "a/b", "цепь", "100%", "dht:", "-"] {
            let id: Id = ID.parse().expect("an id");
            let addr = "[::1]:4433".parse().expect("an address");
            let place = parse_place(&ticket(name, id, addr)).expect("a ticket");
            let member = format!("{ID}@[::1]:4433").parse().expect("an address");
            assert_eq!((place.ring.as_deref(), place.addrs), (Some(name), vec![member]));
        }
        let two = parse_place("dht:x/host:1,host:2").expect("a ticket of two");
        assert_eq!(two.addrs.len(), 2);
        for text in
            ["dht:x%/h:1", "dht:x%f/h:1", "dht:%ff/h:1", "dht:a%20b/h:1", "dht:x/", "dht:/h:1"]
        {
            assert!(parse_place(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn one_ring_at_a_time() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let both = texts(&["dht:x/h:1", "h:2"]);
        let (ring, addrs) = parse_places(&both, None).expect("one ring");
        assert_eq!((ring.as_deref(), addrs.len()), (Some("x"), 2));
        assert!(parse_places(&both, Some("x".to_owned())).is_ok());
        let other = parse_places(&both, Some("y".to_owned()));
        assert!(matches!(other, Err(PlaceError::TwoRings { .. })), "{other:?}");
        assert!(parse_places(&texts(&["dht:x/h:1", "dht:y/h:1"]), None).is_err());
        assert!(parse_places(&[], Some("two words".to_owned())).is_err());
        assert!(parse_places(&[], Some("x".repeat(65))).is_err());
    }
}
