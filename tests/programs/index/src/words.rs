//! The words of a text: runs of letters and digits, in lower case.

/// Maximum length of a word in bytes. What is longer is no word.
pub const MOST_BYTES: usize = 64;

/// Calls `each` with the words of a text, in order.
pub fn of(text: &str, mut each: impl FnMut(&str)) {
    let mut lower = String::new();
    for run in text.split(|c: char| !c.is_alphanumeric()) {
        lower.clear();
        lower.extend(run.chars().flat_map(char::to_lowercase));
        if !lower.is_empty() && lower.len() <= MOST_BYTES {
            each(&lower);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        of(text, |word| words.push(word.to_string()));
        words
    }

    #[test]
    fn case_and_marks_make_no_difference() {
        assert_eq!(all("Über-all, over  ALL: x86!"), ["über", "all", "over", "all", "x86"]);
        assert!(all(" -- \n").is_empty());
    }

    #[test]
    fn a_word_that_is_too_long_is_none() {
        assert_eq!(all(&format!("a {} b", "x".repeat(MOST_BYTES + 1))), ["a", "b"]);
    }
}
