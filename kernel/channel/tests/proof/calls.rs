//! What each call answers, and single cases of the protocol.

use super::Mutant;
use super::checks::ORDER;
use super::models::{NONE, setup};
use super::world::{CONTRACT, Free, Log, Mail, State, Token, World};
use crate::bounds::Bounds;
use crate::channels::{
    BadEnd, Carried, Channels, Contract, CreateError, Limits, Outgoing, ReceiveError, SendError,
};
use crate::message::Message;
use crate::name::{EndId, Life, Side};
use base::id::{DomainId, Epoch};

const LIMITS: Limits = Limits { ends: 8, queue: 2, arrivals: 1 };

fn bounds(level: u8) -> Bounds {
    Bounds { messages: [2, 2], bytes: 8, level }
}

fn token(number: u8) -> Token {
    Token { channel: 0, side: 0, number, carries: None }
}

fn table() -> Channels<Token> {
    Channels::new(Life { kernel: DomainId(0), epoch: Epoch(1) }, LIMITS)
}

fn create(table: &mut Channels<Token>, level: u8) -> [EndId; 2] {
    table.create(CONTRACT, 0, bounds(level), 1).expect("there is room")
}

fn message(number: u8, carried: [Option<EndId>; 2]) -> Outgoing<Token> {
    Outgoing { tag: 0, bytes: 8, payload: token(number), carried }
}

fn send(
    table: &mut Channels<Token>,
    end: EndId,
    carried: [Option<EndId>; 2],
) -> Result<(), SendError> {
    let sent = table.send(end, message(0, carried), &Free, &mut Log::default());
    sent.map_err(|refused| refused.error)
}

/// The first side asks with 1, the second answers with 2.
struct Turns;

impl Contract for Turns {
    fn next(&self, state: u16, side: Side, tag: u16) -> Option<u16> {
        match (state, side, tag) {
            (0, Side::First, 1) => Some(1),
            (1, Side::Second, 2) => Some(0),
            _ => None,
        }
    }
}

#[test]
fn an_end_is_charged_to_its_sender_until_it_is_received() {
    let (mut table, mut log) = (table(), Log::default());
    let [client, server] = create(&mut table, 1);
    let [one, other] = create(&mut table, 0);
    [client, one, other].into_iter().for_each(|end| table.charge(end, 7));
    table.charge(server, 9);
    assert_eq!(send(&mut table, client, [None, Some(one)]), Ok(()));
    assert_eq!((table.charged_to(7), table.charged_to(9)), (3, 1));
    assert_eq!((table.new_ends(server, 9), table.new_ends(server, 7)), (1, 0));
    let received = table.receive(server, &mut log).expect("it was sent");
    let Carried::End(one) = received.carried[1] else { panic!("the end is in it") };
    table.charge(one, 9);
    assert_eq!((table.charged_to(7), table.charged_to(9)), (2, 2));
    // Its former name is no one's.
    table.charge(EndId { generation: one.generation - 1, ..one }, 7);
    assert!(table.close(one, &mut log).is_ok() && table.close(other, &mut log).is_ok());
    assert_eq!((table.charged_to(7), table.charged_to(9)), (1, 1));
}

#[test]
fn a_message_out_of_turn_is_an_error_of_its_sender_alone() {
    let (mut table, mut log) = (table(), Log::default());
    let [first, second] = create(&mut table, 0);
    let say = |tag| Outgoing { tag, ..message(0, [None; 2]) };
    let refused = table.send(second, say(2), &Turns, &mut log).expect_err("not its turn");
    assert_eq!((refused.error, refused.payload), (SendError::Contract, token(0)));
    assert!(table.send(first, say(1), &Turns, &mut log).is_ok());
    assert!(table.send(second, say(2), &Turns, &mut log).is_err(), "not read yet");
    assert!(table.receive(second, &mut log).is_ok());
    let about = table.about(second).expect("it is open");
    assert_eq!((about.contract, about.side, about.state), (CONTRACT, Side::Second, 1));
    assert!(!about.is_fresh && !about.is_broken);
    assert!(table.send(second, say(2), &Turns, &mut log).is_ok());
}

#[test]
fn bounds_hold_whatever_the_contract_says() {
    let mut table = table();
    let [first, second] = create(&mut table, 0);
    let long = Outgoing { bytes: 9, ..message(0, [None; 2]) };
    let refused = table.send(first, long, &Free, &mut Log::default()).expect_err("too long");
    assert_eq!(refused.error, SendError::Contract);
    assert_eq!([0, 1].map(|_| send(&mut table, first, [None; 2])), [Ok(()); 2]);
    assert_eq!(send(&mut table, first, [None; 2]), Err(SendError::Bound));
    assert!(table.receive(second, &mut Log::default()).is_ok());
    assert_eq!(send(&mut table, first, [None; 2]), Ok(()));
}

#[test]
fn an_end_goes_only_over_channels_of_a_higher_level() {
    let mut table = table();
    let [high, over] = create(&mut table, 1);
    let [low, other] = create(&mut table, 0);
    for (end, cargo) in [(high, over), (high, high), (low, other), (low, high)] {
        assert_eq!(send(&mut table, end, [Some(cargo), None]), Err(SendError::Level));
    }
    assert_eq!(send(&mut table, high, [Some(low), Some(low)]), Err(SendError::BadCarried));
    assert_eq!(send(&mut table, high, [Some(low), Some(other)]), Ok(()));
    assert_eq!(table.dup(low), Err(BadEnd), "its descriptor is void");
    let received = table.receive(over, &mut Log::default()).expect("a message");
    assert!(received.carried.iter().all(|it| matches!(it, Carried::End(_))));
}

