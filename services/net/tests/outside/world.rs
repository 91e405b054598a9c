//! The service with a simulated network device, another stack of smoltcp at the other end of the
//! cable, and a cable that loses, repeats, reorders, delays and corrupts frames.

use super::frames::{forge, headers};
use super::hosts::{Hosts, OURS, PEER, V4, V6, v6};
use abi::ethernet::{Addresses, Config, DEVICE_ID, FEATURES, HEADER, LINK_UP};
use abi::net::{Address, Errno, Op, Reply, Request, flag};
use abi::soc::DeviceRegisters;
use base::id::{DomainId, Epoch};
use base::port::Words;
use base::prng::Prng;
use net::Net;
use net::addresses::to_ip;
use net::nic::MEMORY;
use share::{Answer, Device, Effects, Event, Service, Token};
use smoltcp::iface::{self, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::collections::VecDeque;
use std::mem::offset_of;
use virtio::fake::{Fake, Model, View};
use zerocopy::IntoBytes;

const KERNELS: usize = 2;
/// Time that a step takes, in ns.
const STEP: u64 = 2_000;

/// The device's view of the cable.
#[derive(Default)]
pub struct Wire {
    pub to_chip: VecDeque<Vec<u8>>,
    pub from_chip: Vec<Vec<u8>>,
    /// Whether it takes frames and never completes them.
    pub stalls: bool,
}

impl Model for Wire {
    fn serve(&mut self, queue: usize, input: &[u8], room: usize) -> Option<Vec<u8>> {
        if queue == abi::ethernet::TRANSMIT {
            if self.stalls {
                return None;
            }
            assert_eq!(&input[..HEADER], [0; HEADER], "no offload");
            self.from_chip.push(input[HEADER..].to_vec());
            return Some(Vec::new());
        }
        let frame = self.to_chip.pop_front()?;
        let mut bytes = vec![0; HEADER];
        bytes[abi::ethernet::HEADER_BUFFERS] = 1;
        bytes.extend(frame);
        bytes.truncate(room);
        Some(bytes)
    }

    fn reset(&mut self, _: u64) {
        self.from_chip.clear();
    }
}

/// What the cable does to a frame, each with a probability in 1,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loses: u64,
    pub repeats: u64,
    pub corrupts: u64,
    pub delays: u64,
    /// Changes that the checksums do not show.
    pub forges: u64,
}

/// A frame under way.
struct Flight {
    at: u64,
    order: u64,
    to_chip: bool,
    frame: Vec<u8>,
}

/// The peer's end of the cable.
#[derive(Default)]
struct Socket {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = vec![0; length];
        let result = write(&mut frame);
        self.0.push(frame);
        result
    }
}

impl phy::Device for Socket {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        Some((Received(self.received.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, 1514);
        capabilities
    }
}

/// The host at the other end.
pub struct Peer {
    interface: Interface,
    pub sockets: SocketSet<'static>,
    socket: Socket,
}

impl Peer {
    pub fn new(seed: u64) -> Peer {
        let mac = EthernetAddress([2, 0, 0, 0, 0, 2]);
        let mut config = iface::Config::new(mac.into());
        config.random_seed = seed;
        let mut socket = Socket::default();
        let mut interface = Interface::new(config, &mut socket, Instant::from_micros(0));
        interface.update_ip_addrs(|list| {
            for (address, prefix) in [(V4.peer, 24), (V4.far, 32), (V6.peer, 64), (V6.far, 128)] {
                list.push(IpCidr::new(to_ip(address), prefix)).unwrap();
            }
        });
        Peer { interface, sockets: SocketSet::new(Vec::new()), socket }
    }

    /// Acts. Returns the frames that it sends.
    pub fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        let now = Instant::from_micros((now / 1000) as i64);
        self.interface.poll(now, &mut self.socket, &mut self.sockets);
        std::mem::take(&mut self.socket.sent)
    }

    /// Returns when it has something to do, in ns; `u64::MAX`: only a frame can change anything.
    pub fn due(&mut self, now: u64) -> u64 {
        let now = Instant::from_micros((now / 1000) as i64);
        let at = self.interface.poll_at(now, &self.sockets);
        at.map_or(u64::MAX, |at| at.total_micros() as u64 * 1000)
    }

    /// A frame has arrived; it is looked at when the peer acts next.
    pub fn hear(&mut self, frame: Vec<u8>) {
        self.socket.received.push_back(frame);
    }

    pub fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    pub fn stream(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.tcp();
        self.stream(handle).listen(port).unwrap();
        handle
    }

    pub fn connect(&mut self, hosts: Hosts, port: u16, from: u16) -> SocketHandle {
        let handle = self.tcp();
        let to = (to_ip(hosts.ours), port);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(self.interface.context(), to, from).unwrap();
        handle
    }

    pub fn udp(&mut self, port: u16) -> SocketHandle {
        let heads = || vec![udp::PacketMetadata::EMPTY; 16];
        let buffer = || udp::PacketBuffer::new(heads(), vec![0; 16 * 1500]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).unwrap();
        self.sockets.add(socket)
    }
}

