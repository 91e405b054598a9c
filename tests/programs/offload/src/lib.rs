//! Inputs for an indexer and a SAT solver, each from a seed: the same everywhere.
//!
//! Words are frequent or rare as in real texts, and formulas are random ones of three literals a
//! clause: with 4.2 times as many clauses as variables they are hard for their size.

/// Words that texts are made of.
const VOCABULARY: u64 = 4000;
const SYLLABLES: [&str; 16] = [
    "ba", "den", "fi", "gor", "hu", "kal", "lo", "mir", "na", "pel", "qui", "ras", "so", "tur",
    "ve", "zan",
];
/// Words in a line.
const LINE: usize = 12;

/// SplitMix64.
struct Random(u64);

impl Random {
    /// Returns a number below `bound`, or 0 if that is 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ (it >> 31)).checked_rem(bound).unwrap_or(0)
    }
}

/// Returns a word of the vocabulary: three syllables.
fn word(number: u64) -> String {
    let digits = [number, number >> 4, number >> 8].map(|it| (it & 15) as usize);
    digits.iter().filter_map(|digit| SYLLABLES.get(*digit)).copied().collect()
}

/// Returns texts of `words` words each, with their names. The word of a low number is frequent.
pub fn texts(seed: u64, files: usize, words: usize) -> impl Iterator<Item = (String, String)> {
    let mut random = Random(seed);
    (0..files).map(move |number| {
        let mut text = String::new();
        for at in 1..=words {
            let bound = random.below(VOCABULARY) + 1;
            let bound = random.below(bound) + 1;
            text.push_str(&word(random.below(bound)));
            text.push(if at % LINE == 0 || at == words { '\n' } else { ' ' });
        }
        (format!("{number:04}.txt"), text)
    })
}

/// Returns clauses of three literals about different variables, of which there are at least three.
pub fn clauses(seed: u64, variables: u32, count: usize) -> Vec<[i32; 3]> {
    let mut random = Random(seed);
    let mut clause = || {
        loop {
            let [one, two, three] = [(); 3].map(|()| random.below(variables.into()) as i32 + 1);
            if one != two && two != three && one != three {
                return [one, two, three].map(|it| if random.below(2) == 0 { it } else { -it });
            }
        }
    };
    (0..count).map(|_| clause()).collect()
}

/// Returns a formula as a DIMACS file.
pub fn dimacs(variables: u32, clauses: &[[i32; 3]]) -> String {
    let lines = clauses.iter().map(|[one, two, three]| format!("{one} {two} {three} 0\n"));
    let lines: String = lines.collect();
    format!("p cnf {variables} {}\n{lines}", clauses.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_inputs() {
        let all = || texts(7, 3, 50).collect::<Vec<_>>();
        assert_eq!(all(), all());
        assert!(all().iter().all(|(_, text)| text.split_whitespace().count() == 50));
        assert_ne!(clauses(1, 20, 5), clauses(2, 20, 5));
    }

    #[test]
    fn a_formula_has_its_header() {
        assert_eq!(dimacs(4, &[[1, -2, 4]]), "p cnf 4 1\n1 -2 4 0\n");
    }
}
