//! Pointers into another kernel's image: on a board with twins they are followed to the twin, on
//! other boards they are reported; in no case does a kernel hang or die.

use super::machine::demand;
use super::peers::wait_for;
use super::{Failure, PATIENCE, Rig, statics};
use abi::boot::isa::{AARCH64, RISCV64};
use abi::soc::state;

/// A calling kernel, the prefix that addresses it, its ISA, and the prefix of the other one.
const SIDES: [(&str, &str, u32, &str); 2] =
    [("main", "", AARCH64, "on shadow "), ("shadow", "on shadow ", RISCV64, "")];

/// Checks that the log of `domain` contains `text`.
fn logged(rig: &Rig, domain: &str, text: &str) -> Result<(), Failure> {
    let log = rig.early_log(domain);
    match log.contains(text) {
        true => Ok(()),
        false => Err(Failure::Wrong(format!("the log of {domain} does not say {text:?}:\n{log}"))),
    }
}

/// The other kernel plants a pointer; this one calls `what` and must get `wanted`.
fn planted(rig: &mut Rig, ways: (&str, &str), what: &str, wanted: &str) -> Result<(), Failure> {
    let (here, there) = ways;
    demand(rig, &format!("{there}twins plant 4"), "plant: 0")?;
    demand(rig, &format!("{here}twins {what}"), wanted).map(|_| ())
}

/// A function, an object and a waker of the other kernel work like this kernel's own; a function
/// without a twin fails only its request.
pub fn followed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    SIDES.into_iter().try_for_each(|side| from(rig, side))?;
    demand(rig, "on shadow twins plant 4", "plant: 0")?;
    rig.kill("shadow")?;
    wait_for(rig, "came back", |now, state| now > epoch && state == state::RUNNING)?;
    planted(rig, ("", "on shadow "), "function 7", "function: 71")?;
    let images = demand(rig, "twins", "have a twin here")?;
    for (what, how) in [("constants", "allowed"), ("data", "refused"), ("code", "allowed")] {
        if !images.contains(&format!("{:<24} {how}", format!("read of its {what}"))) {
            return Err(Failure::Wrong(format!("its {what} are not {how}: {images}")));
        }
    }
    for what in ["write to its code", "execution of its code"] {
        if !images.contains(&format!("{what:<24} refused")) {
            return Err(Failure::Wrong(format!("{what}: {images}")));
        }
    }
    ["", "on shadow "]
        .iter()
        .try_for_each(|on| demand(rig, &format!("{on}audit"), "the invariant holds").map(|_| ()))
}

fn from(rig: &mut Rig, side: (&str, &str, u32, &str)) -> Result<(), Failure> {
    let (name, here, isa, there) = side;
    let ways = (here, there);
    // The answer's last digit identifies the kernel that computed.
    planted(rig, ways, "function 7", &format!("function: 7{isa}"))?;
    demand(rig, &format!("{here}twins object"), &format!("object: 16{isa}"))?;
    demand(rig, &format!("{here}twins waker"), &format!("waker: {isa}"))?;
    demand(rig, &format!("{here}twins clear"), "nothing is planted now")?;
    planted(rig, ways, "only 7", "the service has restarted")?;
    logged(rig, name, ": no function of this name is here")?;
    planted(rig, ways, "same 7", "the service has restarted")?;
    logged(rig, name, ": two functions have this name")?;
    demand(rig, &format!("{here}twins function 7"), "nothing is planted")?;
    planted(rig, ways, "many 1000", "many: ")
}

/// Other kernels' images are not mapped: each reference is reported and fails its request, and
/// nothing else.
pub fn refused(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    demand(rig, "fs write note still here", "")?;
    statics::none(rig)?;
    for (name, here, isa, there) in SIDES {
        let images = demand(rig, &format!("{here}twins"), "nothing of it is mapped")?;
        if images.contains("allowed") || images.matches("refused").count() != 5 {
            return Err(Failure::Wrong(format!("{here}twins: {images}")));
        }
        let own = (here, here);
        planted(rig, own, "function 7", &format!("function: 7{isa}"))?;
        let found = statics::found(rig)?.join("\n");
        // Not all of it: an address that ends in a zero byte does not count.
        if !found.contains(&format!("{name}'s kernel_trials::planted::")) {
            return Err(Failure::Wrong(format!("what {name} planted is not found: {found:?}")));
        }
        // Planting again drops what was planted, so that must be this kernel's own.
        demand(rig, &format!("{here}twins clear"), "nothing is planted now")?;
        for (what, how) in [("function 7", "call of"), ("object", "read of"), ("waker", "read of")]
        {
            planted(rig, (here, there), what, "the service has restarted")?;
            logged(rig, name, &format!("stray {how} "))?;
        }
        logged(rig, name, "it is not mapped")?;
        demand(rig, &format!("{here}fs cat note"), "still here")?;
        demand(rig, &format!("{here}audit"), "the invariant holds")?;
    }
    Ok(())
}
