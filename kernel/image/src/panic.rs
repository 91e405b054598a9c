//! The end of this kernel, in the open: what, where, how it came there, and nobody else harmed.
//!
//! The last words go to the early log and, when the console is ours, to the console as far as its
//! driver still works. The soc is told, fences this domain and, if the board says so, boots it
//! again under a new epoch; the other kernels see `PeerLost` and live on.

use crate::kernel::{self, Kernel};
use crate::print;
use crate::shootdown::core_kind;
use crate::symbols::Named;
use base::id::CoreId;
use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

/// A panic while panicking says one line and stops.
static PANICKED: AtomicBool = AtomicBool::new(false);

#[panic_handler]
fn on_panic(info: &PanicInfo) -> ! {
    match info.location() {
        Some(at) => die(format_args!("{} at {at}", info.message()), arch::backtrace::fp(), &""),
        None => die(format_args!("{}", info.message()), arch::backtrace::fp(), &""),
    }
}

/// Ends this kernel. `fp` is where the backtrace starts, `registers` a dump or nothing.
pub fn die(why: fmt::Arguments, fp: u64, registers: &dyn fmt::Display) -> ! {
    arch::cpu::irqs_off();
    arch::lock::install_report(|_| ()); // the end takes locks in no order
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
        soc.last_words(abi::soc::command::PANIC, 1, 0);
    }
    arch::cpu::halt();
}

/// All other cores halt: this kernel ends.
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
            None => ("(booting)", crate::blob::symbols()),
        };
        writeln!(f, "panic: kernel {name}, core {}: {}", arch::cpu::core(), self.why)?;
        write!(f, "{}", self.registers)?;
        let (mut depth, mut result) = (0, Ok(()));
        arch::backtrace::frames((0, self.fp), &crate::programs::is_inside, &mut |pc| {
            // A return address may be the first of the next function: the call is before it.
            let line = writeln!(f, "  {depth:2}: {}", Named(symbols, pc.saturating_sub(1)));
            result = core::mem::replace(&mut result, Ok(())).and(line);
            depth += 1;
        });
        result
    }
}
