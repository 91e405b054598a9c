//! What a program's image says of the kernel that is to run it.

use abi::names::Name;
use alloc::vec::Vec;
use kernel_place::{Affinity, To};
use kernel_seal::Image;

/// What a program says of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    pub kernel: kernel_place::Preferences,
    /// Its endpoints; without those whose contract has no hash, which older tools wrote.
    pub endpoints: Vec<Endpoint>,
}

/// What a program talks to, or a contract that it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub affinity: Affinity,
    /// The program serves the contract itself.
    pub is_own: bool,
    /// The contract, or the name, for people.
    pub shown: Vec<u8>,
}

/// Maximum number of endpoints of a manifest. More are ignored.
const MOST: usize = 64;

impl Preferences {
    /// Returns those in an authentic image.
    pub fn of_image(image: &Image<'_>) -> Preferences {
        Preferences::of((image.class, image.required, image.preferred), image.endpoints)
    }

    /// Returns those in the head of an image, and the bytes of its endpoints, neither of which need
    /// be authentic. Endpoints that are not valid are ignored.
    pub fn of_head(head: &kernel_seal::Preferences, bytes: &[u8]) -> Preferences {
        Preferences::of((head.class, head.required, head.preferred), bytes)
    }

    fn of((class, required, preferred): (u32, u8, u16), bytes: &[u8]) -> Preferences {
        let kernel = kernel_place::Preferences { class, required, preferred };
        Preferences { kernel, endpoints: endpoints(bytes) }
    }

    /// Returns the affinities of its endpoints.
    pub fn affinities(&self) -> Vec<Affinity> {
        self.endpoints.iter().map(|endpoint| endpoint.affinity).collect()
    }
}

fn endpoints(bytes: &[u8]) -> Vec<Endpoint> {
    let valid = kernel_seal::endpoints(bytes).flatten();
    let known = valid.filter_map(|it| {
        let (to, shown) = match it.to {
            kernel_seal::To::Contract { name, hash } => (To::Contract(hash?), name),
            kernel_seal::To::Name(name) => (To::Name(Name::new(name)?), name),
        };
        let affinity = Affinity { to, value: it.affinity };
        Some(Endpoint { affinity, is_own: it.is_own, shown: shown.to_vec() })
    });
    known.take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_without_a_hash_or_a_form_are_ignored() {
        let text = b"5 old.v1\0-3 new.v1 000102030405060708090a0b0c0d0e0f\0nonsense\0\
                     self own.v1 ffffffffffffffffffffffffffffffff\0-1 /kernel/main\0";
        let found = endpoints(text);
        let said: Vec<_> =
            found.iter().map(|it| (it.shown.as_slice(), it.affinity.value, it.is_own)).collect();
        let (new, own) = ((&b"new.v1"[..], -3, false), (&b"own.v1"[..], -1, true));
        assert_eq!(said, [new, own, (b"kernel/main", -1, false)]);
        let hash = core::array::from_fn(|at| at as u8);
        let to: Vec<_> = found.iter().map(|it| it.affinity.to).collect();
        let name = Name::new(b"kernel/main").unwrap();
        assert_eq!(to, [To::Contract(hash), To::Contract([0xff; 16]), To::Name(name)]);
        let many = b"1 a.v1 000102030405060708090a0b0c0d0e0f\0".repeat(MOST + 1);
        assert_eq!(endpoints(&many).len(), MOST);
    }
}
