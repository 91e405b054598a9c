//! Counters of runs, which can be added up.

/// Declares a `Tally`: counters, and the sum of two of them.
macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of runs.
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
