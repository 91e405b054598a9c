//! The addresses of the interface to the outside, as the device's configuration space has them, and
//! what an address means.
//!
//! Contract: [`Addresses::of`] is the only way to get them, and returns only what smoltcp accepts:
//! a unicast hardware address, and for each family an address with its network. What the board file
//! leaves out or has wrong is not there; without any address there is no network outside. Addresses
//! of IPv4 are those that IPv6 maps ([`abi::net::v4`]), so that both families take one path.

use crate::neighbours::{Mac, is_station};
use abi::ethernet::{Config, MTU, MTU_LEAST};
use abi::net::{ANY, ANY_V4, Address, LOCALHOST, LOCALHOST_V6, NAMES, to_v4, v4};
use smoltcp::wire::{IpAddress, IpCidr, Ipv4Address, Ipv6Address};

/// Bytes of a datagram's headers.
const IPV4_AND_UDP: usize = 28;
const IPV6_AND_UDP: usize = 48;
/// Smallest MTU of a network with IPv6.
const MTU_LEAST_V6: usize = 1280;
/// Bits of an address.
const BITS: u8 = 128;
/// Bits before those of an IPv4 address.
const MAPPED: u8 = 96;

/// Address and port of a peer.
pub type Peer = (Address, u16);

/// A network of one family that the interface is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Our address.
    pub own: Address,
    /// Length of the prefix in bits, of the 128 of an [`Address`].
    prefix: u8,
    /// The next hop to other networks.
    pub gateway: Option<Address>,
    /// The server of names.
    pub names: Option<Address>,
}

/// Addresses of the interface to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub mac: Mac,
    pub v4: Option<Network>,
    pub v6: Option<Network>,
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

impl Network {
    /// Checks our address, the length of its network's prefix, the gateway and the server of names.
    fn of(own: Address, prefix: u8, gateway: Address, names: Address) -> Option<Network> {
        let network = Network { own, prefix, gateway: None, names: None };
        let own_bits = BITS.checked_sub(prefix).filter(|bits| *bits >= 2)?;
        if own_bits == BITS || !is_host(own) || !network.has_host(own) {
            return None;
        }
        let is_hop = gateway != own && is_host(gateway) && network.has_host(gateway);
        let gateway = is_hop.then_some(gateway);
        Some(Network { gateway, names: is_host(names).then_some(names), ..network })
    }

    /// Returns the length of its prefix in bits, of those that its family has.
    pub fn prefix(&self) -> u8 {
        if to_v4(self.own).is_some() { self.prefix - MAPPED } else { self.prefix }
    }

    pub fn cidr(&self) -> IpCidr {
        IpCidr::new(to_ip(self.own), self.prefix())
    }

    fn contains(&self, address: Address) -> bool {
        let differs = u128::from_be_bytes(self.own) ^ u128::from_be_bytes(address);
        differs >> (BITS - self.prefix) == 0
    }

    /// Returns whether `address` is a host's in this network: not the network's own, nor the
    /// broadcast of IPv4.
    fn has_host(&self, address: Address) -> bool {
        let mask = u128::MAX >> self.prefix;
        let host = u128::from_be_bytes(address) & mask;
        let is_all = host == 0 || host == mask && to_v4(address).is_some();
        self.contains(address) && !is_all
    }

    /// Returns the neighbour that packets to `address` are sent to.
    fn next_hop(&self, address: Address) -> Option<Address> {
        match self.contains(address) {
            true => self.has_host(address).then_some(address),
            false => self.gateway,
        }
    }
}

impl Addresses {
    /// Checks a configuration. `None`: it gives the chip no address.
    pub fn of(config: &Config) -> Option<Addresses> {
        let given = &config.addresses;
        if !is_station(config.mac) {
            return None;
        }
        let mtu = match usize::from(config.mtu.get()) {
            0 => MTU,
            few if few < MTU_LEAST => return None,
            some => some.min(MTU),
        };
        let prefix = given.prefix_v4.checked_add(MAPPED).filter(|_| given.prefix_v4 != 0);
        let [own, gateway, names] = [given.v4, given.gateway_v4, given.names_v4].map(v4);
        let v4 = prefix.and_then(|prefix| Network::of(own, prefix, gateway, names));
        let v6 = Network::of(given.v6, given.prefix_v6, given.gateway_v6, given.names_v6);
        // IPv6 needs larger packets than IPv4, and no address that is one of IPv4.
        let v6 = v6.filter(|it| mtu >= MTU_LEAST_V6 && to_v4(it.own).is_none());
        (v4.is_some() || v6.is_some()).then_some(Addresses { mac: config.mac, v4, v6, mtu })
    }

