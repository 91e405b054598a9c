//! The file of an index.
//!
//! ```text
//!   magic | lengths of the next two, u64 each | documents | postings | dictionary
//!   document: words, length of its path, path
//!   postings of a word: how many, then for each: document - the one before, times
//!   dictionary: an fst from each word to the offset of its postings
//! ```
//! Numbers are LEB128 except the two lengths. Contract: an index is there as a whole or not at all,
//! and the one before stays until then. What is read is checked; a damaged file is an error.

use crate::add::{Document, Posting, Words};
use fst::automaton::Str;
use fst::{Automaton, IntoStreamer, Map, MapBuilder, Streamer};
use std::fs;

const MAGIC: &[u8; 8] = b"index 1\n";
const DAMAGED: &str = "this is no index, or a damaged one; `index add` makes it again";

/// Writes an index to a file.
pub fn write(path: &str, words: &Words) -> Result<(), String> {
    let bytes = bytes(words).map_err(|why| format!("{path}: {why}"))?;
    let new = format!("{path}.new");
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, path));
    written.map_err(|why| {
        // What was begun is of no use; if it cannot be removed either, this error says enough.
        let _ = fs::remove_file(&new);
        format!("{path}: it cannot be written: {why}")
    })
}

fn bytes(words: &Words) -> Result<Vec<u8>, fst::Error> {
    let mut documents = Vec::new();
    for document in &words.documents {
        put(&mut documents, document.words.into());
        put(&mut documents, document.path.len() as u64);
        documents.extend(document.path.as_bytes());
    }
    let mut sorted: Vec<(&String, &Vec<Posting>)> = words.postings.iter().collect();
    sorted.sort_unstable_by_key(|(word, _)| *word);
    let (mut postings, mut dictionary) = (Vec::new(), MapBuilder::memory());
    for (word, list) in sorted {
        dictionary.insert(word, postings.len() as u64)?;
        put(&mut postings, list.len() as u64);
        let mut before = 0;
        for posting in list {
            put(&mut postings, (posting.document - before).into());
            put(&mut postings, posting.times.into());
            before = posting.document;
        }
    }
    let lengths = [documents.len(), postings.len()].map(|it| (it as u64).to_le_bytes());
    let dictionary = dictionary.into_inner()?;
    Ok([&MAGIC[..], lengths.as_flattened(), &documents, &postings, &dictionary].concat())
}

/// An index that was read.
pub struct Index {
    /// Documents, in the order of their numbers.
    pub documents: Vec<Document>,
    postings: Vec<u8>,
    dictionary: Map<Vec<u8>>,
}

impl Index {
    /// Reads the file of an index.
    pub fn read(path: &str) -> Result<Index, String> {
        let bytes = fs::read(path).map_err(|why| match why.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{path}: there is no index; `index add {path} FOLDER` makes one")
            }
            _ => format!("{path}: {why}"),
        })?;
        Index::parse(&bytes).ok_or(format!("{path}: {DAMAGED}"))
    }

    fn parse(bytes: &[u8]) -> Option<Index> {
        let (lengths, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(16)?;
        let (documents, postings) = lengths.split_at_checked(8)?;
        let length = |it: &[u8]| usize::try_from(u64::from_le_bytes(it.try_into().ok()?)).ok();
        let (mut documents, rest) = rest.split_at_checked(length(documents)?)?;
        let (postings, dictionary) = rest.split_at_checked(length(postings)?)?;
        let mut all = Vec::new();
        while !documents.is_empty() {
            let words = u32::try_from(take(&mut documents)?).ok()?;
            let length = usize::try_from(take(&mut documents)?).ok()?;
            let (path, rest) = documents.split_at_checked(length)?;
            all.push(Document { path: String::from_utf8(path.to_vec()).ok()?, words });
            documents = rest;
        }
        let dictionary = Map::new(dictionary.to_vec()).ok()?;
        dictionary.as_fst().verify().ok()?;
        Some(Index { documents: all, postings: postings.to_vec(), dictionary })
    }

    /// Returns the postings of a word, or of each word with a beginning (`begin*`).
    pub fn find(&self, word: &str) -> Result<Vec<Vec<Posting>>, String> {
        let offsets = match word.strip_suffix('*') {
            None => self.dictionary.get(word).into_iter().collect(),
            Some(start) => self.offsets(start),
        };
        let lists: Option<Vec<_>> = offsets.into_iter().map(|it| self.postings_at(it)).collect();
        lists.ok_or(DAMAGED.to_string())
    }

    fn offsets(&self, start: &str) -> Vec<u64> {
        let mut found = self.dictionary.search(Str::new(start).starts_with()).into_stream();
        let mut offsets = Vec::new();
        while let Some((_, offset)) = found.next() {
            offsets.push(offset);
        }
        offsets
    }

    fn postings_at(&self, offset: u64) -> Option<Vec<Posting>> {
        let mut bytes = self.postings.get(usize::try_from(offset).ok()?..)?;
        let (count, mut document) = (take(&mut bytes)?, 0_u32);
        let mut list = Vec::new();
        for _ in 0..count {
            document = document.checked_add(u32::try_from(take(&mut bytes)?).ok()?)?;
            let times = u32::try_from(take(&mut bytes)?).ok()?;
            self.documents.get(usize::try_from(document).ok()?)?;
            list.push(Posting { document, times });
        }
        Some(list)
    }
}

/// Appends a number as LEB128.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number from the front.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Words {
        let mut words = Words::default();
        words.add("a", "one two two");
        words.add("b", "three twofold");
        words.add("c", "two");
        words
    }

    #[test]
    fn what_was_written_is_read() {
        let index = Index::parse(&bytes(&example()).expect("an index")).expect("it is read");
        assert_eq!(index.documents, example().documents);
        let posting = |document, times| Posting { document, times };
        assert_eq!(index.find("two"), Ok(vec![vec![posting(0, 2), posting(2, 1)]]));
        assert_eq!(index.find("four"), Ok(vec![]));
        let begin = index.find("two*").expect("postings");
        assert_eq!(begin, [vec![posting(0, 2), posting(2, 1)], vec![posting(1, 1)]]);
    }

    #[test]
    fn a_damaged_index_is_an_error() {
        let whole = bytes(&example()).expect("an index");
        for length in 0..whole.len() {
            assert!(Index::parse(&whole[..length]).is_none(), "the first {length} bytes");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x81;
            if let Some(index) = Index::parse(&changed) {
                for word in ["one", "two*", "*"] {
                    // Other postings may be found, or an error; nothing else happens.
                    let _ = index.find(word);
                }
            }
        }
    }

    #[test]
    fn numbers_of_all_sizes_are_kept() {
        for number in [0, 1, 127, 128, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(take(&mut &bytes[..]), Some(number));
        }
        assert_eq!(take(&mut &[0x80; 10][..]), None);
    }
}
