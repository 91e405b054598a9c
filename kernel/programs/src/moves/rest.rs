//! What a process has besides its memory, as bytes ([`abi::moves::Rest`] and what follows it).

use abi::moves::{Image, Kin, Rest as Head};
use abi::program::{ARGUMENTS, BEGIN_NET, BEGIN_SIGNALS, IMAGE_STRINGS};
use abi::quota::HANDLES;
use alloc::vec::Vec;
use kernel_engine::{Area, Unwound};
use kernel_process::Errno;
use kernel_process::begin::{self, Limits};
use kernel_process::saved::Parts;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Most globals, and most images: a board has few ISAs.
const GLOBALS: usize = 1024;
const IMAGES: usize = 8;
/// Most bytes of all.
pub const MOST: usize = 2 * (ARGUMENTS + IMAGE_STRINGS) + HANDLES as usize * 512 + (64 << 10);

/// What a process has used and waits for, and files that it holds besides its descriptors.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// CPU time in ns, peak memory in bytes, requests to services.
    pub used: [u64; 3],
    /// When the call began in which it waits, in chip time.
    pub called: u64,
    pub images: Vec<Image>,
    pub children: Vec<Kin>,
}

/// What a process has besides its memory, decoded.
#[derive(Debug)]
pub struct Rest {
    pub held: Held,
    pub unwound: Unwound,
    pub table: Vec<u8>,
    limits: Limits,
    signals: bool,
    arguments: Vec<u8>,
    environment: Vec<u8>,
    net: Option<Vec<u8>>,
}

impl Rest {
    /// Returns the bytes of a process. Fails without memory, or if it has too much.
    pub fn encode(
        parts: &Parts<'_>,
        table: &[u8],
        unwound: &Unwound,
        held: &Held,
    ) -> Result<Vec<u8>, Errno> {
        let Held { used: [cpu, peak, messages], called, images, children } = held;
        let is_usual = unwound.globals.len() <= GLOBALS && images.len() <= IMAGES;
        let head = Head {
            cpu: *cpu,
            peak: *peak,
            messages: *messages,
            called: *called,
            memory: parts.limits.memory,
            descriptors: parts.limits.descriptors,
            rights: begin::rights(parts.signals, parts.net.is_some()),
            area: [unwound.area.at, unwound.area.bytes],
            globals: unwound.globals.len() as u32,
            images: images.len() as u32,
            children: children.len() as u32,
            arguments: parts.arguments.len() as u32,
            environment: parts.environment.len() as u32,
            net: parts.net.map_or(0, <[u8]>::len) as u32,
            table: table.len() as u32,
            reserved: 0,
        };
        let pieces = [
            head.as_bytes(),
            unwound.globals.as_bytes(),
            images.as_bytes(),
            children.as_bytes(),
            parts.arguments,
            parts.environment,
            parts.net.unwrap_or_default(),
            table,
        ];
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if !is_usual || length > MOST {
            return Err(Errno::TOOBIG);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Errno::NOMEM)?;
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(bytes)
    }

    /// Undoes [`Rest::encode`]. `None`: they are no such bytes, or there is no memory.
    pub fn decode(bytes: &[u8]) -> Option<Rest> {
        let (head, mut bytes) = Head::read_from_prefix(bytes).ok()?;
        let bytes = &mut bytes;
        let rest = Rest {
            unwound: Unwound {
                globals: list(bytes, head.globals)?,
                area: Area { at: head.area[0], bytes: head.area[1] },
            },
            held: Held {
                used: [head.cpu, head.peak, head.messages],
                called: head.called,
                images: list(bytes, head.images)?,
                children: list(bytes, head.children)?,
            },
            limits: Limits { memory: head.memory, descriptors: head.descriptors },
            signals: head.rights & BEGIN_SIGNALS != 0,
            arguments: list(bytes, head.arguments)?,
            environment: list(bytes, head.environment)?,
            net: restricted(head.rights, list(bytes, head.net)?)?,
            table: list(bytes, head.table)?,
        };
        let is_whole = bytes.is_empty() && rest.held.images.len() <= IMAGES;
        is_whole.then_some(rest)
    }

    pub fn parts(&self) -> Parts<'_> {
        let Rest { limits, signals, arguments, environment, net, .. } = self;
        let (limits, signals, net) = (*limits, *signals, net.as_deref());
        Parts { arguments, environment, limits, signals, net }
    }
}

/// Returns the rules of a process that has some.
fn restricted(rights: u32, rules: Vec<u8>) -> Option<Option<Vec<u8>>> {
    match rights & BEGIN_NET != 0 {
        true => Some(Some(rules)),
        false => rules.is_empty().then_some(None),
    }
}

/// Takes `count` values off the front of `bytes`.
fn list<T: FromBytes + Immutable + KnownLayout>(bytes: &mut &[u8], count: u32) -> Option<Vec<T>> {
    let length = (count as usize).checked_mul(size_of::<T>())?;
    let (front, rest) = bytes.split_at_checked(length)?;
    let mut values = Vec::new();
    values.try_reserve_exact(count as usize).ok()?;
    values.extend(front.chunks_exact(size_of::<T>()).filter_map(|it| T::read_from_bytes(it).ok()));
    *bytes = rest;
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn bytes() -> Vec<u8> {
        let limits = Limits { memory: 1 << 20, descriptors: 9 };
        let (arguments, environment) = (b"a\0bc\0", b"HOME=/\0");
        let net = Some(&b"listen:80\0"[..]);
        let parts = Parts { arguments, environment, limits, signals: true, net };
        let unwound = Unwound { globals: vec![1, u64::MAX], area: Area { at: 65536, bytes: 8 } };
        let images = vec![Image { handle: 5, isa: 1, reserved: 0 }];
        let children = vec![Kin { pid: 2, group: 3, kernel: 1, epoch: 4 }; 3];
        let held = Held { used: [1, 2, 3], called: 4, images, children };
        Rest::encode(&parts, &[7; 40], &unwound, &held).unwrap()
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let rest = Rest::decode(&bytes()).unwrap();
        assert_eq!(rest.unwound.globals, [1, u64::MAX]);
        assert_eq!(rest.unwound.area, Area { at: 65536, bytes: 8 });
        assert_eq!((rest.held.used, rest.held.called), ([1, 2, 3], 4));
        assert_eq!((rest.held.images.len(), rest.held.children.len()), (1, 3));
        assert_eq!(rest.held.children[2].epoch, 4);
        let parts = rest.parts();
        assert_eq!((parts.arguments, parts.environment), (&b"a\0bc\0"[..], &b"HOME=/\0"[..]));
        assert_eq!((parts.limits.memory, parts.limits.descriptors), (1 << 20, 9));
        assert!(parts.signals && rest.table == [7; 40]);
        assert_eq!(parts.net, Some(&b"listen:80\0"[..]));
    }

    #[test]
    fn bytes_of_another_kernel_may_be_anything() {
        let good = bytes();
        (0..good.len()).for_each(|end| assert!(Rest::decode(&good[..end]).is_none(), "{end}"));
        for (at, bit) in (0..good.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let _ = Rest::decode(&bad);
        }
        assert!(Rest::decode(&[good, vec![0]].concat()).is_none());
    }
}
