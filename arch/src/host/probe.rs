//! The accesses of `crate::probe`, as plain ones: on a host, one that faults ends the test.

use crate::probe::Outcome;

#[unsafe(no_mangle)]
unsafe extern "C" fn probe_load(address: u64) -> Outcome {
    // SAFETY: tests pass the addresses of their own words.
    Outcome { value: unsafe { (address as *const u64).read_volatile() }, faulted: 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn probe_store(address: u64, value: u64) -> Outcome {
    // SAFETY: as above.
    unsafe { (address as *mut u64).write_volatile(value) };
    Outcome { value, faulted: 0 }
}

/// Refused: the return instruction is another ISA's.
#[unsafe(no_mangle)]
extern "C" fn probe_execute(_: u64) -> Outcome {
    Outcome { value: 0, faulted: 1 }
}

/// Never reached: no probe faults.
#[unsafe(no_mangle)]
extern "C" fn probe_fixed() {}

/// Never reached.
#[unsafe(no_mangle)]
extern "C" fn probe_execute_fixed() {}
