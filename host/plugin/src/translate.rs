//! Decides what each block of guest code reports, once, when QEMU translates it.

use crate::class::{Class, Isa};
use crate::marks;
use crate::vectors::{self, Tables};
use lab::model::Domain;

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Virtual address.
    pub at: u64,
    /// Its first four bytes, or its two.
    pub word: u32,
}

/// What a block reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Its cost in units of the clock.
    pub units: u64,
    /// It is an exception entry.
    pub enters: bool,
    /// It accesses memory between domains: a sync point.
    pub sync: bool,
    /// Indices of instructions that set a timer.
    pub timers: Vec<usize>,
    /// Indices of instructions whose accesses are reported.
    pub accesses: Vec<usize>,
    /// Marks of the guest.
    pub marks: Vec<Mark>,
    /// Indices of instructions that set the table of exception entries, and their source registers.
    pub tables: Vec<(usize, usize)>,
}

/// A mark in a block. It takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Index of the instruction.
    pub index: usize,
    /// Its number.
    pub number: u8,
    /// Cost of the rest of the block.
    pub rest: u64,
}

/// Plans a block. `tables` is used if the model does not know the exception entries.
pub fn plan(isa: Isa, domain: &Domain, tables: &Tables, block: &[Instruction]) -> Plan {
    let mut plan = Plan::default();
    let unknown = domain.vectors.0 == domain.vectors.1;
    let crosses = |at: u64| (domain.xdomain.0..domain.xdomain.1).contains(&at);
    for (index, instruction) in block.iter().enumerate() {
        if let Some(number) = marks::number(isa, instruction.word) {
            plan.marks.push(Mark { index, number, rest: plan.units });
            continue;
        }
        if let Some(register) = vectors::source(isa, instruction.word).filter(|_| unknown) {
            plan.tables.push((index, register));
        }
        let class = isa.class(instruction.word);
        plan.units += class.units(&domain.costs);
        if class == Class::Timer {
            plan.timers.push(index);
        }
        if crosses(instruction.at) {
            plan.sync = true;
            plan.accesses.push(index);
        }
    }
    plan.marks.iter_mut().for_each(|mark| mark.rest = plan.units - mark.rest);
    let enters = |at| match unknown {
        true => tables.has_entry(isa, at),
        false => isa.is_entry(at, domain.vectors),
    };
    plan.enters = block.first().is_some_and(|first| enters(first.at));
    if plan.enters {
        plan.units += domain.costs.entry;
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::model::Costs;

    #[test]
    fn a_block_is_weighed_and_watched() {
        let costs =
            Costs { instruction: 64, barrier: 640, entry: 6400, exit: 1, ..Costs::default() };
        let domain = Domain {
            costs,
            xdomain: (0x100, 0x110),
            vectors: (0x800, 0x1000),
            ..Domain::default()
        };
        let block = |at: u64, words: &[u32]| -> Vec<Instruction> {
            let place = |i| at + 4 * i as u64;
            words.iter().enumerate().map(|(i, &word)| Instruction { at: place(i), word }).collect()
        };
        let tables = Tables::default();
        let plan = |at, words: &[u32]| plan(Isa::Aarch64, &domain, &tables, &block(at, words));
        let plain = plan(0, &[0xd503_201f, 0xd503_33bf]);
        assert_eq!(plain, Plan { units: 64 + 704, ..Plan::default() });
        let cross = plan(0xfc, &[0xf940_0000, 0xd65f_03c0]);
        assert_eq!((cross.sync, cross.accesses), (true, vec![1]));
        let entry = plan(0x880, &[0xd51b_e340]);
        assert_eq!((entry.units, entry.timers, entry.enters), (6464, vec![0], true));
        let marked = plan(0, &[0xd503_201f, 0xd503_283f, 0xd503_33bf, 0xd518_c000]);
        let mark = Mark { index: 1, number: 1, rest: 704 + 64 };
        assert_eq!((marked.units, marked.marks), (64 + 704 + 64, vec![mark]));
        assert_eq!(marked.tables, [], "the model says where they are");
    }

    #[test]
    fn entries_of_a_foreign_kernel_are_learnt() {
        let costs = Costs { instruction: 64, entry: 6400, ..Costs::default() };
        let domain = Domain { costs, ..Domain::default() };
        let tables = Tables::default();
        let plan = |word| plan(Isa::Aarch64, &domain, &tables, &[Instruction { at: 0x2480, word }]);
        assert_eq!(plan(0xd518_c003).tables, [(0, 3)]);
        assert_eq!(plan(0xd503_201f).units, 64);
        tables.add(0x2000);
        assert_eq!(plan(0xd503_201f).units, 6464);
    }
}
