//! Decodes bytes into calls with arguments, and writes to memory before them.
//!
//! Contract: any bytes decode, and equal bytes decode alike. Arguments are often valid or almost
//! valid, because a fuzzer that only guesses gets nowhere.

use super::MEMORY;
use super::imports::IMPORTS;
use kernel_process::FUNCTIONS;
use kernel_process::functions::Type;

/// One action of the program.
#[derive(Debug, Default)]
pub struct Deed {
    /// Writes to memory, done first.
    pub writes: Vec<(u32, Vec<u8>)>,
    /// Index of a function, and its arguments.
    pub call: Option<(usize, Vec<u64>)>,
}

/// Addresses of texts, lists and results.
const PLACES: [u32; 8] = [0x100, 0x200, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0xfff0];

/// Paths, valid and invalid.
const TEXTS: [&[u8]; 24] = [
    b"a",
    b"b",
    b"in",
    b"in/a",
    b"link",
    b"out",
    b"up",
    b"..",
    b"../secret",
    b"../outside/x",
    b"/secret",
    b"/",
    b".",
    b"",
    b"in/..",
    b"in/../../secret",
    b"up/secret",
    b"up/outside",
    b"out/",
    b"self/self/up/x",
    b"a\0b",
    b"\xff\xfe",
    b"in//../a",
    b"../../../../../..",
];

/// Bytes, consumed from the front.
pub struct Input<'a>(&'a [u8]);

