//! The device, the stack at the other end of the cable and the hostile frames of the network
//! service's own tests.
#![allow(dead_code, reason = "a part of it is used")]

#[path = "../../../../services/net/tests/outside/frames.rs"]
pub mod frames;
#[path = "../../../../services/net/tests/outside/hosts.rs"]
pub mod hosts;
#[path = "../../../../services/net/tests/outside/lent.rs"]
pub mod lent;
#[path = "../../../../services/net/tests/outside/world.rs"]
pub mod world;

pub use smoltcp::iface::SocketHandle;
