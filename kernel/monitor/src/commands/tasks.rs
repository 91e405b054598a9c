//! Commands about processes.

use super::chip::find;
use super::inspect::phase;
use super::{Command, Failure, Outcome, Session};
use abi::process::{End, Listed, State, signal};
use base::id::DomainId;
use core::fmt::Write;
use kernel_programs::lights::{frames, list};
use kernel_programs::processes::{describe, explain, explain_move, move_to, tasks, with_table};
use kernel_services::homes::{EACH, move_service};
use kernel_services::power;
use kernel_services::services::Patience;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "ps",
        arguments: "",
        help: "processes of all kernels: use of cores, memory and energy, and their requests",
        run: list,
    },
    Command {
        name: "kill",
        arguments: "PID|-GROUP [SIGNAL]",
        help: "send a signal to a process or group: number or name, TERM by default",
        run: kill,
    },
    Command {
        name: "move",
        arguments: "PID KERNEL | service NAME KERNEL|each",
        help: "move a running process (its program must be movable) or a shadowed service",
        run: move_one,
    },
    Command {
        name: "place",
        arguments: "PROGRAM",
        help: "the kernel on which a program (name or path) would start now, and why",
        run: place,
    },
    Command {
        name: "tasks",
        arguments: "",
        help: "the threads of this kernel's processes",
        run: tasks,
    },
    Command {
        name: "lights",
        arguments: "",
        help: "processes with light threads, as this kernel sees them",
        run: lights,
    },
];

/// What precedes the name of an installed program in its path.
const IN_FOLDER: &str = "/bin/";

/// The names of signals.
const NAMES: [(&str, u16); 7] = [
    ("HUP", signal::HUP),
    ("INT", signal::INT),
    ("QUIT", signal::QUIT),
    ("ABRT", signal::ABRT),
    ("KILL", signal::KILL),
    ("PIPE", signal::PIPE),
    ("TERM", signal::TERM),
];

fn lights(_: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let turns = list::all().ok_or(Failure::Failed("no memory for the list"))?;
    for turn in turns {
        out.write_str("  ")?;
        turn.describe(out)?;
    }
    let (used, free) = frames::census();
    writeln!(out, "  frames of processes on two kernels: {used} in use, {free} free")?;
    Ok(())
}

fn tasks(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    writeln!(out, "  {:>5} {:>6}  {:<7} {:<8} core   cpu ms", "pid", "thread", "kind", "state")?;
    let mut result = Ok(());
    tasks::for_each(session.kernel, &mut |task| {
        let kind = if task.is_light { "light" } else { "normal" };
        let (state, core, cpu) = (phase(task.info.state), task.info.core, task.info.cpu_ns);
        if result.is_ok() {
            let (pid, number, cpu) = (task.pid, task.number, cpu / 1_000_000);
            result =
                writeln!(out, "  {pid:>5} {number:>6}  {kind:<7} {state:<8} {core:>4} {cpu:>8}");
        }
    });
    Ok(result?)
}

fn list(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let all = with_table(session, &Patience::ENDLESS, |table| table.list()).map_err(explain)?;
    writeln!(
        out,
        "  {:>5} {:>6} {:>5}  {:<8} {:<9} {:>8} {:>7} {:>8} {:>8}  name",
        "pid", "parent", "group", "kernel", "state", "cpu ms", "KiB", "messages", "mJ"
    )?;
    for process in &all {
        let kernel = session.kernel.name_of(process.kernel.into());
        write!(out, "  {:>5} {:>6} {:>5}  ", process.pid, process.parent, process.group)?;
        let (cpu, memory) = (process.cpu / 1_000_000, process.memory >> 10);
        write!(out, "{kernel:<8} {:<9} {cpu:>8} {memory:>7} ", state(process))?;
        write!(out, "{:>8} ", process.messages)?;
        let id = DomainId(process.kernel as u8);
        match power::of_process(session.kernel, id, process.cpu) {
            Some(nj) => write!(out, "{:>8}  ", nj / 1_000_000)?,
            None => write!(out, "{:>8}  ", "-")?,
        }
        writeln!(out, "{}", abi::boot::text(&process.name))?;
    }
    Ok(())
}

fn state(process: &Listed) -> &'static str {
    match (State::from_code(process.state), u16::try_from(process.kind).ok()) {
        (Some(State::Waiting), _) => "waiting",
        (Some(State::Starting), _) => "starting",
        (Some(State::Running), _) => "running",
        (Some(State::Ended), kind) => match kind.and_then(End::from_code) {
            Some(End::Exit) => "exited",
            Some(End::Signal) => "killed",
            Some(End::Trap) => "trapped",
            _ => "lost",
        },
        (None, _) => "?",
    }
}

fn number_of(name: &str) -> Option<u16> {
    let named = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    named.map(|&(_, number)| number).or_else(|| name.parse().ok())
}

fn move_one(session: &Session, _: &mut dyn Write, arguments: &[&str]) -> Outcome {
    match *arguments {
        ["service", service, EACH] => move_service(session, service, None),
        ["service", service, kernel] => {
            move_service(session, service, Some(find(session.kernel, kernel)?))
        }
        [pid, name] => {
            let pid = pid.parse().map_err(|_| Failure::Usage)?;
            let kernel = find(session.kernel, name)?;
            move_to(session, pid, kernel.0.into()).map_err(explain_move)
        }
        _ => Err(Failure::Usage),
    }
}

fn place(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let &[program] = arguments else { return Err(Failure::Usage) };
    let folder = if program.contains('/') { "" } else { IN_FOLDER };
    let path = [folder.as_bytes(), program.as_bytes()].concat();
    describe(session, &path, out).map_err(explain)?;
    Ok(())
}

fn kill(session: &Session, _: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let (pid, name) = match *arguments {
        [pid] => (pid, "TERM"),
        [pid, name] => (pid, name),
        _ => return Err(Failure::Usage),
    };
    let pid = pid.parse().map_err(|_| Failure::Usage)?;
    let signal = number_of(name).ok_or(Failure::Failed("there is no such signal"))?;
    let done = with_table(session, &Patience::ENDLESS, |table| table.kill(0, pid, signal));
    done.map_err(explain)
}
