//! Programs whose functions have a version for SIMD: an ISA with SIMD has it, one without has the
//! plain one and no trap, and a program that can move is the same on both.

use super::threads::{put, succeeds};
use super::{Failure, PATIENCE, Rig};

/// Programs of apps/corpus.toml, with the versions that they have on each kernel.
const PROGRAMS: [(&str, [(&str, &str); 2]); 3] = [
    ("versions", [("main", "simd128"), ("shadow", "plain")]),
    ("versions-rust", [("main", "simd128"), ("shadow", "plain")]),
    ("versions-movable", [("main", "plain"), ("shadow", "plain")]),
];

/// Each program has the right versions on each kernel, and computes the same.
pub fn selected(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for (program, kernels) in PROGRAMS {
        put(rig, program)?;
        for (kernel, version) in kernels {
            let says = format!("ok call\nok pointers\nok the same version\n{version}\n");
            succeeds(rig, kernel, program, &[], says.as_bytes())?;
        }
    }
    Ok(())
}
