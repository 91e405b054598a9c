//! What runs did, in numbers that add up.

/// Declares a `Tally`: counters, and the sum of two of them.
macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What runs did.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            /// Adds another run.
            pub fn add(&mut self, other: Tally) {
                $(self.$name += other.$name;)*
            }
        }
    };
}
pub(crate) use tally;
