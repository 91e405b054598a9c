//! A program that calls every import with invalid arguments, generated from one list, and the
//! expected results.
//!
//! ```text
//!   for each import, each argument of 32 bits, each of `BAD`: the other arguments are valid
//!   for each list of buffers, each of `PIECES`:               the rest of the list is valid
//! ```
//! The program writes one byte per case, in order.

use abuse::wasi::imports::{IMPORTS, OWN};
use std::fmt::Write;

/// Size of the program's memory in bytes.
const END: u32 = 65_536;
/// Invalid addresses, or addresses near the end where a result does not fit.
const BAD: [u32; 7] = [u32::MAX, u32::MAX - 7, 1 << 31, i32::MAX as u32, END, END - 1, END - 3];
/// Ranges of memory that are not valid: after the end, across it, wrapping around 4 GiB.
const PIECES: [(u32, u32); 7] = [
    (u32::MAX, 16),
    (END - 6, u32::MAX - 15),
    (END, 1),
    (0, u32::MAX),
    (END - 1, 2),
    (1 << 31, 1 << 31),
    (u32::MAX - 15, 32),
];

// Addresses of the program's data.
const PATH: u32 = 512;
const IOVS: u32 = 1024;
/// Port 9 of this chip.
const ADDRESS: u32 = 1280;
const SPAWN: u32 = 1536;
const RESULT: u32 = 2048;
const SUBSCRIPTION: u32 = 3072;
const BUFFER: u32 = 4096;
const BAD_IOVS: u32 = 6144;
const BAD_SPAWNS: u32 = 8192;
const ANSWERS: u32 = 16_384;

const FAULT: u8 = 21;
const INVAL: u8 = 28;
/// The highest error number of WASI.
const LAST: u8 = 76;

/// The expected result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The error for an invalid address.
    Fault,
    /// Any error.
    Error,
    /// Any result.
    Answer,
}

/// A call.
struct Case {
    what: String,
    wanted: Wanted,
}

/// The program, and the expected results.
pub struct Calls {
    /// The program's text (WAT).
    pub wat: String,
    cases: Vec<Case>,
}

/// Returns the import as WAT.
fn import(name: &str, numbers: &str) -> String {
    let module = if OWN.contains(&name) { "penumbra" } else { "wasi_snapshot_preview1" };
    let size = |number: char| if number == 'Z' { " i64" } else { " i32" };
    let sizes: String = numbers.chars().map(size).collect();
    let parameters = if sizes.is_empty() { sizes } else { format!(" (param{sizes})") };
    let result = if name == "proc_exit" { "" } else { " (result i32)" };
    format!("  (import \"{module}\" \"{name}\" (func ${name}{parameters}{result}))\n")
}

/// Returns a module that imports all functions.
pub fn everything() -> String {
    let imports: String = IMPORTS.iter().map(|(name, numbers)| import(name, numbers)).collect();
    format!("(module\n{imports})\n")
}

/// Returns a valid argument.
fn sane(kind: char) -> u32 {
    match kind {
        'D' => 3,
        'F' => 4,
        'X' => 5,
        'a' => ADDRESS,
        'p' => PATH,
        'l' => 16,
        'n' => 1,
        'i' => IOVS,
        'o' | 'h' => RESULT,
        'b' => BUFFER,
        's' => 16,
        'q' => SUBSCRIPTION,
        'S' => SPAWN,
        // A number that no process has.
        '9' => 999_999,
        digit => digit.to_digit(10).unwrap_or(0),
    }
}

fn wanted(name: &str, kind: char, bad: u32) -> Wanted {
    match kind {
        // The other results have more bytes.
        'h' if bad <= END - 2 => Wanted::Answer,
        // Writes one byte, whatever the size of the buffer.
        _ if name == "fd_prestat_dir_name" => Wanted::Answer,
        'p' | 'i' | 'o' | 'h' | 'b' | 'q' | 'S' | 'a' => Wanted::Fault,
        'l' | 's' | 'n' => Wanted::Error,
        _ => Wanted::Answer,
    }
}

/// Formats bytes as WAT.
fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.map(|byte| format!("\\{byte:02x}")).collect()
}

/// An [`abi::program::Spawn`] of a program that does not exist.
const PLAIN: [u32; 16] = [PATH, 1, PATH, 2, 0, 0, 0, 0, 3, u32::MAX, 0, 0, 0, 0, 0, 0];

impl Calls {
    /// Creates the program with all calls.
    pub fn new() -> Calls {
        let mut calls = Calls { wat: "(module\n".to_string(), cases: vec![] };
        for (name, numbers) in IMPORTS {
            calls.wat += &import(name, numbers);
        }
        calls.wat += &memory();
        let mut names = vec![];
        for (name, numbers) in IMPORTS.iter().filter(|(name, _)| *name != "proc_exit") {
            let _ = writeln!(calls.wat, "  (func $try_{name}");
            calls.numbers(name, numbers);
            calls.pieces(name, numbers);
            calls.wat += "  )\n";
            names.push(format!("    (call $try_{name})\n"));
        }
        let count = calls.cases.len();
        let _ = writeln!(calls.wat, "  (func (export \"_start\")\n{OPEN}{}", names.concat());
        let _ = writeln!(calls.wat, "    (call $answers (i32.const {count})))\n)");
        calls
    }

