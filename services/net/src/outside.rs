//! The interface to the outside: IP by smoltcp, in Ethernet frames over the network device.
//!
//! Contract: a board without the device, or one whose device does not open, has no network outside
//! and misses nothing else. A step takes at most [`FRAMES`] frames. The interface and its sockets
//! outlive a reset of the device: frames are lost then, and TCP sends them again. If the device
//! fails for good, all connections are reset.
//!
//! ```text
//!   Nic::fetch --> Frame::of --> a SYN to a listener gets a socket --> smoltcp --> look, send
//!                     |                                                              |
//!                     +--> discovery: Neighbours::tell             Neighbours::find <-+
//! ```
//! No socket listens between two frames. The one that a connection needs is made for
//! its SYN ([`crate::listener::Listener::admit`]): then a step may make many connections, and a
//! repeated SYN finds its own connection, never a second listening socket.

use crate::addresses::{Addresses, Network};
use crate::budget::OUTSIDE;
use crate::discovery::{self, Told};
use crate::ethernet::{Attached, Frame, Outside};
use crate::neighbours::Neighbours;
use crate::nic::Port;
use crate::patience;
use crate::stack::{SOON, Stack, finish_closed, ns};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::prng::Prng;
use share::Device;
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::socket::{Socket, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::HardwareAddress;

/// Maximum number of frames that a step receives.
pub const FRAMES: usize = 32;
/// Maximum rounds in which a step sends, of one packet from each socket, and how many sockets it
/// looks at in all of them.
const ROUNDS: usize = 64;
const LOOKS: usize = 512 * ROUNDS;

impl Stack {
    /// Opens the device as far as possible. Returns whether frames can be exchanged. `looks`: the
    /// device may have changed its configuration.
    pub fn attend(&mut self, now: u64, device: &Device<'_>, seed: u64, looks: bool) -> bool {
        self.outside.is_touched = false;
        if !self.outside.nic.attend(now, device) {
            if self.outside.nic.has_failed() {
                self.lose_outside();
            }
            return false;
        }
        if looks || self.outside.attached.is_none() {
            let (addresses, is_up) = self.outside.nic.configuration(device);
            self.outside.is_up = is_up;
            if let (Some(addresses), None) = (addresses, &self.outside.attached) {
                self.attach(device, addresses, seed);
            }
        }
        self.outside.attached.is_some()
    }

    fn attach(&mut self, device: &Device<'_>, addresses: Addresses, seed: u64) {
        let mut random = Prng::new(seed);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random.next();
        let (mut neighbours, now) = (Neighbours::default(), self.now);
        let nic = &mut self.outside.nic;
        let addresses = &addresses;
        let mut port = Port { nic, device, addresses, neighbours: &mut neighbours, now };
        let mut interface = Interface::new(config, &mut port, now);
        interface.update_ip_addrs(|list| {
            // Has room for both.
            list.extend([addresses.v4, addresses.v6].iter().flatten().map(Network::cidr));
        });
        self.sockets = SocketSet::new(Vec::with_capacity(OUTSIDE));
        self.ending = VecDeque::with_capacity(OUTSIDE);
        self.outside.attached =
            Some(Box::new(Attached { interface, addresses: *addresses, neighbours, random }));
    }

    /// The device has failed: nothing is answered any more.
    fn lose_outside(&mut self) {
        for (_, socket) in self.sockets.iter_mut() {
            if let Socket::Tcp(socket) = socket {
                socket.abort();
                silence(socket);
            }
        }
        self.reap_outside();
    }

    /// Takes the next frame. `None`: there is none.
    pub fn fetch(&mut self, device: &Device<'_>) -> Option<Frame> {
        let outside = &mut self.outside;
        let own = &outside.attached.as_ref()?.addresses;
        outside.nic.fetch(self.now, device).then(|| Frame::of(outside.nic.frame(), own))
    }

    /// Ignores the frame that was fetched.
    pub fn ignore(&mut self) {
        self.outside.nic.drop_frame();
    }

    /// Passes the packet that was fetched to its socket.
    pub fn take(&mut self, device: &Device<'_>) {
        let now = self.now;
        self.outside.with_port(now, device, |interface, port| {
            interface.poll_ingress_single(now, port, &mut self.sockets);
        });
    }

    /// A neighbour tells its address, and may ask for ours.
    pub fn hear(&mut self, device: &Device<'_>, told: Told) {
        let Told { address, mac, asks } = told;
        let Outside { nic, attached, .. } = &mut self.outside;
        let Some(attached) = attached else { return };
        for frame in attached.neighbours.tell(address, mac, self.now) {
            nic.send(device, mac, &frame);
        }
        if asks && let Some(answer) = discovery::answer(&attached.addresses, address, mac) {
            nic.send(device, answer.to, answer.bytes());
        }
    }

    /// Asks the neighbours whose addresses are needed.
    fn ask_neighbours(&mut self, device: &Device<'_>) {
        let Outside { nic, attached, .. } = &mut self.outside;
        let Some(attached) = attached else { return };
        while nic.full_until(self.now).is_none()
            && let Some(address) = attached.neighbours.ask(self.now)
        {
            if let Some(question) = discovery::question(&attached.addresses, address) {
                nic.send(device, question.to, question.bytes());
            }
        }
    }

    /// Sends what the sockets have to send, as far as there are buffers. Returns whether closed
    /// streams have more to send now.
    pub fn send(&mut self, device: &Device<'_>) -> bool {
        let (now, sockets) = (self.now, &mut self.sockets);
        self.outside.stalls.look(now, sockets);
        let rounds = (LOOKS / self.budget.count_outside().max(1)).min(ROUNDS);
        self.outside.with_port(now, device, |interface, port| {
            let mut sends = || interface.poll_egress(now, port, sockets);
            (0..rounds).take_while(|_| sends() == PollResult::SocketStateChanged).for_each(drop);
        });
        self.ask_neighbours(device);
        self.outside.nic.ring(device);
        self.reap_outside()
    }

    /// Drops closed streams that have ended, closes those that have sent everything, and resets
    /// those that received more data or wait for their peers for too long. Returns whether there is
    /// something to send now.
    fn reap_outside(&mut self) -> bool {
        let (now, mut news) = (self.now, false);
        // A reset is sent once, when there is a buffer: its peer may wait, and never send.
        let is_full = self.outside.nic.full_until(now).is_some();
        for _ in 0..self.ending.len() {
            let Some(mut ending) = self.ending.pop_front() else { break };
            let socket = self.stream(ending.handle);
            if socket.state() == tcp::State::Closed {
                match is_full && socket.remote_endpoint().is_some() {
                    true => self.ending.push_back(ending),
                    false => self.drop_socket(ending.handle),
                }
                continue;
            }
            news |= finish_closed(socket);
            if socket.state() != tcp::State::TimeWait && socket.send_queue() == 0 {
                let until = *ending.until.get_or_insert(now + patience::CLOSING);
                if now >= until {
                    socket.abort();
                    news = true;
                }
            } else {
                ending.until = None;
            }
            self.ending.push_back(ending);
        }
        if !news && !is_full {
            for (_, socket) in self.sockets.iter_mut() {
                if let Socket::Tcp(socket) = socket {
                    silence(socket);
                }
            }
        }
        news
    }

    /// Returns when there is something to do outside, in ns. `u64::MAX`: only a request or the
    /// device can change anything.
    pub fn due_outside(&mut self) -> u64 {
        let Outside { nic, attached, stalls, .. } = &mut self.outside;
        let Some(attached) = attached.as_mut().filter(|_| nic.is_open()) else {
            return u64::MAX;
        };
        if let Some(at) = nic.full_until(self.now) {
            // Until then only the device can change anything: it rings.
            return ns(at);
        }
        let ends = self.ending.iter().filter_map(|it| it.until).min();
        let polls = attached.interface.poll_at(self.now, &self.sockets);
        let (stalls, asks) = (stalls.due(self.now), attached.neighbours.due());
        match [ends, polls, stalls, asks].into_iter().flatten().min() {
            Some(at) if at > self.now => ns(at),
            Some(_) => ns(self.now).saturating_add(SOON),
            None => u64::MAX,
        }
    }
}

impl Outside {
    /// Lets smoltcp use the device, if there is a network.
    fn with_port(
        &mut self,
        now: Instant,
        device: &Device<'_>,
        work: impl FnOnce(&mut Interface, &mut Port<'_>),
    ) {
        let Some(attached) = &mut self.attached else { return };
        let Attached { interface, addresses, neighbours, .. } = &mut **attached;
        work(interface, &mut Port { nic: &mut self.nic, device, addresses, neighbours, now });
    }
}

/// Has a socket that was reset, and whose reset could not be sent, ask for nothing any more.
fn silence(socket: &mut tcp::Socket<'_>) {
    if socket.state() == tcp::State::Closed && socket.remote_endpoint().is_some() {
        // smoltcp forgets the peer when a socket begins to listen. Cannot fail: it is closed.
        let _ = socket.listen(1);
        socket.close();
    }
}
