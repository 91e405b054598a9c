//! Sockets: the self-test on each kernel, and an echo in one kernel for who talks in another.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};

/// So much, or a quarter of it where the sanitizer watches each access.
fn so_many(rig: &Rig, count: u64) -> u64 {
    if rig.watched { count / 4 } else { count }
}

/// An echo on `server` at `port`, which `client` talks to: `""`, or `"on DOMAIN "`.
fn talk(rig: &mut Rig, server: &str, client: &str, port: u16) -> Result<(), Failure> {
    demand(rig, &format!("{server}net serve {port}"), "listening")?;
    let bytes = so_many(rig, 20_000);
    let whole = format!("{bytes} of {bytes} bytes and 8 of 8 datagrams came back");
    demand(rig, &format!("{client}net talk {port} {bytes}"), &whole)?;
    // It was for one talk.
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

/// Two kernels, one service, whatever the mode.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let rounds = so_many(rig, 8);
    demand(rig, &format!("net check {rounds}"), "all as sent")?;
    demand(rig, &format!("on shadow net check {rounds}"), "all as sent")?;
    talk(rig, "", "on shadow ", 7)?;
    talk(rig, "on shadow ", "", 8)
}

/// The same on sockets in memory that both kernels have: who asks moves the other's packets too.
pub fn shared(rig: &mut Rig) -> Result<(), Failure> {
    together(rig)?;
    // One executes in the midst of what the other one executes.
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
