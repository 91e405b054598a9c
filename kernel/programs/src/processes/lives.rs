//! What a thread of a process does: the life of one besides the main thread, and the end of the
//! program for all ([`super::threads`]).

use super::guest::Guest;
use super::threads::{Beginning, take};
use super::{LocalProcess, Running, light};
use abi::process::signal;
use alloc::format;
use alloc::string::String;
use kernel_engine::{End, Ran};

/// The scheduler's thread.
pub fn enter(place: usize) {
    let Some(processes) = super::get() else { return };
    let stack = processes.beginning.lock().get_mut(&place).and_then(|it| it.stack.take());
    if let Some(stack) = stack {
        stack.run(live, place);
    }
}

/// The life of a thread, on its own stack.
extern "C" fn live(place: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), super::get()) else {
        return;
    };
    let Some(Beginning { life, thread, start, number, .. }) = take(processes, place) else {
        return;
    };
    thread.is_me(&kernel.scheduler);
    thread.set_base(arch::backtrace::fp());
    if let (Some(programs), Some(running)) = (processes.programs.get(), life.running.get()) {
        let guest = Guest::new(kernel, processes, life.clone(), thread.clone());
        kernel_services::idle::to_program(kernel);
        let Ran { end, mut guest } = inside(guest, |guest| {
            programs.run_thread(&running.loaded, running.given(), guest, (start, number))
        });
        match end {
            End::Return => {}
            end => end_with(&mut guest, &life, running, end),
        }
    }
    life.threads.remove(&kernel.scheduler, &thread);
    if let Some(turn) = life.turn.get().filter(|_| life.is_satellite()) {
        turn.thread_ended(kernel);
    }
}

/// Runs a program while the calling thread is inside the process's turn.
pub fn inside(guest: Guest, run: impl FnOnce(Guest) -> Ran<Guest>) -> Ran<Guest> {
    if guest.enter_turn().is_err() {
        return Ran { end: End::Signal(signal::KILL), guest };
    }
    let ran = run(guest);
    ran.guest.leave_turn();
    ran
}

/// Ends the program for all of its threads, unless it has ended before. Called by the thread that
/// ends it, which reports why it trapped.
pub fn end_with(guest: &mut Guest, life: &LocalProcess, running: &Running, end: End) {
    let trace = running.loaded.backtrace();
    if let End::Trap(_, what) | End::NoMemory(what) = &end
        && !life.threads.have_end()
    {
        let said = report(life, what, &trace);
        said.lines().for_each(|line| kernel_node::log!("{line}"));
        running.process.complain(guest, &mut said.into_bytes());
    }
    let is_first = !life.threads.have_end();
    if is_first {
        light::end_program(guest.kernel(), life, &end);
    }
    if life.threads.set_end(end) {
        guest.processes.stop(guest.kernel(), life, signal::KILL);
    }
}

/// Returns a text about a trap, with a backtrace, for the log and the process's standard error.
fn report(life: &LocalProcess, what: &str, trace: &[String]) -> String {
    let name = String::from_utf8_lossy(life.name());
    let mut said = format!("process {} ({name}): {what}\n", life.pid);
    for line in trace {
        said.extend(["  ", line, "\n"]);
    }
    said
}
