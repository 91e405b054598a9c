//! Identifiers, each a type of its own.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A coherence domain, and the kernel on it.
    DomainId(u8)
}
id! {
    /// A core within its domain.
    CoreId(u8)
}
id! {
    /// A doorbell vector.
    Vector(u8)
}

/// Number of cold boots of a domain; messages of an older epoch are stale. Never 0 while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u16);

/// A kernel in one of its lives. Epochs of a kernel rise and are never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    pub kernel: DomainId,
    pub epoch: Epoch,
}
