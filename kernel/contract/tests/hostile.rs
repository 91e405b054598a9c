//! Hostile bytes: whatever they are, they are refused or satisfy everything that is promised.

mod random;

use kernel_contract::{
    Automaton, BYTES, Conversation, Invalid, MAGIC, MAX_LEVEL, Parcel, Side, State, Tables,
};
use proptest::prelude::*;

/// Uses every accessor with every argument, valid or not.
fn use_all(bytes: &[u8]) -> Result<(), Invalid> {
    let automaton = Automaton::parse(bytes)?;
    assert!(bytes.len() <= BYTES && automaton.level() <= MAX_LEVEL);
    let states: Vec<State> = (0..=255).filter_map(|number| automaton.state(number)).collect();
    assert_eq!(states.len(), automaton.states());
    for &state in &states {
        for tag in (0..256).chain([u16::MAX]) {
            let Some(next) = automaton.next(state, tag) else { continue };
            assert!(states.contains(&next));
            let message = automaton.message(tag).expect("a transition has a message");
            assert_eq!(automaton.side(state), Some(message.from));
            for index in 0..message.endpoints {
                assert!(automaton.carried(&message, index).is_some());
            }
            assert!(automaton.carried(&message, message.endpoints).is_none());
        }
        let is_end = automaton.side(state).is_none();
        let closes = |side| automaton.may_close(state, side);
        assert!(closes(Side::Client) != closes(Side::Server) || is_end == closes(Side::Client));
    }
    for side in [Side::Client, Side::Server] {
        assert!(automaton.bound(side).messages < 64);
    }
    Ok(())
}

fn valid(seed: u64) -> Option<Vec<u8>> {
    let bytes = random::tables(seed, 12).encode();
    use_all(&bytes).is_ok().then_some(bytes)
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_valid(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = use_all(&bytes);
        let _ = use_all(&[&MAGIC[..], &bytes].concat());
    }

    #[test]
    fn a_changed_byte_is_refused_or_another_contract(
        seed: u64, at: usize, change in 1u8..=255, cut: usize,
    ) {
        let Some(mut bytes) = valid(seed) else { return Ok(()) };
        let before = Automaton::parse(bytes.clone()).expect("it was valid").hash();
        prop_assert!(use_all(&bytes[..cut % bytes.len()]).is_err());
        let at = at % bytes.len();
        bytes[at] ^= change;
        if use_all(&bytes).is_ok() {
            prop_assert_ne!(Automaton::parse(&bytes[..]).expect("valid").hash(), before);
        }
        bytes.push(0);
        prop_assert!(use_all(&bytes).is_err());
    }

    #[test]
    fn the_states_of_another_automaton_do_no_harm(one: u64, other: u64, tag: u16) {
        let (Some(one), Some(other)) = (valid(one), valid(other)) else { return Ok(()) };
        let (one, other) = (Automaton::parse(one), Automaton::parse(other));
        let (one, other) = (one.expect("valid"), other.expect("valid"));
        for number in 0..one.states() as u8 {
            let state = one.state(number).expect("in range");
            let _ = (other.next(state, tag), other.side(state));
            let _ = other.may_close(state, Side::Client);
        }
        let mut conversation = Conversation::start(&one);
        let _ = conversation.send(&other, Side::Client, tag, &Parcel::default());
        let _ = conversation.receive(&other, Side::Server, tag);
    }
}

#[test]
fn most_random_tables_are_valid() {
    let found = (0..500).filter(|&seed| valid(seed).is_some()).count();
    assert!(found > 400, "{found}");
}

fn refused(change: impl Fn(&mut Vec<u8>)) -> Invalid {
    let mut bytes = (0..).find_map(|seed| valid(seed).filter(|it| it[6] > 4 && it[10] > 4));
    let bytes = bytes.as_mut().expect("one of them is large");
    change(bytes);
    Automaton::parse(&bytes[..]).expect_err("the change breaks a rule")
}

