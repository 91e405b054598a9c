//! What a list of the table says of ends: counts, places, peers.

use base::id::{DomainId, Epoch};
use kernel_channel::{
    Bounds, CARRIED, Channels, Contract, ContractId, Effects, EndId, Life, Limits, Listed,
    Outgoing, Place, Side,
};

const CONTRACT: ContractId = ContractId([7, 8]);
const LIVES: [Life; 2] = [life(0), life(1)];

const fn life(kernel: u8) -> Life {
    Life { kernel: DomainId(kernel), epoch: Epoch(3) }
}

struct Free;

impl Contract for Free {
    fn next(&self, state: u16, _: Side, _: u16) -> Option<u16> {
        Some(state)
    }
}

struct Quiet;

impl Effects<()> for Quiet {
    fn wake(&mut self, _: EndId) {}
    fn arrived(&mut self, _: u64, _: EndId) {}
    fn free(&mut self, _: ()) {}
}

/// The tables of two kernels that know each other.
fn tables() -> [Channels<()>; 2] {
    let limits = Limits { ends: 6, queue: 2, arrivals: 2 };
    let mut both = LIVES.map(|life| Channels::new(life, limits));
    both[0].kernel_started(LIVES[1], &mut Quiet);
    both[1].kernel_started(LIVES[0], &mut Quiet);
    settle(&mut both);
    both
}

/// Delivers all messages between the kernels.
fn settle(both: &mut [Channels<()>; 2]) {
    loop {
        let mut is_done = true;
        for (from, to) in [(0, 1), (1, 0)] {
            while let Some(message) = both[from].next(LIVES[to].kernel, &mut Quiet) {
                let handled = both[to].handle(LIVES[from], message, &mut Quiet);
                assert_eq!(handled, Ok(()));
                is_done = false;
            }
        }
        if is_done {
            return;
        }
    }
}

fn create(table: &mut Channels<()>) -> [EndId; 2] {
    let bounds = Bounds { messages: [2, 2], bytes: 8, level: 1 };
    table.create(CONTRACT, 0, bounds, 99).expect("there is room")
}

fn send(table: &mut Channels<()>, end: EndId) {
    let message = Outgoing { tag: 0, bytes: 3, payload: (), carried: [None; CARRIED] };
    assert!(table.send(end, message, &Free, &mut Quiet).is_ok());
}

fn all(table: &Channels<()>) -> Vec<Listed> {
    (0..table.slots()).filter_map(|slot| table.listed(slot)).collect()
}

#[test]
fn an_end_is_listed_with_its_counts_until_it_is_closed() {
    let [mut table, _] = tables();
    assert!(table.slots() == 6 && all(&table).is_empty());
    let [client, server] = create(&mut table);
    assert_eq!(table.dup(client), Ok(()));
    send(&mut table, client);
    send(&mut table, client);
    table.count_block(client, 1284);
    assert!(table.receive(server, &mut Quiet).is_ok());
    let listed = table.listed_end(client).expect("it is held");
    let expected = Listed {
        id: client,
        creator: LIVES[0],
        number: 0,
        side: Side::First,
        contract: CONTRACT,
        level: 1,
        place: Place::Held { descriptors: 2 },
        peer: LIVES[0],
        is_closed: false,
        is_broken: false,
        sent: 2,
        received: 0,
        bytes: 1290,
        unread: 0,
        owner: 0,
    };
    assert_eq!(listed, expected);
    let peer = table.listed_end(server).expect("it is held");
    assert_eq!((peer.side, peer.sent, peer.received, peer.unread), (Side::Second, 0, 1, 1));
    assert_eq!(peer.bytes, 0);
    assert_eq!(all(&table), [listed, peer]);
    assert_eq!(table.close(server, &mut Quiet), Ok(()));
    assert_eq!(table.listed_end(server), None);
    assert_eq!(all(&table), [Listed { is_closed: true, ..listed }]);
    assert_eq!(
        create(&mut table).map(|end| table.listed_end(end).map(|it| it.number)),
        [Some(1); 2]
    );
}

#[test]
fn an_end_that_moves_is_listed_on_the_kernel_that_has_it() {
    let mut both = tables();
    let [client, server] = create(&mut both[0]);
    assert!(both[0].hand_over(server, LIVES[1].kernel, 5, &mut Quiet).is_ok());
    let place = |table: &Channels<()>, side| {
        all(table).iter().find(|end| end.side == side).map(|end| end.place)
    };
    let handed = Place::Handed { to: LIVES[1], ticket: 5 };
    assert_eq!(place(&both[0], Side::Second), Some(handed));
    while both[0].next(LIVES[1].kernel, &mut Quiet).is_some() {}
    assert_eq!(place(&both[0], Side::Second), Some(Place::Away(LIVES[1])));

    let mut both = tables();
    let [client_2, server] = create(&mut both[0]);
    assert_eq!(client, client_2);
    assert!(both[0].hand_over(server, LIVES[1].kernel, 5, &mut Quiet).is_ok());
    settle(&mut both);
    send(&mut both[0], client);
    settle(&mut both);
    let [here, there] = both.each_ref().map(all);
    assert_eq!([here.len(), there.len()], [1, 1], "the stand-in is not needed any more");
    assert_eq!((here[0].peer, here[0].sent, here[0].unread), (LIVES[1], 1, 0));
    assert_eq!((there[0].peer, there[0].sent, there[0].unread), (LIVES[0], 0, 1));
    assert_eq!((there[0].creator, there[0].place), (LIVES[0], Place::Held { descriptors: 1 }));
    both[0].kernel_died(LIVES[1], &mut Quiet);
    let here = all(&both[0]);
    assert!(here.len() == 1 && here[0].is_broken && here[0].is_closed);
}
