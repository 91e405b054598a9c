//! A search: which documents have the words of a question, best first.
//!
//! The rank is BM25 with its usual constants: rare words and short documents count for more. Words
//! that begin alike (`begin*`) count one by one.

use crate::add::Posting;
use crate::file::Index;
use crate::words;

/// How soon more of the same word adds little.
const K1: f64 = 1.2;
/// How much the length of a document counts, from 0 to 1.
const B: f64 = 0.75;

/// Returns the documents that have one of the words, with their ranks, best first; equal ones in
/// the order of the index.
pub fn find<'a>(index: &'a Index, asked: &[&str]) -> Result<Vec<(f64, &'a str)>, String> {
    let mut ranks = vec![0.0; index.documents.len()];
    for word in wanted(asked) {
        for list in index.find(&word)? {
            add(&mut ranks, index, &list);
        }
    }
    let found = ranks.into_iter().zip(&index.documents).filter(|(rank, _)| *rank > 0.0);
    let mut found: Vec<(f64, &str)> = found.map(|(rank, it)| (rank, it.path.as_str())).collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    Ok(found)
}

/// Returns the words of a question as the index has them.
fn wanted(asked: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for text in asked {
        let before = all.len();
        words::of(text, |word| all.push(word.to_string()));
        if let (true, Some(last)) = (text.ends_with('*'), all.get_mut(before..)) {
            last.iter_mut().next_back().into_iter().for_each(|word| word.push('*'));
        }
    }
    all
}

/// Adds the rank that a word gives each document.
fn add(ranks: &mut [f64], index: &Index, list: &[Posting]) {
    let documents = index.documents.len() as f64;
    let words: f64 = index.documents.iter().map(|it| f64::from(it.words)).sum();
    let have = list.len() as f64;
    let rarity = (1.0 + (documents - have + 0.5) / (have + 0.5)).ln();
    for posting in list {
        let at = posting.document as usize;
        if let (Some(rank), Some(document)) = (ranks.get_mut(at), index.documents.get(at)) {
            let length = f64::from(document.words) / (words / documents);
            let times = f64::from(posting.times);
            *rank += rarity * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_the_words_of_the_index() {
        assert_eq!(wanted(&["Two", "x-ray*", "*"]), ["two", "x", "ray*"]);
    }
}
