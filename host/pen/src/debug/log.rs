//! Finds the last panic in a kernel's early log.

use std::path::Path;

/// How a kernel ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ending {
    /// "panic: kernel NAME, core N: ...", and the lines after it up to its frames.
    pub words: String,
    /// Addresses of its frames, innermost first; each is within the calling instruction.
    pub addresses: Vec<u64>,
}

/// Returns the last panic in the log at `path`.
pub fn ending(path: &Path) -> Option<Ending> {
    parse(&String::from_utf8_lossy(&std::fs::read(path).ok()?))
}

fn parse(log: &str) -> Option<Ending> {
    let start = log.rfind("panic: kernel ")?;
    let mut lines = log[start..].lines().peekable();
    let mut words = Vec::new();
    while let Some(line) = lines.next_if(|line| frame(line).is_none()) {
        words.push(line.trim_end());
    }
    let addresses: Vec<u64> = lines.map_while(frame).collect();
    // Without frames, the following lines do not belong to it.
    words.truncate(if addresses.is_empty() { 1 } else { words.len() });
    Some(Ending { words: words.join("\n"), addresses })
}

/// Parses the address in a line such as `   0: 0xffff800084001234 name+0x10`.
fn frame(line: &str) -> Option<u64> {
    let (number, rest) = line.trim().split_once(": ")?;
    number.parse::<u32>().ok()?;
    let address = rest.split(' ').next()?.strip_prefix("0x")?;
    u64::from_str_radix(address, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_panic_is_found_with_its_frames() {
        let log = "[main] hello\npanic: kernel main, core 0: one\n   0: 0x0000000000000010 a+0x1\n\
            [main] again\npanic: kernel main, core 1: two at x.rs:1\r\n  pc 0x1  sp 0x2\r\n   \
            0: 0xffff800084001234 b+0x4\r\n   1: 0xffff800084005678\r\nbye\n";
        let ending = parse(log).unwrap();
        assert_eq!(ending.addresses, [0xffff_8000_8400_1234, 0xffff_8000_8400_5678]);
        assert_eq!(ending.words, "panic: kernel main, core 1: two at x.rs:1\n  pc 0x1  sp 0x2");
    }

    #[test]
    fn a_log_without_panic_or_frames_is_fine() {
        assert_eq!(parse("[main] 0: 0x10 is no panic\n"), None);
        let short = parse("panic: kernel (booting), core 0: x\n[main] more\n").unwrap();
        assert_eq!(
            (short.words.as_str(), short.addresses.len()),
            ("panic: kernel (booting), core 0: x", 0)
        );
    }
}
