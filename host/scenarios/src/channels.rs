//! Channels between programs, in C and in Rust: in one process, between two on one kernel, between
//! two on two kernels, and when a kernel dies. What people see of them.

use super::machine::{demand, until};
use super::programs::{KILLED, LOST, Running, back, wrong};
use super::threads::{put, succeeds};
use super::{Failure, PATIENCE, Rig};
use deploy::exec::Line;

/// Programs of apps/corpus.toml, with the same modes.
const IN_RUST: &str = "channels";
const IN_C: &str = "channels-c";
const BOTH: [&str; 2] = [IN_RUST, IN_C];
/// The kernels of duo, in the order of their numbers.
const KERNELS: [&str; 2] = ["main", "shadow"];
const PINGS: &str = "ping 1 of 3\nping 2 of 3\nping 3 of 3\n";
const ECHOES: &str = "echo 1 of 3\necho 2 of 3\necho 3 of 3\n";
const ALONE_RUST: &str =
    "ok talk\nok order\nok close\nok carry\nok use\nok room\nok block\nok poll\n";
const ALONE_C: &str = "ok order\nok close\nok carry\nok room\nok poll\nok pass\nok pass itself\n";

fn ready(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    BOTH.iter().try_for_each(|program| put(rig, program))
}

/// One process has both ends.
fn alone(rig: &Rig, kernel: &str) -> Result<(), Failure> {
    succeeds(rig, kernel, IN_RUST, &["alone"], format!("{PINGS}{ALONE_RUST}").as_bytes())?;
    succeeds(rig, kernel, IN_C, &["alone"], ALONE_C.as_bytes())
}

