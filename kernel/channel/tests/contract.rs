//! Channels with contracts: the automaton of `kernel/contract` says what a send may do, how long
//! queues become, and over what an end may go.

use base::id::{DomainId, Epoch};
use kernel_channel::{
    Bounds, CARRIED, Carried, Channels, Contract, ContractId, Effects, EndId, Life, Limits,
    Outgoing, SendError, Side,
};
use kernel_contract::{Automaton, ENDPOINTS, Hash, Shape, Side as Of, Tables, Turn};

// Both crates have the same limits.
const _: () = assert!(ENDPOINTS == CARRIED);
const _: () = assert!(kernel_contract::MAX_LEVEL == kernel_channel::MAX_LEVEL);

/// A contract as the table asks it. The first end is the client's.
struct Checked(Automaton<Vec<u8>>);

impl Contract for Checked {
    fn next(&self, state: u16, side: Side, tag: u16) -> Option<u16> {
        let state = self.0.state(u8::try_from(state).ok()?)?;
        let turn = if side == Side::First { Of::Client } else { Of::Server };
        let next = self.0.next(state, tag).filter(|_| self.0.side(state) == Some(turn))?;
        Some(next.number().into())
    }
}

impl Checked {
    fn bounds(&self) -> Bounds {
        let unread = |from| u16::try_from(self.0.bound(from).messages).expect("a short path");
        let longest = (0..self.0.messages() as u16).filter_map(|tag| self.0.message(tag));
        Bounds {
            messages: [unread(Of::Server), unread(Of::Client)],
            bytes: longest.map(|it| it.inline).max().unwrap_or(0) as u32,
            level: self.0.level(),
        }
    }

    fn create(&self, table: &mut Channels<()>) -> [EndId; 2] {
        let start = self.0.start().number().into();
        table.create(ContractId([0; 2]), start, self.bounds(), 1).expect("there is room")
    }
}

/// The client asks twice, the second time with ends; the server answers, and they begin again.
fn asks(level: u8, endpoints: usize) -> Checked {
    let carried = kernel_contract::Carried { contract: Hash([0; 16]), side: Of::Client };
    let shape =
        |from, inline, count| Shape { from, inline, block: 0, endpoints: vec![carried; count] };
    let turn = |side| Turn { side: Some(side), may_close: false };
    let tables = Tables {
        level,
        states: vec![turn(Of::Client), turn(Of::Client), turn(Of::Server)],
        messages: vec![
            shape(Of::Client, 8, 0),
            shape(Of::Client, 40, endpoints),
            shape(Of::Server, 4, 0),
        ],
        transitions: vec![(0, 0, 1), (1, 1, 2), (2, 2, 0)],
        ..Tables::default()
    };
    Checked(Automaton::parse(tables.encode()).expect("it satisfies the rules"))
}

struct Quiet;

impl Effects<()> for Quiet {
    fn wake(&mut self, _: EndId) {}
    fn arrived(&mut self, _: u64, _: EndId) {}
    fn free(&mut self, _: ()) {}
}

fn table() -> Channels<()> {
    let limits = Limits { ends: 8, queue: 2, arrivals: 1 };
    Channels::new(Life { kernel: DomainId(0), epoch: Epoch(1) }, limits)
}

fn message(tag: u16, bytes: u32, carried: [Option<EndId>; CARRIED]) -> Outgoing<()> {
    Outgoing { tag, bytes, payload: (), carried }
}

#[test]
fn a_contract_bounds_queues_and_orders_messages() {
    let (mut table, contract) = (table(), asks(0, 0));
    assert_eq!(contract.bounds(), Bounds { messages: [1, 2], bytes: 40, level: 0 });
    let [client, server] = contract.create(&mut table);
    let say = |table: &mut Channels<()>, end, tag, bytes| {
        let sent = table.send(end, message(tag, bytes, [None; CARRIED]), &contract, &mut Quiet);
        sent.map_err(|refused| refused.error)
    };
    for _ in 0..3 {
        assert_eq!(say(&mut table, server, 2, 4), Err(SendError::Contract), "not its turn");
        assert_eq!(say(&mut table, client, 1, 40), Err(SendError::Contract), "not the first");
        assert_eq!(say(&mut table, client, 0, 41), Err(SendError::Contract), "too long");
        assert_eq!(say(&mut table, client, 0, 8), Ok(()));
        assert_eq!(say(&mut table, client, 1, 40), Ok(()));
        assert_eq!(say(&mut table, client, 0, 8), Err(SendError::Contract), "the server's turn");
        let read = [0, 1].map(|_| table.receive(server, &mut Quiet).map(|it| it.tag));
        assert_eq!(read, [Ok(0), Ok(1)]);
        assert_eq!(say(&mut table, server, 2, 4), Ok(()));
        assert_eq!(table.receive(client, &mut Quiet).map(|it| it.tag), Ok(2));
    }
}

#[test]
fn an_end_goes_over_a_channel_of_a_higher_level_only() {
    let (mut table, low, high) = (table(), asks(0, 0), asks(1, ENDPOINTS));
    let [one, _] = low.create(&mut table);
    let [two, _] = low.create(&mut table);
    let [client, server] = high.create(&mut table);
    let say = |tag, carried| message(tag, 8, carried);
    assert!(table.send(client, say(0, [None; CARRIED]), &high, &mut Quiet).is_ok());
    let own = table.send(client, say(1, [Some(server), None]), &high, &mut Quiet);
    assert_eq!(own.map_err(|refused| refused.error), Err(SendError::Level));
    assert!(table.send(client, say(1, [Some(one), Some(two)]), &high, &mut Quiet).is_ok());
    assert!(table.receive(server, &mut Quiet).is_ok());
    let got = table.receive(server, &mut Quiet).expect("both ends are in it");
    assert!(got.carried.iter().all(|it| matches!(it, Carried::End(_))));
}
