//! The hexadecimal signatures of ClamAV: bytes, some of them left open, with gaps between.
//!
//! ```text
//!   4d5a??9?{2-4}ff*00     4d 5a, any byte, 9x; after 2 to 4 bytes ff; anywhere after that 00
//! ```
//! Contract: whether a pattern matches is found in a time of the order of the data's length times
//! the pattern's, whatever the data is.

/// Bytes without gaps, after a gap.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    /// At least so many bytes are between the piece before, or the start, and this one.
    least: usize,
    /// At most so many are.
    most: Option<usize>,
    /// Each byte with the bits that count.
    bytes: Vec<(u8, u8)>,
}

/// A signature.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

impl Piece {
    fn is_at(&self, data: &[u8], at: usize) -> bool {
        let found = data.get(at..at + self.bytes.len());
        found.is_some_and(|found| {
            found.iter().zip(&self.bytes).all(|(byte, (value, bits))| byte & bits == *value)
        })
    }

    /// Returns the longest run of bytes of which each bit counts.
    fn longest_run(&self) -> Vec<u8> {
        let runs = self.bytes.split(|(_, bits)| *bits != 0xff);
        let longest = runs.max_by_key(|run| run.len()).unwrap_or_default();
        longest.iter().map(|(value, _)| *value).collect()
    }

    /// Returns where it can end, if what is before it ends at one of `ends`, which are sorted.
    fn ends(&self, data: &[u8], ends: &[usize]) -> Vec<usize> {
        let (Some(first), Some(last)) = (ends.first(), ends.last()) else { return Vec::new() };
        let from = first.saturating_add(self.least);
        let upto = data.len().saturating_sub(self.bytes.len());
        let upto = self.most.map_or(upto, |most| upto.min(last.saturating_add(most)));
        let fits = |at: &usize| match self.most {
            None => true,
            Some(most) => {
                // The first end from which it is not too far.
                let near = ends.partition_point(|end| end.saturating_add(most) < *at);
                ends.get(near).is_some_and(|end| end + self.least <= *at)
            }
        };
        let places = (from..=upto).filter(|at| self.is_at(data, *at)).filter(fits);
        places.map(|at| at + self.bytes.len()).collect()
    }
}

impl Pattern {
    /// Reads a signature. `offset`: it begins at this byte. `None`: it is written in a way that
    /// this program does not know, or it has no byte that is certain.
    pub fn read(text: &str, offset: Option<usize>) -> Option<Pattern> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        let (mut least, mut most) = (offset.unwrap_or(0), offset);
        loop {
            let end = rest.find(['*', '{']).unwrap_or(rest.len());
            let (bytes, after) = rest.split_at_checked(end)?;
            pieces.push(Piece { least, most, bytes: bytes_of(bytes)? });
            if after.is_empty() {
                break;
            }
            ((least, most), rest) = gap_of(after)?;
        }
        let pattern = Pattern(pieces);
        let is_certain = !pattern.certain_bytes().is_empty();
        is_certain.then_some(pattern)
    }

    /// Returns bytes that are in all data that it matches: as many as are together.
    pub fn certain_bytes(&self) -> Vec<u8> {
        self.0.iter().map(Piece::longest_run).max_by_key(Vec::len).unwrap_or_default()
    }

    /// Returns whether it is somewhere in the data.
    pub fn is_in(&self, data: &[u8]) -> bool {
        let ends = self.0.iter().fold(vec![0], |ends, piece| piece.ends(data, &ends));
        !ends.is_empty()
    }
}

/// Returns what two digits each say; at least one.
fn bytes_of(text: &str) -> Option<Vec<(u8, u8)>> {
    let nibble = |digit: u8| match digit {
        b'?' => Some((0, 0)),
        digit => char::from(digit).to_digit(16).map(|value| (value as u8, 0xf)),
    };
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let [high, low] = pair else { return None };
        let (high, low) = (nibble(*high)?, nibble(*low)?);
        Some((high.0 << 4 | low.0, high.1 << 4 | low.1))
    });
    pairs.collect::<Option<Vec<_>>>().filter(|bytes| !bytes.is_empty())
}

/// The least and the most bytes of a gap.
type Gap = (usize, Option<usize>);

/// Returns the gap at the start of a text, and what follows.
fn gap_of(text: &str) -> Option<(Gap, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some(((0, None), rest));
    }
    let (range, rest) = text.strip_prefix('{')?.split_once('}')?;
    let gap = match range.split_once('-') {
        None => (range.parse().ok()?, Some(range.parse().ok()?)),
        Some(("", most)) => (0, Some(most.parse().ok()?)),
        Some((least, "")) => (least.parse().ok()?, None),
        Some((least, most)) => (least.parse().ok()?, Some(most.parse().ok()?)),
    };
    Some((gap, rest)).filter(|((least, most), _)| most.is_none_or(|most| *least <= most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(text: &str, data: &[u8]) -> bool {
        Pattern::read(text, None).unwrap().is_in(data)
    }

    #[test]
    fn bytes_gaps_and_open_bytes() {
        let data = b"....MZ\x90\x91__\xff.....\x00..";
        for text in
            ["4d5a", "4D5A", "4d5a??9?", "4d5a??9?{2-4}ff*00", "4d{2-}ff", "4d{-9}ff", "2e*2e"]
        {
            assert!(is_in(text, data), "{text}");
        }
        for text in ["4d5b", "4d5a{1}5f", "ff{-4}00", "00*ff", "4d5a9?9?9?", "2e{40-}2e"] {
            assert!(!is_in(text, data), "{text}");
        }
        assert!(Pattern::read("4d5a", Some(4)).unwrap().is_in(data));
        assert!(!Pattern::read("4d5a", Some(3)).unwrap().is_in(data));
        assert!(!is_in("4d5a", b""));
        assert_eq!(Pattern::read("4d5a??0102030?", None).unwrap().certain_bytes(), [1, 2, 3]);
    }

    #[test]
    fn a_later_place_of_a_piece_counts_too() {
        // The first 01 is too far from 02, the last one too near.
        assert!(is_in("01{2-3}02", &[1, 0, 0, 0, 0, 1, 0, 0, 2]));
        assert!(is_in("01{3}02", &[1, 1, 0, 0, 2]));
        assert!(!is_in("01{3}02", &[1, 0, 0, 2, 1, 2]));
    }

    #[test]
    fn what_it_does_not_know_is_left_out() {
        for text in [
            "",
            "4",
            "4d5",
            "??",
            "xy",
            "*4d",
            "4d*",
            "(4d|5a)",
            "4d{",
            "4d{3-2}5a",
            "4d{a}5a",
            "é9",
        ] {
            assert_eq!(Pattern::read(text, None), None, "{text}");
        }
    }
}
