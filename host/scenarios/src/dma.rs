//! The DMA engine: contents, timing, rejected transfers, and a kernel that dies during transfers.

use super::machine::demand;
use super::peers::wait_for;
use super::{Failure, PATIENCE, Rig};
use abi::boot::device;
use abi::dma::{Control, Position, Status, control_at, status_at};
use abi::soc::state;
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// Maximum bandwidth of every board's engine, in tenths of MB/s.
const TENTHS: u64 = 490;
/// Reported by a kernel that may use all channels.
pub const ALL: &str = "our channels 0 1 2 3";
/// Number of invalid transfers in `dma faults`, and of those where other domains have memory.
const FAULTS: usize = 16;
const FAULTS_OF_OTHERS: usize = 2;
/// Number of channels of every board's engine.
const CHANNELS: usize = 4;
/// The weak domain.
const WEAK: u64 = 1;
/// How often the weak kernel is killed during transfers.
const KILLS: usize = 6;

/// One kernel has all channels.
pub fn solo(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    exercise(rig, "", ALL)?;
    demand(rig, "dma sideways", "usage: dma")?;
    demand(rig, "dma 4096 0", "usage: dma")?;
    demand(rig, "dma 1 2 3", "usage: dma")?;
    demand(rig, "dma 2000M", "at most")?;
    demand(rig, "dma 64M 64M", "no memory in one piece")?;
    demand(rig, "audit", "the invariant holds").map(|_| ())
}

/// One driver for both kernels, or one executed by main: both may use every channel.
pub fn shared(rig: &mut Rig) -> Result<(), Failure> {
    duo(rig, [ALL, ALL], 3200)
}

/// Each kernel drives the channels that were assigned to it.
pub fn apart(rig: &mut Rig) -> Result<(), Failure> {
    duo(rig, ["our channels 0 2", "our channels 1 3"], 1600)
}

/// Each kernel copies with the channels that it should have.
pub fn each(rig: &mut Rig, [here, there]: [&str; 2]) -> Result<(), Failure> {
    exercise(rig, "", here)?;
    exercise(rig, "on shadow ", there)
}

/// Both kernels copy, also concurrently; one dies during its transfers, sleeps, and comes back.
fn duo(rig: &mut Rig, [here, there]: [&str; 2], fills: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    each(rig, [here, there])?;
    // Two threads per core with a full batch each, in both kernels.
    let right = |fills| format!("{fills} of {fills} fills were right");
    demand(rig, "on shadow aside dma crowd 50", "begun")?;
    demand(rig, "dma crowd 50", &right(fills))?;
    rig.said_aside("shadow", "dma crowd 50", &right(1600), 1)?;
    for (total, batch) in [("256K", "4K"), ("2M", "128K")] {
        let both = demand(rig, &format!("dma both {total} {batch}"), "over there")?;
        let bytes = if batch == "4K" { 256 << 10 } else { 2 << 20 };
        copied(&both, 2, bytes, TENTHS)?;
    }
    kills(rig)?;
    sleeps(rig)?;
    exercise(rig, "on shadow ", there)?;
    asides(rig)?;
    demand(rig, "audit", "the invariant holds")?;
    demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
}

/// All operations of one kernel with the engine.
fn exercise(rig: &mut Rig, kernel: &str, channels: &str) -> Result<(), Failure> {
    let answer = demand(rig, &format!("{kernel}dma"), channels)?;
    copied(&answer, 4, 1 << 20, TENTHS)?;
    // Odd sizes, several descriptors per batch, many small ones.
    for (line, batches, bytes) in [
        ("dma 4096", 1, 4096),
        ("dma 9M 9M", 1, 9 << 20),
        ("dma 1000003 99991", 1, 1_000_003),
        ("dma 1 1", 1, 1),
        ("dma 10000 100", 1, 10_000),
    ] {
        let answer = demand(rig, &format!("{kernel}{line}"), "batch")?;
        copied(&answer, batches, bytes, TENTHS)?;
    }
    let has_others = rig.instance.board()?.domains.len() > 1;
    let faults = if has_others { FAULTS + FAULTS_OF_OTHERS } else { FAULTS };
    for _ in 0..3 {
        let answer = demand(rig, &format!("{kernel}dma faults"), "the engine copies as before")?;
        if answer.matches(" refused: ").count() != faults || answer.contains("DONE") {
            return Err(Failure::Wrong(format!("{kernel}dma faults: {answer}")));
        }
    }
    Ok(())
}

