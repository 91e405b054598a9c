//! Panics: report the reason, the place and a backtrace, and stop this kernel without harm to
//! others.
//!
//! The report goes to the early log, and to the console if this kernel has it and its driver still
//! works. Then the soc is notified. It fences this domain and, if the board says so, boots it again
//! with a new epoch. Calls of other kernels to this one end with `PeerLost`.

use base::id::CoreId;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use kernel_node::print;
use kernel_node::shootdown::core_kind;
use kernel_node::symbols::Named;
use kernel_services::kernel::{self, Kernel};

/// Set by the first panic. A second one prints one line and halts.
static PANICKED: AtomicBool = AtomicBool::new(false);

#[panic_handler]
fn on_panic(info: &PanicInfo) -> ! {
    match info.location() {
        Some(at) => die(format_args!("{} at {at}", info.message()), arch::backtrace::fp(), &""),
        None => die(format_args!("{}", info.message()), arch::backtrace::fp(), &""),
    }
}

/// Ends this kernel. The backtrace starts at frame pointer `fp`; `registers` is a dump of the
/// registers, or empty.
pub fn die(why: fmt::Arguments, fp: u64, registers: &dyn fmt::Display) -> ! {
    arch::cpu::irqs_off();
    arch::lock::install_report(|_| ()); // from here on, locks are taken in any order
    if PANICKED.swap(true, Ordering::AcqRel) {
        print::unlocked(format_args!("panic: again, while panicking: {why}"));
        arch::cpu::halt();
    }
    let kernel = kernel::get();
    if let Some(kernel) = kernel {
        stop_other_cores(kernel);
    }
    let report = Report { kernel, why, fp, registers };
    print::unlocked(format_args!("{report}"));
    if let Some(kernel) = kernel {
        kernel.devices.last_words(kernel, &report);
    }
    if let Some(soc) = kernel::SOC.get() {
        soc.request_unanswered(abi::soc::command::PANIC, 1, 0);
    }
    arch::cpu::halt();
}

/// Makes all other cores halt.
fn stop_other_cores(kernel: &Kernel) {
    let me = arch::cpu::core();
    let cores = (0..kernel.domain().cores as u8).map(CoreId).filter(|&core| core != me);
    cores.for_each(|core| arch::irq::send_core(core, core_kind::STOP));
}

/// What a panic prints.
struct Report<'a> {
    kernel: Option<&'static Kernel>,
    why: fmt::Arguments<'a>,
    fp: u64,
    registers: &'a dyn fmt::Display,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, symbols) = match self.kernel {
            Some(kernel) => (kernel.name(), kernel.symbols),
            None => ("(booting)", kernel_node::blob::symbols()),
        };
        writeln!(f, "panic: kernel {name}, core {}: {}", arch::cpu::core(), self.why)?;
        write!(f, "{}", self.registers)?;
        let (mut depth, mut result) = (0, Ok(()));
        arch::backtrace::frames((0, self.fp), &kernel_programs::programs::is_inside, &mut |pc| {
            // The return address of a call at a function's end is in the next function.
            let line = writeln!(f, "  {depth:2}: {}", Named(symbols, pc.saturating_sub(1)));
            result = core::mem::replace(&mut result, Ok(())).and(line);
            depth += 1;
        });
        result
    }
}
