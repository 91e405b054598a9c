//! The early log: lines of text to this domain's own UART. The last [`KEPT`] bytes are kept in
//! memory. (The system console is a device: `kernel/platform`.)

use arch::lock::Lock;
use core::fmt::{self, Write};

/// Bytes of the log that are kept.
const KEPT: usize = 16 * 1024;

/// The lock keeps the lines of several cores apart.
static EARLY: Lock<Kept> = Lock::new(crate::ranks::EARLY, Kept { bytes: [0; KEPT], written: 0 });

/// A ring buffer with the end of the log.
struct Kept {
    bytes: [u8; KEPT],
    written: usize,
}

impl Write for Kept {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.bytes[self.written % KEPT] = byte;
            self.written += 1;
        }
        Ok(())
    }
}

/// Writes the end of the log, from its first complete line on.
#[cold]
pub fn kept(out: &mut dyn Write) -> fmt::Result {
    let mut text = alloc::vec::Vec::with_capacity(KEPT);
    let cut = {
        let kept = EARLY.lock();
        let from = kept.written.saturating_sub(KEPT);
        // At most KEPT bytes, the capacity: nothing is allocated under this lock.
        text.extend((from..kept.written).map(|at| kept.bytes[at % KEPT]));
        from != 0
    };
    let text = alloc::string::String::from_utf8_lossy(&text);
    let whole = if cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    out.write_str(whole)
}

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

/// Writes a line to the log, with the chip time.
pub fn line(arguments: fmt::Arguments) {
    let now = arch::time::soc_time();
    let mut kept = EARLY.lock();
    write(&mut Uart, now, arguments);
    write(&mut *kept, now, arguments);
}

/// Writes a line without the lock, and without keeping it: for a kernel that ends.
pub fn unlocked(arguments: fmt::Arguments) {
    write(&mut Uart, arch::time::soc_time(), arguments);
}

fn write(out: &mut dyn Write, now: u64, arguments: fmt::Arguments) {
    // No writer used here fails.
    let _ = writeln!(out, "[{:5}.{:06}] {arguments}", now / 1_000_000_000, now / 1000 % 1_000_000);
}

/// Text of at most `N` bytes, without an allocator: for a panic.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Text { bytes: [0; N], length: 0 }
    }

    /// Returns what was written, cut off after `N` bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = N - self.length;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + taken.len()].copy_from_slice(taken);
        self.length += taken.len();
        Ok(())
    }
}

/// Writes a line to the early log.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::print::line(format_args!($($arg)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn the_log_keeps_its_end_from_a_complete_line_on() {
        for number in 0..1000 {
            line(format_args!("line {number}"));
        }
        let mut text = String::new();
        kept(&mut text).unwrap();
        assert!(text.len() <= KEPT);
        let numbers = text.lines().map(|line| line.rsplit(' ').next().unwrap());
        let kept: std::vec::Vec<u32> = numbers.map(|number| number.parse().unwrap()).collect();
        assert!(kept.len() > 100 && kept[0] > 0);
        assert!(kept.windows(2).all(|pair| pair[1] == pair[0] + 1));
        assert_eq!(kept.last(), Some(&999));
        assert!(text.lines().all(|line| line.starts_with('[')), "no line is cut");
    }

    #[test]
    fn a_text_is_cut_off_when_it_is_full() {
        let mut text = Text::<8>::new();
        text.write_str("12345").unwrap();
        text.write_str("67890").unwrap();
        assert_eq!(text.as_bytes(), b"12345678");
    }
}
