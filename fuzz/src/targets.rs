//! libFuzzer on one of `abuse`'s targets: the one that the environment names as FUZZ_TARGET.
#![no_main]

use abuse::Target;
use std::sync::LazyLock;

/// The state of services is in arenas of their own.
#[global_allocator]
static ALLOCATOR: abuse::Allocator = abuse::allocator();

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    abuse::target(&name).unwrap_or_else(|| panic!("there is no target {name}"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (TARGET.run)(bytes);
});
