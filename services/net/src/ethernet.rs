//! The interface to Ethernet, and what a frame is before smoltcp reads it.

use crate::addresses::{Addresses, bytes_of};
use crate::discovery::{self, Told};
use crate::neighbours::{EVERYBODY, Mac, Neighbours};
use crate::nic::{Counts, Nic};
use crate::patience::Stalls;
use abi::ethernet::{FrameHeader, kind};
use alloc::boxed::Box;
use base::prng::Prng;
use smoltcp::iface::Interface;
use smoltcp::wire::{IpAddress, IpEndpoint};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket};
use zerocopy::FromBytes;

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
    /// A neighbour tells its address.
    Neighbour(Told),
    /// Begins a connection with this chip.
    Syn { from: IpEndpoint, to: IpEndpoint },
    /// Another packet.
    Other,
}

fn told(message: Option<Told>) -> Frame {
    message.map_or(Frame::Foreign, Frame::Neighbour)
}

impl Frame {
    /// Looks at a frame. Nothing in it is believed: smoltcp checks packets again.
    pub fn of(frame: &[u8], own: &Addresses) -> Frame {
        let Ok((header, payload)) = FrameHeader::ref_from_prefix(frame) else {
            return Frame::Foreign;
        };
        let is_for_us = header.to == own.mac || header.to == EVERYBODY;
        match header.kind.get() {
            kind::IPV4 if is_for_us => Frame::of_v4(payload, own),
            kind::ARP if is_for_us => told(discovery::of_arp(payload, own)),
            kind::IPV6 if is_for_us || discovery::is_group(header.to, own) => {
                Frame::of_v6(payload, header.from, own)
            }
            _ => Frame::Foreign,
        }
    }

    fn of_v4(payload: &[u8], own: &Addresses) -> Frame {
        let Ok(packet) = Ipv4Packet::new_checked(payload) else { return Frame::Other };
        let (from, to) = (packet.src_addr(), packet.dst_addr());
        // smoltcp would answer a segment to the broadcast in the name of the broadcast.
        if !is_between(from.into(), to.into(), own) {
            return Frame::Foreign;
        }
        // Nothing puts fragments together, and smoltcp takes each for a whole packet.
        if packet.more_frags() || packet.frag_offset() != 0 {
            return Frame::Foreign;
        }
        if packet.next_header() != IpProtocol::Tcp {
            return Frame::Other;
        }
        Frame::of_segment(packet.payload(), from.into(), to.into())
    }

    fn of_v6(payload: &[u8], mac: Mac, own: &Addresses) -> Frame {
        let Ok(packet) = Ipv6Packet::new_checked(payload) else { return Frame::Other };
        let (from, to) = (packet.src_addr(), packet.dst_addr());
        if let Some(found) = discovery::of_packet(&packet, mac, own) {
            return told(found);
        }
        match packet.next_header() {
            _ if !is_between(from.into(), to.into(), own) => Frame::Foreign,
            IpProtocol::Ipv6Frag => Frame::Foreign,
            IpProtocol::Tcp => Frame::of_segment(packet.payload(), from.into(), to.into()),
            _ => Frame::Other,
        }
    }

    fn of_segment(segment: &[u8], from: IpAddress, to: IpAddress) -> Frame {
        match TcpPacket::new_checked(segment) {
            Ok(segment) if segment.syn() && !segment.ack() && !segment.rst() => Frame::Syn {
                from: IpEndpoint::new(from, segment.src_port()),
                to: IpEndpoint::new(to, segment.dst_port()),
            },
            _ => Frame::Other,
        }
    }
}

/// Returns whether a packet is from another host, which could be answered, to this one.
fn is_between(from: IpAddress, to: IpAddress, own: &Addresses) -> bool {
    let from = bytes_of(from);
    own.is_own(bytes_of(to)) && !own.is_own(from) && own.reaches(from)
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
