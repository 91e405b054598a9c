//! How long connections outside wait for their peers.
//!
//! Contract: [`Stalls::look`] is called in each step that concerns the outside, after which every
//! connection that waits for its peer has an end, and every one with data to send has a timer. An
//! idle connection waits for nothing and sets no timer.
//!
//! The second half is a workaround. smoltcp 0.13 takes the window of any acknowledgement, also of
//! an old one that was overtaken. If that was a closed window, and the retransmission timer fires
//! before a newer one comes, the socket has no timer any more, nor that of a probe: neither end
//! sends anything, for ever. So a connection whose data are not acknowledged for [`STALL`] sends
//! keep-alives, whose answers tell the window.

use alloc::collections::BTreeMap;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{Socket, tcp};
use smoltcp::time::{Duration, Instant};

/// Time after which a connect fails that was not answered.
pub const CONNECT: Duration = Duration::from_secs(60);
/// Time after which a connection is given up that a peer has begun and not completed.
const HALF_OPEN: Duration = Duration::from_secs(60);
/// Time after which a connection is reset whose peer does not acknowledge data, or the end.
const SILENCE: Duration = Duration::from_secs(900);
/// Time after which a closed connection is reset that has sent everything and whose peer does not
/// end it.
pub const CLOSING: Duration = Duration::from_secs(60);
/// Time without an acknowledgement after which a connection asks for one, and again.
const STALL: Duration = Duration::from_secs(5);

/// Connections with data, or an end, that is not acknowledged: how much, and since when it is as
/// much.
#[derive(Debug, Default)]
pub struct Stalls(BTreeMap<SocketHandle, (usize, Instant)>);

impl Stalls {
    pub fn look(&mut self, now: Instant, sockets: &mut SocketSet<'_>) {
        let mut before = core::mem::take(&mut self.0);
        for (handle, socket) in sockets.iter_mut() {
            let Socket::Tcp(socket) = socket else { continue };
            socket.set_timeout(patience(socket));
            let (queued, ends) = (socket.send_queue(), is_ending(socket));
            let since = match before.remove(&handle) {
                Some((as_much, since)) if as_much == queued => since,
                _ => now,
            };
            let stalls = queued != 0 && now >= since + STALL;
            if stalls != socket.keep_alive().is_some() {
                socket.set_keep_alive(stalls.then_some(STALL));
            }
            if queued == 0 && ends && now >= since + SILENCE {
                // smoltcp has a time limit for data, none for the end.
                socket.abort();
            } else if queued != 0 || ends {
                self.0.insert(handle, (queued, since));
            }
        }
    }

    /// Returns when to look again.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = |(queued, since): &(usize, Instant)| match queued {
            0 => *since + SILENCE,
            _ => *since + STALL,
        };
        self.0.values().map(due).filter(|at| *at > now).min()
    }
}

/// Returns whether a connection has sent its end, and waits for the acknowledgement.
fn is_ending(socket: &tcp::Socket<'_>) -> bool {
    matches!(socket.state(), tcp::State::FinWait1 | tcp::State::Closing | tcp::State::LastAck)
}

/// Returns how long a connection waits for a sign of its peer.
fn patience(socket: &tcp::Socket<'_>) -> Option<Duration> {
    match socket.state() {
        tcp::State::SynSent => Some(CONNECT),
        tcp::State::SynReceived => Some(HALF_OPEN),
        _ => (socket.send_queue() != 0).then_some(SILENCE),
    }
}
