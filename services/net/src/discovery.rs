//! The messages by which neighbours find each other's hardware addresses: ARP (RFC 826), and
//! neighbour discovery of IPv6 (RFC 4861).
//!
//! Contract: a message is a whole question or answer that concerns this chip, one of IPv6 with a
//! right checksum and a hop limit that says that no router has passed it on; others are ignored.
//! Routers are not listened to: addresses and next hops are the board file's.

use crate::addresses::{Addresses, is_link_local};
use crate::neighbours::{EVERYBODY, Mac, is_station};
use abi::ethernet::{Arp, Discovery, FRAME_HEADER, FrameHeader, Question, arp, discovery, kind};
use abi::net::{ANY, ANY_V4, Address, to_v4, v4};
use smoltcp::wire::{Icmpv6Packet, IpProtocol, Ipv6Address, Ipv6Packet, Ipv6Repr};
use zerocopy::{FromBytes, IntoBytes};

const IPV6_HEADER: usize = 40;
/// Bytes of the longer of the two messages.
const MOST: usize = FRAME_HEADER + IPV6_HEADER + size_of::<Discovery>();
/// All hosts on the link.
const ALL: Address = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// What a neighbour tells: its hardware address, and whether it asks for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub address: Address,
    pub mac: Mac,
    pub asks: bool,
}

/// A frame with a message.
pub struct Message {
    bytes: [u8; MOST],
    length: usize,
    pub to: Mac,
}

impl Message {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns the group that is asked for the hardware address of `address`.
fn group_of(address: Address) -> Address {
    let [.., a, b, c] = address;
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]
}

/// Returns the address of a group on the Ethernet.
fn group_mac(group: Address) -> Mac {
    let [.., a, b, c, d] = group;
    [0x33, 0x33, a, b, c, d]
}

/// Returns whether `mac` is a group that this chip is in.
pub fn is_group(mac: Mac, own: &Addresses) -> bool {
    let is = |group| mac == group_mac(group);
    own.v6.is_some_and(|network| is(ALL) || is(group_of(network.own)))
}

/// Reads a message of ARP.
pub fn of_arp(payload: &[u8], own: &Addresses) -> Option<Told> {
    let (message, _) = Arp::ref_from_prefix(payload).ok()?;
    let (from, mac) = (v4(message.from), message.from_mac);
    let asks = message.operation.get() == arp::REQUEST && own.is_own(v4(message.to));
    let is_valid = message.format == arp::FORMAT && own.is_neighbour(from);
    // A host that has no address yet may ask as well.
    let is_known = is_valid || asks && from == ANY_V4;
    (is_known && is_station(mac)).then_some(Told { address: from, mac, asks })
}

/// Reads a packet of IPv6 from station `sender`. Returns `None` if it is not about discovery, and
/// `Some(None)` if it is to be ignored.
pub fn of_packet(packet: &Ipv6Packet<&[u8]>, sender: Mac, own: &Addresses) -> Option<Option<Told>> {
    let kind = packet.payload().first().filter(|_| packet.next_header() == IpProtocol::Icmpv6)?;
    discovery::ALL.contains(kind).then(|| read(packet, sender, own))
}

fn read(packet: &Ipv6Packet<&[u8]>, sender: Mac, own: &Addresses) -> Option<Told> {
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let payload = packet.payload();
    let (message, options) = Question::ref_from_prefix(payload).ok()?;
    let checked = Icmpv6Packet::new_checked(payload).ok()?;
    let is_whole = packet.hop_limit() == discovery::HOPS && message.code == 0;
    if !is_whole || !checked.verify_checksum(&from, &to) {
        return None;
    }
    let (from, to) = (from.octets(), to.octets());
    match message.kind {
        discovery::SOLICITATION => {
            let is_ours = own.is_own(message.target) && to_v4(message.target).is_none();
            let is_to_us = to == message.target || to == group_of(message.target);
            let is_host = from == ANY || own.is_neighbour(from) || is_link_local(from);
            let mac = option(options, discovery::SOURCE)?.unwrap_or(sender);
            let is_valid = is_ours && is_to_us && is_host && is_station(mac);
            is_valid.then_some(Told { address: from, mac, asks: true })
        }
        discovery::ADVERTISEMENT => {
            let is_to_us = own.is_own(to) || to == ALL;
            let mac = option(options, discovery::TARGET)??;
            let is_valid = is_to_us && own.is_neighbour(message.target) && is_station(mac);
            is_valid.then_some(Told { address: message.target, mac, asks: false })
        }
        _ => None,
    }
}

