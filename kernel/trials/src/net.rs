//! `net`: the self-test of the network service, and an echo between kernels.

use super::{Command, Failure, Outcome, Session, number};
use ::net::check::{Wrong, check};
use ::net::client::{Ask, Client};
use abi::net::{DATAGRAM, Errno, Reply};
use alloc::vec;
use alloc::vec::Vec;
use arch::lock::Lock;
use base::prng::Prng;
use core::fmt::Write;
use kernel_msg::Level;

pub const COMMANDS: &[Command] = &[Command {
    name: "net",
    arguments: "[check [ROUNDS]] | serve PORT | talk PORT [BYTES]",
    help: "loopback: the self-test; an echo for one `talk`, from any kernel",
    run: net,
}];

/// Most bytes of one send or receive: they fit in a message between kernels.
const PIECE: u64 = 3000;
/// Most bytes on the way to the echo and back: less than the buffers hold, to avoid a deadlock.
const AHEAD: u64 = 6000;
/// Number of datagrams of a talk.
const DATAGRAMS: u64 = 8;
/// Most echoes that wait for their threads to start.
const MOST: usize = 4;

/// Socket and listener of echoes whose threads have not taken them yet. The index is the thread's
/// argument.
static HANDLES: Lock<[Option<(u64, u64)>; MOST]> =
    Lock::new(kernel_node::ranks::TEST, [None; MOST]);

fn net(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    match *arguments {
        [] => self_test(session, out, 20),
        ["check", ref rest @ ..] => self_test(session, out, number(rest, 0, 20)?),
        ["serve", port] => serve(session, out, port.parse().map_err(|_| Failure::Usage)?),
        ["talk", port, ref rest @ ..] => {
            let port = port.parse().map_err(|_| Failure::Usage)?;
            talk(session, out, port, number(rest, 0, 20_000)?)
        }
        _ => Err(Failure::Usage),
    }
}

