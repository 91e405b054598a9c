//! The other process of each case.

use crate::contracts::{echo_v1, give_v1, ping_v1};
use crate::{HERE, Wrong};
use penumbra::channel::{Channel, Side};
use penumbra::ready;
use std::time::Duration;

fn start() -> Result<ping_v1::server::Idle<Channel>, Wrong> {
    let channel = Channel::from_descriptor(HERE, ping_v1::CONTRACT, Side::Server)?;
    Ok(ping_v1::server::start(channel))
}

/// Answers pings until the client leaves.
pub fn serve() -> Result<(), Wrong> {
    use ping_v1::{message, server};
    let mut idle = start()?;
    loop {
        match idle.receive()? {
            server::received::Idle::Ping { message, next } => {
                let pong = message::Pong { sequence: message.sequence, time: ready::now() };
                idle = next.send_pong(&pong)?;
            }
            server::received::Idle::Bye { next, .. } => {
                next.close();
                return Ok(());
            }
            server::received::Idle::Closed => return Ok(()),
        }
    }
}

/// Receives a ping and ends without an answer.
pub fn leave() -> Result<(), Wrong> {
    drop(start()?.receive()?);
    Ok(())
}

/// Receives a ping, says so by a file, and does not answer.
pub fn hold() -> Result<(), Wrong> {
    let asked = start()?.receive()?;
    std::fs::write("/channels.held", "").map_err(|why| Wrong::Other(why.to_string()))?;
    std::thread::sleep(Duration::from_secs(3600));
    drop(asked);
    Ok(())
}

/// Serves a channel that it is given, until its client closes it; then says that it has taken it.
pub fn takes() -> Result<(), Wrong> {
    use give_v1::{message, server};
    let channel = Channel::from_descriptor(HERE, give_v1::CONTRACT, Side::Server)?;
    let server::received::Idle::Give { served, next, .. } = server::start(channel).receive()?
    else {
        return Err(Wrong::Other("nothing is given".to_string()));
    };
    echo(Channel::of_end(served, echo_v1::CONTRACT, Side::Server)?)?;
    let server::received::Idle::Closed = next.send_taken(&message::Taken {})?.receive()? else {
        return Err(Wrong::Other("a second channel".to_string()));
    };
    Ok(())
}

/// Sends everything back, until the client closes the channel.
pub fn echo(channel: Channel) -> Result<(), Wrong> {
    use echo_v1::{message, server};
    let mut idle = server::start(channel);
    while let server::received::Idle::Ask { message, next } = idle.receive()? {
        idle = next.send_answer(&message::Answer { data: message.data })?;
    }
    Ok(())
}
