//! Kernels that die between steps and within them, while the network outside is in use.

use crate::hosts::{Hosts, V4, V6};
use crate::world::{Faults, World, device, token};
use abi::net::{Errno, Op, Request, flag};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use share::Event;
use smoltcp::socket::tcp;

/// Serves one client of the peer, from a listener on, through a fresh connection.
fn serve(world: &mut World<'_>, hosts: Hosts, port: u16) {
    let listener = loop {
        let handle = world.ask(Request { flags: flag::V6, ..Request::new(Op::Tcp, 0) }, &mut []);
        let request = |handle| Request { port: 7, backlog: 4, ..Request::new(Op::Listen, handle) };
        match handle
            .and_then(|reply| world.ask(request(reply.handle), &mut []).map(|_| reply.handle))
        {
            Ok(handle) => break handle,
            Err(why) => assert!(matches!(why, Errno::Again | Errno::Badf), "{why:?}"),
        }
    };
    world.until(200, |it| it.net.addresses().is_some());
    let far = world.peer.connect(hosts, 7, port);
    let (accept, mut near) = (Request::new(Op::Accept, listener), 0);
    world.until(2000, |it| it.ask(accept, &mut []).map(|reply| near = reply.handle).is_ok());
    assert_eq!(world.send(near, &mut [port as u8; 500]), Ok(500));
    world.until(2000, |it| it.peer.stream(far).recv_queue() == 500);
    world.peer.sockets.remove(far);
    world.close(near).unwrap();
    world.close(listener).unwrap();
}

#[test]
fn a_lost_state_opens_the_device_again_and_serves() {
    for seed in 0..300 {
        let (fake, mut random) = (device(), Prng::new(seed));
        let mut world = World::open(&fake, seed);
        let loses = if seed % 3 == 0 { 50 } else { 0 };
        world.faults = Faults { loses, ..Faults::default() };
        let hosts = if random.chance(1, 2) { V4 } else { V6 };
        serve(&mut world, hosts, 2000);
        let victim = random.below(2) as usize;
        world.die_after(victim, random.below(40) as u32);
        // Something happens in which it dies, or dies not.
        let far = world.peer.connect(hosts, 7, 3000);
        world.run(random.below(20) as usize);
        world.event(victim, Event::Device);
        world.die_after(victim, u32::MAX);
        world.peer.sockets.remove(far);
        serve(&mut world, hosts, 4000);
    }
}

#[test]
fn frames_of_an_earlier_life_do_not_reach_the_next() {
    let fake = device();
    let mut world = World::open(&fake, 1);
    let listener = world.listen(7, 4);
    let far = world.peer.connect(V6, 7, 2000);
    let accept = Request::new(Op::Accept, listener);
    let mut near = 0;
    world.until(100, |it| it.ask(accept, &mut []).map(|reply| near = reply.handle).is_ok());
    world.die_after(0, 0);
    world.event(0, Event::Device);
    assert_eq!(world.lives, 2);
    world.until(100, |it| it.net.addresses().is_some());
    assert_eq!(world.send(near, &mut [1]), Err(Errno::Restarted));
    world.peer.stream(far).send_slice(b"still there").unwrap();
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Closed);
    assert!(fake.resets.get() >= 2);
}

fn the_death_of_a_kernel_resets_its_connections_outside(hosts: Hosts) {
    let fake = device();
    let mut world = World::open(&fake, 16);
    let far = world.peer.listen(80);
    let request = Request { flags: flag::V6, ..Request::new(Op::Tcp, 0) };
    let event = Event::Request { token: token(1, 1), request: &request, bulk: &mut [] };
    let near = world.event(1, event).unwrap().handle;
    assert_eq!(world.connect(near, hosts.peer, 80), Err(Errno::Inprogress));
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Established);
    world.event(0, Event::Gone(DomainId(1), Epoch(1)));
    world.until(100, |it| it.peer.stream(far).state() == tcp::State::Closed);
    assert_eq!(world.net.census(), [0; 4]);
}

for_both_families! {
    the_death_of_a_kernel_resets_its_connections_outside
}
