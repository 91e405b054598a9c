//! Twins: for a function in another kernel's image, the function of the same name in this one.
//!
//! Contract: names are compared demangled and without crate disambiguators, which differ between
//! builds. A name that two functions of either image share has no twin; copies of one function
//! instantiated for several crates count as one. A function with several names (the linker merges
//! identical functions) has the twin of any of them. The table is built once; a lookup does not
//! allocate and accepts any address.

use alloc::vec::Vec;
use core::fmt::{self, Write};
use rustc_demangle::demangle;

/// Why a call cannot continue here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTwin {
    /// No function of the other image starts at this address.
    NoFunction,
    /// This image has no function of that name.
    Missing,
    /// Two functions in one of the images have that name.
    Ambiguous,
}

/// Values of [`Pair::twin`] that are not offsets in this image.
const AMBIGUOUS: u32 = u32::MAX - 1;
const MISSING: u32 = u32::MAX;

/// A function of the other image and its twin, as offsets in their images.
#[derive(Clone, Copy, Debug)]
struct Pair {
    at: u32,
    twin: u32,
}

/// The functions of another image, sorted by address.
#[derive(Clone, Debug, Default)]
pub struct Twins {
    pairs: Vec<Pair>,
}

/// The number of functions of the other image with a twin, without one, and with ambiguous names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub found: usize,
    pub missing: usize,
    pub ambiguous: usize,
}

/// A function of either image, as the table is built from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    /// Hash of the demangled name without disambiguators.
    name: u64,
    /// Hash of the mangled name without the instantiating crate.
    exact: u64,
    at: u32,
}

/// FNV-1a of text.
struct Hash(u64);

impl Hash {
    const START: Hash = Hash(abi::boot::FNV_START);
}

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = abi::boot::fnv(self.0, text.as_bytes());
        Ok(())
    }
}

/// Strips the instantiating crate from the end of a mangled name.
fn without_user(mangled: &str) -> &str {
    let word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_user = |text: &str| match text.as_bytes().first() {
        // A back reference to a crate mentioned before.
        Some(b'B') => text[1..].strip_suffix('_').is_some_and(word),
        Some(b'C') => is_crate(&text[1..]),
        _ => false,
    };
    let ends = mangled.rmatch_indices(['B', 'C']).map(|(at, _)| at);
    let end = ends.take(64).find(|&at| is_user(&mangled[at..]));
    end.map_or(mangled, |end| &mangled[..end])
}

/// Matches `[s DISAMBIGUATOR _] LENGTH [_] NAME` and nothing after it.
fn is_crate(text: &str) -> bool {
    let rest = match text.strip_prefix('s') {
        Some(disambiguated) => disambiguated.split_once('_').map_or("", |(_, rest)| rest),
        None => text,
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (length, name) = rest.split_at(digits);
    let name = name.strip_prefix('_').unwrap_or(name);
    length.parse() == Ok(name.len()) && !name.is_empty()
}

fn functions<'a>(all: impl Iterator<Item = (u32, &'a str)>) -> Vec<Function> {
    let function = |(at, mangled): (u32, &str)| {
        let (mut name, mut exact) = (Hash::START, Hash::START);
        // Hashing cannot fail; of a name that cannot be demangled, the part before the failure is
        // hashed.
        let _ = write!(name, "{:#}", demangle(mangled));
        let _ = exact.write_str(without_user(mangled));
        Function { name: name.0, exact: exact.0, at }
    };
    let mut all: Vec<Function> = all.map(function).collect();
    all.sort_unstable();
    all
}

/// Returns the function called `name`, if there is exactly one.
fn only(all: &[Function], name: u64) -> Result<u32, NoTwin> {
    let from = all.partition_point(|function| function.name < name);
    let mut same = all[from..].iter().take_while(|function| function.name == name);
    let first = same.next().ok_or(NoTwin::Missing)?;
    match same.all(|function| function.exact == first.exact) {
        true => Ok(first.at),
        false => Err(NoTwin::Ambiguous),
    }
}

