//! `codes!` defines an enum that travels as a number: the enum, the list of its variants, and the
//! checked conversion from a number.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$item:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum $name { $($(#[$item])* $variant = $code,)* }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Returns `None` for a number without a variant.
            pub const fn from_code(code: u16) -> Option<$name> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use codes;
