//! One process with both ends of its channels.

use crate::stream_v1::message::{Filled, Memory};
use crate::stream_v1::{self, client};
use crate::{Wrong, fill, must, sum};
use penumbra::Errno;
use penumbra::channel::{Channel, Error, Transport, Window};

const PAGE: usize = 4096;
/// Windows of a process.
const MOST: usize = 8;
/// Bytes of the windows of a process tree.
const BYTES: usize = 1 << 20;
const NONE: [Option<penumbra::channel::End>; 2] = [None, None];

pub fn alone() -> Result<(), Wrong> {
    shared()?;
    unsent()?;
    limits()?;
    again_and_again()?;
    println!("ok alone");
    Ok(())
}

fn pair() -> Result<(Channel, Channel), Wrong> {
    let (client, server) = Channel::pair(stream_v1::CONTRACT)?;
    Ok((client, server.take_windows(true)))
}

fn send(client: &mut Channel, window: &Window) -> Result<(), Error> {
    let fields = Memory { length: 0 }.encode();
    client.send(Memory::TAG, &fields, Some(window.into()), NONE)
}

fn receive(server: &mut Channel) -> Result<Window, Wrong> {
    let arrival = server.receive(&mut [0; 8])?.ok_or(Error::Closed)?;
    let window = arrival.block.and_then(|block| block.into_window().ok());
    window.ok_or_else(|| Wrong::Other("no window".to_string()))
}

/// What is written on one side is on the other one, which keeps it when the first one has ended.
fn shared() -> Result<(), Wrong> {
    let (mut client, mut server) = pair()?;
    let mine = Window::zeroed(3 * PAGE);
    let first = fill(&mine, 1, 0, PAGE);
    send(&mut client, &mine)?;
    let its = receive(&mut server)?;
    must(its.len() == 3 * PAGE && sum(&its, 0, PAGE) == first, "what was there before")?;
    let second = fill(&mine, 2, PAGE, 2 * PAGE);
    mine.flush(PAGE..3 * PAGE)?;
    its.refresh(PAGE..3 * PAGE)?;
    must(sum(&its, PAGE, 2 * PAGE) == second, "what came later")?;
    must(its.flush(0..PAGE) == Err(Errno::INVAL), "the receiver flushes")?;
    must(mine.refresh(0..PAGE) == Err(Errno::INVAL), "the sender refreshes")?;
    let again = send(&mut client, &mine);
    must(again == Err(Error::Refused(Memory::TAG)) || again.is_err(), "sent twice")?;
    drop((mine, client, server));
    must(sum(&its, 0, PAGE) == first && sum(&its, PAGE, 2 * PAGE) == second, "the rest")
}

/// What the contract refuses stays as it was.
fn unsent() -> Result<(), Wrong> {
    let (mut client, _server) = pair()?;
    let window = Window::zeroed(2 * PAGE);
    let words = fill(&window, 3, 0, 2 * PAGE);
    let fields = Filled { at: 0, length: 0 }.encode();
    let early = client.send(Filled::TAG, &fields, Some((&window).into()), NONE);
    must(early == Err(Error::Refused(Filled::TAG)), &format!("too early: {early:?}"))?;
    let long = send(&mut client, &Window::zeroed(BYTES + PAGE));
    must(long.is_err(), "longer than the contract allows")?;
    must(sum(&window, 0, 2 * PAGE) == words, "it has changed")?;
    must(window.flush(0..PAGE) == Err(Errno::INVAL), "it was not sent")?;
    // It can still be sent.
    send(&mut client, &window)?;
    let reads: client::Reads<Channel> = {
        let (client, _server) = pair()?;
        client::start(client).send_memory(&Memory { length: 0 }, (&Window::zeroed(PAGE)).into())?
    };
    must(reads.receive().is_err(), "the server is gone")
}

/// A process has so many windows, and its tree so many bytes.
fn limits() -> Result<(), Wrong> {
    let mut kept = Vec::new();
    for _ in 0..MOST {
        let (mut client, server) = pair()?;
        let window = Window::zeroed(PAGE);
        send(&mut client, &window)?;
        kept.push((client, server, window));
    }
    let (mut client, _server) = pair()?;
    let window = Window::zeroed(PAGE);
    let more = send(&mut client, &window);
    must(more == Err(Error::System(Errno::NOBUFS)), &format!("a ninth window: {more:?}"))?;
    kept.clear();
    send(&mut client, &window)?;
    let (mut client, _server) = pair()?;
    let large = Window::zeroed(BYTES);
    let more = send(&mut client, &large);
    must(more == Err(Error::System(Errno::NOBUFS)), &format!("too many bytes: {more:?}"))?;
    drop((window, _server));
    Ok(())
}

/// More than there is memory for, if any of it stayed.
fn again_and_again() -> Result<(), Wrong> {
    for round in 0..60 {
        let (mut client, mut server) = pair()?;
        let window = Window::zeroed(BYTES / 2);
        send(&mut client, &window)?;
        match round % 3 {
            0 => drop(receive(&mut server)?),
            1 => drop((window, receive(&mut server)?)),
            _ => {}
        }
    }
    Ok(())
}