/// The effects of a step.
struct Out<'a> {
    woken: Vec<Token>,
    timer: Option<u64>,
    device: Option<Device<'a>>,
    seed: u64,
}

impl Effects for Out<'_> {
    fn wake(&mut self, token: Token) {
        self.woken.push(token);
    }
    fn wake_all(&mut self) {}
    fn timer(&mut self, at: u64) {
        self.timer = Some(at);
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn device(&self) -> Option<Device<'_>> {
        self.device
    }
}

pub fn token(kernel: usize, thread: u64) -> Token {
    Token::new(DomainId(kernel as u8), Epoch(1), thread, 1)
}

/// Returns the configuration of the simulated network.
pub fn config() -> Config {
    let addresses = Addresses {
        v4: OURS,
        gateway_v4: PEER,
        names_v4: [10, 0, 2, 3],
        prefix_v4: 24,
        v6: V6.ours,
        gateway_v6: V6.peer,
        names_v6: v6(0xfec0, 3),
        prefix_v6: 64,
        ..Addresses::default()
    };
    let (mac, status) = ([2, 0, 0, 0, 0, 1], LINK_UP.into());
    Config { mac, status, queue_pairs: 1.into(), mtu: 1500.into(), addresses, ..Config::default() }
}

/// Returns a device that works.
pub fn device() -> Fake<Wire> {
    let fake = Fake::new(DEVICE_ID, FEATURES, 0, Wire::default());
    configure(&fake, &config());
    fake
}

pub fn configure(fake: &Fake<Wire>, config: &Config) {
    for (at, word) in config.as_bytes().chunks(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        fake.set(offset_of!(DeviceRegisters, config) + 8 * at, word);
    }
}

pub struct World<'a> {
    pub fake: &'a Fake<Wire>,
    views: [View<'a, Wire>; KERNELS],
    pub net: Net,
    pub peer: Peer,
    pub faults: Faults,
    pub random: Prng,
    pub now: u64,
    pub timer: u64,
    pub woken: Vec<Token>,
    pub has_device: bool,
    /// Number of steps so far, and of lost states.
    pub steps: u64,
    pub lives: u32,
    flights: Vec<Flight>,
    order: u64,
    /// All that the chip has sent, if it is kept.
    pub seen: Option<Vec<Vec<u8>>>,
}

