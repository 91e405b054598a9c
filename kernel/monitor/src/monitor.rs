//! The monitor: reads command lines from the system console, runs them, and prints their output.

mod line;

use crate::commands::run;
use crate::terminal::{self, Pressed};
use core::fmt::Write;
use kernel_msg::Level;
use kernel_services::duty;
use kernel_services::kernel::{self, Kernel};
use kernel_services::services::Patience;
use kernel_services::session::Session;
use kernel_terminal::Keys;
use line::{Edit, Line};

/// How long another kernel waits for the console's home before it takes the console, in ns: that
/// starts again in less.
const GRACE: u64 = 1_000_000_000;
/// Time between two attempts to read a console that does not work, in ns.
const PAUSE: u64 = 100_000_000;

/// The monitor's thread. While this kernel has the console, it reads all keys, and passes on those
/// that are for the terminal. Does not return.
pub fn thread(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let mut is_first = true;
    loop {
        duty::await_console(kernel);
        if !duty::is_console_home(kernel) {
            kernel.scheduler.sleep_until(arch::time::soc_time() + GRACE);
            if !duty::reads_console(kernel) {
                continue;
            }
        }
        greet(kernel);
        if core::mem::take(&mut is_first) && duty::starts_board(kernel) {
            scripted(kernel);
        }
        let shared = terminal::start(kernel);
        if !shared {
            prompt(kernel);
        }
        serve(kernel, shared);
        terminal::leave(kernel);
    }
}

/// Reads keys until another kernel has the console. With `shared`, the terminal gets some of them.
fn serve(kernel: &'static Kernel, shared: bool) {
    let (mut line, mut keys) = (Line::new(), Keys::new());
    let is_over = || !duty::reads_console(kernel);
    let mut bytes = [0; 64];
    while !is_over() {
        let patience = Patience::unless(&is_over).idle();
        let Some(count) = kernel.console().read(&mut bytes, &patience) else {
            // The device does not work, or another kernel has the console.
            kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
            continue;
        };
        for &byte in &bytes[..count] {
            match shared.then(|| terminal::press(kernel, &mut keys, byte)) {
                Some(Pressed::Taken) => {}
                Some(Pressed::Away) => prompt(kernel),
                Some(Pressed::Monitors) | None => typed(kernel, &mut line, byte),
            }
        }
    }
}

fn greet(kernel: &'static Kernel) {
    let mut out = kernel.console();
    let board = abi::boot::text(&kernel.blob.name);
    // Nothing else can be done if the console is gone.
    let _ = writeln!(out, "\nPenumbra on {board}: kernel {}", kernel.name());
    let _ = writeln!(out, "`help` lists the monitor's commands.");
}

/// Runs the commands after `run=` on the board's command line, separated by `;`.
fn scripted(kernel: &'static Kernel) {
    let arguments = abi::boot::text(&kernel.blob.arguments);
    let Some((_, script)) = arguments.split_once("run=") else { return };
    for line in script.split(';') {
        let mut out = kernel.console();
        let _ = writeln!(out, "{}> {}", kernel.name(), line.trim());
        run(&Session::at(kernel, Level(0)), &mut out, line);
    }
}

fn prompt(kernel: &'static Kernel) {
    // At once, so that no other kernel's output divides it.
    kernel.console().show(alloc::format!("{}> ", kernel.name()).as_bytes());
}

fn typed(kernel: &'static Kernel, line: &mut Line, byte: u8) {
    let mut out = kernel.console();
    let _ = match line.feed(byte) {
        Edit::Echo(byte) => out.write_char(byte as char),
        Edit::Erase => out.write_str("\x08 \x08"),
        Edit::EraseAll(count) => (0..count).try_for_each(|_| out.write_str("\x08 \x08")),
        Edit::Cancel => {
            let _ = out.write_str("^C\n");
            prompt(kernel);
            Ok(())
        }
        Edit::Refuse => out.write_char('\x07'),
        Edit::Nothing => Ok(()),
        Edit::Enter => {
            let _ = out.write_char('\n');
            run(&Session::at(kernel, Level(0)), &mut out, line.text());
            line.reset();
            prompt(kernel);
            Ok(())
        }
    };
}
