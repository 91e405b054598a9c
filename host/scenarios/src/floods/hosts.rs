//! The network that the board is attached to: a well-behaved host with a stack of its own, and
//! hosts that attack the chip.
//!
//! ```text
//!   soc <-- frames --> a thread: the host 10.0.2.2 (smoltcp), which fetches
//!                                10.0.2.50 and others, which attack as told
//! ```
//! Frames are in the socket as for any network: each after its length in four bytes. The attackers
//! keep no more than the numbers of their connections, so they can have many.

use super::attack::{Attack, Attackers, PORT};
use crate::Failure;
use abuse::net::cable::SocketHandle;
use abuse::net::cable::hosts::V4;
use abuse::net::cable::world::Peer;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The hardware address of all stations.
const EVERYBODY: [u8; 6] = [0xff; 6];
/// Pause when there is nothing to do.
const PAUSE: Duration = Duration::from_micros(300);

/// Returns byte `at` of what the server sends.
fn pattern(at: u32) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 24) as u8
}

/// What the scenario asks for.
enum Order {
    /// Fetch so many bytes. The answer is how long that took.
    Fetch(u32, Sender<Result<Duration, String>>),
    Attack(Attack),
    /// End the thread; the answer is the number of frames that attackers have sent.
    Stop(Sender<u64>),
}

/// The network, served by a thread.
pub struct Hosts {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Hosts {
    /// Waits at a socket for the board, then serves it.
    pub fn at(path: &Path) -> Result<Hosts, Failure> {
        let listener = UnixListener::bind(path)?;
        let (orders, told) = channel();
        let thread = std::thread::spawn(move || {
            // Without the board the scenario fails.
            if let Ok((stream, _)) = listener.accept() {
                let _ = Serving::new(stream).and_then(|mut it| it.serve(&told));
            }
        });
        Ok(Hosts { orders, thread: Some(thread) })
    }

    fn order<T>(&self, order: impl FnOnce(Sender<T>) -> Order, patience: Duration) -> Option<T> {
        let (sender, answer) = channel();
        self.orders.send(order(sender)).ok()?;
        answer.recv_timeout(patience).ok()
    }

    /// The well-behaved host fetches bytes over a new connection, and compares them.
    pub fn fetch(&self, bytes: u32, patience: Duration) -> Result<Duration, Failure> {
        let answer = self.order(|to| Order::Fetch(bytes, to), patience);
        let answer = answer.unwrap_or_else(|| Err(format!("nothing within {patience:?}")));
        answer.map_err(|why| Failure::Wrong(format!("a fetch of {bytes} bytes: {why}")))
    }

    pub fn attack(&self, attack: Attack) {
        // It fails after the thread has ended, which the next fetch notices.
        let _ = self.orders.send(Order::Attack(attack));
    }

    /// Ends the network. Returns how many frames the attackers have sent.
    pub fn stop(mut self) -> Result<u64, Failure> {
        let count = self.order(Order::Stop, Duration::from_secs(10));
        self.thread.take().map(JoinHandle::join);
        count.ok_or_else(|| Failure::Wrong("the network has ended before".to_string()))
    }
}

/// A connection of the well-behaved host.
struct Fetch {
    handle: SocketHandle,
    wanted: u32,
    got: u32,
    asked: bool,
    begun: Instant,
    answer: Sender<Result<Duration, String>>,
}

struct Serving {
    stream: UnixStream,
    input: Vec<u8>,
    peer: Peer,
    attackers: Attackers,
    begun: Instant,
    port: u16,
    /// The chip's hardware address.
    mac: [u8; 6],
    fetches: Vec<Fetch>,
}

impl Serving {
    fn new(stream: UnixStream) -> std::io::Result<Serving> {
        stream.set_nonblocking(true)?;
        Ok(Serving {
            stream,
            input: Vec::new(),
            peer: Peer::new(7),
            attackers: Attackers::default(),
            begun: Instant::now(),
            port: 20_000,
            mac: EVERYBODY,
            fetches: Vec::new(),
        })
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn serve(&mut self, orders: &Receiver<Order>) -> std::io::Result<()> {
        loop {
            match orders.try_recv() {
                Ok(Order::Fetch(bytes, answer)) => self.begin(bytes, answer),
                Ok(Order::Attack(attack)) => self.attackers.begin(attack),
                Ok(Order::Stop(answer)) => {
                    let _ = answer.send(self.attackers.sent);
                    return Ok(());
                }
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
            }
            let has_read = self.read()?;
            let now = self.now();
            for frame in self.peer.poll(now) {
                self.send(frame)?;
            }
            for frame in self.attackers.act(now) {
                self.send(frame)?;
            }
            self.progress();
            if !has_read {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Sends a frame. A full socket is waited for, as a cable would.
    fn send(&mut self, mut frame: Vec<u8>) -> std::io::Result<()> {
        if frame[..6] == abuse::net::cable::world::config().mac {
            frame[..6].copy_from_slice(&self.mac);
        }
        let bytes = [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    // The chip must not wait for this end meanwhile.
                    self.read()?;
                    std::thread::sleep(PAUSE);
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Reads frames. Returns whether there were any.
    fn read(&mut self) -> std::io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.input.extend(&bytes[..count]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(why) => return Err(why),
        }
        while let Some(length) = self.input.first_chunk::<4>() {
            let length = 4 + u32::from_be_bytes(*length) as usize;
            if self.input.len() < length {
                break;
            }
            let frame: Vec<u8> = self.input.drain(..length).skip(4).collect();
            self.mac.copy_from_slice(&frame[6..12]);
            self.attackers.hear(&frame);
            self.peer.hear(frame);
        }
        Ok(true)
    }

    fn begin(&mut self, wanted: u32, answer: Sender<Result<Duration, String>>) {
        self.port += 1;
        let handle = self.peer.connect(V4, PORT, self.port);
        let begun = Instant::now();
        self.fetches.push(Fetch { handle, wanted, got: 0, asked: false, begun, answer });
    }

    /// Lets the connections of the well-behaved host ask and compare.
    fn progress(&mut self) {
        let peer = &mut self.peer;
        self.fetches.retain_mut(|fetch| {
            let socket = peer.stream(fetch.handle);
            if !fetch.asked && socket.can_send() {
                let line = format!("{}\n", fetch.wanted);
                fetch.asked = socket.send_slice(line.as_bytes()).is_ok();
            }
            let mut wrong = None;
            while socket.can_recv() {
                let at = fetch.got;
                let compare = |bytes: &mut [u8]| {
                    let good = (at..).zip(&*bytes).all(|(at, byte)| *byte == pattern(at));
                    (bytes.len(), (bytes.len(), good))
                };
                match socket.recv(compare) {
                    Ok((count, true)) => fetch.got += count as u32,
                    _ => wrong = Some("other bytes".to_string()),
                }
            }
            let is_over = fetch.asked && !socket.may_recv() || !socket.is_open();
            if is_over && fetch.got != fetch.wanted {
                wrong = Some(format!("it ended after {} of {}", fetch.got, fetch.wanted));
            }
            if wrong.is_none() && !is_over {
                return true;
            }
            socket.close();
            // Nothing waits for it any more after a time limit.
            let _ = fetch.answer.send(wrong.map_or(Ok(fetch.begun.elapsed()), Err));
            false
        });
    }
}
