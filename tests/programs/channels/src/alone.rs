//! One process with both ends of each channel.

use crate::contracts::{echo_v1, give_v1, ping_v1};
use crate::{PINGS, Wrong, must};
use penumbra::channel::{Block, Channel, Error, Side, Transport};
use penumbra::ready::{self, Interest};
use penumbra::{Errno, File};

/// Long enough for what is ready at once.
const SECOND: u64 = 1_000_000_000;
const NONE: [Option<penumbra::channel::End>; 2] = [None, None];

/// All checks.
pub fn all() -> Result<(), Wrong> {
    type Check = (&'static str, fn() -> Result<(), Wrong>);
    const ALL: &[Check] = &[
        ("talk", talk),
        ("order", order),
        ("close", close),
        ("carry", carry),
        ("use", uses),
        ("room", room),
        ("block", crate::pieces::alone),
        ("poll", poll),
    ];
    for (name, check) in ALL {
        check()?;
        println!("ok {name}");
    }
    Ok(())
}

fn pings() -> Result<(Channel, Channel), Wrong> {
    Ok(Channel::pair(ping_v1::CONTRACT)?)
}

/// The types of the generated code, on both sides.
fn talk() -> Result<(), Wrong> {
    use ping_v1::client::received::Asked;
    use ping_v1::server::received::Idle;
    use ping_v1::{client, message, server};
    let (here, there) = pings()?;
    let (mut client, mut server) = (client::start(here), server::start(there));
    for sequence in 1..=PINGS {
        let asked = client.send_ping(&message::Ping { sequence })?;
        let Idle::Ping { message, next } = server.receive()? else {
            return Err(Wrong::Other("no ping".to_string()));
        };
        server = next.send_pong(&message::Pong { sequence: message.sequence, time: u64::MAX })?;
        let Asked::Pong { message, next } = asked.receive()?;
        must(message == message::Pong { sequence, time: u64::MAX }, "another pong")?;
        println!("ping {sequence} of {PINGS}");
        client = next;
    }
    client.send_bye(&message::Bye {})?.close();
    let Idle::Bye { next, .. } = server.receive()? else {
        return Err(Wrong::Other("no bye".to_string()));
    };
    next.close();
    Ok(())
}

/// A wrong order is refused, and the channel continues.
fn order() -> Result<(), Wrong> {
    use ping_v1::message::{Bye, Ping, Pong};
    let (mut client, mut server) = pings()?;
    let mut bytes = [0; Pong::BYTES];
    let refused = |end: &mut Channel, tag: u16, length: usize, block: Option<Block>| {
        let sent = end.send(tag, &[0; 32][..length], block, NONE);
        must(sent == Err(Error::Refused(tag)), &format!("message {tag}: {sent:?}"))
    };
    refused(&mut server, Pong::TAG, Pong::BYTES, None)?;
    refused(&mut client, Pong::TAG, Pong::BYTES, None)?;
    refused(&mut client, Ping::TAG, Ping::BYTES - 1, None)?;
    refused(&mut client, Ping::TAG, Ping::BYTES + 1, None)?;
    refused(&mut client, Ping::TAG, Ping::BYTES, Some(Block::default()))?;
    refused(&mut client, 9, 0, None)?;
    refused(&mut server, Ping::TAG, Ping::BYTES, None)?;
    client.send(Ping::TAG, &Ping { sequence: 7 }.encode(), None, NONE)?;
    refused(&mut client, Ping::TAG, Ping::BYTES, None)?;
    // The server's view is one of its own: it has not received the ping yet.
    refused(&mut server, Pong::TAG, Pong::BYTES, None)?;
    let arrival = server.receive(&mut bytes)?.ok_or(Error::Closed)?;
    must((arrival.tag, arrival.length) == (Ping::TAG, Ping::BYTES), "another message")?;
    must(Ping::decode(&bytes[..8]) == Some(Ping { sequence: 7 }), "another ping")?;
    refused(&mut server, Bye::TAG, 0, None)?;
    server.send(Pong::TAG, &Pong { sequence: 7, time: 1 }.encode(), None, NONE)?;
    let arrival = client.receive(&mut bytes)?.ok_or(Error::Closed)?;
    must(arrival.tag == Pong::TAG, "no pong")?;
    client.send(Bye::TAG, &[], None, NONE)?;
    Ok(())
}

/// What each side sees of the other's close.
fn close() -> Result<(), Wrong> {
    use ping_v1::{client, message, server};
    let (here, there) = pings()?;
    client::start(here).close();
    let seen = server::start(there).receive()?;
    must(matches!(seen, server::received::Idle::Closed), "a closed channel is not closed")?;

    let (here, mut there) = pings()?;
    let asked = client::start(here).send_ping(&message::Ping { sequence: 1 })?;
    let mut bytes = [0; 16];
    must(there.receive(&mut bytes)?.is_some(), "no ping")?;
    drop(there);
    let seen = asked.receive().map(|_| ());
    must(seen == Err(Error::Broken), &format!("the server owes an answer: {seen:?}"))?;

    let (mut here, there) = pings()?;
    drop(there);
    let sent = here.send(0, &[0; 8], None, NONE);
    must(matches!(sent, Err(Error::Closed | Error::Broken)), &format!("a closed peer: {sent:?}"))
}

/// Ends in messages.
fn carry() -> Result<(), Wrong> {
    use give_v1::message::Give;
    let (mut client, mut server) = Channel::pair(give_v1::CONTRACT)?;
    let (mine, served) = Channel::pair(echo_v1::CONTRACT)?;
    let give = |client: &mut Channel, end: Channel| {
        client.send(Give::TAG, &[], None, [Some(end.into_end()), None])
    };
    // Each refused end is closed: its peer finds the channel broken or closed.
    let wrong = give(&mut client, Channel::pair(echo_v1::CONTRACT)?.0);
    must(wrong == Err(Error::Refused(Give::TAG)), &format!("a client's end: {wrong:?}"))?;
    let wrong = give(&mut client, pings()?.1);
    must(wrong == Err(Error::Refused(Give::TAG)), &format!("another contract: {wrong:?}"))?;
    let wrong = client.send(Give::TAG, &[], None, NONE);
    must(wrong == Err(Error::Refused(Give::TAG)), &format!("no end: {wrong:?}"))?;
    let (_peer, shared) = Channel::pair(echo_v1::CONTRACT)?;
    let second = shared.file().duplicate()?;
    let wrong = give(&mut client, shared);
    let several = Err(Error::System(Errno::MLINK));
    must(wrong == several, &format!("an end with two descriptors: {wrong:?}"))?;
    drop(second);
    // With a message in its queue.
    let mut asking = mine;
    asking.send(0, &[5; 64], None, NONE)?;
    give(&mut client, served)?;
    let arrival = server.receive(&mut [])?.ok_or(Error::Closed)?;
    let [Some(end), None] = arrival.endpoints else {
        return Err(Wrong::Other("not one end".to_string()));
    };
    must(!end.is_lost(), "it is lost")?;
    let mut served = Channel::of_end(end, echo_v1::CONTRACT, Side::Server)?;
    let mut bytes = [0; 64];
    let arrival = served.receive(&mut bytes)?.ok_or(Error::Closed)?;
    must(arrival.length == 64 && bytes == [5; 64], "another message")?;
    served.send(1, &bytes, None, NONE)?;
    must(asking.receive(&mut bytes)?.is_some(), "no answer")
}

/// A received end says by which contract it is used, and must say the right one.
fn uses() -> Result<(), Wrong> {
    let (mut client, mut server) = Channel::pair(give_v1::CONTRACT)?;
    let (mine, served) = Channel::pair(echo_v1::CONTRACT)?;
    client.send(0, &[], None, [Some(served.into_end()), None])?;
    let arrival = server.receive(&mut [])?.ok_or(Error::Closed)?;
    let [Some(end), None] = arrival.endpoints else {
        return Err(Wrong::Other("not one end".to_string()));
    };
    let other = end.agree(ping_v1::CONTRACT, Side::Server);
    must(other == Err(Errno::PROTOTYPE), &format!("another contract: {other:?}"))?;
    let other = end.agree(echo_v1::CONTRACT, Side::Client);
    must(other == Err(Errno::PROTOTYPE), &format!("the other side: {other:?}"))?;
    let nonsense = end.agree(b"no contract", Side::Server);
    must(nonsense.is_err(), "no contract at all")?;
    let mut served = Channel::of_end(end, echo_v1::CONTRACT, Side::Server)?;
    drop(mine);
    must(served.receive(&mut [0; 64])?.is_none(), "not closed")
}

/// Too little room, and nothing to receive.
fn room() -> Result<(), Wrong> {
    let (mut client, mut server) = pings()?;
    let mut bytes = [0; 8];
    let nothing = server.try_receive(&mut bytes).map(|_| ());
    must(nothing == Err(Error::System(Errno::AGAIN)), &format!("nothing there: {nothing:?}"))?;
    client.send(0, &[3; 8], None, NONE)?;
    let small = server.receive(&mut [0; 7]).map(|_| ());
    must(small == Err(Error::System(Errno::MSGSIZE)), &format!("too small: {small:?}"))?;
    let arrival = server.try_receive(&mut bytes)?.ok_or(Error::Closed)?;
    must(arrival.length == 8 && bytes == [3; 8], "another message")
}

/// Waiting for a pipe and a channel.
fn poll() -> Result<(), Wrong> {
    let (mut client, mut server) = pings()?;
    let (read, write) = File::pipe()?;
    let ready = |server: &Channel, timeout: u64| {
        ready::wait(&[Interest::Read(&read), Interest::Read(server.file())], Some(timeout))
    };
    must(ready(&server, SECOND / 100)?.is_empty(), "nothing is ready")?;
    client.send(0, &[0; 8], None, NONE)?;
    must(ready(&server, SECOND)? == [1], "the channel is ready")?;
    write.write(b"x")?;
    must(ready(&server, SECOND)? == [0, 1], "both are ready")?;
    server.receive(&mut [0; 8])?;
    must(ready(&server, SECOND)? == [0], "the pipe is ready")?;
    server.send(1, &[0; 16], None, NONE)?;
    client.receive(&mut [0; 16])?;
    drop(client);
    must(ready(&server, SECOND)? == [0, 1], "a closed channel is ready")?;
    let writable = ready::wait(&[Interest::Write(server.file())], Some(SECOND))?;
    must(writable == [0], "an end can always be sent to")
}
