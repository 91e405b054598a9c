//! Random contracts: the good ones are accepted with the right bounds, damaged ones never panic.

mod random;

use contract::{Contract, drawing, header, module, page, summary};
use kernel_contract::{Bound, Side};
use proptest::prelude::*;
use random::Random;
use std::path::Path;

fn parse(text: &str) -> Result<Contract, contract::ContractError> {
    Contract::parse(Path::new("tests/contracts/random.v1.toml"), text)
}

/// Walks randomly through the states, and returns the largest sums of messages that one side sent
/// without an answer: computed from the contract's description, not from its automaton.
fn walked(contract: &Contract, random: &mut Random, steps: usize) -> [Bound; 2] {
    let (mut most, mut run) = ([Bound::default(); 2], Bound::default());
    let (mut state, mut last) = (contract.start, None);
    for _ in 0..steps {
        let transitions = &contract.states[state].transitions;
        if transitions.is_empty() {
            (state, last) = (contract.start, None);
            continue;
        }
        let (message, next) = transitions[random.below(transitions.len())];
        let message = &contract.messages[message];
        if last != Some(message.from) {
            (run, last) = (Bound::default(), Some(message.from));
        }
        run.messages += 1;
        run.inline += message.inline as u32;
        run.block += message.block.unwrap_or(0);
        run.endpoints += message.endpoints.len() as u32;
        let most = &mut most[usize::from(message.from.number())];
        most.messages = most.messages.max(run.messages);
        most.inline = most.inline.max(run.inline);
        most.block = most.block.max(run.block);
        most.endpoints = most.endpoints.max(run.endpoints);
        state = next;
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_walks_reach_the_bounds_and_never_exceed_them(seed: u64, walk: u64) {
        let contract = parse(&random::contract(seed)).expect("a good contract");
        let bounds = [Side::Client, Side::Server].map(|side| contract.automaton.bound(side));
        // At most 8 states with 3 transitions each: so long a walk takes every path of one side.
        let walked = walked(&contract, &mut Random::new(walk), 100_000);
        prop_assert_eq!(walked, bounds);
    }

    #[test]
    fn the_automaton_is_the_contract(seed: u64) {
        let contract = parse(&random::contract(seed)).expect("a good contract");
        let automaton = &contract.automaton;
        prop_assert_eq!(usize::from(automaton.start().number()), contract.start);
        for (number, state) in contract.states.iter().enumerate() {
            let binary = automaton.state(number as u8).expect("the same states");
            prop_assert_eq!(automaton.side(binary), state.side);
            for side in [Side::Client, Side::Server] {
                let may = state.side.is_none_or(|it| it == side && state.may_close);
                prop_assert_eq!(automaton.may_close(binary, side), may);
            }
            for tag in 0..contract.messages.len() {
                let next = state.transitions.iter().find(|it| it.0 == tag).map(|it| it.1);
                let found = automaton.next(binary, tag as u16).map(|it| it.number().into());
                prop_assert_eq!(found, next);
            }
        }
        for (tag, message) in contract.messages.iter().enumerate() {
            let binary = automaton.message(tag as u16).expect("the same messages");
            let block = message.block.unwrap_or(0) as usize;
            let shape = (binary.from, binary.inline, binary.block, binary.endpoints);
            prop_assert_eq!(shape, (message.from, message.inline, block, message.endpoints.len()));
        }
    }

    /// Whatever the damage: an error, or a contract of which everything can be generated.
    #[test]
    fn damaged_text_is_refused_or_another_contract(seed: u64, damage in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4,
    )) {
        let text = random::contract(seed);
        let mut lines: Vec<&str> = text.lines().collect();
        for (at, from) in damage {
            let (at, from) = (at.index(lines.len()), from.index(lines.len()));
            lines[at] = lines[from];
        }
        if let Ok(contract) = parse(&lines.join("\n")) {
            let _ = (module(&contract, ""), header(&contract, ""), drawing(&contract));
            let _ = (page(&contract, "", ""), summary(&contract));
        }
    }
}
