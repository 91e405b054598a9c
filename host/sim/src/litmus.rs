//! Litmus files: small programs over shared words, executed in every order that weakly ordered
//! domains allow, and their allowed and forbidden outcomes.
//!
//! ```text
//! # comment
//! init data=0 flag=0
//! A
//!   store data 1
//!   barrier
//!   store flag 1
//! B
//!   load r flag
//!   barrier
//!   load s data
//!   store done 1 if r=1
//! forbidden B.r=1 & B.s=0
//! allowed B.r=0
//! ```
//! A domain may execute its instructions in any order, with three exceptions: barriers, accesses to
//! one word (a load may return the value of the domain's own store before others see it), and a
//! store after the load that its `if` names. Conditions do not delay loads, which are speculated. A
//! store that executes is visible to all domains (our ISAs are multi-copy atomic). Programs must be
//! tiny, because all orders are tried.

use std::collections::{BTreeMap, HashSet};

/// Values of registers and words, by name, at the end of an execution.
pub type Outcome = BTreeMap<String, u64>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Instruction {
    Store { word: String, value: u64, condition: Option<(String, u64)> },
    Load { register: String, word: String },
    Barrier,
}

impl Instruction {
    fn word(&self) -> Option<&str> {
        match self {
            Instruction::Store { word, .. } | Instruction::Load { word, .. } => Some(word),
            Instruction::Barrier => None,
        }
    }
}

/// An expectation about outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expectation {
    allowed: bool,
    terms: Vec<(String, u64)>,
    line: usize,
}

/// A parsed file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Litmus {
    init: BTreeMap<String, u64>,
    domains: Vec<(String, Vec<Instruction>)>,
    expectations: Vec<Expectation>,
}

/// A line that cannot be parsed, or whose expectation does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

fn assignment(text: &str) -> Option<(String, u64)> {
    let (name, value) = text.split_once('=')?;
    Some((name.trim().to_string(), value.trim().parse().ok()?))
}

fn instruction(domain: &str, line: &str) -> Option<Instruction> {
    let parts: Vec<&str> = line.split_whitespace().collect();
    let register = |name: &str| format!("{domain}.{name}");
    match parts[..] {
        ["barrier"] => Some(Instruction::Barrier),
        ["load", name, word] => {
            Some(Instruction::Load { register: register(name), word: word.into() })
        }
        ["store", word, value] => {
            let value = value.parse().ok()?;
            Some(Instruction::Store { word: word.into(), value, condition: None })
        }
        ["store", word, value, "if", condition] => {
            let (name, wanted) = assignment(condition)?;
            let (value, condition) = (value.parse().ok()?, Some((register(&name), wanted)));
            Some(Instruction::Store { word: word.into(), value, condition })
        }
        _ => None,
    }
}

fn expectation(allowed: bool, terms: &str, line: usize) -> Option<Expectation> {
    let terms = terms.split('&').map(assignment).collect::<Option<Vec<_>>>()?;
    Some(Expectation { allowed, terms, line })
}

/// Parses a file.
pub fn parse(text: &str) -> Result<Litmus, Problem> {
    let mut litmus = Litmus::default();
    for (index, full) in text.lines().enumerate() {
        let trimmed = full.split('#').next().unwrap_or("").trim_end();
        if !trimmed.is_empty() {
            let reason = format!("not understood: {}", trimmed.trim());
            let problem = Problem { line: index + 1, reason };
            litmus.line(trimmed, index + 1).ok_or(problem)?;
        }
    }
    if litmus.expectations.is_empty() {
        return Err(Problem { line: 0, reason: "nothing is expected".into() });
    }
    Ok(litmus)
}

impl Litmus {
    fn line(&mut self, text: &str, line: usize) -> Option<()> {
        if text.starts_with(char::is_whitespace) {
            let (name, program) = self.domains.last_mut()?;
            program.push(instruction(name, text)?);
        } else if let Some(words) = text.strip_prefix("init ") {
            self.init = words.split_whitespace().map(assignment).collect::<Option<_>>()?;
        } else if let Some(terms) = text.strip_prefix("forbidden ") {
            self.expectations.push(expectation(false, terms, line)?);
        } else if let Some(terms) = text.strip_prefix("allowed ") {
            self.expectations.push(expectation(true, terms, line)?);
        } else if text.split_whitespace().count() == 1 {
            self.domains.push((text.into(), vec![]));
        } else {
            return None;
        }
        Some(())
    }

    /// Returns every outcome of an allowed order.
    pub fn outcomes(&self) -> HashSet<Outcome> {
        let start = State { done: vec![0; self.domains.len()], values: self.init.clone() };
        let (mut seen, mut todo) = (HashSet::from([start.clone()]), vec![start]);
        let mut outcomes = HashSet::new();
        while let Some(state) = todo.pop() {
            let next = self.successors(&state);
            if next.is_empty() {
                outcomes.insert(state.values);
                continue;
            }
            todo.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
        }
        outcomes
    }

    /// Checks the expectations. Returns the first line whose expectation does not hold.
    pub fn check(&self) -> Result<(), Problem> {
        let outcomes = self.outcomes();
        for expectation in &self.expectations {
            let holds = |outcome: &Outcome| {
                let value = |name: &String| outcome.get(name).copied().unwrap_or(0);
                expectation.terms.iter().all(|(name, wanted)| value(name) == *wanted)
            };
            let found = outcomes.iter().any(holds);
            if found != expectation.allowed {
                let said = if found { "forbidden, but it happens" } else { "allowed, but never" };
                return Err(Problem { line: expectation.line, reason: said.into() });
            }
        }
        Ok(())
    }

