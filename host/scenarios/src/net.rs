//! Sockets: the self-test on each kernel, and an echo server in one kernel for a client in the
//! other.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};

/// Returns `count`, or a quarter of it if the sanitizer is active.
fn so_many(rig: &Rig, count: u64) -> u64 {
    if rig.watched { count / 4 } else { count }
}

/// Runs an echo server on `server` at `port` and a client on `client`: `""`, or `"on DOMAIN "`.
fn talk(rig: &mut Rig, server: &str, client: &str, port: u16) -> Result<(), Failure> {
    demand(rig, &format!("{server}net serve {port}"), "listening")?;
    let bytes = so_many(rig, 20_000);
    let whole = format!("{bytes} of {bytes} bytes and 8 of 8 datagrams came back");
    demand(rig, &format!("{client}net talk {port} {bytes}"), &whole)?;
    // The server has ended after one client.
    demand(rig, &format!("{client}net talk {port}"), "nothing listens on that port").map(|_| ())
}

/// One kernel: the self-test, and an echo between two of its threads.
pub fn alone(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "net check 50", "all as sent")?;
    talk(rig, "", "", 7)?;
    demand(rig, "net talk 0", "refused")?;
    demand(rig, "services", "net          independent").map(|_| ())
}

/// Two kernels and one service, in any mode.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let rounds = so_many(rig, 8);
    demand(rig, &format!("net check {rounds}"), "all as sent")?;
    demand(rig, &format!("on shadow net check {rounds}"), "all as sent")?;
    talk(rig, "", "on shadow ", 7)?;
    talk(rig, "on shadow ", "", 8)
}

/// The same with sockets in memory shared by both kernels: a request also moves the other kernel's
/// packets.
pub fn shared(rig: &mut Rig) -> Result<(), Failure> {
    together(rig)?;
    // Both kernels execute steps concurrently.
    let rounds = so_many(rig, 20);
    demand(rig, &format!("aside net check {rounds}"), "begun")?;
    demand(rig, &format!("on shadow net check {}", rounds / 2), "all as sent")?;
    rig.said_aside("main", &format!("net check {rounds}"), "all as sent", 1)?;
    for kernel in ["", "on shadow "] {
        demand(rig, &format!("{kernel}services"), "net          shadowed")?;
        demand(rig, &format!("{kernel}audit"), "the invariant holds")?;
    }
    Ok(())
}