impl<'a> World<'a> {
    pub fn new(fake: &'a Fake<Wire>, seed: u64) -> World<'a> {
        World {
            fake,
            views: [View::new(fake), View::new(fake)],
            net: Net::start(1),
            peer: Peer::new(seed + 1),
            faults: Faults::default(),
            random: Prng::new(seed),
            now: 1_000_000,
            timer: u64::MAX,
            woken: Vec::new(),
            has_device: true,
            steps: 0,
            lives: 1,
            flights: Vec::new(),
            order: 0,
            seen: None,
        }
    }

    /// Returns a world whose device is open.
    pub fn open(fake: &'a Fake<Wire>, seed: u64) -> World<'a> {
        let mut world = World::new(fake, seed);
        world.event(0, Event::Device);
        world.run(20);
        assert!(world.net.addresses().is_some());
        world
    }

    /// Carries out a step in a kernel. `None`: it was parked, or the kernel died in it.
    pub fn event(&mut self, who: usize, event: Event<'_, Request>) -> Option<Reply> {
        self.now += STEP;
        self.steps += 1;
        let (fake, view) = (self.fake, &self.views[who]);
        let ring = |_| {
            if fake.eager.get() && !view.is_dead() {
                fake.turn();
            }
        };
        let device = self.has_device.then(|| view.device(MEMORY, &ring));
        let seed = self.random.next();
        let mut out = Out { woken: Vec::new(), timer: None, device, seed };
        let answer = self.net.step(self.now, event, &mut out);
        let Out { woken, timer, .. } = out;
        if self.views[who].is_dead() {
            self.lose(who);
            return None;
        }
        self.views[who].lasts.set(u32::MAX);
        self.views[who].barrier();
        self.woken.extend(woken);
        // The kernel keeps the earliest.
        self.timer = self.timer.min(timer.unwrap_or(u64::MAX));
        match answer {
            Answer::Done(reply) => Some(reply),
            Answer::Parked | Answer::NoReply => None,
        }
    }

    /// A kernel dies within a step: the state is lost, and the other kernel starts it again.
    fn lose(&mut self, who: usize) {
        self.views[who].die();
        self.lives += 1;
        (self.net, self.timer) = (Net::start(self.lives), u64::MAX);
        self.event(1 - who, Event::Gone(DomainId(who as u8), Epoch(1)));
    }

    /// Lets a kernel die after so many stores of its next step.
    pub fn die_after(&mut self, who: usize, stores: u32) {
        self.views[who].lasts.set(stores);
    }

    /// A caller that does not wait makes a request in a random kernel.
    pub fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Errno> {
        let waits = [Op::Accept, Op::Connect, Op::Send, Op::Receive].map(|op| op as u16);
        let flags = if waits.contains(&request.op) { flag::NONBLOCK } else { 0 };
        let request = Request { flags: request.flags | flags, ..request };
        let who = self.random.below(KERNELS as u64) as usize;
        let event = Event::Request { token: token(who, 1), request: &request, bulk };
        let reply = self.event(who, event).unwrap_or(Reply::error(Errno::Again));
        if reply.error == 0 { Ok(reply) } else { Err(reply.errno()) }
    }

    /// Returns a new socket of IPv6, which reaches both families.
    pub fn socket(&mut self, op: Op) -> u64 {
        self.ask(Request { flags: flag::V6, ..Request::new(op, 0) }, &mut []).unwrap().handle
    }

    pub fn listen(&mut self, port: u16, backlog: u16) -> u64 {
        let handle = self.socket(Op::Tcp);
        let request = Request { port, backlog, ..Request::new(Op::Listen, handle) };
        self.ask(request, &mut []).unwrap();
        handle
    }

    pub fn connect(&mut self, handle: u64, address: Address, port: u16) -> Result<(), Errno> {
        let request = Request { address, port, ..Request::new(Op::Connect, handle) };
        self.ask(request, &mut []).map(|_| ())
    }

    pub fn send(&mut self, handle: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        let request = Request { length: bytes.len() as u32, ..Request::new(Op::Send, handle) };
        self.ask(request, bytes).map(|reply| reply.value as usize)
    }

    pub fn receive(&mut self, handle: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let request = Request { length: into.len() as u32, ..Request::new(Op::Receive, handle) };
        self.ask(request, into).map(|reply| reply.filled as usize)
    }

    pub fn close(&mut self, handle: u64) -> Result<(), Errno> {
        self.ask(Request::new(Op::Close, handle), &mut []).map(|_| ())
    }

    /// Puts a frame on the cable, which does to it what it does.
    fn fly(&mut self, to_chip: bool, mut frame: Vec<u8>) {
        let Faults { loses, repeats, corrupts, delays, forges } = self.faults;
        let random = &mut self.random;
        if random.chance(loses, 1000) {
            return;
        }
        let copies = if random.chance(repeats, 1000) { 2 } else { 1 };
        // Ethernet protects its own header, and ARP has no other checksum, nor the header of IPv6.
        if random.chance(corrupts, 1000)
            && let Some(first) = headers(&frame)
        {
            let at = first + random.below((frame.len() - first) as u64) as usize;
            frame[at] ^= 1 << random.below(8);
        }
        if forges != 0 && random.chance(forges, 1000) {
            forge(&mut frame, random);
        }
        for _ in 0..copies {
            let late = if random.chance(delays, 1000) { random.below(300_000_000) } else { 0 };
            let at = self.now + 50_000 + random.below(20_000) * u64::from(delays != 0) + late;
            self.order += 1;
            self.flights.push(Flight { at, order: self.order, to_chip, frame: frame.clone() });
        }
    }

    /// Delivers a frame to the chip's device.
    pub fn inject(&mut self, frame: Vec<u8>) {
        self.fake.model.borrow_mut().to_chip.push_back(frame);
    }

    fn peer_polls(&mut self) {
        for frame in self.peer.poll(self.now) {
            self.fly(true, frame);
        }
    }

    /// One round: the device works, frames arrive, interrupts and timers come, the peer acts. Time
    /// goes to when something happens, at most until `limit`. Returns whether anything is left.
    pub fn round(&mut self, limit: u64) -> bool {
        self.fake.turn();
        let who = self.random.below(KERNELS as u64) as usize;
        if self.fake.news.take() {
            self.event(who, Event::Device);
        }
        for frame in std::mem::take(&mut self.fake.model.borrow_mut().from_chip) {
            self.seen.iter_mut().for_each(|seen| seen.push(frame.clone()));
            self.fly(false, frame);
        }
        self.peer_polls();
        let peer = self.peer.due(self.now);
        let cable = self.flights.iter().map(|flight| flight.at).min().unwrap_or(u64::MAX);
        let next = self.timer.min(peer).min(cable);
        if next != u64::MAX {
            self.now = self.now.max(next.min(limit));
        }
        if self.timer <= self.now {
            self.timer = u64::MAX;
            self.event(who, Event::Timer);
        }
        self.flights.sort_by_key(|flight| (flight.at, flight.order));
        while self.flights.first().is_some_and(|flight| flight.at <= self.now) {
            let Flight { to_chip, frame, .. } = self.flights.remove(0);
            match to_chip {
                true => self.inject(frame),
                false => self.peer.hear(frame),
            }
        }
        next != u64::MAX
    }

    /// Runs at most so many rounds, until nothing is left to do.
    pub fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            if !self.round(u64::MAX) && !self.fake.news.get() && !self.has_frames() {
                return;
            }
        }
    }

    /// Runs until `done`. Panics if that takes longer than `rounds`.
    pub fn until(&mut self, rounds: usize, mut done: impl FnMut(&mut World<'a>) -> bool) {
        for _ in 0..rounds {
            if done(self) {
                return;
            }
            self.round(self.now + 1_000_000_000);
        }
        panic!("it does not come to that");
    }

    fn has_frames(&self) -> bool {
        let model = self.fake.model.borrow();
        !model.to_chip.is_empty() || !model.from_chip.is_empty()
    }
}
