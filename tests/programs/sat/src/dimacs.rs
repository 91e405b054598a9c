//! Formulas as DIMACS files.
//!
//! ```text
//!   c a comment
//!   p cnf 3 2          three variables, two clauses
//!   1 -2 0             the first or not the second
//!   2 3 0
//! ```
//! Contract: what is read has the variables and clauses that its header says. Everything else is
//! refused, with the line and the reason. A line that begins with `%` ends the file, as in files of
//! SATLIB.

use std::fmt;

/// Maximum number of variables: an answer about them fits into the block of a message.
pub const MOST_VARIABLES: i32 = 100_000;

/// A formula in conjunctive normal form.
#[derive(Debug, PartialEq, Eq)]
pub struct Formula {
    variables: i32,
    clauses: Vec<Vec<i32>>,
}

/// Why a text is no formula.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The line, from 1; 0: the text as a whole.
    pub line: u32,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            line => write!(f, "line {line}: {}", self.why),
        }
    }
}

/// A header, and what of its clauses was read.
struct Reader {
    formula: Formula,
    /// Number of clauses that the header says.
    wanted: usize,
    /// Literals of a clause that has no end yet.
    begun: Vec<i32>,
}

impl Formula {
    /// Reads a DIMACS file.
    pub fn read(text: &[u8]) -> Result<Formula, Invalid> {
        let mut reader: Option<Reader> = None;
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            let invalid = |why| Invalid { line: number, why };
            let line =
                str::from_utf8(line).map_err(|_| invalid("it is not text".to_string()))?.trim();
            match (line.as_bytes().first(), &mut reader) {
                (None | Some(b'c'), _) => {}
                (Some(b'%'), _) => break,
                (Some(b'p'), None) => reader = Some(Reader::header(line).map_err(invalid)?),
                (Some(b'p'), Some(_)) => return Err(invalid("a second header".to_string())),
                (Some(_), None) => {
                    let why = "a header is missing before it: p cnf VARIABLES CLAUSES";
                    return Err(invalid(why.to_string()));
                }
                (Some(_), Some(reader)) => reader.literals(line).map_err(invalid)?,
            }
        }
        let ended = reader.ok_or("there is no header: p cnf VARIABLES CLAUSES".to_string());
        ended.and_then(Reader::end).map_err(|why| Invalid { line: 0, why })
    }

    /// Returns the number of variables.
    pub const fn variables(&self) -> i32 {
        self.variables
    }

    /// Returns the clauses. Their literals are numbers of variables, negative for their opposites.
    pub fn clauses(&self) -> &[Vec<i32>] {
        &self.clauses
    }
}

impl Reader {
    fn header(line: &str) -> Result<Reader, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers = match words[..] {
            ["p", "cnf", variables, clauses] => variables.parse().ok().zip(clauses.parse().ok()),
            _ => None,
        };
        let Some((variables, wanted)) = numbers.filter(|(variables, _)| *variables >= 0) else {
            return Err(format!("\"{line}\" is not p cnf VARIABLES CLAUSES"));
        };
        if variables > MOST_VARIABLES {
            return Err(format!("{variables} variables; at most {MOST_VARIABLES} are solved"));
        }
        let formula = Formula { variables, clauses: Vec::new() };
        Ok(Reader { formula, wanted, begun: Vec::new() })
    }

    fn literals(&mut self, line: &str) -> Result<(), String> {
        let most = self.formula.variables;
        for word in line.split_whitespace() {
            match word.parse::<i32>() {
                Err(_) => return Err(format!("\"{word}\" is no number")),
                Ok(0) => self.formula.clauses.push(std::mem::take(&mut self.begun)),
                Ok(it) if it.unsigned_abs() > most.unsigned_abs() => {
                    return Err(format!("{it}: the header says {most} variables"));
                }
                Ok(literal) => self.begun.push(literal),
            }
            if self.formula.clauses.len() > self.wanted {
                return Err(format!("more clauses than the {} of the header", self.wanted));
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Formula, String> {
        let found = self.formula.clauses.len();
        match (self.begun.is_empty(), found == self.wanted) {
            (false, _) => Err("the last clause has no 0 at its end".to_string()),
            (_, false) => Err(format!("{found} clauses; the header says {}", self.wanted)),
            _ => Ok(self.formula),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> String {
        Formula::read(text).expect_err("it is refused").to_string()
    }

    #[test]
    fn clauses_may_span_lines() {
        let text = b"c it has\np cnf 3 2\n1 -2\n0 2 3 0\n%\n0\n";
        let formula = Formula { variables: 3, clauses: vec![vec![1, -2], vec![2, 3]] };
        assert_eq!(Formula::read(text), Ok(formula));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        assert_eq!(refused(b"p cnf 2 1\n1 x 0\n"), "line 2: \"x\" is no number");
        assert_eq!(refused(b"p cnf 2 1\n\n1 -3 0"), "line 3: -3: the header says 2 variables");
        let lowest = "line 2: -2147483648: the header says 2 variables";
        assert_eq!(refused(b"p cnf 2 1\n-2147483648 0"), lowest);
        let header = "line 1: \"p cnf 2\" is not p cnf VARIABLES CLAUSES";
        assert_eq!(refused(b"p cnf 2\n"), header);
        assert_eq!(refused(b"p cnf -2 1\n").len(), header.len() + 3);
        assert_eq!(refused(b"p cnf 1 0\np cnf 1 0\n"), "line 2: a second header");
        let more = "line 2: more clauses than the 1 of the header";
        assert_eq!(refused(b"p cnf 2 1\n1 0 2 0\n"), more);
        assert_eq!(refused(b"p cnf 2 1\n\xff 0\n"), "line 2: it is not text");
        let missing = "line 1: a header is missing before it: p cnf VARIABLES CLAUSES";
        assert_eq!(refused(b"1 2 0\n"), missing);
        let many = "line 1: 100001 variables; at most 100000 are solved";
        assert_eq!(refused(b"p cnf 100001 0\n"), many);
    }

    #[test]
    fn what_is_missing_at_the_end_is_said() {
        assert_eq!(refused(b""), "there is no header: p cnf VARIABLES CLAUSES");
        assert_eq!(refused(b"p cnf 2 1\n1 2\n"), "the last clause has no 0 at its end");
        assert_eq!(refused(b"p cnf 2 2\n1 2 0\n"), "1 clauses; the header says 2");
    }
}
