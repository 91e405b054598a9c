//! Connections that are reset, by either end.

use crate::basics::state;
use crate::hosts::Hosts;
use crate::world::{World, device, token};
use abi::net::{Errno, Op, Request, State, flag};
use base::id::{DomainId, Epoch};
use share::Event;
use smoltcp::socket::tcp;

/// More connections than the device has buffers.
const MANY: usize = 24;

fn a_connection_that_is_reset_before_its_connect_returns_fails(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 22);
    let far = world.peer.listen(80);
    let near = world.socket(Op::Tcp);
    let request = Request { address: hosts.peer, port: 80, ..Request::new(Op::Connect, near) };
    let event = Event::Request { token: token(0, 3), request: &request, bulk: &mut [] };
    assert_eq!(world.event(0, event), None, "it waits");
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
    world.peer.stream(far).abort();
    world.until(100, |it| state(it, near) == State::Reset);
    let event = Event::Again { token: token(0, 3), request: &request, bulk: &mut [] };
    assert_eq!(world.event(0, event).unwrap().errno(), Errno::Connreset);
    assert_eq!(world.receive(near, &mut [0; 9]), Ok(0), "it was reported");
}

fn a_connection_that_is_reset_before_it_is_accepted_says_so_once(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 23);
    let listener = world.listen(80, 4);
    let far = [3000, 3001].map(|port| world.peer.connect(hosts, 80, port));
    let is_open = |world: &mut World<'_>, far| world.peer.stream(far).may_send();
    world.until(100, |it| far.iter().all(|&far| is_open(it, far)));
    world.run(20);
    far.into_iter().for_each(|far| world.peer.stream(far).abort());
    world.run(20);
    let accept = |it: &mut World<'_>| it.ask(Request::new(Op::Accept, listener), &mut []);
    let [first, second] = [(); 2].map(|()| accept(&mut world).unwrap().handle);
    assert_eq!(world.receive(first, &mut [0; 9]), Err(Errno::Connreset));
    assert_eq!(world.receive(first, &mut [0; 9]), Ok(0), "it was reported");
    assert_eq!(world.send(second, &mut [1]), Err(Errno::Connreset));
    assert_eq!(world.send(second, &mut [1]), Err(Errno::Pipe));
}

fn resets_wait_for_buffers(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 17);
    let request = Request { flags: flag::V6, ..Request::new(Op::Tcp, 0) };
    let far = [(); MANY].map(|()| {
        let far = world.peer.listen(80);
        let event = Event::Request { token: token(1, 1), request: &request, bulk: &mut [] };
        let near = world.event(1, event).unwrap().handle;
        assert_eq!(world.connect(near, hosts.peer, 80), Err(Errno::Inprogress));
        world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
        far
    });
    // The device completes nothing for a moment, in which there are buffers for some of the resets.
    fake.model.borrow_mut().stalls = true;
    world.event(0, Event::Gone(DomainId(1), Epoch(1)));
    fake.model.borrow_mut().stalls = false;
    world.event(0, Event::Device);
    world.until(100, |it| far.iter().all(|&far| it.peer.stream(far).state() == tcp::State::Closed));
    assert_eq!(world.net.census(), [0; 4]);
}

for_both_families! {
    a_connection_that_is_reset_before_its_connect_returns_fails
    a_connection_that_is_reset_before_it_is_accepted_says_so_once
    resets_wait_for_buffers
}
