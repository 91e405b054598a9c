//! Calls where one waits for the other: nested, and to a peer that hangs.

use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use std::time::Duration;

/// Commands that call on are answered as deep as levels go, and refused with a reason below.
pub fn nested(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "on shadow on main on shadow peers", "(this kernel)")?;
    let too_deep = "deeper nested than a call can be";
    demand(rig, "on shadow on main on shadow on main on shadow peers", too_deep)?;
    demand(rig, "on shadow on main ping", "answer from 1")?;
    // Threads that a command makes and waits for call at its level.
    demand(rig, "on shadow on main both 50", "0 wrong from either side")?;
    demand(rig, "on shadow on main on shadow both 20", "the peer's storm failed")?;
    // No handler and no reply slot was lost on the way.
    demand(rig, "both 100", "0 wrong from either side").map(|_| ())
}

/// A kernel that has come up does nothing any more after this time.
const IDLE: Duration = Duration::from_secs(3);

/// A peer that is not dead but does nothing is given up, and found well when it goes on. It hangs
/// while it is idle: one that hung in a step of a shared service would have that to itself.
pub fn hung(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "ping shadow", "answer from 1")?;
    std::thread::sleep(IDLE);
    // What main needs for its console is main's again.
    demand(rig, "ping shadow", "answer from 1")?;
    rig.hang("shadow", true)?;
    let silent = "Silent: that kernel runs, but does not answer";
    demand(rig, "ping shadow", silent)?;
    demand(rig, "on shadow peers", silent)?;
    rig.hang("shadow", false)?;
    demand(rig, "ping shadow", "answer from 1")?;
    // A command may take longer than patience lasts: its kernel answers other calls meanwhile.
    demand(rig, "on shadow nap 12000", "slept 12000 ms")?;
    demand(rig, "rpc 100", " 0 lost with their peer, 0 refused, 0 wrong").map(|_| ())
}
