//! What a process may reach by sockets: rules of its program's manifest, within those of its
//! parent.
//!
//! [`abi::reach`] has their form. A port that the service chooses needs no rule, unless
//! connections are accepted there (`listen:*`). Contract: a child's rules are covered
//! by its parent's, so no process reaches what none of its ancestors could. A socket that a process
//! was given can be used whatever the rules say, as a directory can.

use crate::errno::Errno;
use crate::strings::strings;
use abi::net::{ANY, ANY_V4, Address, LOCALHOST, LOCALHOST_V6};
use abi::reach::{RULES, Rule};
use alloc::vec::Vec;

/// What a process may reach. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(Option<Rules>);

/// Rules, and the strings that they were made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rules {
    list: Vec<Rule>,
    text: Vec<u8>,
}

impl Reach {
    /// Reads rules: strings, each NUL terminated. Fails with `INVAL` if one is malformed.
    pub fn of(block: &[u8]) -> Result<Reach, Errno> {
        let (mut list, mut text) = (Vec::new(), Vec::new());
        let count = strings(block).count();
        if count > RULES || list.try_reserve_exact(count).is_err() {
            return Err(Errno::INVAL);
        }
        for rule in strings(block) {
            list.push(Rule::parse(rule).ok_or(Errno::INVAL)?);
        }
        text.try_reserve_exact(block.len()).map_err(|_| Errno::NOMEM)?;
        text.extend_from_slice(block);
        Ok(Reach(Some(Rules { list, text })))
    }

    /// Returns the strings of its rules; `None`: it has everything.
    pub fn rules(&self) -> Option<&[u8]> {
        self.0.as_ref().map(|rules| &rules.text[..])
    }

    /// Returns whether a process with these rights may start one with those of `other`.
    pub fn covers(&self, other: &Reach) -> bool {
        match (&self.0, &other.0) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(rules)) => rules.list.iter().all(|rule| self.has(rule)),
        }
    }

    /// Returns whether a rule covers this one.
    fn has(&self, wanted: &Rule) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.list.iter().any(|rule| rule.covers(wanted)))
    }

    /// Checks that the process may connect to an address, or send there.
    pub fn connect(&self, address: Address, port: u16) -> Result<(), Errno> {
        let address = match address {
            ANY => LOCALHOST_V6,
            ANY_V4 => LOCALHOST,
            other => other,
        };
        self.check(Rule::Connect(Some(address), Some(port)))
    }

    /// Checks that the process may have a port.
    pub fn have(&self, port: u16) -> Result<(), Errno> {
        if port == 0 { Ok(()) } else { self.check(Rule::Listen(Some(port))) }
    }

    /// Checks that the process may accept connections at a port, or at any (0).
    pub fn listen(&self, port: u16) -> Result<(), Errno> {
        self.check(Rule::Listen(if port == 0 { None } else { Some(port) }))
    }

    fn check(&self, wanted: Rule) -> Result<(), Errno> {
        if self.has(&wanted) { Ok(()) } else { Err(Errno::ACCES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::net::v4;

    fn reach(rules: &[&str]) -> Reach {
        let block: Vec<u8> =
            rules.iter().flat_map(|rule| [rule.as_bytes(), &[0]].concat()).collect();
        Reach::of(&block).unwrap()
    }

    #[test]
    fn rules_allow_what_they_say_and_nothing_else() {
        let some = reach(&["connect:*:443", "connect:10.0.0.1:*", "listen:80"]);
        assert_eq!(some.connect(v4([1, 2, 3, 4]), 443), Ok(()));
        assert_eq!(some.connect([9; 16], 443), Ok(()));
        assert_eq!(some.connect(v4([10, 0, 0, 1]), 7), Ok(()));
        assert_eq!(some.connect(v4([10, 0, 0, 2]), 7), Err(Errno::ACCES));
        assert_eq!((some.have(80), some.listen(80)), (Ok(()), Ok(())));
        assert_eq!((some.have(81), some.listen(81)), (Err(Errno::ACCES), Err(Errno::ACCES)));
        assert_eq!((some.have(0), some.listen(0)), (Ok(()), Err(Errno::ACCES)));
        assert_eq!(reach(&["listen:*"]).listen(0), Ok(()));
        // Unspecified addresses are this chip.
        for (rule, any, other) in
            [("connect:127.0.0.1:7", ANY_V4, ANY), ("connect:[::1]:7", ANY, ANY_V4)]
        {
            let own = reach(&[rule]);
            assert_eq!((own.connect(any, 7), own.connect(any, 8)), (Ok(()), Err(Errno::ACCES)));
            assert_eq!(own.connect(other, 7), Err(Errno::ACCES));
        }
        let nothing = reach(&[]);
        assert_eq!(nothing.connect(LOCALHOST, 443), Err(Errno::ACCES));
        assert_eq!(nothing.listen(80), Err(Errno::ACCES));
        assert_eq!(Reach::default().connect([9; 16], 9), Ok(()));
        assert_eq!(Reach::default().listen(0), Ok(()));
    }

    #[test]
    fn no_child_reaches_more_than_its_parent() {
        let rules = ["connect:*:*", "connect:*:443", "connect:1.2.3.4:*", "connect:1.2.3.4:443"];
        let covered = |parent: &str, child: &str| reach(&[parent]).covers(&reach(&[child]));
        let pairs = rules.iter().flat_map(|parent| rules.iter().map(move |child| (parent, child)));
        let count = pairs.filter(|(parent, child)| covered(parent, child)).count();
        assert_eq!(count, 4 + 2 + 2 + 1);
        assert!(covered("listen:*", "listen:80") && !covered("listen:80", "listen:*"));
        assert!(!covered("connect:*:*", "listen:80") && !covered("listen:*", "connect:*:80"));
        assert!(Reach::default().covers(&Reach::default()));
        assert!(Reach::default().covers(&reach(&["listen:*"])));
        assert!(!reach(&["listen:*", "connect:*:*"]).covers(&Reach::default()));
        assert!(reach(&[]).covers(&reach(&[])) && !reach(&[]).covers(&reach(&["listen:1"])));
    }

    #[test]
    fn malformed_rules_are_refused() {
        assert_eq!(Reach::of(b"bind:80\0"), Err(Errno::INVAL));
        assert_eq!(Reach::of(b"\0"), Err(Errno::INVAL));
        assert!(Reach::of(&b"listen:1\0".repeat(64)).is_ok());
        assert_eq!(Reach::of(&b"listen:1\0".repeat(65)), Err(Errno::INVAL));
    }
}
