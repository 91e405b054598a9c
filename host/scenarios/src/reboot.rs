//! A board that restarts on request of its software: files persist and nothing else does, and
//! connected clients are notified.

use super::disk::{begin, clean, content, done, mounted, poweroff, same};
use super::host::{pattern, pull, push};
use super::machine::demand;
use super::{Failure, PATIENCE, Rig};
use deploy::transfer::Stream;

/// From the monitor, and from the file that the tool `reboot` writes; without a sync before.
pub fn kept(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig, 1024)?;
    let process = rig.instance.soc();
    let large = pattern(6, 50_000);
    done(rig, "fs write disk/note the first life")?;
    push(&rig.instance, &large[..], "disk/large").map_err(Failure::Wrong)?;
    done(rig, "fs write volatile in memory only")?;
    let wrong = |why: anyhow::Error| Failure::Wrong(format!("{why:#}"));
    let mut stream = Stream::open(&rig.instance).map_err(wrong)?;
    rig.send("reboot")?;
    began(rig)?;
    match stream.receive() {
        Err(why) if why.to_string().contains("was restarted") => {}
        other => return Err(Failure::Wrong(format!("a stream survived the restart: {other:?}"))),
    }
    demand(rig, "fs cat disk/note", "the first life")?;
    same("the large file", &pull(&rig.instance, "disk/large").map_err(Failure::Wrong)?, &large)?;
    demand(rig, "fs cat volatile", "! ")?;
    demand(rig, "peers", "running   1      0")?;
    done(rig, "fs append disk/note and the second")?;
    rig.send("fs write proc/main/power reboot")?;
    began(rig)?;
    demand(rig, "fs cat disk/note", "and the second")?;
    if rig.instance.soc() != process {
        return Err(Failure::Wrong("the soc is not the same process as before".to_string()));
    }
    poweroff(rig)?;
    clean(&rig.instance)?;
    same("the note", &content(&rig.instance, "note")?, b"the first life\nand the second\n")
}

/// Continues with the next life, which can write the disk.
fn began(rig: &mut Rig) -> Result<(), Failure> {
    rig.rejoin()?;
    rig.expect("main> ", PATIENCE)?;
    mounted(rig, "free, ext2")
}
