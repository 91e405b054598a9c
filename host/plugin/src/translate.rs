//! What each block of guest code is asked to tell us, decided once when QEMU translates it.

use crate::class::{Class, Isa};
use lab::model::Domain;

/// An instruction of a block.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Virtual address.
    pub at: u64,
    /// Its first four bytes; two for a short one.
    pub word: u32,
}

/// What to ask of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Units of the clock that it takes.
    pub units: u64,
    /// It reaches across domains: a sync point.
    pub sync: bool,
    /// Instructions that set a timer.
    pub timers: Vec<usize>,
    /// Instructions whose accesses are to be seen.
    pub accesses: Vec<usize>,
}

/// The plan of a block.
pub fn plan(isa: Isa, domain: &Domain, block: &[Instruction]) -> Plan {
    let mut plan = Plan::default();
    let crosses = |at: u64| (domain.xdomain.0..domain.xdomain.1).contains(&at);
    for (index, instruction) in block.iter().enumerate() {
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
    if block.first().is_some_and(|first| isa.is_entry(first.at, domain.vectors)) {
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
        let plain = plan(Isa::Aarch64, &domain, &block(0, &[0xd503_201f, 0xd503_33bf]));
        assert_eq!(plain, Plan { units: 64 + 704, ..Plan::default() });
        let cross = plan(Isa::Aarch64, &domain, &block(0xfc, &[0xf940_0000, 0xd65f_03c0]));
        assert_eq!((cross.sync, cross.accesses), (true, vec![1]));
        let entry = plan(Isa::Aarch64, &domain, &block(0x880, &[0xd51b_e340]));
        assert_eq!((entry.units, entry.timers), (6464, vec![0]));
    }
}
