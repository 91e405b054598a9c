//! `/dev` and `/proc`, from every kernel; and folders of the host.

use super::disk::goes_off;
use super::machine::{demand, until};
use super::programs::{install, run};
use super::{Failure, PATIENCE, Rig};

/// The tool's exit code if it cannot write.
const NO_SPACE: u8 = 98;

/// Runs a command that must succeed without output.
fn done(rig: &mut Rig, line: &str) -> Result<(), Failure> {
    let said = rig.ask("main", line, PATIENCE)?;
    if said.contains("! ") { Err(Failure::Wrong(format!("{line}: {said}"))) } else { Ok(()) }
}

/// Devices work, for the monitor and for programs, on these kernels.
pub fn dev(rig: &mut Rig, kernels: &[&str]) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    until(rig, "fs ls", "dev/")?;
    demand(rig, "fs ls dev", "urandom")?;
    demand(rig, "fs stat dev/random", "character device")?;
    done(rig, "fs write dev/null gone")?;
    demand(rig, "fs write dev/full more", "no space left")?;
    demand(rig, "fs cat dev/console", "refused")?;
    demand(rig, "fs rmdir dev", "refused")?;
    install(rig)?;
    for kernel in kernels {
        let taken = run(rig, kernel, &["put", "dev/null"], b"anything")?;
        let empty = run(rig, kernel, &["type", "dev/null"], b"")?;
        let full = run(rig, kernel, &["put", "dev/full"], b"anything")?;
        if (taken.code, empty.code, empty.out.len()) != (0, 0, 0) || full.code != NO_SPACE {
            return Err(Failure::Wrong(format!("{kernel}: {taken:?} {empty:?} {full:?}")));
        }
    }
    Ok(())
}

/// Any program on any kernel reads every kernel's files, and writes the writable ones.
pub fn proc(rig: &mut Rig) -> Result<(), Failure> {
    let isas = [("main", "aarch64"), ("shadow", "riscv64")];
    rig.expect("main> ", PATIENCE)?;
    install(rig)?;
    for (owner, isa) in isas {
        until(rig, &format!("fs cat proc/{owner}/version"), isa)?;
        let texts = [
            ("memory", "KiB free"),
            ("threads", "proc"),
            ("interrupts", "timer"),
            ("kmsg", "is up"),
            ("dsm", "faults: "),
        ];
        for (file, wanted) in texts {
            demand(rig, &format!("fs cat proc/{owner}/{file}"), wanted)?;
            demand(rig, &format!("on shadow fs cat proc/{owner}/{file}"), wanted)?;
        }
        for (kernel, _) in isas {
            let found = run(rig, kernel, &["type", &format!("proc/{owner}/version")], b"")?;
            let text = String::from_utf8_lossy(&found.out);
            if found.code != 0 || !text.contains(&format!("{owner} {isa}")) {
                return Err(Failure::Wrong(format!("{kernel} reads of {owner}: {found:?}")));
            }
        }
        done(rig, &format!("fs write proc/{owner}/idle gated"))?;
        demand(rig, &format!("fs cat proc/{owner}/idle"), "[gated]")?;
        done(rig, &format!("on shadow fs write proc/{owner}/idle clocked"))?;
        demand(rig, &format!("fs cat proc/{owner}/idle"), "[clocked]")?;
    }
    demand(rig, "fs write proc/main/version 2", "not allowed")?;
    demand(rig, "fs write proc/main/power sideways", "invalid argument")?;
    demand(rig, "fs cat proc/mounts", "shadow /proc/shadow procfs")?;
    demand(rig, "fs cat proc/kernels", "shadow")?;
    demand(rig, "fs cat proc/meminfo", "MemFree: ")?;
    demand(rig, "fs ls proc", "uptime@")?;
    // A dead kernel's files are missing until it is back.
    done(rig, "domain cold shadow")?;
    demand(rig, "fs cat proc/shadow/version", "! ")?;
    done(rig, "domain on shadow")?;
    until(rig, "fs cat proc/shadow/version", "life 2")?;
    rig.send("fs write proc/main/power poweroff")?;
    goes_off(rig)
}