/// Runs `work` with a function that makes requests. The error says why the service failed.
fn asking<R>(
    session: &Session,
    work: impl FnOnce(Ask<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (lost, net) = (Reply::error(Errno::Io), &session.kernel.services.net);
    let (result, failed) = net.asking(session, lost, |ask| work(ask));
    failed.map_or(result, |why| Err(Failure::Failed(why.text())))
}

/// Runs `work` with a client that waits for replies.
fn with_client<R>(
    session: &Session,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Failure> {
    asking(session, |ask| work(&mut Client::new(ask)).map_err(|why| Failure::Failed(explain(why))))
}

fn explain(why: Errno) -> &'static str {
    match why {
        Errno::Addrinuse => "that port is taken",
        Errno::Connrefused => "nothing listens on that port",
        Errno::Connreset => "the other side is gone",
        Errno::Nfile | Errno::Nobufs => "too many sockets",
        Errno::Restarted => "the service was restarted meanwhile",
        _ => "refused",
    }
}

fn self_test(session: &Session, out: &mut dyn Write, rounds: u64) -> Outcome {
    let seed = arch::time::soc_time();
    let tally = asking(session, |ask| {
        check(seed, rounds, ask).map_err(|wrong| {
            Failure::Failed(match wrong {
                Wrong::Refused(why) => explain(why),
                Wrong::Content => "bytes are not what was sent",
                Wrong::Stuck => "nothing moves any more",
            })
        })
    })?;
    let (bytes, connections) = (tally.bytes, tally.connections);
    write!(out, "  {bytes} bytes of TCP over {connections} connections, ")?;
    writeln!(out, "{} datagrams: all as sent", tally.datagrams)?;
    Ok(())
}

fn serve(session: &Session, out: &mut dyn Write, port: u16) -> Outcome {
    let (socket, listener) = with_client(session, |client| {
        let socket = client.udp(port)?;
        let listener = client.listen(port, 1);
        if listener.is_err() {
            client.close(socket)?;
        }
        Ok((socket, listener?))
    })?;
    let Some(place) = claim((socket, listener)) else {
        with_client(session, |client| client.close(socket).and(client.close(listener)))?;
        return Err(Failure::Failed("too many echoes wait to begin"));
    };
    if session.kernel.spawn("net serve", None, server, place).is_err() {
        HANDLES.lock()[place] = None;
        return Err(Failure::Failed("no memory for a thread"));
    }
    writeln!(out, "  port {port}: listening")?;
    Ok(())
}

fn claim(handles: (u64, u64)) -> Option<usize> {
    let mut all = HANDLES.lock();
    let place = all.iter().position(Option::is_none)?;
    all[place] = Some(handles);
    Some(place)
}

/// The thread of an echo. No handler waits for it, so its calls have level 0.
fn server(place: usize) {
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let Some((socket, listener)) = HANDLES.lock()[place].take() else { return };
    let session = Session::at(kernel, Level(0));
    let echoed = with_client(&session, |client| {
        // There is one talk; later connections are refused.
        let stream = client.accept(listener);
        client.close(listener)?;
        let datagrams = stream.and_then(|_| echo_datagrams(client, socket));
        client.close(socket)?;
        let bytes = echo_stream(client, stream?)?;
        Ok((datagrams?, bytes))
    });
    match echoed {
        Ok((datagrams, bytes)) => {
            kernel_node::log!("net serve: {bytes} bytes and {datagrams} datagrams echoed");
        }
        Err(Failure::Failed(why)) => kernel_node::log!("net serve: {why}"),
        Err(Failure::Usage | Failure::Output) => {}
    }
}

/// Sends datagrams back to their senders, until an empty one. Returns their number.
fn echo_datagrams(client: &mut Client<'_>, socket: u64) -> Result<u64, Errno> {
    let mut bytes = [0; DATAGRAM];
    let mut count = 0;
    loop {
        let (length, from) = client.receive_from(socket, &mut bytes)?;
        let length = length.min(DATAGRAM);
        client.send_to(socket, from, &mut bytes[..length])?;
        if length == 0 {
            return Ok(count);
        }
        count += 1;
    }
}

/// Sends the bytes of a connection back, until its end. Returns their number.
fn echo_stream(client: &mut Client<'_>, stream: u64) -> Result<u64, Errno> {
    let mut piece = vec![0; PIECE as usize];
    let mut count = 0;
    loop {
        let some = client.receive(stream, &mut piece)?;
        if some == 0 {
            return client.close(stream).map(|()| count);
        }
        let mut sent = 0;
        while sent < some {
            sent += client.send(stream, &mut piece[sent..some])?;
        }
        count += some as u64;
    }
}

/// Returns byte `at` of the pattern that is sent.
fn pattern(at: u64) -> u8 {
    (at ^ at >> 7 ^ at >> 13) as u8
}

fn fill(from: u64, length: u64) -> Vec<u8> {
    (from..from + length).map(pattern).collect()
}

/// Sends datagrams to an echo, one by one. Returns how many came back unchanged.
fn say_datagrams(client: &mut Client<'_>, port: u16) -> Result<u64, Errno> {
    let socket = client.udp(0)?;
    let mut prng = Prng::new(u64::from(port));
    let mut good = 0;
    for count in 0..=DATAGRAMS {
        // The last one is empty and ends the echo.
        let last = count == DATAGRAMS;
        let length = if last { 0 } else { 1 + prng.below(DATAGRAM as u64) };
        let mut bytes = fill(count, length);
        client.send_to(socket, port, &mut bytes)?;
        let mut back = [0; DATAGRAM];
        let (length, from) = client.receive_from(socket, &mut back)?;
        good += u64::from(!last && from == port && back.get(..length) == Some(&bytes[..]));
    }
    client.close(socket).map(|()| good)
}

/// Sends bytes to an echo and receives them. Returns the number of bytes before the first wrong
/// one.
fn say(client: &mut Client<'_>, stream: u64, bytes: u64) -> Result<u64, Errno> {
    let mut prng = Prng::new(bytes);
    let (mut sent, mut received, mut good) = (0u64, 0, 0);
    while received < bytes {
        let room = AHEAD.saturating_sub(sent.saturating_sub(received));
        if sent < bytes && room > 0 {
            let length = (1 + prng.below(PIECE)).min(room).min(bytes - sent);
            sent += client.send(stream, &mut fill(sent, length))? as u64;
            continue;
        }
        let mut piece = vec![0; 1 + prng.below(PIECE) as usize];
        let some = client.receive(stream, &mut piece)?;
        if some == 0 {
            break;
        }
        let expected = fill(received, some as u64);
        let same = piece.iter().zip(&expected).take_while(|(came, sent)| came == sent).count();
        good += if good == received { same as u64 } else { 0 };
        received += some as u64;
    }
    client.shut(stream)?;
    // The connection must end after the last byte.
    match client.receive(stream, &mut [0; 8])? {
        0 => Ok(good),
        _ => Ok(0),
    }
}

fn talk(session: &Session, out: &mut dyn Write, port: u16, bytes: u64) -> Outcome {
    let (good, datagrams) = with_client(session, |client| {
        let stream = client.connect(port)?;
        let datagrams = say_datagrams(client, port);
        let good = datagrams.and_then(|_| say(client, stream, bytes));
        client.close(stream)?;
        Ok((good?, datagrams?))
    })?;
    write!(out, "  {good} of {bytes} bytes and {datagrams} of {DATAGRAMS} datagrams ")?;
    writeln!(out, "came back as they were sent")?;
    match good == bytes && datagrams == DATAGRAMS {
        true => Ok(()),
        false => Err(Failure::Failed("bytes are missing or wrong")),
    }
}