    /// Returns the network of an address's family.
    fn network(&self, address: Address) -> Option<&Network> {
        if to_v4(address).is_some() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// Returns our addresses.
    pub fn own(&self) -> impl Iterator<Item = Address> + use<> {
        [self.v4, self.v6].into_iter().flatten().map(|network| network.own)
    }

    /// Returns our address of the family of `address`.
    pub fn own_for(&self, address: Address) -> Option<Address> {
        self.network(address).map(|network| network.own)
    }

    pub fn is_own(&self, address: Address) -> bool {
        self.own_for(address) == Some(address)
    }

    /// Returns whether `address` can be another host's in the same network.
    pub fn is_neighbour(&self, address: Address) -> bool {
        let is_near = self.network(address).is_some_and(|network| network.has_host(address));
        is_near && !self.is_own(address)
    }

    /// Returns the neighbour that packets to `address` are sent to.
    pub fn next_hop(&self, address: Address) -> Option<Address> {
        self.network(address)?.next_hop(address)
    }

    /// Returns whether a packet to `address` finds a host, or a next hop.
    pub(crate) fn reaches(&self, address: Address) -> bool {
        is_host(address) && self.next_hop(address).is_some()
    }

    /// Returns the most bytes that a datagram to `address` may have.
    pub fn largest_datagram(&self, address: Address) -> usize {
        self.mtu - if to_v4(address).is_some() { IPV4_AND_UDP } else { IPV6_AND_UDP }
    }
}

/// Returns an address as smoltcp has it.
pub fn to_ip(address: Address) -> IpAddress {
    match to_v4(address) {
        Some(bytes) => IpAddress::Ipv4(Ipv4Address::from(bytes)),
        None => IpAddress::Ipv6(Ipv6Address::from(address)),
    }
}

/// Returns an address of smoltcp's.
pub fn bytes_of(address: IpAddress) -> Address {
    match address {
        IpAddress::Ipv4(address) => v4(address.octets()),
        IpAddress::Ipv6(address) => address.octets(),
    }
}

/// Returns whether `address` can be that of a host other than this one: neither unspecified, nor
/// loopback, multicast, reserved, broadcast, nor one that is valid on one link alone.
pub fn is_host(address: Address) -> bool {
    match (to_v4(address), address) {
        (Some([first, ..]), _) => !matches!(first, 0 | 127 | 224..),
        (None, [0, 0, 0, 0, 0, 0, 0, 0, ..] | [0xff, ..]) => false,
        (None, [0xfe, second, ..]) => second & 0xc0 != 0x80,
        _ => true,
    }
}

/// Returns whether `address` is valid on one link alone.
pub fn is_link_local(address: Address) -> bool {
    address[0] == 0xfe && address[1] & 0xc0 == 0x80
}

/// Returns the side that packets to `address` take, and the address that they get; unspecified ones
/// mean this chip, and [`NAMES`] the server of names. `None`: there is no way.
pub fn route(outside: Option<&Addresses>, address: Address) -> Option<(Side, Address)> {
    // Patterns would compare byte by byte.
    if address == LOCALHOST || address == ANY_V4 {
        return Some((Side::Loopback, LOCALHOST));
    }
    if address == LOCALHOST_V6 || address == ANY {
        return Some((Side::Loopback, LOCALHOST_V6));
    }
    let outside = outside?;
    let address = if address == NAMES { outside.v4?.names? } else { address };
    if outside.is_own(address) {
        // What is sent to an address of this chip does not leave it.
        return Some((Side::Loopback, address));
    }
    outside.reaches(address).then_some((Side::Outside, address))
}

/// The local address of a socket, and what it hears there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// [`ANY`] and [`ANY_V4`] included.
    pub address: Address,
    /// Whether it hears IPv6 alone.
    pub v6_only: bool,
}