/// Returns the hardware address in an option. `None`: the options are malformed.
fn option(mut options: &[u8], wanted: u8) -> Option<Option<Mac>> {
    while let [kind, length, rest @ ..] = options {
        let end = (8 * usize::from(*length)).checked_sub(2)?;
        let (value, after) = rest.split_at_checked(end)?;
        if *kind == wanted {
            return value.first_chunk().map(|mac| Some(*mac));
        }
        options = after;
    }
    options.is_empty().then_some(None)
}

/// Returns a message that asks a neighbour for its hardware address.
pub fn question(own: &Addresses, neighbour: Address) -> Option<Message> {
    let source = own.own_for(neighbour)?;
    match to_v4(neighbour) {
        Some(_) => message_of_arp(own, arp::REQUEST, (EVERYBODY, [0; 6]), neighbour),
        None => {
            let to = group_of(neighbour);
            let about = (discovery::SOLICITATION, 0, neighbour, discovery::SOURCE);
            message_of_v6(own, about, (source, to), group_mac(to))
        }
    }
}

/// Returns a message that tells a neighbour our hardware address.
pub fn answer(own: &Addresses, neighbour: Address, mac: Mac) -> Option<Message> {
    let source = own.own_for(neighbour)?;
    if to_v4(neighbour).is_some() {
        return message_of_arp(own, arp::REPLY, (mac, mac), neighbour);
    }
    // One that has no address yet hears what all hear.
    let (to, mac, flags) = match neighbour {
        ANY => (ALL, group_mac(ALL), discovery::OVERRIDE),
        one => (one, mac, discovery::OVERRIDE | discovery::SOLICITED),
    };
    let about = (discovery::ADVERTISEMENT, flags, source, discovery::TARGET);
    message_of_v6(own, about, (source, to), mac)
}

fn frame(own: &Addresses, to: Mac, kind: u16, length: usize) -> Message {
    let header = FrameHeader { to, from: own.mac, kind: kind.into() };
    let mut bytes = [0; MOST];
    bytes[..FRAME_HEADER].copy_from_slice(header.as_bytes());
    Message { bytes, length: FRAME_HEADER + length, to }
}

fn message_of_arp(
    own: &Addresses,
    operation: u16,
    (to, to_mac): (Mac, Mac),
    neighbour: Address,
) -> Option<Message> {
    let message = Arp {
        format: arp::FORMAT,
        operation: operation.into(),
        from_mac: own.mac,
        from: to_v4(own.own_for(neighbour)?)?,
        to_mac,
        to: to_v4(neighbour)?,
    };
    let mut made = frame(own, to, kind::ARP, size_of::<Arp>());
    message.write_to_prefix(&mut made.bytes[FRAME_HEADER..]).ok()?;
    Some(made)
}