impl Twins {
    /// Builds the table from offset and mangled name of each function of both images.
    pub fn new<'a>(
        own: impl Iterator<Item = (u32, &'a str)>,
        others: impl Iterator<Item = (u32, &'a str)>,
    ) -> Twins {
        let (own, others) = (functions(own), functions(others));
        let pair = |other: &Function| {
            let twin = only(&others, other.name).and_then(|_| only(&own, other.name));
            let twin = match twin {
                Ok(twin) => twin,
                Err(NoTwin::Ambiguous) => AMBIGUOUS,
                Err(_) => MISSING,
            };
            Pair { at: other.at, twin }
        };
        let mut pairs: Vec<Pair> = others.iter().map(pair).collect();
        // Of several names of one function, keeps one that has a twin: offsets sort before the
        // markers.
        pairs.sort_unstable_by_key(|pair| (pair.at, pair.twin));
        pairs.dedup_by_key(|pair| pair.at);
        pairs.shrink_to_fit();
        Twins { pairs }
    }

    /// Returns the offset in this image of the twin of the other image's function at `at`.
    pub fn find(&self, at: u32) -> Result<u32, NoTwin> {
        let found = self.pairs.binary_search_by_key(&at, |pair| pair.at);
        let pair = found.ok().and_then(|index| self.pairs.get(index));
        match pair.ok_or(NoTwin::NoFunction)?.twin {
            AMBIGUOUS => Err(NoTwin::Ambiguous),
            MISSING => Err(NoTwin::Missing),
            twin => Ok(twin),
        }
    }

    /// Counts over all functions of the other image.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for pair in &self.pairs {
            *match pair.twin {
                AMBIGUOUS => &mut tally.ambiguous,
                MISSING => &mut tally.missing,
                _ => &mut tally.found,
            } += 1;
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twins(own: &[(u32, &str)], others: &[(u32, &str)]) -> Twins {
        Twins::new(own.iter().copied(), others.iter().copied())
    }

    #[test]
    fn disambiguators_of_crates_do_not_matter() {
        let own = [(16, "_RNvCs1a_6kernel4turn"), (32, "_ZN6kernel4spin17h0123456789abcdefE")];
        let others = [(8, "_ZN6kernel4spin17hfedcba9876543210E"), (64, "_RNvCs9z_6kernel4turn")];
        let twins = twins(&own, &others);
        assert_eq!((twins.find(64), twins.find(8)), (Ok(16), Ok(32)));
        assert_eq!(twins.tally(), Tally { found: 2, ..Tally::default() });
    }

    #[test]
    fn addresses_that_are_no_function_are_told_from_missing_names() {
        let twins = twins(&[(0, "memcpy")], &[(4, "memcpy"), (8, "_RNvCs1_1a4gone")]);
        assert_eq!((twins.find(4), twins.find(8)), (Ok(0), Err(NoTwin::Missing)));
        for at in [0, 5, 6, 12, u32::MAX] {
            assert_eq!(twins.find(at), Err(NoTwin::NoFunction), "{at}");
        }
    }

    #[test]
    fn an_ambiguous_name_has_no_twin_in_either_direction() {
        let (one, two) = ("_RNvNvCs1_1a4pick4same", "_RNvNvCs1_1a4picks_4same");
        let ambiguous = Err(NoTwin::Ambiguous);
        let here = twins(&[(0, one), (16, two)], &[(4, one)]);
        assert_eq!(here.find(4), ambiguous);
        let there = twins(&[(0, one)], &[(4, one), (8, two)]);
        assert_eq!((there.find(4), there.find(8)), (ambiguous, ambiguous));
        let crates = twins(&[(0, "_RNvCs1_1a1f")], &[(4, "_RNvCs1_1a1f"), (8, "_RNvCs2_1a1f")]);
        assert_eq!(crates.find(4), ambiguous);
        assert_eq!(crates.tally(), Tally { ambiguous: 2, ..Tally::default() });
    }

    #[test]
    fn copies_for_several_crates_are_one_function() {
        let copies = ["_RINvCs1_1a1fhEB2_", "_RINvCs1_1a1fhECs3_3foo", "_RINvCs1_1a1fhECs4_2us"];
        let own: Vec<_> = (0..).step_by(16).zip(copies).collect();
        let twins = twins(&own, &[(4, "_RINvCs7_1a1fhECs8_3bar"), (8, copies[1])]);
        // The two differ in their crate's disambiguator, so either could be the twin.
        assert_eq!(twins.find(4), Err(NoTwin::Ambiguous));
        let twins = super::tests::twins(&own, &[(4, copies[0]), (8, copies[2])]);
        assert_eq!((twins.find(4), twins.find(8)), (Ok(0), Ok(0)));
    }

    #[test]
    fn a_function_of_several_names_has_the_twin_of_any() {
        let twins = twins(&[(0, "b"), (8, "c")], &[(4, "a"), (4, "b")]);
        assert_eq!(twins.find(4), Ok(0));
    }

    #[test]
    fn malformed_names_are_handled() {
        let nonsense = ["", "_R", "_RB", "C", "_RNvC", "C99999999999999999999999x", "B_", "_ZN"];
        let all: Vec<_> = (0..).zip(nonsense).collect();
        let twins = twins(&all, &all);
        assert!((0..8).all(|at| twins.find(at) == Ok(at)), "{twins:?}");
    }
}