/// Checks that so many batches of `bytes` bytes were copied correctly, and not faster than the
/// engine.
fn copied(answer: &str, batches: usize, bytes: u64, tenths: u64) -> Result<(), Failure> {
    let wrong = |why| Err(Failure::Wrong(format!("{why}: {answer}")));
    let lines: Vec<&str> = answer.lines().filter(|line| line.contains("  batch ")).collect();
    if lines.len() != batches {
        return wrong("another number of batches");
    }
    for line in lines {
        if !line.contains(&format!(": {bytes} bytes in ")) || !line.contains(" 0 errors, 0 wrong, ")
        {
            return wrong("not everything was copied");
        }
        let speed = line.split(" MB/s").next().and_then(|head| head.rsplit(' ').next());
        match speed.and_then(|speed| speed.replace('.', "").parse::<u64>().ok()) {
            Some(speed) if speed <= tenths => {}
            _ => return wrong("faster than the engine, or no speed at all"),
        }
    }
    Ok(())
}

/// Waits until a channel has work for the weak domain.
fn until_busy(rig: &Rig) -> Result<(), Failure> {
    let board = rig.instance.board()?;
    let blob = board.blob().map_err(|e| Failure::Wrong(format!("its blob: {e:?}")))?;
    let engine = blob.devices().iter().find(|found| found.kind == device::DMA);
    let registers = engine.ok_or(Failure::Wrong("no engine".to_string()))?.registers;
    let word = |at: usize| rig.instance.word(&board, registers + at as u64).unwrap_or(0);
    let busy = |channel: usize| {
        let control = |field| word(control_at(channel, field));
        let submitted = Position::unpack(control(offset_of!(Control, submitted)));
        let completed = Position::unpack(word(status_at(channel, offset_of!(Status, completed))));
        let theirs = control(offset_of!(Control, holder)) == WEAK;
        theirs && submitted.same_session(completed) && submitted != completed
    };
    let start = Instant::now();
    while !(0..CHANNELS).any(busy) {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong("no channel is ever busy for shadow".to_string()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Killed during transfers: pending ones are dropped and logged, and both kernels continue to copy.
fn kills(rig: &mut Rig) -> Result<(), Failure> {
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    for _ in 0..KILLS {
        demand(rig, "aside dma 4M 64K", "begun")?;
        rig.send("on shadow dma 256M 4M")?;
        until_busy(rig)?;
        rig.kill("shadow")?;
        let answer = rig.expect("main> ", PATIENCE)?;
        if !answer.contains("PeerLost") {
            return Err(Failure::Wrong(format!("the call outlived its kernel: {answer}")));
        }
        copied(&rig.ask("main", "dma 128K 128K", PATIENCE)?, 1, 128 << 10, TENTHS)?;
        let before = epoch;
        epoch = wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
        copied(&rig.ask("main", "on shadow dma 128K 128K", PATIENCE)?, 1, 128 << 10, TENTHS)?;
    }
    let log = std::fs::read_to_string(rig.instance.path("soc.log"))?;
    let dropped = log.matches("transfers of shadow dropped from channel").count();
    if dropped == 0 {
        return Err(Failure::Wrong("no kill hit a transfer: this run shows nothing".to_string()));
    }
    Ok(())
}

/// Main's copies while shadow died are correct.
fn asides(rig: &mut Rig) -> Result<(), Failure> {
    let log = rig.early_log("main");
    let copies: Vec<_> = log.lines().filter(|line| line.contains("  batch ")).collect();
    let right = copies.iter().filter(|line| line.contains(" 0 errors, 0 wrong, ")).count();
    if (right, copies.len()) != (KILLS, KILLS) {
        return Err(Failure::Wrong(format!("main's copies failed while shadow died: {log}")));
    }
    Ok(())
}

/// Off with memory kept, off for good, stopped during transfers.
fn sleeps(rig: &mut Rig) -> Result<(), Failure> {
    for action in ["off", "cold", "inactive"] {
        demand(rig, &format!("domain {action} shadow"), "domain shadow: ")?;
        demand(rig, "domain on shadow", "woken")?;
        wait_for(rig, "woke", |_, now| now == state::RUNNING)?;
        copied(&rig.ask("main", "on shadow dma 128K 4K", PATIENCE)?, 1, 128 << 10, TENTHS)?;
    }
    rig.send("on shadow dma 16M 4M")?;
    until_busy(rig)?;
    // The engine continues; main's call wakes the domain, or this test does.
    for action in ["inactive", "wake"] {
        let order = serde_json::json!({ "op": "power", "domain": "shadow", "action": action });
        soc::control::ask(&rig.instance.path("control.sock"), &order)?;
    }
    let answer = rig.expect("main> ", PATIENCE)?;
    copied(&answer, 1, 16 << 20, TENTHS)
}