/// Writes valid data to some addresses, at the start.
pub fn furnish(memory: &mut [u8]) {
    let mut put = |at: u32, bytes: &[u8]| {
        memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    put(PLACES[0], b"a");
    put(PLACES[1], b"in");
    put(PLACES[2], &pieces(&[(PLACES[5], 64), (PLACES[6], 300)]));
    put(PLACES[3], &spawn([PLACES[0], 1], [0; 2], [0; 2]));
}

fn pieces(all: &[(u32, u32)]) -> Vec<u8> {
    let words = all.iter().flat_map(|(at, bytes)| [*at, *bytes]);
    words.flat_map(u32::to_le_bytes).collect()
}

/// Returns an [`abi::program::Spawn`] with files to pass, and limits of memory and descriptors.
fn spawn(path: [u32; 2], files: [u32; 2], limits: [u32; 2]) -> Vec<u8> {
    let names = [path, [PLACES[1], 0], [0; 2], files];
    let rest = [[3, u32::MAX], [0; 2], limits, [0; 2]];
    names.iter().chain(&rest).flatten().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns files to pass: the caller's descriptors and the child's; every second one has a name.
fn given(all: &[(u32, u32)]) -> Vec<u8> {
    pieces(&all.iter().flat_map(|&file| [file, (PLACES[1], file.0 % 2)]).collect::<Vec<_>>())
}

/// Returns an address of this chip; port 0 is that of the listener.
fn address(port: u16) -> Vec<u8> {
    let port = if port == 0 { super::world::PORT } else { port };
    let mut bytes = vec![0; 28];
    bytes[0] = 1;
    bytes[2..4].copy_from_slice(&port.to_le_bytes());
    bytes[8..12].copy_from_slice(&[127, 0, 0, 1]);
    bytes
}

/// Returns a subscription to a clock or a descriptor.
fn subscription(kind: u8, what: u32) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[0] = kind;
    bytes[8] = kind;
    bytes[16..20].copy_from_slice(&what.to_le_bytes());
    bytes
}

impl<'a> Input<'a> {
    /// Creates an input of these bytes.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    /// Returns true or false.
    pub fn chance(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns a count or an index.
    fn limit(&mut self) -> u32 {
        [0, 0, 1, 7, 70, 256, u32::MAX - 1, u32::MAX][usize::from(self.byte() % 8)]
    }

    fn place(&mut self) -> u32 {
        PLACES[usize::from(self.byte()) % PLACES.len()]
    }

    /// Returns the next action; `None` at the end.
    pub fn deed(&mut self) -> Option<Deed> {
        if self.0.is_empty() {
            return None;
        }
        let which = usize::from(self.byte()) % 84;
        let mut deed = Deed::default();
        let Some(function) = FUNCTIONS.get(which) else {
            deed.writes.push((self.place(), self.contents()));
            return Some(deed);
        };
        let kinds = IMPORTS[which].1.chars().zip(function.parameters);
        let (wild, mut length) = (self.byte().is_multiple_of(3), 0);
        let mut numbers = vec![];
        for (kind, size) in kinds {
            let guess = wild || self.byte().is_multiple_of(16);
            numbers.push(match guess {
                true => self.number(*size),
                false => self.sensible(kind, &mut deed, &mut length),
            });
        }
        deed.call = Some((which, numbers));
        Some(deed)
    }

    /// Returns a valid argument, and adds the writes to memory that it needs. `length`: of the
    /// object that the last address refers to.
    fn sensible(&mut self, kind: char, deed: &mut Deed, length: &mut u64) -> u64 {
        let (at, contents) = (self.place(), usize::from(self.byte()));
        let mut put = |bytes: Vec<u8>| {
            deed.writes.push((at, bytes));
            u64::from(at)
        };
        match kind {
            'D' => [3, 3, 3, 4, 5][contents % 5],
            'F' => [4, 5, 6, 7, 8, 1, 0, 3][contents % 8],
            'X' => [5, 6, 7, 8, 5, 6, 9, 4][contents % 8],
            'a' => put(address(contents as u16 % 4)),
            'p' => {
                let text = TEXTS[contents % TEXTS.len()];
                *length = text.len() as u64;
                put(text.to_vec())
            }
            'i' => put(pieces(&[(self.place(), contents as u32), (self.place(), 9)])),
            'q' => put(subscription(contents as u8 % 4, contents as u32 % 6)),
            'S' => {
                let path = [self.place(), 1 + contents as u32 % 4];
                let files = [self.place(), u32::from(self.byte() % 3)];
                put(spawn(path, files, [self.limit(), self.limit()]))
            }
            'l' => *length,
            'n' => 1 + contents as u64 % 2,
            's' => contents as u64,
            'o' | 'h' | 'b' => u64::from(at),
            'Z' => [0, 0, 1, 100, u64::MAX, 0x0fff_ffff, 0x0fff_ffff, 0x66][contents % 8],
            '9' => contents as u64 % 8,
            digit if contents.is_multiple_of(2) => u64::from(digit.to_digit(10).unwrap_or(0)),
            _ => contents as u64 % 16,
        }
    }

    fn number(&mut self, size: Type) -> u64 {
        let edge = MEMORY as u64;
        let value = match self.byte() % 16 {
            0..5 => u64::from(self.place()),
            5..8 => u64::from(self.byte() % 6),
            8 => u64::from(self.byte()),
            9 => 3,
            10 => (edge + 4).wrapping_sub(u64::from(self.byte())),
            11 => u64::MAX.wrapping_sub(u64::from(self.byte())),
            12 => (1u64 << (self.byte() % 64)).wrapping_sub(u64::from(self.chance())),
            13 => u64::from(self.word()),
            14 => 1 << 31,
            _ => u64::from(self.word()) | u64::from(self.word()) << 32,
        };
        if size == Type::I32 { value & u64::from(u32::MAX) } else { value }
    }

    /// Returns data for memory: values that functions parse.
    fn contents(&mut self) -> Vec<u8> {
        match self.byte() % 9 {
            0..3 => TEXTS[usize::from(self.byte()) % TEXTS.len()].to_vec(),
            3 => pieces(&[(self.place(), u32::from(self.byte())), (self.place(), 70)]),
            4 => pieces(&[(self.word(), self.word()), (0xfffe, self.word() % 5)]),
            5 => subscription(self.byte() % 4, u32::from(self.byte() % 6)),
            6 => {
                let path = [self.place(), u32::from(self.byte() % 16)];
                spawn(path, [self.place(), u32::from(self.byte() % 70)], [self.limit(), 0])
            }
            7 => given(&[(u32::from(self.byte() % 6), self.limit()), (1, self.limit())]),
            _ => (0..self.byte() % 64).map(|_| self.byte()).collect(),
        }
    }
}
