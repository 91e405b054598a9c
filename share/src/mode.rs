//! The five modes, and where each executes a request. The board file chooses; neither the service
//! nor who calls it can tell.
//!
//! | mode | state | executed |
//! | --- | --- | --- |
//! | private | each kernel its own, unrelated | here |
//! | independent | each kernel its own, rarely coordinated | here |
//! | shadowed | one, in memory that kernels share | here |
//! | partitioned | one, cut by key over kernels | at the key's owner |
//! | delegated | one | at its owner |

use abi::boot::mode;
use base::id::DomainId;

/// How a service is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each kernel its own, unrelated.
    Private,
    /// Each kernel its own; a meta-level manager coordinates, rarely.
    Independent,
    /// One state in memory that kernels share.
    Shadowed,
    /// One state, cut by key over kernels.
    Partitioned,
    /// One state, at its home.
    Delegated(DomainId),
}

/// Where a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// By whoever was asked.
    Here,
    /// In that kernel, by message.
    At(DomainId),
}

impl Mode {
    /// From a board's blob; `None` when it makes no sense.
    pub fn from_blob(service: &abi::boot::Service) -> Option<Mode> {
        let home = || u8::try_from(service.home).ok().map(DomainId);
        Some(match service.mode {
            mode::PRIVATE => Mode::Private,
            mode::INDEPENDENT => Mode::Independent,
            mode::SHADOWED => Mode::Shadowed,
            mode::PARTITIONED => Mode::Partitioned,
            mode::DELEGATED => Mode::Delegated(home()?),
            _ => return None,
        })
    }

    /// Its name in board files.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Private => "private",
            Mode::Independent => "independent",
            Mode::Shadowed => "shadowed",
            Mode::Partitioned => "partitioned",
            Mode::Delegated(_) => "delegated",
        }
    }

    /// Where kernel `me` of `kernels` has a request with `key` executed.
    pub fn place(self, me: DomainId, kernels: u8, key: u64) -> Place {
        let owner = match self {
            Mode::Private | Mode::Independent | Mode::Shadowed => me,
            Mode::Partitioned => DomainId((key % u64::from(kernels.max(1))) as u8),
            Mode::Delegated(home) => home,
        };
        if owner == me { Place::Here } else { Place::At(owner) }
    }

    /// Does the state lie in memory that kernels share?
    pub const fn is_shared(self) -> bool {
        matches!(self, Mode::Shadowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_knows_its_place() {
        let (main, shadow) = (DomainId(0), DomainId(1));
        for mode in [Mode::Private, Mode::Independent, Mode::Shadowed] {
            assert_eq!(mode.place(shadow, 2, 7), Place::Here);
        }
        assert_eq!(Mode::Delegated(main).place(shadow, 2, 7), Place::At(main));
        assert_eq!(Mode::Delegated(main).place(main, 2, 7), Place::Here);
        assert_eq!(Mode::Partitioned.place(main, 2, 7), Place::At(shadow));
        assert_eq!(Mode::Partitioned.place(shadow, 2, 7), Place::Here);
    }

    #[test]
    fn a_blob_without_sense_has_no_mode() {
        let service = |mode, home| abi::boot::Service { name: [0; 16], mode, home };
        assert_eq!(Mode::from_blob(&service(3, 0)), Some(Mode::Shadowed));
        assert_eq!(Mode::from_blob(&service(5, 1)), Some(Mode::Delegated(DomainId(1))));
        assert_eq!(Mode::from_blob(&service(5, 300)), None);
        assert_eq!(Mode::from_blob(&service(9, 0)), None);
    }
}
