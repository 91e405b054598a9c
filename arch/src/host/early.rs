//! The early log: standard error, line by line.

use std::cell::RefCell;
use std::vec::Vec;

#[inline(never)]
pub fn put(byte: u8) {
    if let Some(chip) = super::chip::chip() {
        return chip.put(byte);
    }
    std::thread_local!(static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    LINE.with_borrow_mut(|line| {
        if byte == b'\n' {
            std::eprintln!("{}", std::string::String::from_utf8_lossy(line));
            line.clear();
        } else {
            line.push(byte);
        }
    });
}