    fn successors(&self, state: &State) -> Vec<State> {
        let each = self.domains.iter().enumerate();
        each.flat_map(|(domain, (_, program))| {
            let ready = (0..program.len()).filter(move |i| state.is_ready(domain, program, *i));
            ready.map(move |i| state.execute(domain, program, i))
        })
        .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// One bit per executed instruction.
    done: Vec<u32>,
    values: BTreeMap<String, u64>,
}

impl State {
    fn is_done(&self, domain: usize, i: usize) -> bool {
        self.done[domain] & 1 << i != 0
    }

    fn is_ready(&self, domain: usize, program: &[Instruction], i: usize) -> bool {
        let mut earlier = (0..i).filter(|j| !self.is_done(domain, *j)).map(|j| &program[j]);
        let own_store = |other: &Instruction| {
            matches!(program[i], Instruction::Load { .. })
                && matches!(other, Instruction::Store { condition: None, .. })
        };
        let before = |other: &Instruction| match (&program[i], other) {
            (Instruction::Barrier, _) | (_, Instruction::Barrier) => true,
            (
                Instruction::Store { condition: Some((name, _)), .. },
                Instruction::Load { register, .. },
            ) if name == register => true,
            (this, other) => this.word() == other.word() && !own_store(other),
        };
        !self.is_done(domain, i) && !earlier.any(before)
    }

    fn execute(&self, domain: usize, program: &[Instruction], i: usize) -> State {
        let mut next = self.clone();
        next.done[domain] |= 1 << i;
        match &program[i] {
            Instruction::Barrier => {}
            Instruction::Store { word, value, condition } => {
                let holds = |(name, wanted): &(String, u64)| self.values.get(name) == Some(wanted);
                if condition.as_ref().is_none_or(holds) {
                    next.values.insert(word.clone(), *value);
                }
            }
            Instruction::Load { register, word } => {
                let own =
                    (0..i).rev().filter(|j| !self.is_done(domain, *j)).find_map(|j| match &program
                        [j]
                    {
                        Instruction::Store { word: stored, value, .. } if stored == word => {
                            Some(*value)
                        }
                        _ => None,
                    });
                let value = own.or_else(|| self.values.get(word).copied()).unwrap_or(0);
                next.values.insert(register.clone(), value);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), Problem> {
        parse(text).and_then(|litmus| litmus.check())
    }

    #[test]
    fn the_classic_shapes_come_out_as_on_our_isas() {
        let (mp, sb) = ("store x 1\n  store y 1", "store x 1\n  load r y");
        let with = |text: &str| text.replace('\n', "\n  barrier\n");
        let message = |a: &str, b: &str, verdict: &str| {
            check(&format!("init x=0\nA\n  {a}\nB\n  {b}\n{verdict} B.r=1 & B.s=0"))
        };
        let read = "load r y\n  load s x";
        assert_eq!(message(&with(mp), &with(read), "forbidden"), Ok(()));
        assert_eq!(message(mp, &with(read), "allowed"), Ok(()));
        assert_eq!(message(&with(mp), read, "allowed"), Ok(()));
        let buffering = |a: &str, b: &str, verdict: &str| {
            check(&format!("init x=0\nA\n  {a}\nB\n  {b}\n{verdict} A.r=0 & B.r=0"))
        };
        let other = "store y 1\n  load r x";
        assert_eq!(buffering(&with(sb), &with(other), "forbidden"), Ok(()));
        assert_eq!(buffering(sb, &with(other), "allowed"), Ok(()));
        let load = "init x=0\nA\n  load r x\n  store y 1\nB\n  load r y\n  store x 1\n";
        assert_eq!(check(&format!("{load}allowed A.r=1 & B.r=1")), Ok(()));
        let fenced = load.replace("\n  store", "\n  barrier\n  store");
        assert_eq!(check(&format!("{fenced}forbidden A.r=1 & B.r=1")), Ok(()));
    }

    #[test]
    fn one_word_stays_coherent_and_own_stores_are_seen() {
        let text = "init x=0\nA\n  store x 1\n  store x 2\nB\n  load r x\n  load s x\n";
        assert_eq!(check(&format!("{text}forbidden B.r=2 & B.s=1\nallowed B.r=1 & B.s=2")), Ok(()));
        assert_eq!(check("init x=0\nA\n  store x 1\n  load r x\nforbidden A.r=0"), Ok(()));
        assert_eq!(check("init x=0\nA\n  load r x\n  store y 1 if r=1\nforbidden y=1"), Ok(()));
    }

    #[test]
    fn a_wrong_expectation_or_line_is_named() {
        let wrong = check("init x=0\nA\n  store x 1\nforbidden x=1").unwrap_err();
        assert_eq!((wrong.line, wrong.reason.as_str()), (4, "forbidden, but it happens"));
        assert_eq!(check("A\n  stor x 1\nallowed x=0").unwrap_err().line, 2);
        assert_eq!(check("A\n  store x 1").unwrap_err().reason, "nothing is expected");
    }
}
