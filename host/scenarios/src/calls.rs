//! Calls between kernels that wait for each other: nested ones, and calls to a peer that hangs.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use std::time::Duration;

/// Nested calls succeed down to the deepest level, and fail with a reason below it.
pub fn nested(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "on shadow on main on shadow peers", "(this kernel)")?;
    let too_deep = "deeper nested than a call can be";
    demand(rig, "on shadow on main on shadow on main on shadow peers", too_deep)?;
    demand(rig, "on shadow on main ping", "answer from 1")?;
    // Threads of a command call at the command's level.
    demand(rig, "on shadow on main both 50", "0 wrong from either side")?;
    demand(rig, "on shadow on main on shadow both 20", "the peer's storm failed")?;
    // No handler and no reply slot was lost.
    demand(rig, "both 100", "0 wrong from either side").map(|_| ())
}

/// After this time a booted kernel is idle.
const IDLE: Duration = Duration::from_secs(3);

/// A call to a peer that hangs is given up, and the peer is usable when it continues. It hangs
/// while idle: inside a step of a shared service it would block that service.
pub fn hung(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "ping shadow", "answer from 1")?;
    std::thread::sleep(IDLE);
    // Make the pages that main's console needs main's again.
    demand(rig, "ping shadow", "answer from 1")?;
    rig.hang("shadow", true)?;
    let silent = "Silent: that kernel runs, but does not answer";
    demand(rig, "ping shadow", silent)?;
    demand(rig, "on shadow peers", silent)?;
    rig.hang("shadow", false)?;
    demand(rig, "ping shadow", "answer from 1")?;
    // A command may take longer than the patience of a call: its kernel answers other calls
    // meanwhile.
    demand(rig, "on shadow nap 12000", "slept 12000 ms")?;
    demand(rig, "rpc 100", " 0 lost with their peer, 0 refused, 0 wrong").map(|_| ())
}
