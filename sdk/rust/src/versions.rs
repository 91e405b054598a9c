//! Functions with a version for SIMD (`docs/howto/use-simd.md`).

/// Defines a function in two versions: a plain one, and one for ISAs with SIMD. The installer
/// selects one of them for each ISA, for calls and for pointers.
///
/// ```ignore
/// penumbra::versions! {
///     /// Returns the sum of all values.
///     pub fn sum(values: &[i32]) -> i32 {
///         values.iter().sum()
///     }
///     simd128 {
///         use core::arch::wasm32::*;
///         let (fours, rest) = values.as_chunks();
///         let add = |all, &[a, b, c, d]: &[i32; 4]| i32x4_add(all, i32x4(a, b, c, d));
///         ...
///     }
/// }
/// ```
/// Both must return the same: of a call, the compiler may conclude what follows from the plain
/// body. The second body may call the function, and gets the plain version. Parameters are plain
/// names; there are no generics. On a host there is the plain version only.
///
/// Both are exported by the function's path, so the module may be stripped.
#[macro_export]
macro_rules! versions {
    (
        $(#[$attribute:meta])*
        $visible:vis fn $name:ident($($parameter:ident: $kind:ty),* $(,)?) $(-> $result:ty)?
        $plain:block
        simd128 $simd:block
    ) => {
        $(#[$attribute])*
        #[cfg_attr(
            target_family = "wasm",
            unsafe(export_name = concat!(module_path!(), "::", stringify!($name)))
        )]
        #[inline(never)]
        $visible fn $name($($parameter: $kind),*) $(-> $result)? $plain

        #[cfg(target_family = "wasm")]
        const _: () = {
            #[unsafe(export_name = concat!(module_path!(), "::", stringify!($name), "@simd128"))]
            #[target_feature(enable = "simd128")]
            fn simd128($($parameter: $kind),*) $(-> $result)? $simd
        };
    };
}

#[cfg(test)]
mod tests {
    crate::versions! {
        /// With attributes, a trailing comma, and a second body that no host can compile.
        fn sum(one: u32, other: u32,) -> u32 {
            one + other
        }
        simd128 {
            no_such_function(one, other)
        }
    }

    crate::versions! {
        fn clear(all: &mut [u8]) {
            all.fill(0);
        }
        simd128 {
            no_such_function(all)
        }
    }

    #[test]
    fn a_host_has_the_plain_version() {
        let mut all = [1, 2];
        clear(&mut all);
        assert_eq!((sum(2, 3), all), (5, [0, 0]));
    }
}
