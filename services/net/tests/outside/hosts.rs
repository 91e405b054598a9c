//! The hosts of the network: addresses of both families.

use abi::net::{Address, LOCALHOST, LOCALHOST_V6, v4};

pub const OURS: [u8; 4] = [10, 0, 2, 15];
pub const PEER: [u8; 4] = [10, 0, 2, 2];
pub const FAR: [u8; 4] = [93, 184, 216, 34];

/// The addresses of one family.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    pub ours: Address,
    pub peer: Address,
    /// Beyond the gateway, which is the peer; the peer answers for it.
    pub far: Address,
    /// A neighbour that is not there.
    pub silent: Address,
    pub localhost: Address,
}

impl Hosts {
    /// Returns the neighbour with this number.
    #[allow(dead_code, reason = "a part of this file is used")]
    pub fn neighbour(&self, number: u8) -> Address {
        let mut address = self.ours;
        address[15] = number;
        address
    }
}

pub const V4: Hosts = Hosts {
    ours: v4(OURS),
    peer: v4(PEER),
    far: v4(FAR),
    silent: v4([10, 0, 2, 77]),
    localhost: LOCALHOST,
};

pub const V6: Hosts = Hosts {
    ours: v6(0xfec0, 0x15),
    peer: v6(0xfec0, 2),
    far: v6(0x2001, 34),
    silent: v6(0xfec0, 77),
    localhost: LOCALHOST_V6,
};

pub const fn v6(first: u16, last: u8) -> Address {
    let [a, b] = first.to_be_bytes();
    [a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}