impl Local {
    /// Returns whether it hears IPv4, and IPv6.
    fn families(self) -> (bool, bool) {
        match (self.address, to_v4(self.address)) {
            (_, Some(_)) => (true, false),
            (ANY, None) => (!self.v6_only, true),
            _ => (false, true),
        }
    }

    /// Returns whether it hears what is sent to `address`, which is one.
    #[inline]
    pub fn hears(self, address: Address) -> bool {
        if self.address == address {
            return true;
        }
        let (v4, v6) = self.families();
        self.specific().is_none() && if to_v4(address).is_some() { v4 } else { v6 }
    }

    /// Returns whether two sockets cannot have the same port.
    pub fn collides(self, other: Local) -> bool {
        let ((v4, v6), (their_v4, their_v6)) = (self.families(), other.families());
        v4 && their_v4 || v6 && their_v6
    }

    /// Returns its address, if it is one.
    pub fn specific(self) -> Option<Address> {
        // A pattern would compare byte by byte.
        (self.address != ANY && self.address != ANY_V4).then_some(self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use zerocopy::FromBytes;

    const V6: Address = [0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x15];

    /// Returns the address of another host.
    fn v6(first: u8, last: u8) -> Address {
        let mut address = V6;
        (address[0], address[15]) = (first, last);
        address
    }

    fn config() -> Config {
        let mut config = Config { mac: [2, 0, 0, 0, 0, 1], ..Config::default() };
        config.addresses.v4 = [10, 0, 2, 15];
        config.addresses.gateway_v4 = [10, 0, 2, 2];
        config.addresses.names_v4 = [10, 0, 2, 3];
        config.addresses.prefix_v4 = 24;
        config.addresses.v6 = V6;
        config.addresses.gateway_v6 = v6(0xfe, 2);
        config.addresses.names_v6 = v6(0xfe, 3);
        config.addresses.prefix_v6 = 64;
        config
    }

    fn with(change: impl FnOnce(&mut Config)) -> Option<Addresses> {
        let mut config = config();
        change(&mut config);
        Addresses::of(&config)
    }

    #[test]
    fn a_configuration_is_checked() {
        let all = with(|_| {}).unwrap();
        assert_eq!((all.mtu, all.own().count()), (1500, 2));
        assert_eq!(all.v4.map(|it| (it.own, it.prefix())), Some((v4([10, 0, 2, 15]), 24)));
        assert_eq!(all.v6.map(|it| (it.gateway, it.prefix())), Some((Some(v6(0xfe, 2)), 64)));
        assert_eq!(with(|it| it.mac = [0; 6]), None);
        assert_eq!(with(|it| it.mac[0] = 3), None);
        assert_eq!(with(|it| it.mtu = 100.into()), None);
        assert_eq!(with(|it| it.mtu = 9000.into()).map(|it| it.mtu), Some(1500));
        let wrong: [fn(&mut Config); 5] = [
            |it| it.addresses.v4 = [127, 0, 0, 1],
            |it| it.addresses.v4 = [10, 0, 2, 255],
            |it| it.addresses.v4 = [10, 0, 2, 0],
            |it| it.addresses.prefix_v4 = 0,
            |it| it.addresses.prefix_v4 = 33,
        ];
        for wrong in wrong {
            let left = with(wrong).unwrap();
            assert!(left.v4.is_none() && left.v6.is_some());
        }
        let wrong: [fn(&mut Config); 7] = [
            |it| it.addresses.v6 = LOCALHOST_V6,
            |it| it.addresses.v6 = v4([10, 0, 2, 15]),
            |it| it.addresses.v6 = v6(0xff, 1),
            |it| it.addresses.v6 = v6(0xfe, 0),
            |it| it.addresses.prefix_v6 = 0,
            |it| it.addresses.prefix_v6 = 129,
            |it| it.mtu = 1000.into(),
        ];
        for wrong in wrong {
            let left = with(wrong).unwrap();
            assert!(left.v6.is_none() && left.v4.is_some());
        }
        assert_eq!(with(|it| it.addresses = Default::default()), None);
        let foreign = with(|it| {
            it.addresses.gateway_v4 = [10, 0, 3, 2];
            it.addresses.gateway_v6[7] = 1;
        });
        let foreign = foreign.unwrap();
        assert_eq!(foreign.v4.map(|it| it.gateway), Some(None));
        assert_eq!(foreign.v6.map(|it| it.gateway), Some(None));
    }

    #[test]
    fn packets_go_to_the_side_of_their_address() {
        let known = Addresses::of(&config());
        let side = |address| route(known.as_ref(), address).map(|(side, _)| side);
        let v4s = |list: &[[u8; 4]]| list.iter().map(|&it| v4(it)).collect::<Vec<_>>();
        let mut ours = v4s(&[[0; 4], [127, 0, 0, 1], [10, 0, 2, 15]]);
        ours.extend([ANY, LOCALHOST_V6, V6]);
        for ours in ours {
            assert_eq!(side(ours), Some(Side::Loopback));
        }
        let mut others = v4s(&[[10, 0, 2, 2], [8, 8, 8, 8], [192, 168, 1, 1]]);
        others.extend([v6(0xfe, 2), v6(0x20, 1)]);
        for others in others {
            assert_eq!(side(others), Some(Side::Outside), "{others:?}");
            assert_eq!(route(None, others), None);
        }
        let mut none =
            v4s(&[[127, 0, 0, 2], [224, 0, 0, 1], [255; 4], [10, 0, 2, 255], [0, 1, 2, 3]]);
        let link_local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let compatible = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 2, 2];
        none.extend([v6(0xff, 1), link_local, v6(0xfe, 0), compatible]);
        for none in none {
            assert_eq!(side(none), None, "{none:?}");
        }
        let names = route(known.as_ref(), NAMES);
        assert_eq!(names, Some((Side::Outside, v4([10, 0, 2, 3]))));
        let nameless = with(|it| it.addresses.names_v4 = [0; 4]);
        assert_eq!(route(nameless.as_ref(), NAMES), None);
        let lone = with(|it| {
            it.addresses.gateway_v4 = [0; 4];
            it.addresses.gateway_v6 = ANY;
        });
        assert_eq!(route(lone.as_ref(), v4([8, 8, 8, 8])), None);
        assert_eq!(route(lone.as_ref(), v6(0x20, 1)), None);
        assert_eq!(known.unwrap().next_hop(v6(0x20, 1)), Some(v6(0xfe, 2)));
    }

    #[test]
    fn a_socket_hears_the_families_of_its_address() {
        let local = |address, v6_only| Local { address, v6_only };
        let (both, v4_any, v6_any) = (local(ANY, false), local(ANY_V4, false), local(ANY, true));
        let (one, other) = (local(LOCALHOST, false), local(LOCALHOST_V6, false));
        let all = [both, v4_any, v6_any, one, other];
        let heard = |it: Local| (it.hears(LOCALHOST), it.hears(LOCALHOST_V6), it.hears(V6));
        assert_eq!(
            all.map(heard),
            [
                (true, true, true),
                (true, false, false),
                (false, true, true),
                (true, false, false),
                (false, true, false)
            ]
        );
        let collide = |a: usize, b: usize| all[a].collides(all[b]) && all[b].collides(all[a]);
        assert!((0..5).all(|it| collide(0, it)));
        assert!(!collide(1, 2) && !collide(1, 4) && !collide(3, 4) && collide(2, 4));
    }

    #[test]
    fn random_configurations_never_give_smoltcp_what_it_refuses() {
        let (mut random, mut known) = (Prng::new(9), 0);
        for _ in 0..100_000 {
            let mut bytes = [0; size_of::<Config>()];
            bytes.iter_mut().for_each(|byte| *byte = random.next() as u8);
            let mut config = Config::read_from_bytes(&bytes).unwrap();
            config.addresses.prefix_v4 %= 34;
            config.addresses.prefix_v6 %= 132;
            let Some(addresses) = Addresses::of(&config) else { continue };
            known += 1;
            assert!(is_station(addresses.mac) && (576..=1500).contains(&addresses.mtu));
            for network in [addresses.v4, addresses.v6].into_iter().flatten() {
                assert!(is_host(network.own) && network.cidr().address().is_unicast());
            }
        }
        assert!(known > 10_000, "{known}");
    }
}
