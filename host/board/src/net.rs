//! Checks of the addresses of a `[[device]]` of kind `net`.
//!
//! Every key has a default; together they are the network that libslirp, and so QEMU, makes by
//! default. A file that moves the chip to another network must write its gateway and its server of
//! names as well.

use crate::error::{Place, Reason};
use crate::file;
use crate::memory::range;
use crate::types::{DeviceKind, Net, Network};
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use toml::Spanned;

/// Defaults for missing keys.
mod default {
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A locally administered address, as QEMU's first network device has.
    pub const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
    pub const PREFIX: u8 = 24;
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
    pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
    pub const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
    pub const PREFIX6: u8 = 64;
    pub const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0x15);
    pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 2);
    pub const NAMES6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 3);
}

/// Text of a key, if the file has it.
type Written<'a> = &'a Option<Spanned<String>>;

/// Returns the addresses of a network device; `None` for other kinds, which may have no such key.
pub fn net(device: &file::Device) -> Place<Option<Net>> {
    if device.kind != DeviceKind::Net {
        let file::Device { mac, address, gateway, names, address6, gateway6, names6, .. } = device;
        let keys = [mac, address, gateway, names, address6, gateway6, names6];
        return match keys.into_iter().flatten().next() {
            None => Ok(None),
            Some(other) => {
                let why = "addresses are for net devices only".to_string();
                Err((other.span().start, Reason::Conflict(why)))
            }
        };
    }
    let v4 = Network {
        address: default::ADDRESS,
        prefix: default::PREFIX,
        gateway: default::GATEWAY,
        names: default::NAMES,
    };
    let v6 = Network {
        address: default::ADDRESS6,
        prefix: default::PREFIX6,
        gateway: default::GATEWAY6,
        names: default::NAMES6,
    };
    Ok(Some(Net {
        mac: mac(&device.mac)?,
        v4: network(v4, [&device.address, &device.gateway, &device.names])?,
        v6: network(v6, [&device.address6, &device.gateway6, &device.names6])?,
    }))
}

/// An IPv4 or IPv6 address.
trait Address: Copy + Eq + Display + FromStr {
    /// What the keys are called, and an example of a network.
    const GATEWAY: &'static str;
    const NAMES: &'static str;
    const EXAMPLE: &'static str;
    const BITS: u8;

    fn bits(self) -> u128;
    fn is_multicast(self) -> bool;
}

impl Address for Ipv4Addr {
    const GATEWAY: &'static str = "gateway";
    const NAMES: &'static str = "names";
    const EXAMPLE: &'static str = "10.0.2.15/24";
    const BITS: u8 = 32;

    fn bits(self) -> u128 {
        self.to_bits().into()
    }

    fn is_multicast(self) -> bool {
        Ipv4Addr::is_multicast(&self) || self.is_broadcast()
    }
}

impl Address for Ipv6Addr {
    const GATEWAY: &'static str = "gateway6";
    const NAMES: &'static str = "names6";
    const EXAMPLE: &'static str = "fec0::15/64";
    const BITS: u8 = 128;

    fn bits(self) -> u128 {
        self.to_bits()
    }

    fn is_multicast(self) -> bool {
        Ipv6Addr::is_multicast(&self)
    }
}

/// Returns the network in which the keys for address, gateway and server of names replace
/// `default`.
fn network<A: Address>(default: Network<A>, keys: [Written<'_>; 3]) -> Place<Network<A>> {
    let [address, gateway, names] = keys;
    let mut network = default;
    if let Some(written) = address {
        (network.address, network.prefix) = with_prefix(written)?;
    }
    if let Some(written) = gateway {
        network.gateway = host(written)?;
    }
    if let Some(written) = names {
        network.names = host(written)?;
    }
    let Network { address: ours, prefix, gateway: next, .. } = network;
    let at = gateway.as_ref().or(address.as_ref()).map_or(0, |written| written.span().start);
    if ours == next || !within(ours, prefix, next) {
        let key = A::GATEWAY;
        let why = format!("the {key} {next} is not another host in the network of {ours}/{prefix}");
        return Err((at, Reason::Conflict(why)));
    }
    if names.is_none() && (ours == network.names || !within(ours, prefix, network.names)) {
        let why = format!("the network of {ours}/{prefix} needs a server of names: {}", A::NAMES);
        return Err((at, Reason::Missing(why)));
    }
    Ok(network)
}

/// Returns whether both addresses have the same prefix.
fn within<A: Address>(one: A, prefix: u8, other: A) -> bool {
    (one.bits() ^ other.bits()) >> (A::BITS - prefix) == 0
}

/// Reads "10.0.2.15/24": the address of a host, and the length of its network's prefix.
fn with_prefix<A: Address>(written: &Spanned<String>) -> Place<(A, u8)> {
    let text = written.get_ref();
    let refused = || {
        let must = format!("an address of a host with its prefix, such as {:?}", A::EXAMPLE);
        (written.span().start, range("the address", text, &must))
    };
    let (address, prefix) = text.split_once('/').ok_or_else(refused)?;
    let address: A = address.parse().map_err(|_| refused())?;
    let prefix: u8 = prefix.parse().map_err(|_| refused())?;
    // A host's own bits: neither of the two values that IPv4 reserves.
    if !(1..=A::BITS - 2).contains(&prefix) || address.is_multicast() {
        return Err(refused());
    }
    let own = u128::MAX >> (128 - (A::BITS - prefix));
    match address.bits() & own {
        0 => Err(refused()),
        last if last == own && A::BITS == 32 => Err(refused()),
        _ => Ok((address, prefix)),
    }
}

/// Reads the address of a single host.
fn host<A: Address>(written: &Spanned<String>) -> Place<A> {
    let address = written.get_ref().parse().ok().filter(|a: &A| !a.is_multicast() && a.bits() != 0);
    address.ok_or_else(|| {
        let version = if A::BITS == 32 { "an IPv4 address" } else { "an IPv6 address" };
        let must = format!("{version} of a host");
        (written.span().start, range("the address", written.get_ref(), &must))
    })
}

/// Reads "52:54:00:12:34:56".
fn mac(written: Written<'_>) -> Place<[u8; 6]> {
    let Some(written) = written else { return Ok(default::MAC) };
    let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let bytes: Option<Vec<u8>> = written.get_ref().split(':').map(byte).collect();
    let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    // The lowest bit of the first byte marks groups.
    mac.filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6]).ok_or_else(|| {
        let must = "an Ethernet address of one device, such as \"52:54:00:12:34:56\"";
        (written.span().start, range("mac", written.get_ref(), must))
    })
}