    fn numbers(&mut self, name: &str, numbers: &str) {
        for (place, kind) in numbers.chars().enumerate().filter(|(_, kind)| *kind != 'Z') {
            for bad in BAD {
                let what = format!("{name}: {bad:#x} as number {place} ({kind})");
                self.case(name, numbers, (place, bad), what, wanted(name, kind, bad));
            }
        }
    }

    fn pieces(&mut self, name: &str, numbers: &str) {
        let at = |kind| numbers.chars().position(|number| number == kind);
        for (index, piece) in (0..).zip(PIECES) {
            if let Some(place) = at('i') {
                let what = format!("{name}: the piece {piece:x?}");
                self.case(name, numbers, (place, BAD_IOVS + 8 * index), what, Wanted::Fault);
            }
            for part in (0..4).filter(|_| at('S').is_some()) {
                let what = format!("{name}: {piece:x?} as piece {part}");
                let address = BAD_SPAWNS + 64 * (4 * index + part);
                self.case(name, numbers, (0, address), what, Wanted::Error);
            }
        }
    }

    fn case(
        &mut self,
        name: &str,
        numbers: &str,
        (place, bad): (usize, u32),
        what: String,
        wanted: Wanted,
    ) {
        let mut call = format!("(call ${name}");
        for (index, kind) in numbers.chars().enumerate() {
            let value = if index == place { bad } else { sane(kind) };
            call += &match kind {
                'Z' => " (i64.const 0)".to_string(),
                _ => format!(" (i32.const {value})"),
            };
        }
        let at = ANSWERS + self.cases.len() as u32;
        let _ = writeln!(self.wat, "    (i32.store8 (i32.const {at})\n      {call}))");
        self.cases.push(Case { what, wanted });
    }

    /// Returns the number of calls.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.cases.len()
    }

    /// Returns the wrong results.
    pub fn wrong(&self, answers: &[u8]) -> Vec<String> {
        let judged = self.cases.iter().zip(answers).filter(|(case, answer)| !case.takes(**answer));
        let mut wrong: Vec<_> =
            judged.map(|(case, answer)| format!("{}: {answer}", case.what)).collect();
        if answers.len() != self.cases.len() {
            wrong.push(format!("{} answers to {} calls", answers.len(), self.cases.len()));
        }
        wrong
    }
}

impl Case {
    fn takes(&self, answer: u8) -> bool {
        match self.wanted {
            Wanted::Fault => [FAULT, INVAL].contains(&answer),
            Wanted::Error => (1..=LAST).contains(&answer),
            Wanted::Answer => answer <= LAST,
        }
    }
}

/// Opens the file as descriptor 4, and a socket that does not wait as descriptor 5.
const OPEN: &str = "    (call $check (call $path_open (i32.const 3) (i32.const 0) (i32.const 529)
      (i32.const 5) (i32.const 1) (i64.const 0x0fffffff) (i64.const 0) (i32.const 0)
      (i32.const 2048)))
    (call $check (i32.ne (i32.load (i32.const 2048)) (i32.const 4)))
    (call $check (call $socket (i32.const 1) (i32.const 5) (i32.const 4) (i32.const 2048)))
    (call $check (i32.ne (i32.load (i32.const 2048)) (i32.const 5)))
";

/// Writes all results to the output.
const SAY: &str = "  (func $answers (param $count i32)
    (i32.store (i32.const 1024) (i32.const 16384))
    (i32.store (i32.const 1028) (local.get $count))
    (call $check (call $fd_write (i32.const 1) (i32.const 1024) (i32.const 1) (i32.const 2048))))
";

/// Memory, its contents, and a function that exits if the set-up fails.
fn memory() -> String {
    let mut wat = "  (memory (export \"memory\") 1 1)\n".to_string();
    let mut data = |at: u32, bytes: &str| {
        let _ = writeln!(wat, "  (data (i32.const {at}) \"{bytes}\")");
    };
    data(PATH, "xxxxxxxxxxxxxxxx\\00probe");
    data(IOVS, &text(&[BUFFER, 16]));
    data(ADDRESS, &text(&[9 << 16 | 1, 0, 0x0100_007f, 0, 0, 0, 0]));
    data(SPAWN, &text(&PLAIN));
    for (index, (address, bytes)) in (0..).zip(PIECES) {
        data(BAD_IOVS + 8 * index, &text(&[address, bytes]));
        for part in 0..4 {
            let mut spawn = PLAIN;
            spawn[2 * part] = address;
            spawn[2 * part + 1] = bytes;
            data(BAD_SPAWNS + 64 * (4 * index + part as u32), &text(&spawn));
        }
    }
    wat += "  (func $check (param $error i32)
    (if (local.get $error) (then (call $proc_exit (i32.const 99)))))\n";
    wat + SAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_calls_have_room() {
        let calls = Calls::new();
        assert!(calls.count() > 1000 && ANSWERS as usize + calls.count() <= END as usize);
    }

    #[test]
    fn answers_are_judged() {
        let calls = Calls::new();
        let good = vec![FAULT; calls.count()];
        assert!(calls.wrong(&good).is_empty());
        assert_eq!(calls.wrong(&vec![77; calls.count()]).len(), calls.count());
        assert_eq!(calls.wrong(&good[1..]).len(), 1);
        // The first one is an address.
        assert_eq!(calls.wrong(&[&[0], &good[1..]].concat()).len(), 1);
    }
}
