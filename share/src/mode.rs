//! The five modes, and where each executes a request.
//!
//! The board file chooses the mode; neither the service nor its callers can tell which it is.
//!
//! | mode | state | executed |
//! | --- | --- | --- |
//! | private | one per kernel, unrelated | locally |
//! | independent | one per kernel, parts of one resource | locally |
//! | shadowed | one, in memory that all kernels map | locally |
//! | partitioned | one, divided by key | at the key's owner |
//! | delegated | one | at its owner |
use abi::boot::mode;
use base::id::DomainId;

/// How a service is shared.
///
/// `Private` and `Independent` run alike, with one local state per kernel; they differ in that the
/// states of a private service are unrelated, while those of an independent one are parts of one
/// system-wide resource that a manager above them may rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One state per kernel, unrelated to the others.
    Private,
    /// One state per kernel, each a part of one resource.
    Independent,
    /// One state in memory that all kernels map; each kernel executes its own requests.
    Shadowed,
    /// One state divided by key; the key's owner executes a request.
    Partitioned,
    /// One state, held by the given kernel, which executes all requests.
    Delegated(DomainId),
}

/// Where a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// In the kernel that received it.
    Local,
    /// In the given kernel, by message.
    Remote(DomainId),
}

impl Mode {
    /// Decodes a board blob's entry; `None` for an unknown mode or a home that is not a domain id.
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

    /// Returns the name used in board files.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Private => "private",
            Mode::Independent => "independent",
            Mode::Shadowed => "shadowed",
            Mode::Partitioned => "partitioned",
            Mode::Delegated(_) => "delegated",
        }
    }

    /// Returns where kernel `me`, one of `kernels`, has a request with `key` executed.
    pub fn route(self, me: DomainId, kernels: u8, key: u64) -> Route {
        let owner = match self {
            Mode::Private | Mode::Independent | Mode::Shadowed => me,
            Mode::Partitioned => DomainId((key % u64::from(kernels.max(1))) as u8),
            Mode::Delegated(home) => home,
        };
        if owner == me { Route::Local } else { Route::Remote(owner) }
    }

    /// Returns whether the state lies in memory that all kernels map.
    pub const fn is_shared(self) -> bool {
        matches!(self, Mode::Shadowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_executes_a_request_at_its_owner() {
        let (main, shadow) = (DomainId(0), DomainId(1));
        for mode in [Mode::Private, Mode::Independent, Mode::Shadowed] {
            assert_eq!(mode.route(shadow, 2, 7), Route::Local);
        }
        assert_eq!(Mode::Delegated(main).route(shadow, 2, 7), Route::Remote(main));
        assert_eq!(Mode::Delegated(main).route(main, 2, 7), Route::Local);
        assert_eq!(Mode::Partitioned.route(main, 2, 7), Route::Remote(shadow));
        assert_eq!(Mode::Partitioned.route(shadow, 2, 7), Route::Local);
    }

    #[test]
    fn an_invalid_blob_entry_has_no_mode() {
        let service = |mode, home| abi::boot::Service { name: [0; 16], mode, home };
        assert_eq!(Mode::from_blob(&service(3, 0)), Some(Mode::Shadowed));
        assert_eq!(Mode::from_blob(&service(5, 1)), Some(Mode::Delegated(DomainId(1))));
        assert_eq!(Mode::from_blob(&service(5, 300)), None);
        assert_eq!(Mode::from_blob(&service(9, 0)), None);
    }
}