#[test]
fn each_rule_has_its_error() {
    assert_eq!(refused(|bytes| bytes[0] = 0), Invalid::Magic);
    assert_eq!(refused(|bytes| bytes.truncate(3)), Invalid::Magic);
    assert_eq!(refused(|bytes| bytes[4] = 2), Invalid::Version);
    assert_eq!(refused(|bytes| bytes[6] = 65), Invalid::Count);
    assert_eq!(refused(|bytes| bytes[8] = 64), Invalid::Count);
    assert_eq!(refused(|bytes| bytes[9] = 0), Invalid::Level, "endpoints, but no level");
    assert_eq!(refused(|bytes| bytes[9] = 8), Invalid::Level);
    assert_eq!(refused(|bytes| bytes[12] ^= 1), Invalid::Length);
    assert_eq!(refused(|bytes| bytes.truncate(40)), Invalid::Length);
    assert_eq!(refused(|bytes| bytes[32] = 3), Invalid::State(0));
    assert_eq!(refused(|bytes| bytes[33] = 2), Invalid::State(0));
    let messages = |bytes: &[u8]| 32 + 2 * usize::from(bytes[6]);
    let message = |at: usize, value: u8| {
        refused(|bytes| {
            let at = messages(bytes) + at;
            bytes[at] = value;
        })
    };
    assert_eq!(message(0, 2), Invalid::Message(0));
    assert_eq!(message(1, 5), Invalid::Message(0));
    assert_eq!(message(3, 9), Invalid::Message(0), "more than 2,048 bytes");
    assert_eq!(message(7, 2), Invalid::Message(0), "more than 16 MiB");
    assert_eq!(message(8, 1), Invalid::Message(0), "a wrong first endpoint");
    assert_eq!(message(10, 1), Invalid::Reserved);
    let endpoint = |at: usize, value: u8| {
        refused(|bytes| {
            let at = messages(bytes) + 12 * usize::from(bytes[7]) + at;
            bytes[at] = value;
        })
    };
    assert_eq!(endpoint(16, 2), Invalid::Endpoint(0));
    assert_eq!(endpoint(17, 1), Invalid::Reserved);
    let state = refused(|bytes| {
        let at = bytes.len() - 1;
        bytes[at] = 64;
    });
    assert!(matches!(state, Invalid::Transition { .. }), "{state:?}");
}

#[test]
fn the_level_is_0_exactly_without_endpoints() {
    let level = |level, with_endpoints: bool| {
        let has_endpoints = |tables: &Tables| tables.level > 0;
        let tables = (0..).map(|seed| random::tables(seed, 1)).find(has_endpoints);
        let mut tables = Tables { level, ..tables.expect("one of them has") };
        if !with_endpoints {
            tables.messages.iter_mut().for_each(|message| message.endpoints.clear());
        }
        Automaton::parse(tables.encode()).map(|it| it.level())
    };
    for number in 1..=MAX_LEVEL {
        assert_eq!(level(number, true), Ok(number));
        assert_eq!(level(number, false), Err(Invalid::Level));
    }
    assert_eq!(level(0, false), Ok(0));
    for (number, with_endpoints) in [(0, true), (8, true), (8, false), (255, true)] {
        assert_eq!(level(number, with_endpoints), Err(Invalid::Level));
    }
}

/// The rules that are about the whole graph.
#[test]
fn unreachable_states_and_endless_senders_are_refused() {
    let tables = |transitions: &[(u8, u8, u8)]| {
        let mut tables = Tables { names: [1; 16], ..random::tables(1, 1) };
        let turn = |side| kernel_contract::Turn { side, may_close: false };
        tables.states = vec![turn(Some(Side::Client)), turn(Some(Side::Client)), turn(None)];
        tables.messages.iter_mut().for_each(|message| message.from = Side::Client);
        tables.transitions = transitions.to_vec();
        Automaton::parse(tables.encode()).map(|it| it.bound(Side::Client).messages)
    };
    assert_eq!(tables(&[(0, 0, 1), (1, 0, 2)]), Ok(2));
    assert_eq!(tables(&[(0, 0, 2), (1, 0, 2)]), Err(Invalid::Unreachable(1)));
    assert_eq!(tables(&[(0, 0, 1), (1, 0, 0)]), Err(Invalid::Unreachable(2)));
    assert_eq!(tables(&[(0, 0, 1), (1, 0, 0), (1, 1, 2)]), Err(Invalid::Unbounded(Side::Client)));
    assert_eq!(tables(&[(0, 0, 1), (0, 1, 2)]), Err(Invalid::State(1)), "no way on, no end");
    assert_eq!(
        tables(&[(0, 0, 1), (1, 0, 2), (2, 0, 1)]),
        Err(Invalid::Transition { state: 2, message: 0 })
    );
}
