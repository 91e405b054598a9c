//! The addresses of the interface to the outside, as the device's configuration space has them.
//!
//! Contract: [`Addresses::of`] is the only way to get them, and returns only what smoltcp accepts:
//! a unicast hardware address, and an IPv4 address with its network. What the board file leaves out
//! or has wrong is not there; without an IPv4 address there is no network outside.

use crate::neighbours::{Mac, is_station};
use abi::ethernet::{Config, MTU, MTU_LEAST};
use abi::net::{LOCALHOST, NAMES};
use smoltcp::wire::{IpCidr, Ipv4Address, Ipv4Cidr};

/// Addresses of the interface to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub mac: Mac,
    pub own: Ipv4Cidr,
    /// The next hop to other networks.
    pub gateway: Option<Ipv4Address>,
    /// The server of names; zeroes: none.
    pub names: [u8; 4],
    /// Largest packet, without the Ethernet header.
    pub mtu: usize,
}

/// Where packets to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To this chip itself.
    Loopback,
    /// To the Ethernet.
    Outside,
}

impl Addresses {
    /// Checks a configuration. `None`: it gives the chip no address.
    pub fn of(config: &Config) -> Option<Addresses> {
        let given = &config.addresses;
        let mac = config.mac;
        let (address, prefix) = (Ipv4Address::from(given.v4), given.prefix_v4);
        if !is_station(mac) || !(1..=30).contains(&prefix) {
            return None;
        }
        let own = Ipv4Cidr::new(address, prefix);
        if !is_host(given.v4) || !is_within(own, address) {
            return None;
        }
        let gateway = Ipv4Address::from(given.gateway_v4);
        let is_hop = gateway != address && is_host(given.gateway_v4) && is_within(own, gateway);
        let mtu = match usize::from(config.mtu.get()) {
            0 => MTU,
            few if few < MTU_LEAST => return None,
            some => some.min(MTU),
        };
        let names = if is_host(given.names_v4) { given.names_v4 } else { [0; 4] };
        Some(Addresses { mac, own, gateway: is_hop.then_some(gateway), names, mtu })
    }

    /// Returns the address of the interface as bytes.
    pub fn bytes(&self) -> [u8; 4] {
        self.own.address().octets()
    }

    pub fn cidr(&self) -> IpCidr {
        IpCidr::Ipv4(self.own)
    }

    /// Returns whether `address` can be another host's in the same network.
    pub fn is_neighbour(&self, address: [u8; 4]) -> bool {
        address != self.bytes() && is_within(self.own, Ipv4Address::from(address))
    }

    /// Returns the neighbour that packets to `address` are sent to.
    pub fn next_hop(&self, address: [u8; 4]) -> Option<[u8; 4]> {
        let is_near = self.own.contains_addr(&Ipv4Address::from(address));
        if is_near { Some(address) } else { self.gateway.map(|it| it.octets()) }
    }

    /// Returns whether a packet to `address` finds a host, or a next hop.
    pub(crate) fn reaches(&self, address: [u8; 4]) -> bool {
        let to = Ipv4Address::from(address);
        let is_near = self.own.contains_addr(&to);
        is_host(address) && if is_near { is_within(self.own, to) } else { self.gateway.is_some() }
    }
}

/// Returns whether `address` can be that of a host other than this one: neither unspecified, nor
/// loopback, multicast, reserved or broadcast.
pub fn is_host(address: [u8; 4]) -> bool {
    !matches!(address[0], 0 | 127 | 224..)
}

/// Returns whether `address` is a host's in this network: not the network's own, nor its broadcast.
fn is_within(network: Ipv4Cidr, address: Ipv4Address) -> bool {
    let is_all = network.broadcast() == Some(address) || network.network().address() == address;
    network.contains_addr(&address) && !is_all
}