/// `about`: kind of the message, its flags, its target, and kind of the option with our address.
fn message_of_v6(
    own: &Addresses,
    about: (u8, u8, Address, u8),
    (from, to): (Address, Address),
    mac: Mac,
) -> Option<Message> {
    let (kind, flags, target, option) = about;
    let about = Question { kind, code: 0, checksum: [0; 2], flags, reserved: [0; 3], target };
    let message = Discovery { about, option, option_length: 1, mac: own.mac };
    let (src_addr, dst_addr) = (Ipv6Address::from(from), Ipv6Address::from(to));
    let header = Ipv6Repr {
        src_addr,
        dst_addr,
        next_header: IpProtocol::Icmpv6,
        payload_len: size_of::<Discovery>(),
        hop_limit: discovery::HOPS,
    };
    let length = IPV6_HEADER + size_of::<Discovery>();
    let mut made = frame(own, mac, kind::IPV6, length);
    let (packet, payload) = made.bytes[FRAME_HEADER..].split_at_mut(IPV6_HEADER);
    header.emit(&mut Ipv6Packet::new_unchecked(packet));
    message.write_to_prefix(payload).ok()?;
    Icmpv6Packet::new_unchecked(payload).fill_checksum(&src_addr, &dst_addr);
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::Frame;
    use abi::ethernet::Config;

    const MAC: Mac = [2, 0, 0, 0, 0, 1];
    const OTHER: Mac = [2, 0, 0, 0, 0, 2];

    /// Returns the addresses of host `last`.
    fn host(mac: Mac, last: u8) -> Addresses {
        let mut config = Config { mac, ..Config::default() };
        (config.addresses.v4, config.addresses.prefix_v4) = ([10, 0, 2, last], 24);
        (config.addresses.v6, config.addresses.prefix_v6) = (v6(last), 64);
        Addresses::of(&config).unwrap()
    }

    fn v6(last: u8) -> Address {
        [0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, last]
    }

    #[test]
    fn a_question_is_understood_and_so_is_its_answer() {
        let (us, them) = (host(MAC, 1), host(OTHER, 2));
        for (own, other) in [(v4([10, 0, 2, 1]), v4([10, 0, 2, 2])), (v6(1), v6(2))] {
            let question = question(&us, other).unwrap();
            assert!(question.to == EVERYBODY || question.to == [0x33, 0x33, 0xff, 0x34, 0x56, 2]);
            let heard = Frame::of(question.bytes(), &them);
            assert_eq!(heard, Frame::Neighbour(Told { address: own, mac: MAC, asks: true }));
            let third = Frame::of(question.bytes(), &host(OTHER, 3));
            assert!(!matches!(third, Frame::Neighbour(Told { asks: true, .. })));
            let answer = answer(&them, own, MAC).unwrap();
            assert_eq!(answer.to, MAC);
            let heard = Frame::of(answer.bytes(), &us);
            assert_eq!(heard, Frame::Neighbour(Told { address: other, mac: OTHER, asks: false }));
        }
        // One that has no address yet is answered so that it hears it.
        let answer = answer(&us, ANY, OTHER).unwrap();
        assert_eq!(answer.to, [0x33, 0x33, 0, 0, 0, 1]);
        let heard = Frame::of(answer.bytes(), &them);
        assert_eq!(heard, Frame::Neighbour(Told { address: v6(1), mac: MAC, asks: false }));
    }

    #[test]
    fn malformed_messages_are_ignored() {
        let (us, them) = (host(MAC, 1), host(OTHER, 2));
        for message in [question(&us, v6(2)).unwrap(), answer(&us, v6(2), OTHER).unwrap()] {
            let whole = message.bytes();
            assert!(matches!(Frame::of(whole, &them), Frame::Neighbour(_)));
            for length in 0..whole.len() {
                let cut = Frame::of(&whole[..length], &them);
                assert!(matches!(cut, Frame::Foreign | Frame::Other), "{length}");
            }
            // The checksum covers all but the headers, of which the hop limit is checked.
            for at in (FRAME_HEADER + 7..whole.len()).filter(|at| *at != FRAME_HEADER + 6) {
                let mut wrong = whole.to_vec();
                wrong[at] ^= 1;
                assert!(!matches!(Frame::of(&wrong, &them), Frame::Neighbour(_)), "{at}");
            }
        }
        for options in [&[1u8, 0, 0, 0][..], &[1, 2, 0, 0, 0, 0, 0, 0], &[5, 1, 0], &[7]] {
            assert_eq!(option(options, discovery::SOURCE), None);
        }
        let second = [&[5, 1, 0, 0, 0, 0, 0, 0, 1, 1][..], &MAC].concat();
        assert_eq!(option(&second, discovery::SOURCE), Some(Some(MAC)));
        assert_eq!(option(&[], discovery::SOURCE), Some(None));
    }
}
