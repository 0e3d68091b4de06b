//! Addresses as people write them: `host:port`, `[v6]:port`, a DNS name, each with the id that must
//! answer there if need be.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use dht_core::Id;

use super::config::DEFAULT_PORT;

/// Where a member can be found: a host with its port, and perhaps the id expected there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinAddr {
    id: Option<Id>,
    host: String,
    port: u16,
}

impl JoinAddr {
    /// A numeric address, any id.
    pub fn from_socket(addr: SocketAddr) -> JoinAddr {
        JoinAddr { id: None, host: addr.ip().to_string(), port: addr.port() }
    }

    /// The id that must answer there, if one was given (`ID@ADDR`).
    pub fn id(&self) -> Option<Id> {
        self.id
    }

    /// The address if the host is a number, without asking anybody.
    pub fn numeric(&self) -> Option<SocketAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port))
    }

    /// Whether the host is `localhost`, which names loopback everywhere (RFC 6761, section 6.3).
    pub fn is_localhost(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
    }

    /// Every address the host has now, in the resolver's order, at most [`MAX_RESOLVED`]. Asks DNS
    /// off the calling task; names are asked again at every call, since they may move.
    pub async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        if let Some(addr) = self.numeric() {
            return Ok(vec![addr]);
        }
        let mut found: Vec<SocketAddr> = Vec::new();
        for addr in tokio::net::lookup_host((self.host.as_str(), self.port)).await? {
            if found.len() < MAX_RESOLVED && !found.contains(&addr) {
                found.push(addr);
            }
        }
        Ok(found)
    }
}

impl FromStr for JoinAddr {
    type Err = AddrError;

    fn from_str(text: &str) -> Result<JoinAddr, AddrError> {
        let wrong = |reason| AddrError { text: text.to_owned(), reason };
        let (id, place) = match text.split_once('@') {
            Some((id, place)) => {
                (Some(id.parse().map_err(|_| wrong(AddrErrorReason::BadId))?), place)
            }
            None => (None, text),
        };
        let (host, port) = split_port(place).map_err(wrong)?;
        if host.is_empty() {
            return Err(wrong(AddrErrorReason::NoHost));
        }
        if port == 0 {
            return Err(wrong(AddrErrorReason::BadPort));
        }
        Ok(JoinAddr { id, host: host.to_owned(), port })
    }
}

impl fmt::Display for JoinAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = self.id {
            write!(f, "{id}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A text that is no [`JoinAddr`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is no address: {reason}; write host:port, [v6]:port or ID@host:port")]
pub struct AddrError {
    /// What was written.
    pub text: String,
    /// What is wrong with it.
    pub reason: AddrErrorReason,
}

/// What is wrong with an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddrErrorReason {
    /// Nothing before the port.
    #[error("the host is missing")]
    NoHost,
    /// Not a number from 1 to 65535.
    #[error("the port is no number from 1 to 65535")]
    BadPort,
    /// A bracket without its partner.
    #[error("a bracket is missing")]
    BadBrackets,
    /// Something before the `@` that is no id.
    #[error("the part before the @ is no id of 40 hex digits")]
    BadId,
}

fn split_port(place: &str) -> Result<(&str, u16), AddrErrorReason> {
    let port_of = |text: &str| text.parse::<u16>().map_err(|_| AddrErrorReason::BadPort);
    if let Some(rest) = place.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(AddrErrorReason::BadBrackets)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, port_of(port)?)),
            None if after.is_empty() => Ok((host, DEFAULT_PORT)),
            None => Err(AddrErrorReason::BadBrackets),
        };
    }
    match place.rsplit_once(':') {
        // More than one colon without brackets: a bare IPv6 address.
        Some((host, _)) if host.contains(':') => Ok((place, DEFAULT_PORT)),
        Some((host, port)) => Ok((host, port_of(port)?)),
        None => Ok((place, DEFAULT_PORT)),
    }
}

/// Most addresses of one name that are tried; a name with more is no bootstrap list but an attack
/// on others (guess).
pub const MAX_RESOLVED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(String, u16), AddrErrorReason> {
        text.parse::<JoinAddr>().map(|addr| (addr.host, addr.port)).map_err(|error| error.reason)
    }

    #[test]
    fn the_forms_of_the_contract_are_read() {
        assert_eq!(parsed("127.0.0.1:9"), Ok(("127.0.0.1".to_owned(), 9)));
        assert_eq!(parsed("[::1]:9"), Ok(("::1".to_owned(), 9)));
        assert_eq!(parsed("::1"), Ok(("::1".to_owned(), DEFAULT_PORT)));
        assert_eq!(parsed("node.example"), Ok(("node.example".to_owned(), DEFAULT_PORT)));
        let pinned: JoinAddr =
            "000000000000000000000000000000000000000a@host:1".parse().expect("an id and a host");
        assert_eq!(pinned.id(), Some(Id::from_u64(10)));
        assert_eq!(pinned.to_string(), "000000000000000000000000000000000000000a@host:1");
        assert_eq!("[::1]:9".parse::<JoinAddr>().expect("v6").to_string(), "[::1]:9");
    }

    #[test]
    fn broken_addresses_say_what_is_wrong() {
        assert_eq!(parsed(":9"), Err(AddrErrorReason::NoHost));
        assert_eq!(parsed("host:x"), Err(AddrErrorReason::BadPort));
        assert_eq!(parsed("host:0"), Err(AddrErrorReason::BadPort));
        assert_eq!(parsed("host:70000"), Err(AddrErrorReason::BadPort));
        assert_eq!(parsed("[::1:9"), Err(AddrErrorReason::BadBrackets));
        assert_eq!(parsed("xyz@host:9"), Err(AddrErrorReason::BadId));
    }

    #[tokio::test]
    async fn numbers_are_not_asked_of_dns() {
        let addr: JoinAddr = "[::1]:9".parse().expect("v6");
        assert_eq!(addr.resolve().await.expect("no question"), vec![addr.numeric().expect("v6")]);
        let name: JoinAddr = "localhost:9".parse().expect("a name");
        assert_eq!(name.numeric(), None);
    }
}
