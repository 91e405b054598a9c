//! Random conversations over random contracts: queues stay within their bounds, and reach them.

mod random;

use kernel_contract::{
    Automaton, Bound, Breach, Carried, Conversation, Parcel, Shape, Side, Tables, Turn,
};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

type Bytes = Automaton<Vec<u8>>;

/// A channel: its conversation, and the tags in the queue of each direction.
#[derive(Clone)]
struct Channel {
    conversation: Conversation,
    queues: [VecDeque<u16>; 2],
}

impl Channel {
    fn new(automaton: &Bytes) -> Self {
        Self { conversation: Conversation::start(automaton), queues: Default::default() }
    }

    fn send(&mut self, automaton: &Bytes, from: Side, tag: u16) -> Result<(), Breach> {
        let carried = carried(automaton, tag);
        let message = automaton.message(tag).ok_or(Breach::UnknownMessage)?;
        let block = (message.block > 0).then_some(message.block);
        let parcel = Parcel { inline: message.inline, block, endpoints: &carried };
        self.conversation.send(automaton, from, tag, &parcel)?;
        self.queues[usize::from(from.number())].push_back(tag);
        Ok(())
    }

    fn receive(&mut self, automaton: &Bytes, to: Side) -> bool {
        let queue = &mut self.queues[usize::from(to.other().number())];
        let Some(tag) = queue.pop_front() else { return false };
        self.conversation.receive(automaton, to, tag).expect("it was sent");
        true
    }

    /// Returns what is in the queue of `from`.
    fn content(&self, automaton: &Bytes, from: Side) -> Bound {
        let mut sum = Bound::default();
        for &tag in &self.queues[usize::from(from.number())] {
            let message = automaton.message(tag).expect("it was sent");
            sum.messages += 1;
            sum.inline += message.inline as u32;
            sum.block += message.block as u32;
            sum.endpoints += message.endpoints as u32;
        }
        sum
    }
}

fn carried(automaton: &Bytes, tag: u16) -> Vec<Carried> {
    let Some(message) = automaton.message(tag) else { return vec![] };
    (0..message.endpoints).filter_map(|index| automaton.carried(&message, index)).collect()
}

