//! Which kernel gets a stream, and which callers are woken for it.

use super::{Host, host, of, offers, request, serve};
use crate::request::{Reply, kind, told};

/// Opens a stream from the host, whose interrupt a kernel handles.
fn opens(world: &mut Host<'_>, who: usize) {
    world.fake.model.borrow_mut().open();
    world.fake.turn();
    world.interrupt(who);
}

#[test]
fn one_accepting_kernel_is_woken_for_each_stream() {
    let fake = host();
    let mut world = Host::new(&fake);
    let tokens = [0, 1, 1].map(|who| world.request(who, of(kind::ACCEPT), Vec::new()));
    world.settle();
    opens(&mut world, 1);
    assert_eq!(world.woken, [tokens[1]], "the near one that waits longest");
    world.die(1, false);
    assert_eq!(world.woken, [tokens[0]], "the stream is not lost");
    world.deliver();
    assert!(world.reply(tokens[0]).is_some());
}

#[test]
fn a_stream_waits_for_the_kernel_that_serves_the_device() {
    let fake = host();
    let mut world = Host::new(&fake);
    let resting = world.request(0, of(kind::ACCEPT), Vec::new());
    world.settle();
    serve(&mut world, 1);
    opens(&mut world, 1);
    assert_eq!(world.woken, [], "the other kernel may rest");
    assert!(world.call(1, of(kind::ACCEPT), Vec::new()).reply.is_some());
    world.die(1, false);
    opens(&mut world, 1);
    assert_eq!(world.woken, []);
    serve(&mut world, 0);
    assert_eq!(world.woken, [resting], "the stream is not lost");
}

#[test]
fn further_streams_go_to_any_kernel_once_a_stream_is_single() {
    let fake = host();
    let mut world = Host::new(&fake);
    offers(&mut world, 1);
    let number = world.call(0, of(kind::ACCEPT), Vec::new()).reply.map_or(0, |reply| reply.value);
    let tokens = [0, 1].map(|who| world.request(who, of(kind::ACCEPT), Vec::new()));
    world.settle();
    serve(&mut world, 1);
    opens(&mut world, 1);
    assert_eq!(world.woken, [tokens[0]], "it may belong to the first one");
    world.woken.clear();
    world.cancel(tokens[0]);
    assert_eq!(world.woken, []);
    assert_eq!(
        world.call(0, request(kind::SINGLE, 0, number), Vec::new()).reply,
        Some(Reply::of(told::DONE))
    );
    world.settle();
    assert!(world.reply(tokens[1]).is_some());
    let wrote = world.call(0, request(kind::WRITE, 1, number), vec![1]).reply;
    assert_eq!(wrote.map(|reply| reply.told), Some(told::DONE), "it is open");
}
