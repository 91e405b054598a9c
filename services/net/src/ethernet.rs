//! The interface to Ethernet, and what a frame is before smoltcp reads it.

use crate::addresses::Addresses;
use crate::neighbours::{Mac, Neighbours, is_station};
use crate::nic::{Counts, Nic};
use crate::patience::Stalls;
use abi::ethernet::{Arp, FRAME_HEADER, FrameHeader, arp, kind};
use alloc::boxed::Box;
use base::prng::Prng;
use smoltcp::iface::Interface;
use smoltcp::wire::{IpAddress, IpEndpoint};
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a datagram's headers.
const IP_AND_UDP: usize = 28;
/// The address of all stations.
pub const EVERYBODY: Mac = [0xff; 6];

/// A frame with a message of ARP.
type ArpFrame = [u8; FRAME_HEADER + size_of::<Arp>()];

/// The interface, once the device has opened and given it addresses.
pub(crate) struct Attached {
    pub interface: Interface,
    pub addresses: Addresses,
    pub neighbours: Neighbours,
    pub random: Prng,
}

pub struct Outside {
    pub(crate) nic: Nic,
    pub(crate) attached: Option<Box<Attached>>,
    /// Whether a network was attached to the device at the last look.
    pub(crate) is_up: bool,
    pub(crate) stalls: Stalls,
    /// Whether a request has changed something that may have to be sent.
    pub(crate) is_touched: bool,
}

/// What a received frame is, as far as this service must know before smoltcp reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Not for this chip, or its source is no host outside that could be answered: an address of
    /// this chip, a broadcast, or none.
    Foreign,
    /// A neighbour tells its address, and may ask for ours.
    Arp { address: [u8; 4], mac: Mac, asks: bool },
    /// Begins a connection with this chip.
    Syn { from: IpEndpoint, to: IpEndpoint },
    /// Another packet of IPv4.
    Other,
}

impl Frame {
    /// Looks at a frame. Nothing in it is believed: smoltcp checks packets again.
    pub fn of(frame: &[u8], own: &Addresses) -> Frame {
        let Ok((header, payload)) = FrameHeader::ref_from_prefix(frame) else {
            return Frame::Foreign;
        };
        if header.to != own.mac && header.to != EVERYBODY {
            return Frame::Foreign;
        }
        match header.kind.get() {
            kind::IPV4 => Frame::of_packet(payload, own),
            kind::ARP => Frame::of_arp(payload, own).unwrap_or(Frame::Foreign),
            _ => Frame::Foreign,
        }
    }

    fn of_arp(payload: &[u8], own: &Addresses) -> Option<Frame> {
        let (message, _) = Arp::ref_from_prefix(payload).ok()?;
        let is_ours = message.to == own.bytes();
        let asks = message.operation.get() == arp::REQUEST && is_ours;
        let is_valid = message.format == arp::FORMAT && own.is_neighbour(message.from);
        // A host that has no address yet may ask as well.
        let is_known = is_valid || asks && message.from == [0; 4];
        let mac = message.from_mac;
        (is_known && is_station(mac)).then_some(Frame::Arp { address: message.from, mac, asks })
    }

    fn of_packet(payload: &[u8], own: &Addresses) -> Frame {
        let Ok(packet) = Ipv4Packet::new_checked(payload) else { return Frame::Other };
        let (from, to) = (packet.src_addr(), packet.dst_addr());
        if from.octets() == own.bytes() || !own.reaches(from.octets()) {
            return Frame::Foreign;
        }
        // Nothing puts fragments together, and smoltcp takes each for a whole packet.
        if packet.more_frags() || packet.frag_offset() != 0 {
            return Frame::Foreign;
        }
        if packet.next_header() != IpProtocol::Tcp {
            return Frame::Other;
        }
        if to.octets() != own.bytes() {
            // smoltcp would answer a segment to the broadcast in the name of the broadcast.
            return Frame::Foreign;
        }
        match TcpPacket::new_checked(packet.payload()) {
            Ok(segment) if segment.syn() && !segment.ack() && !segment.rst() => Frame::Syn {
                from: IpEndpoint::new(IpAddress::Ipv4(from), segment.src_port()),
                to: IpEndpoint::new(IpAddress::Ipv4(to), segment.dst_port()),
            },
            _ => Frame::Other,
        }
    }
}

impl Attached {
    /// Returns a frame that asks a neighbour for its hardware address.
    pub fn question(&self, address: [u8; 4]) -> ArpFrame {
        self.arp(arp::REQUEST, EVERYBODY, [0; 6], address)
    }

    /// Returns a frame that tells a neighbour ours.
    pub fn answer(&self, address: [u8; 4], mac: Mac) -> ArpFrame {
        self.arp(arp::REPLY, mac, mac, address)
    }

    fn arp(&self, operation: u16, to: Mac, to_mac: Mac, address: [u8; 4]) -> ArpFrame {
        let own = &self.addresses;
        let header = FrameHeader { to, from: own.mac, kind: kind::ARP.into() };
        let message = Arp {
            format: arp::FORMAT,
            operation: operation.into(),
            from_mac: own.mac,
            from: own.bytes(),
            to_mac,
            to: address,
        };
        let mut frame = [0; FRAME_HEADER + size_of::<Arp>()];
        frame[..FRAME_HEADER].copy_from_slice(header.as_bytes());
        frame[FRAME_HEADER..].copy_from_slice(message.as_bytes());
        frame
    }
}

impl Default for Outside {
    fn default() -> Outside {
        Outside::new()
    }
}

impl Outside {
    pub fn new() -> Outside {
        Outside {
            nic: Nic::new(),
            attached: None,
            is_up: false,
            stalls: Stalls::default(),
            is_touched: false,
        }
    }

    /// Returns the addresses of the interface, if there is one.
    pub fn addresses(&self) -> Option<&Addresses> {
        self.attached.as_ref().map(|it| &it.addresses)
    }

    /// Returns whether a network is attached to the device. A reset of the device, or a network
    /// that comes back, is no reason to refuse a request.
    pub fn is_attached(&self) -> bool {
        self.is_up && !self.nic.has_failed() && self.attached.is_some()
    }

    /// Returns the most bytes that a datagram may have.
    pub fn largest_datagram(&self) -> usize {
        self.addresses().map_or(0, |it| it.mtu - IP_AND_UDP)
    }

    pub fn counts(&self) -> Counts {
        self.nic.counts()
    }

    /// Returns smoltcp's context of the interface.
    pub(crate) fn context(&mut self) -> Option<&mut smoltcp::iface::Context> {
        self.attached.as_mut().map(|it| it.interface.context())
    }

    pub(crate) fn random(&mut self) -> Option<&mut Prng> {
        self.attached.as_mut().map(|it| &mut it.random)
    }

    /// Returns whether a step has to look at the device, whatever its event was.
    pub fn wants_a_look(&self) -> bool {
        self.is_touched || self.nic.is_opening()
    }
}