#[test]
fn an_end_with_two_descriptors_cannot_be_sent_and_closes_with_the_last() {
    let (mut table, mut log) = (table(), Log::default());
    let [high, _over] = create(&mut table, 1);
    let [low, other] = create(&mut table, 0);
    assert_eq!(table.dup(low), Ok(()));
    assert_eq!(send(&mut table, high, [Some(low), None]), Err(SendError::Shared));
    assert_eq!(send(&mut table, low, [None; 2]), Ok(()));
    assert_eq!(table.close(low, &mut log), Ok(()));
    assert!(table.receive(other, &mut log).is_ok());
    assert_eq!(table.receive(other, &mut log), Err(ReceiveError::Empty));
    assert_eq!(table.begin_poll(other), Ok(false));
    assert_eq!(table.close(low, &mut log), Ok(()));
    assert_eq!(log.woken, [other]);
    assert_eq!(table.receive(other, &mut log), Err(ReceiveError::PeerClosed));
    assert_eq!(send(&mut table, other, [None; 2]), Err(SendError::PeerClosed));
    assert_eq!(table.close(low, &mut log), Err(BadEnd));
}

#[test]
fn slots_are_used_again_and_old_descriptors_stay_void() {
    let (mut table, mut log) = (table(), Log::default());
    let mut old = vec![];
    for _ in 0..100 {
        let ends = [0; 4].map(|_| create(&mut table, 0));
        assert_eq!(table.create(CONTRACT, 0, bounds(0), 1), Err(CreateError::Full));
        for end in ends.into_iter().flatten() {
            assert!(!old.contains(&end));
            assert_eq!(table.close(end, &mut log), Ok(()));
            old.push(end);
        }
        assert_eq!(table.used(), 0);
        assert!(old.iter().all(|end| table.begin_poll(*end) == Err(BadEnd)));
    }
}

#[test]
fn bounds_that_exceed_the_limits_are_refused() {
    let mut table = table();
    let wide = Bounds { messages: [3, 2], ..bounds(0) };
    let high = bounds(crate::bounds::MAX_LEVEL + 1);
    for bounds in [wide, high] {
        assert_eq!(table.create(CONTRACT, 0, bounds, 1), Err(CreateError::Bounds));
    }
}

/// Three kernels with a channel whose second end goes 0, 1, 2, and with all on its way delivered
/// but what kernel 2 sends to kernel 0.
fn moved(mutant: Option<Mutant>) -> (World, State) {
    let channels = [setup(0, [0, 0], [3, 3])];
    let world = World { mutant, ..World::new(3, &channels, NONE) };
    let mut state = world.start();
    let end = state.kernels[0].held[1];
    world.hand(&mut state, 0, end, 1);
    settle(&world, &mut state, &[(0, 1)]);
    let end = state.kernels[1].held[0];
    world.hand(&mut state, 1, end, 2);
    (world, state)
}

/// Delivers what is between these kernels.
fn settle(world: &World, state: &mut State, pairs: &[(usize, usize)]) {
    loop {
        world.pump(state);
        let Some((a, b)) = pairs.iter().find(|(a, b)| world.may_deliver(state, *a, *b)) else {
            return;
        };
        world.deliver(state, *a, *b);
    }
}

fn talks(world: &World, state: &mut State) -> bool {
    let (first, second) = (state.kernels[0].held[0], state.kernels[2].held[0]);
    let (message, mut log) = (message(0, [None; 2]), Log::default());
    let sent = state.kernels[0].channels.send(first, message, &Free, &mut log);
    world.drain(state);
    sent.is_ok() && state.kernels[2].channels.receive(second, &mut Log::default()).is_ok()
}

#[test]
fn a_kernel_that_an_end_has_left_may_die() {
    let (world, mut state) = moved(None);
    world.drain(&mut state);
    state.left.deaths = 1;
    world.step(&mut state, super::actions::Action::Die(1));
    for kernel in [0, 2] {
        world.step(&mut state, super::actions::Action::Notice(kernel, 1));
    }
    assert!(talks(&world, &mut state));
    assert!(state.wrong.is_none_or(|wrong| wrong != ORDER));
}

/// Kernel 0 knows of the move to kernel 2. It has not been told to retire its stand-in, whose
/// kernel 1 dies.
#[test]
fn a_loss_is_ignored_when_a_later_move_is_known() {
    for mutant in [None, Some(Mutant::OldNews)] {
        let (world, mut state) = moved(mutant);
        settle(&world, &mut state, &[(0, 1), (1, 2), (2, 1), (0, 2)]);
        let news = |mail: &Mail| matches!(mail.message, Message::News { .. });
        while state.links[6].front().is_some_and(|mail| !news(mail)) {
            world.deliver(&mut state, 2, 0);
        }
        world.deliver(&mut state, 2, 0);
        settle(&world, &mut state, &[(0, 1), (1, 2), (0, 2), (2, 1)]);
        state.left.deaths = 1;
        world.step(&mut state, super::actions::Action::Die(1));
        world.step(&mut state, super::actions::Action::Notice(2, 1));
        world.step(&mut state, super::actions::Action::Notice(0, 1));
        assert_eq!(talks(&world, &mut state), mutant.is_none(), "{mutant:?}");
    }
}
