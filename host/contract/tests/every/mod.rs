//! The generated code of `contracts/every.v1.toml`, and its message with fields of every kind.

#[rustfmt::skip]
#[path = "../generated/every_v1.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
pub mod every_v1;

pub fn all() -> every_v1::message::All {
    every_v1::message::All {
        tiny: -2,
        medium: 0x1234,
        name: penumbra::channel::Bytes::new(b"abc").unwrap(),
        large: -3,
        key: [7, 8, 9],
        small: 0x8765_4321,
        flag: 1,
        change: -300,
        sum: u64::MAX - 1,
        error: i32::MIN,
    }
}