/// Returns the side that packets to `address` take, and the address that they get; 0.0.0.0 means
/// this chip, and [`NAMES`] the server of names. `None`: there is no way.
pub fn route(outside: Option<&Addresses>, address: [u8; 4]) -> Option<(Side, [u8; 4])> {
    if address == [0; 4] || address == LOCALHOST {
        return Some((Side::Loopback, LOCALHOST));
    }
    let outside = outside?;
    let address = if address == NAMES { outside.names } else { address };
    if address == outside.bytes() {
        // What is sent to an address of this chip does not leave it.
        return Some((Side::Loopback, address));
    }
    outside.reaches(address).then_some((Side::Outside, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use zerocopy::FromBytes;

    fn config() -> Config {
        let mut config = Config { mac: [2, 0, 0, 0, 0, 1], ..Config::default() };
        config.addresses.v4 = [10, 0, 2, 15];
        config.addresses.gateway_v4 = [10, 0, 2, 2];
        config.addresses.names_v4 = [10, 0, 2, 3];
        config.addresses.prefix_v4 = 24;
        config
    }

    fn with(change: impl FnOnce(&mut Config)) -> Option<Addresses> {
        let mut config = config();
        change(&mut config);
        Addresses::of(&config)
    }

    #[test]
    fn a_configuration_is_checked() {
        assert_eq!(with(|_| {}).map(|it| it.mtu), Some(1500));
        assert_eq!(with(|it| it.mac = [0; 6]), None);
        assert_eq!(with(|it| it.mac[0] = 3), None);
        assert_eq!(with(|it| it.addresses.v4 = [127, 0, 0, 1]), None);
        assert_eq!(with(|it| it.addresses.v4 = [10, 0, 2, 255]), None);
        assert_eq!(with(|it| it.addresses.v4 = [10, 0, 2, 0]), None);
        assert_eq!(with(|it| it.addresses.prefix_v4 = 0), None);
        assert_eq!(with(|it| it.addresses.prefix_v4 = 33), None);
        assert_eq!(with(|it| it.mtu = 100.into()), None);
        assert_eq!(with(|it| it.mtu = 9000.into()).map(|it| it.mtu), Some(1500));
        let foreign = with(|it| it.addresses.gateway_v4 = [10, 0, 3, 2]);
        assert_eq!(foreign.map(|it| it.gateway), Some(None));
    }

    #[test]
    fn packets_go_to_the_side_of_their_address() {
        let known = Addresses::of(&config());
        let side = |address| route(known.as_ref(), address).map(|(side, _)| side);
        for ours in [[0; 4], [127, 0, 0, 1], [10, 0, 2, 15]] {
            assert_eq!(side(ours), Some(Side::Loopback));
        }
        for others in [[10, 0, 2, 2], [8, 8, 8, 8], [192, 168, 1, 1]] {
            assert_eq!(side(others), Some(Side::Outside));
            assert_eq!(route(None, others), None);
        }
        for nobody in [[127, 0, 0, 2], [224, 0, 0, 1], [255; 4], [10, 0, 2, 255], [0, 1, 2, 3]] {
            assert_eq!(side(nobody), None, "{nobody:?}");
        }
        let names = route(known.as_ref(), NAMES);
        assert_eq!(names, Some((Side::Outside, [10, 0, 2, 3])));
        let nameless = with(|it| it.addresses.names_v4 = [0; 4]);
        assert_eq!(route(nameless.as_ref(), NAMES), None);
        let lone = with(|it| it.addresses.gateway_v4 = [0; 4]);
        assert_eq!(route(lone.as_ref(), [8, 8, 8, 8]), None);
    }

    #[test]
    fn random_configurations_never_give_smoltcp_what_it_refuses() {
        let mut random = Prng::new(9);
        for _ in 0..100_000 {
            let mut bytes = [0; size_of::<Config>()];
            bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
            bytes[18 + 12] %= 34;
            let config = Config::read_from_bytes(&bytes).unwrap();
            if let Some(known) = Addresses::of(&config) {
                assert!(is_station(known.mac) && (576..=1500).contains(&known.mtu));
                assert!(is_host(known.bytes()));
            }
        }
    }
}
