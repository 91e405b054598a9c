//! A test program: functions with a version for SIMD, by the SDK's macro. It prints what
//! tests/programs/versions does in C.

use std::hint::black_box;

const COUNT: i32 = 1003;

penumbra::versions! {
    /// Leaves to the plain version what is left of four.
    fn sum(values: &[i32]) -> i32 {
        values.iter().sum()
    }
    simd128 {
        use core::arch::wasm32::{i32x4, i32x4_add, i32x4_extract_lane, i32x4_splat};
        let (fours, rest) = values.as_chunks();
        let mut all = i32x4_splat(0);
        for &[a, b, c, d] in fours {
            all = i32x4_add(all, i32x4(a, b, c, d));
        }
        i32x4_extract_lane::<0>(all)
            + i32x4_extract_lane::<1>(all)
            + i32x4_extract_lane::<2>(all)
            + i32x4_extract_lane::<3>(all)
            + sum(rest)
    }
}

penumbra::versions! {
    /// Returns what differs between the versions, so the compiler must not see it.
    fn which() -> &'static str {
        black_box("plain")
    }
    simd128 {
        "simd128"
    }
}

fn must(good: bool, what: &str) {
    println!("{} {what}", if good { "ok" } else { "wrong" });
    if !good {
        std::process::exit(1);
    }
}

fn main() {
    let values: Vec<i32> = (1..=COUNT).collect();
    must(sum(&values) == COUNT * (COUNT + 1) / 2 && sum(&[1, 2, 3]) == 6, "call");
    let pointer: fn(&[i32]) -> i32 = black_box(sum);
    must(pointer(&values) == sum(&values), "pointers");
    let pointer: fn() -> &'static str = black_box(which);
    must(pointer() == which(), "the same version");
    println!("{}", which());
}