/// A process on kernel `here` starts one on kernel `there`, with an end: each in either language.
/// They talk; they talk over a channel that one gives to the other; one of them breaks off.
fn two(rig: &Rig, here: usize, there: usize) -> Result<(), Failure> {
    let (kernel, there) = (KERNELS[here], there.to_string());
    for parent in BOTH {
        for child in BOTH {
            let modes = [
                ("parent", PINGS),
                ("gives", ECHOES),
                ("pieces", "pieces\n"),
                ("leaves", "broken\n"),
            ];
            for (mode, says) in modes {
                succeeds(rig, kernel, parent, &[mode, &there, child], says.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Programs on each kernel.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for (number, kernel) in KERNELS.into_iter().enumerate() {
        alone(rig, kernel)?;
        two(rig, number, number)?;
    }
    listed(rig)
}

/// While a program waits for an answer, both ends of its channel are in the lists of the monitor
/// and of `/proc`, with the messages so far. When both processes have been killed, they are not.
fn listed(rig: &mut Rig) -> Result<(), Failure> {
    until(rig, "channels", "ends      0 of")?;
    let line = Line::on("main", IN_RUST, &["waits", "0", IN_RUST]);
    let waiting = Running::of(&rig.instance, line, b"");
    // The child says by a file that it has the message that it owes an answer to.
    until(rig, "fs ls", "channels.held")?;
    demand(rig, "channels", "ends      2 of")?;
    let said = rig.ask("main", "fs cat proc/main/channels", PATIENCE)?;
    let end = |wanted: &str| {
        said.lines().find_map(|line| match line.split_whitespace().collect::<Vec<&str>>()[..] {
            [channel, side, contract, "0", "held:1", "main", "open", sent, read, "0", tree]
                if side == wanted && tree != "-" =>
            {
                Some(([channel, contract, tree], [sent, read]))
            }
            _ => None,
        })
    };
    match (end("client"), end("server")) {
        (Some((client, ["1", "0"])), Some((server, ["0", "1"]))) if client == server => {}
        _ => return Err(wrong("/proc/main/channels", said)),
    }
    let said = rig.ask("main", "fs cat proc/main/descriptors", PATIENCE)?;
    for side in ["client,", "server,"] {
        let pid = holder(&said, side).ok_or_else(|| wrong("/proc/main/descriptors", &said))?;
        rig.ask("main", &format!("kill {pid} KILL"), PATIENCE)?;
    }
    let found = waiting.end()?;
    if found.code != KILLED {
        return Err(wrong("a program that was killed", found));
    }
    until(rig, "channels", "ends      0 of").map(|_| ())
}

/// Returns the process with an end of this side, in a list of descriptors.
fn holder<'a>(descriptors: &'a str, side: &str) -> Option<&'a str> {
    descriptors.lines().find_map(|line| match line.split_whitespace().collect::<Vec<&str>>()[..] {
        [pid, _, "end", _, its, "contract", _, "peer", "on", "main,", "open"] if its == side => {
            Some(pid)
        }
        _ => None,
    })
}

/// Programs on two kernels, with either one as the parent: ends move when the child starts, and in
/// messages.
pub fn across(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    two(rig, 0, 1)?;
    two(rig, 1, 0)
}

/// A program serves a name, and another one on the same kernel or on the other finds it.
pub fn names(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    let says = format!("{ECHOES}{ECHOES}gone\n");
    for kernel in KERNELS {
        for there in ["0", "1"] {
            for child in BOTH {
                succeeds(rig, kernel, IN_RUST, &["names", there, child], says.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Kernels, services and what programs serve are files in `/name`, the same for each kernel. What a
/// program or kernel has there goes with it, and comes back with its next life.
pub fn files(rig: &mut Rig, mode: &str, executes: &[&str]) -> Result<(), Failure> {
    ready(rig)?;
    for (kernel, isa) in KERNELS.into_iter().zip(["aarch64", "riscv64"]) {
        until(rig, &format!("fs cat name/kernel/{kernel}"), &format!("isa: {isa}"))?;
        demand(rig, &format!("on shadow fs cat name/kernel/{kernel}"), "life: 1")?;
    }
    for kernel in executes {
        let mode = format!("mode: {mode}");
        until(rig, &format!("fs cat name/service/fs/{kernel}"), &mode)?;
        demand(rig, &format!("on shadow fs cat name/service/names/{kernel}"), &mode)?;
    }
    let said = rig.ask("main", "fs ls name/service/fs", PATIENCE)?;
    let there = |kernel| said.lines().any(|line| line.trim() == kernel);
    if KERNELS.into_iter().any(|kernel| there(kernel) != executes.contains(&kernel)) {
        return Err(wrong("name/service/fs", said));
    }
    demand(rig, "names", "kernel/shadow")?;
    demand(rig, "fs cat proc/mounts", "names /name namefs")?;
    demand(rig, "fs write name/kernel/main text", "not allowed")?;
    demand(rig, "fs rm name/kernel/main", "! ")?;
    demand(rig, "fs cat name/kernel", "is a directory")?;
    demand(rig, "fs cat name/none", "no such file")?;
    killed(rig)?;
    let serving = serve_on_shadow(rig)?;
    rig.kill("shadow")?;
    until(rig, "fs cat name/test/held", "no such file")?;
    serving.end()?;
    back(rig)?;
    // The death may have taken the table: the other kernel registers its names again.
    until(rig, "fs cat name/kernel/shadow", "life: 2")?;
    until(rig, "fs cat name/kernel/main", "life: 1")?;
    for kernel in executes {
        until(rig, &format!("fs cat name/service/fs/{kernel}"), "mode: ")?;
    }
    until(rig, "on shadow fs ls name/kernel", "main").map(|_| ())
}

/// A program on shadow serves a name.
fn serve_on_shadow(rig: &mut Rig) -> Result<Running, Failure> {
    let line = Line::on("shadow", IN_RUST, &["named", "test/held"]);
    let serving = Running::of(&rig.instance, line, b"");
    let said = until(rig, "fs cat name/test/held", "program: ")?;
    for wanted in ["kernel: shadow\n", "life: 1\n", "channels\n", "contract: "] {
        if !said.replace('\r', "").contains(wanted) {
            return Err(wrong("name/test/held", said));
        }
    }
    demand(rig, "on shadow fs ls name/test", "held")?;
    Ok(serving)
}

/// The name of a program goes with it, and the directory that had nothing else.
fn killed(rig: &mut Rig) -> Result<(), Failure> {
    let serving = serve_on_shadow(rig)?;
    let said = rig.ask("main", "fs cat name/test/held", PATIENCE)?;
    let pid = said.lines().find_map(|line| line.trim().strip_prefix("process: "));
    let pid = pid.ok_or_else(|| wrong("no process", &said))?;
    rig.ask("main", &format!("kill {pid} KILL"), PATIENCE)?;
    let found = serving.end()?;
    if found.code != KILLED {
        return Err(wrong("a program that was killed", found));
    }
    until(rig, "fs cat name/test/held", "no such file")?;
    demand(rig, "fs ls name/test", "no such file").map(|_| ())
}

/// The peer's kernel dies while a program waits for an answer: it learns that the channel is
/// broken. The kernel comes back, and programs talk again.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    ready(rig)?;
    for program in BOTH {
        let line = Line::on("main", program, &["waits", "1", program]);
        let waiting = Running::of(&rig.instance, line, b"");
        // The child says by a file that it has the message that it owes an answer to.
        until(rig, "fs ls", &format!("{program}.held"))?;
        rig.kill("shadow")?;
        let found = waiting.end()?;
        // The death may take the process table, too: then its exit code is not known.
        if ![0, LOST].contains(&found.code) || found.out != b"waiting\n" {
            return Err(wrong("the peer of a program whose kernel died", found));
        }
        back(rig)?;
        BOTH.iter().try_for_each(|program| put(rig, program))?;
        succeeds(rig, "main", program, &["parent", "1", program], PINGS.as_bytes())?;
    }
    Ok(())
}

/// The two programs of docs/tutorial/two-programs.md, with the server on each kernel.
pub fn tutorial(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, "greet")?;
    put(rig, "greet-server")?;
    for kernel in ["0", "1"] {
        let says = format!("hello, Ada, says kernel {kernel}\nhello, Tom, says kernel {kernel}\n");
        succeeds(rig, "main", "greet", &[kernel, "Ada", "Tom"], says.as_bytes())?;
    }
    Ok(())
}