fn max(one: Bound, other: Bound) -> Bound {
    Bound {
        messages: one.messages.max(other.messages),
        inline: one.inline.max(other.inline),
        block: one.block.max(other.block),
        endpoints: one.endpoints.max(other.endpoints),
    }
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

proptest! {
    /// Explores everything that two sides can do, whatever order they do it in.
    #[test]
    fn the_bounds_are_exactly_what_queues_reach(seed: u64) {
        let Ok(automaton) = Automaton::parse(random::tables(seed, 7).encode()) else {
            return Ok(());
        };
        let (mut seen, mut todo) = (BTreeSet::new(), vec![Channel::new(&automaton)]);
        let mut reached = [Bound::default(); 2];
        while let Some(channel) = todo.pop() {
            let views = SIDES.map(|side| channel.conversation.view(side).number());
            if !seen.insert((views, channel.queues.clone())) {
                continue;
            }
            prop_assert!(channel.queues.iter().any(VecDeque::is_empty), "messages never cross");
            for side in SIDES {
                let index = usize::from(side.number());
                reached[index] = max(reached[index], channel.content(&automaton, side));
                for tag in 0..automaton.messages() as u16 {
                    let mut next = channel.clone();
                    if next.send(&automaton, side, tag).is_ok() {
                        todo.push(next);
                    }
                }
                let mut next = channel.clone();
                if next.receive(&automaton, side) {
                    todo.push(next);
                }
            }
        }
        prop_assert_eq!(reached, SIDES.map(|side| automaton.bound(side)));
    }

    #[test]
    fn long_random_walks_stay_within_the_bounds(seed: u64, walk: u64) {
        let Ok(automaton) = Automaton::parse(random::tables(seed, 40).encode()) else {
            return Ok(());
        };
        let (mut channel, mut random) = (Channel::new(&automaton), random::Random::new(walk));
        for _ in 0..400 {
            let side = SIDES[random.below(2)];
            if random.below(3) == 0 {
                channel.receive(&automaton, side);
            } else {
                let _ = channel.send(&automaton, side, random.below(9) as u16);
            }
            for side in SIDES {
                let (content, bound) = (channel.content(&automaton, side), automaton.bound(side));
                prop_assert_eq!(max(content, bound), bound);
            }
        }
    }
}

/// What a program of bad faith may try: each is refused, and changes nothing.
#[test]
fn each_breach_is_refused() {
    let automaton = (0..).map(|seed| Automaton::parse(random::tables(seed, 6).encode()));
    let is_rich = |it: &Bytes| {
        let first = (0..8).find(|&tag| it.next(it.start(), tag).is_some());
        let message = first.and_then(|tag| it.message(tag));
        message.is_some_and(|it| it.from == Side::Client && it.endpoints > 0 && it.block > 0)
    };
    let automaton = automaton.flatten().find(is_rich).expect("one of them is");
    let start = automaton.start();
    let tag = (0..8).find(|&tag| automaton.next(start, tag).is_some()).expect("it is rich");
    let other = (0..8).find(|&tag| automaton.next(start, tag).is_none()).expect("one is not used");
    let message = automaton.message(tag).expect("it exists");
    let endpoints = carried(&automaton, tag);
    let block = Some(message.block);
    let good = Parcel { inline: message.inline, block, endpoints: &endpoints };
    let mut turned = endpoints.clone();
    turned[0].side = turned[0].side.other();

    let mut conversation = Conversation::start(&automaton);
    let before = conversation;
    let mut send = |from, tag, parcel: Parcel<'_>| {
        let result = conversation.send(&automaton, from, tag, &parcel);
        assert!(result.is_ok() || conversation == before);
        result
    };
    assert_eq!(send(Side::Client, 8, good), Err(Breach::UnknownMessage));
    assert_eq!(send(Side::Server, tag, good), Err(Breach::NotItsTurn));
    assert_eq!(send(Side::Client, other, good), Err(Breach::NotAllowed));
    let inline = message.inline + 1;
    assert_eq!(send(Side::Client, tag, Parcel { inline, ..good }), Err(Breach::Inline));
    for block in [Some(message.block + 1), None] {
        assert_eq!(send(Side::Client, tag, Parcel { block, ..good }), Err(Breach::Block));
    }
    let fewer = Parcel { endpoints: &endpoints[1..], ..good };
    assert_eq!(send(Side::Client, tag, fewer), Err(Breach::Endpoints));
    let turned = Parcel { endpoints: &turned, ..good };
    assert_eq!(send(Side::Client, tag, turned), Err(Breach::Endpoints));
    assert_eq!(send(Side::Client, tag, good), Ok(()));

    assert_eq!(conversation.receive(&automaton, Side::Server, other), Err(Breach::NotAllowed));
    let mut fresh = before;
    assert_eq!(fresh.receive(&automaton, Side::Client, tag), Err(Breach::NothingSent));
    assert_eq!(conversation.receive(&automaton, Side::Server, tag), Ok(()));
    assert_eq!(conversation.view(Side::Client), conversation.view(Side::Server));
}

#[test]
fn a_message_without_a_block_carries_not_even_an_empty_one() {
    let message = |block| Shape { from: Side::Client, inline: 0, block, endpoints: vec![] };
    let turn = |side| Turn { side, may_close: false };
    let tables = Tables {
        states: vec![turn(Some(Side::Client)), turn(None)],
        messages: vec![message(0), message(1)],
        transitions: vec![(0, 0, 1), (0, 1, 1)],
        ..Tables::default()
    };
    let automaton = Automaton::parse(tables.encode()).expect("it is valid");
    let send = |tag, block| {
        let parcel = Parcel { block, ..Parcel::default() };
        Conversation::start(&automaton).send(&automaton, Side::Client, tag, &parcel)
    };
    assert_eq!([send(0, None), send(0, Some(0))], [Ok(()), Err(Breach::Block)]);
    assert_eq!([send(1, Some(0)), send(1, None)], [Ok(()), Err(Breach::Block)]);
}
