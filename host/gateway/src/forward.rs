//! A published port: a client that connects to a port of the host reaches a port of the chip.
//!
//! Written `[ADDRESS:]HOST_PORT:PORT[/udp]`, as in `8080:80`, `0.0.0.0:5353:53/udp` or
//! `[::1]:8080:80`. Without an address only this host reaches it, by IPv4. What comes by one family
//! reaches the chip by the same.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A published port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Forward {
    /// Its kind of traffic.
    pub protocol: Protocol,
    /// Address and port of the host.
    pub host: SocketAddr,
    /// Port of the chip.
    pub port: u16,
}

/// Why a text names no published port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\": {why}; write HOST_PORT:PORT, such as 8080:80, [::1]:8080:80 or 8080:80/udp")]
pub struct NotAForward {
    text: String,
    why: &'static str,
}

impl FromStr for Forward {
    type Err = NotAForward;

    fn from_str(text: &str) -> Result<Forward, NotAForward> {
        parse(text).map_err(|why| NotAForward { text: text.to_string(), why })
    }
}

fn parse(text: &str) -> Result<Forward, &'static str> {
    let (ports, protocol) = match text.split_once('/') {
        None => (text, Protocol::Tcp),
        Some((ports, "tcp")) => (ports, Protocol::Tcp),
        Some((ports, "udp")) => (ports, Protocol::Udp),
        Some(_) => return Err("the protocol is tcp or udp"),
    };
    let too_few = "two ports are needed, the host's and the chip's";
    let (ports, port) = ports.rsplit_once(':').ok_or(too_few)?;
    let (address, host_port) = match ports.rsplit_once(':') {
        None => (Ipv4Addr::LOCALHOST.into(), ports),
        Some((address, host_port)) => (host(address)?, host_port),
    };
    let host = SocketAddr::new(address, number(host_port)?);
    Ok(Forward { protocol, host, port: number(port)? })
}

/// Reads an address of the host; one of IPv6 is in brackets.
fn host(text: &str) -> Result<IpAddr, &'static str> {
    let wrong = "the address is neither an IPv4 address nor an IPv6 address in brackets";
    match text.strip_prefix('[') {
        None => text.parse::<Ipv4Addr>().map(IpAddr::from).map_err(|_| wrong),
        Some(rest) => {
            let address = rest.strip_suffix(']').and_then(|text| text.parse::<Ipv6Addr>().ok());
            address.map(IpAddr::from).ok_or(wrong)
        }
    }
}

fn number(text: &str) -> Result<u16, &'static str> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|&port| digits && port != 0);
    number.ok_or("a port is a number from 1 to 65535")
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.is_udp() { "/udp" } else { "" };
        write!(f, "{}:{}{protocol}", self.host, self.port)
    }
}

impl TryFrom<String> for Forward {
    type Error = NotAForward;

    fn try_from(text: String) -> Result<Forward, NotAForward> {
        text.parse()
    }
}

impl From<Forward> for String {
    fn from(forward: Forward) -> String {
        forward.to_string()
    }
}

impl Forward {
    /// Returns whether it carries datagrams.
    pub fn is_udp(&self) -> bool {
        self.protocol == Protocol::Udp
    }

    /// Returns whether both need the same port of the host.
    pub fn collides(&self, other: &Forward) -> bool {
        let same = |a: IpAddr, b: IpAddr| {
            a.is_ipv4() == b.is_ipv4() && (a == b || a.is_unspecified() || b.is_unspecified())
        };
        self.protocol == other.protocol
            && self.host.port() == other.host.port()
            && same(self.host.ip(), other.host.ip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_read_as_they_are_shown() {
        for (text, shown) in [
            ("8080:80", "127.0.0.1:8080:80"),
            ("8080:80/tcp", "127.0.0.1:8080:80"),
            ("0.0.0.0:53:5353/udp", "0.0.0.0:53:5353/udp"),
            ("[::1]:8080:80", "[::1]:8080:80"),
            ("[::]:53:5353/udp", "[::]:53:5353/udp"),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(forward.to_string(), shown);
            assert_eq!(shown.parse(), Ok(forward));
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "two ports"),
            ("8080", "two ports"),
            ("1:2:3:4", "IPv4 address"),
            ("::1:8080:80", "in brackets"),
            ("[::1:8080:80", "in brackets"),
            ("[127.0.0.1]:8080:80", "in brackets"),
            ("8080:", "1 to 65535"),
            ("0:80", "1 to 65535"),
            ("+1:80", "1 to 65535"),
            ("8080:65536", "1 to 65535"),
            ("8080:80/sctp", "tcp or udp"),
            ("localhost:8080:80", "IPv4"),
        ] {
            let refusal = text.parse::<Forward>().unwrap_err().to_string();
            assert!(refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn a_port_is_taken_once_for_each_address_and_protocol() {
        let collide = |a: &str, b: &str| {
            let [a, b]: [Forward; 2] = [a.parse().unwrap(), b.parse().unwrap()];
            a.collides(&b)
        };
        assert!(collide("8080:80", "8080:81") && collide("8080:80", "0.0.0.0:8080:80"));
        assert!(!collide("8080:80", "8080:80/udp") && !collide("8080:80", "8081:80"));
        assert!(!collide("8080:80", "127.0.0.2:8080:80"));
        assert!(!collide("8080:80", "[::1]:8080:80") && collide("[::1]:80:80", "[::]:80:80"));
    }
}
