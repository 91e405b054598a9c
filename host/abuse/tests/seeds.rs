//! Every target over a few seeds; nightly over many (`main.rs`). Each target must also have the
//! outcomes that it names: see `Target::outcomes`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use abuse::TARGETS;

/// The state of services is in arenas of their own.
#[global_allocator]
static ALLOCATOR: abuse::Allocator = abuse::allocator();

fn holds(name: &str) {
    let target = abuse::target(name).unwrap();
    let missing = target.run_seeds(target.daily);
    assert!(missing.is_empty(), "{name}: none of {} inputs had: {missing:?}", target.daily);
    // No bytes and a few equal ones are inputs, too.
    for bytes in [&[][..], &[0; 64], &[0xff; 64]] {
        (target.run)(bytes);
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn each_target_has_a_test() {
            let tested = [$(stringify!($name)),*];
            let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(all, tested);
        }
    };
}

targets! { wasi ext2 streams vsock carry control rpc dsm seal manifest board net channels }
