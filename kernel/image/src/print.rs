//! Text out of this kernel: the early log on its own UART, and the system console when it is ours.

use arch::lock::Lock;
use core::fmt::{self, Write};

/// Keeps lines of several cores apart.
static EARLY: Lock<()> = Lock::new(crate::ranks::EARLY, ());

struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                arch::early::put(b'\r');
            }
            arch::early::put(byte);
        }
        Ok(())
    }
}

/// A line of the early log, with chip time.
pub fn line(arguments: fmt::Arguments) {
    let _apart = EARLY.lock();
    unlocked(arguments);
}

/// The same without the lock: for a kernel that ends here.
pub fn unlocked(arguments: fmt::Arguments) {
    let now = arch::time::soc_time();
    // Writing to the UART cannot fail.
    let _ = writeln!(Uart, "[{:5}.{:06}] {arguments}", now / 1_000_000_000, now / 1000 % 1_000_000);
}

/// A line of the early log.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::print::line(format_args!($($arg)*)) };
}
