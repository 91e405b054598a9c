//! Deliberate mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant { A }
