//! The network device: virtio-net (virtio 1.3, 5.1), one pair of queues. It carries Ethernet frames
//! between the chip and a network outside; [`crate::net`] has the requests of sockets.
//!
//! Every frame in either direction follows a header of [`HEADER`] bytes. No offload is offered, so
//! the driver sends zeroes there, except that the device sets the number of buffers to 1.
//!
//! The configuration space ([`Config`]) begins as virtio's. Our addresses follow: they are the
//! board file's, and the soc writes them before any domain runs.

use zerocopy::big_endian::U16 as U16Be;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// virtio device id.
pub const DEVICE_ID: u64 = 1;
/// Queue to the driver.
pub const RECEIVE: usize = 0;
/// Queue to the device.
pub const TRANSMIT: usize = 1;
/// Bytes before each frame.
pub const HEADER: usize = 12;
/// Offset in that header of the number of buffers, a little-endian 16-bit word.
pub const HEADER_BUFFERS: usize = 10;
/// Largest packet.
pub const MTU: usize = 1500;
/// Smallest MTU that a network may have: what every host must be able to receive.
pub const MTU_LEAST: usize = 576;
/// Bytes of a frame's own header; a shorter frame is none.
pub const FRAME_HEADER: usize = size_of::<FrameHeader>();
/// Largest frame, without a checksum: an Ethernet header and a packet.
pub const FRAME: usize = FRAME_HEADER + MTU;
/// VIRTIO_NET_F_MTU: [`Config::mtu`] is valid.
pub const MTU_FEATURE: u64 = 1 << 3;
/// VIRTIO_NET_F_MAC: [`Config::mac`] is valid. Without it there is no network.
pub const MAC_FEATURE: u64 = 1 << 5;
/// VIRTIO_NET_F_STATUS: [`Config::status`] is valid.
pub const STATUS_FEATURE: u64 = 1 << 16;
/// All of these.
pub const FEATURES: u64 = MTU_FEATURE | MAC_FEATURE | STATUS_FEATURE;
/// Bit of [`Config::status`]: a network is attached.
pub const LINK_UP: u16 = 1;

/// The addresses of the chip and of its network. Zeroes: there is none.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
pub struct Addresses {
    pub v4: [u8; 4],
    /// The next hop to other networks.
    pub gateway_v4: [u8; 4],
    /// The server of names.
    pub names_v4: [u8; 4],
    /// Length of the network's prefix in bits.
    pub prefix_v4: u8,
    pub prefix_v6: u8,
    pub reserved: [u8; 2],
    pub v6: [u8; 16],
    pub gateway_v6: [u8; 16],
    pub names_v6: [u8; 16],
}

/// The header of a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct FrameHeader {
    pub to: [u8; 6],
    pub from: [u8; 6],
    /// One of [`kind`].
    pub kind: U16Be,
}

/// What a frame contains.
pub mod kind {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const IPV6: u16 = 0x86dd;
}

/// A message of ARP (RFC 826) about an IPv4 address.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct Arp {
    /// [`arp::FORMAT`].
    pub format: [u8; 6],
    /// [`arp::REQUEST`] or [`arp::REPLY`].
    pub operation: U16Be,
    pub from_mac: [u8; 6],
    pub from: [u8; 4],
    pub to_mac: [u8; 6],
    pub to: [u8; 4],
}

/// Values in [`Arp`].
pub mod arp {
    /// Ethernet, IPv4, and the lengths of their addresses.
    pub const FORMAT: [u8; 6] = [0, 1, 8, 0, 6, 4];
    pub const REQUEST: u16 = 1;
    pub const REPLY: u16 = 2;
}

/// A question for a neighbour's hardware address, or an answer (RFC 4861): the message of ICMPv6,
/// with the option that our own messages have.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct Discovery {
    pub about: Question,
    /// [`discovery::SOURCE`] or [`discovery::TARGET`].
    pub option: u8,
    /// 1: 8 bytes.
    pub option_length: u8,
    pub mac: [u8; 6],
}

/// The part before the options.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct Question {
    /// [`discovery::SOLICITATION`] or [`discovery::ADVERTISEMENT`].
    pub kind: u8,
    /// 0.
    pub code: u8,
    pub checksum: [u8; 2],
    /// Of an answer: [`discovery::SOLICITED`], [`discovery::OVERRIDE`].
    pub flags: u8,
    pub reserved: [u8; 3],
    /// The neighbour that is asked for, or that answers.
    pub target: [u8; 16],
}

/// Values in [`Discovery`].
pub mod discovery {
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;
    /// All kinds of neighbour discovery: routers', neighbours' and redirects.
    pub const ALL: core::ops::RangeInclusive<u8> = 133..=137;
    pub const SOLICITED: u8 = 1 << 6;
    pub const OVERRIDE: u8 = 1 << 5;
    /// Option: the hardware address of the sender of a question.
    pub const SOURCE: u8 = 1;
    /// Option: the hardware address of the target, in an answer.
    pub const TARGET: u8 = 2;
    /// What the hop limit must be: no router has passed it on.
    pub const HOPS: u8 = 255;
}

/// The configuration space.
#[repr(C)]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
pub struct Config {
    /// Address of the chip's interface.
    pub mac: [u8; 6],
    /// Bits: [`LINK_UP`].
    pub status: U16,
    /// 1.
    pub queue_pairs: U16,
    /// Largest packet without the Ethernet header.
    pub mtu: U16,
    pub reserved: U32,
    /// Ours.
    pub addresses: Addresses,
}

const _: () = assert!(size_of::<Addresses>() == 64 && size_of::<Config>() == 80);
const _: () = assert!(FRAME_HEADER == 14 && size_of::<Arp>() == 28);
const _: () = assert!(size_of::<Discovery>() == 32 && size_of::<Question>() == 24);
