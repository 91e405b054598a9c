//! Board files. The input is the text. Rules:
//! - nothing panics;
//! - an error names a line of the text, and says something;
//! - a board that is accepted parses to the same when its TOML is printed in another form;
//! - its blob passes the check of the kernels, or is refused, and is smaller than its page.

use crate::{Target, mutate};
use ::board::{Board, BoardError, Reason};
use base::prng::Prng;

pub const TARGET: Target = Target {
    name: "board",
    about: "board files",
    daily: 6000,
    nightly: 100_000,
    run: |bytes| judge(bytes, ::board::parse),
    seed,
    outcomes: || {
        vec![
            (0, "accepted"),
            (1, "syntax"),
            (2, "range"),
            (3, "name"),
            (4, "duplicate"),
            (5, "no such domain"),
            (6, "misaligned"),
            (7, "overlap"),
            (9, "vector"),
            (11, "missing"),
        ]
    },
};

/// Bytes of a text that is read.
const LONGEST: usize = 1 << 16;
const BOARDS: [&str; 3] = [
    include_str!("../../../boards/duo.toml"),
    include_str!("../../../boards/duo-delegated.toml"),
    include_str!("../../../boards/solo-1.toml"),
];
const WORDS: &[&str] = &[
    "\"main\"",
    "\"shadow\"",
    "\"soc\"",
    "\"console\"",
    "\"net\"",
    "\"\"",
    "\"a name that is too long for a board\"",
    "[[device]]",
    "[[domain]]",
    "[services]",
    "\"16 EiB\"",
    "\"1 MiB\"",
    "\"16777216 TiB\"",
    "0x4000_0000",
    "\"uncached\"",
    "\"global\"",
    "\"delegated\"",
    "{ mode = \"partitioned\" }",
    "{ mode = \"private\", home = \"main\" }",
    "nan",
    "inf",
    "-0.0",
    "false",
    "[]",
    "{}",
    "'''",
    "mmu = false",
    "\"proxy\"",
    "\"vsock\"",
];

type Parse = fn(&str, &str) -> Result<Board, BoardError>;

fn judge(bytes: &[u8], parse: Parse) -> u64 {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    match parse("it.toml", &text) {
        Ok(board) => {
            let table: toml::Table = toml::from_str(&text).expect("it was parsed before");
            let printed = toml::to_string(&table).expect("it can be printed");
            assert_eq!(parse("printed.toml", &printed), Ok(board.clone()), "{printed}");
            if let Ok(blob) = board.blob() {
                blob.check(blob.checksum).expect("it has passed");
            }
            1
        }
        Err(error) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}: there are {lines} lines");
            assert!(!error.reason.to_string().is_empty());
            1 << reason(&error.reason)
        }
    }
}

fn reason(reason: &Reason) -> u32 {
    match reason {
        Reason::Syntax(_) => 1,
        Reason::Range { .. } => 2,
        Reason::Name(_) => 3,
        Reason::Duplicate { .. } => 4,
        Reason::NoDomain { .. } => 5,
        Reason::Misaligned { .. } => 6,
        Reason::Overlap { .. } => 7,
        Reason::Unreachable { .. } => 8,
        Reason::VectorClash { .. } => 9,
        Reason::Mode { .. } => 10,
        Reason::Missing(_) => 11,
        Reason::Conflict(_) => 12,
        Reason::NotYet(_) => 13,
        Reason::Unreadable(_) => 14,
    }
}

fn seed(seed: u64) -> Vec<u8> {
    let board = BOARDS[seed as usize % BOARDS.len()];
    mutate::text(&mut Prng::new(seed), board, WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_with_a_mistake_is_found() {
        // It forgets the lowest bit of an address, except in the printed form.
        let forgets: Parse = |file, text| {
            let mut board = ::board::parse(file, text)?;
            board.ram.base |= u64::from(file == "it.toml");
            Ok(board)
        };
        let below: Parse = |file, text| {
            ::board::parse(file, text).map_err(|error| BoardError { line: 0, ..error })
        };
        for parse in [forgets, below] {
            let found = (0..50)
                .any(|number| std::panic::catch_unwind(|| judge(&seed(number), parse)).is_err());
            assert!(found);
        }
    }
}
