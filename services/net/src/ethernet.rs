//! The interface to Ethernet, and what a frame is before smoltcp reads it.

use crate::addresses::Addresses;
use crate::nic::{Counts, Nic};
use crate::patience::Stalls;
use alloc::boxed::Box;
use base::prng::Prng;
use smoltcp::iface::Interface;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket};
use smoltcp::wire::{IpAddress, IpEndpoint};

/// Bytes of a datagram's headers.
const IP_AND_UDP: usize = 28;

/// The interface, once the device has opened and given it addresses.
pub(crate) struct Attached {
    pub interface: Interface,
    pub addresses: Addresses,
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
    /// Its source cannot be outside: an address of this chip, or none.
    Forged,
    /// Begins a connection with this chip.
    Syn {
        from: IpEndpoint,
        to: IpEndpoint,
    },
    Other,
}

impl Frame {
    /// Looks at a frame. Nothing in it is believed: smoltcp checks everything again.
    pub fn of(frame: &[u8], own: [u8; 4]) -> Frame {
        let Ok(frame) = EthernetFrame::new_checked(frame) else { return Frame::Other };
        if frame.ethertype() != EthernetProtocol::Ipv4 {
            return Frame::Other;
        }
        let Ok(packet) = Ipv4Packet::new_checked(frame.payload()) else { return Frame::Other };
        let (from, to) = (packet.src_addr(), packet.dst_addr());
        if from.octets() == own || matches!(from.octets()[0], 0 | 127) {
            return Frame::Forged;
        }
        if packet.next_header() != IpProtocol::Tcp || packet.frag_offset() != 0 {
            return Frame::Other;
        }
        match TcpPacket::new_checked(packet.payload()) {
            Ok(segment)
                if to.octets() == own && segment.syn() && !segment.ack() && !segment.rst() =>
            {
                Frame::Syn {
                    from: IpEndpoint::new(IpAddress::Ipv4(from), segment.src_port()),
                    to: IpEndpoint::new(IpAddress::Ipv4(to), segment.dst_port()),
                }
            }
            _ => Frame::Other,
        }
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
