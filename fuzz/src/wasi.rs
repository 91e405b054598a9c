//! libFuzzer on the functions that programs call: `abuse::exercise` says what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    abuse::exercise(bytes);
});
