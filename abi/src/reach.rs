//! Rules of what a program may reach by sockets, as manifests have them (`net`).
//!
//! ```text
//!   connect:HOST:PORT   connect to a peer there, and send it datagrams
//!   listen:PORT         have this port: accept connections, receive datagrams
//! ```
//! HOST is an IPv4 address, an IPv6 address in brackets, or `*`; PORT a number or `*`.

use crate::net::{Address, to_v4, v4};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of rules of a program.
pub const RULES: usize = 64;

/// A rule; `None` is `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Connect(Option<Address>, Option<u16>),
    Listen(Option<u16>),
}

fn port(text: &str) -> Option<Option<u16>> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    match text {
        "*" => Some(None),
        _ if is_number => text.parse().ok().map(Some),
        _ => None,
    }
}

fn host(text: &str) -> Option<Option<Address>> {
    if text == "*" {
        return Some(None);
    }
    let Some(text) = text.strip_prefix('[') else {
        return text.parse::<Ipv4Addr>().ok().map(|host| Some(v4(host.octets())));
    };
    let host = text.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.octets();
    // An address has one form.
    to_v4(host).is_none().then_some(Some(host))
}

impl Rule {
    /// Returns `None` for a malformed rule.
    pub fn parse(text: &[u8]) -> Option<Rule> {
        let text = core::str::from_utf8(text).ok()?;
        match text.split_once(':')? {
            ("listen", place) => port(place).map(Rule::Listen),
            ("connect", place) => {
                let (address, number) = place.rsplit_once(':')?;
                Some(Rule::Connect(host(address)?, port(number)?))
            }
            _ => None,
        }
    }

    /// Returns whether all that `other` allows is allowed by this rule.
    pub fn covers(&self, other: &Rule) -> bool {
        match (self, other) {
            (Rule::Connect(host, port), Rule::Connect(their_host, their_port)) => {
                is_within(*their_host, *host) && is_within(*their_port, *port)
            }
            (Rule::Listen(port), Rule::Listen(their_port)) => is_within(*their_port, *port),
            _ => false,
        }
    }
}

/// Returns whether a part of a rule is within that of another one.
fn is_within<T: PartialEq>(part: Option<T>, other: Option<T>) -> bool {
    other.is_none() || part == other
}

/// Returns the port of a listener that a program starts with (`listen`): `tcp:PORT`.
pub fn listener(text: &[u8]) -> Option<u16> {
    let text = core::str::from_utf8(text).ok()?;
    port(text.strip_prefix("tcp:")?).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_rules_are_refused() {
        for rule in [
            "",
            "listen",
            "listen:",
            "listen:65536",
            "listen:+1",
            "listen:01",
            "listen:0",
            "bind:80",
            "connect:80",
            "connect::80",
            "connect:*:",
            "connect:1.2.3:80",
            "connect:a.b:80",
            "connect:*:80:1",
            "connect:::1:80",
            "connect:[::1]",
            "connect:[::1:80",
            "connect:[1.2.3.4]:80",
            "connect:[::ffff:1.2.3.4]:80",
            "connect:[*]:80",
            "listen: 80",
            "\u{e4}",
        ] {
            assert_eq!(Rule::parse(rule.as_bytes()), None, "{rule}");
        }
        assert_eq!(Rule::parse(&[0xff]), None);
        let connect = Rule::Connect(Some(v4([1, 2, 3, 4])), None);
        assert_eq!(Rule::parse(b"connect:1.2.3.4:*"), Some(connect));
        let connect = Rule::Connect(Some(crate::net::LOCALHOST_V6), Some(80));
        assert_eq!(Rule::parse(b"connect:[::1]:80"), Some(connect));
        assert_eq!(Rule::parse(b"listen:65535"), Some(Rule::Listen(Some(65535))));
    }

    #[test]
    fn a_listener_has_one_port() {
        assert_eq!(listener(b"tcp:80"), Some(80));
        for text in ["tcp:*", "tcp:0", "tcp:", "udp:80", "80", "tcp:80:1", "tcp:65536"] {
            assert_eq!(listener(text.as_bytes()), None, "{text}");
        }
    }
}
