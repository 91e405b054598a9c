//! A chip with one interface, played by smoltcp, and the gateway process that it is attached to.

use gateway::frames::Frames;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::time::Duration;

pub const CHIP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const CHIP6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0x15);
pub const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 2);
const BUFFER: usize = 64 << 10;
/// Frames read at a time.
const FRAMES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the time; smoltcp needs no more than an order.
fn now() -> Instant {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    Instant::from_micros(since.as_micros() as i64)
}

/// The device: frames in both directions.
struct Wire {
    frames: Frames,
    received: VecDeque<Vec<u8>>,
    /// For bytes that are no frames.
    raw: UnixStream,
}

struct Received(Vec<u8>);
struct Sent<'w>(&'w mut Frames);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        // The gateway may be gone; the test notices.
        let _ = self.0.send(&frame);
        result
    }
}

impl Device for Wire {
    type RxToken<'w> = Received;
    type TxToken<'w> = Sent<'w>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let frame = self.received.pop_front()?;
        Some((Received(frame), Sent(&mut self.frames)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        self.frames.has_room().then_some(Sent(&mut self.frames))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// The chip and its gateway.
pub struct Chip {
    pub folder: tempfile::TempDir,
    listener: UnixListener,
    gateway: Child,
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Drop for Chip {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &std::path::Path) -> Child {
    let words = "--link net.sock --control gateway.sock --published gateway.ports \
        --address 10.0.2.15/24 --gateway 10.0.2.2 --names 10.0.2.3 \
        --address6 fec0::15/64 --gateway6 fec0::2 --names6 fec0::3";
    let mut command = Command::new(env!("CARGO_BIN_EXE_pen-gateway"));
    command.args(words.split_whitespace()).current_dir(folder);
    command.spawn().unwrap()
}

fn accept(listener: &UnixListener) -> Wire {
    let (stream, _) = listener.accept().unwrap();
    let raw = stream.try_clone().unwrap();
    Wire { frames: Frames::new(stream).unwrap(), received: VecDeque::new(), raw }
}

impl Chip {
    pub fn start() -> Chip {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("net.sock")).unwrap();
        let gateway = spawn(folder.path());
        let mut wire = accept(&listener);
        let mac = HardwareAddress::Ethernet(EthernetAddress([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        let mut interface = Interface::new(Config::new(mac), &mut wire, now());
        interface.update_ip_addrs(|list| {
            list.push(IpCidr::new(IpAddress::Ipv4(CHIP), 24)).unwrap();
            list.push(IpCidr::new(IpAddress::Ipv6(CHIP6), 64)).unwrap();
        });
        interface.routes_mut().add_default_ipv4_route(GATEWAY).unwrap();
        let sockets = SocketSet::new(Vec::new());
        Chip { folder, listener, gateway, wire, interface, sockets }
    }

    /// Ends the gateway as a crash would.
    pub fn kill(&mut self) {
        let _ = self.gateway.kill();
        let _ = self.gateway.wait();
    }

    /// Starts another gateway after a crash.
    pub fn start_gateway(&mut self) {
        self.gateway = spawn(self.folder.path());
        self.reattach();
    }

    /// Waits for the gateway to attach again.
    pub fn reattach(&mut self) {
        self.wire = accept(&self.listener);
    }

    /// Sends a frame, whatever it is.
    pub fn frame(&mut self, frame: &[u8]) {
        self.wire.frames.send(frame).unwrap();
    }

    /// Sends bytes that are no frame.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.wire.raw.write_all(bytes).unwrap();
    }

    /// Moves frames until `done` has a result.
    fn until<R>(&mut self, mut done: impl FnMut(&mut SocketSet<'static>) -> Option<R>) -> R {
        let start = std::time::Instant::now();
        loop {
            let _ = self.wire.frames.flush();
            let _ = self.wire.frames.read(&mut self.wire.received, FRAMES);
            let is_idle = self.wire.received.is_empty();
            self.interface.poll(now(), &mut self.wire, &mut self.sockets);
            if let Some(result) = done(&mut self.sockets) {
                self.interface.poll(now(), &mut self.wire, &mut self.sockets);
                return result;
            }
            assert!(start.elapsed() < PATIENCE, "nothing happens");
            if is_idle {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn tcp(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    pub fn connect(&mut self, address: IpAddr, port: u16) -> SocketHandle {
        let handle = self.tcp();
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        socket.connect(self.interface.context(), (address, port), 50_000).unwrap();
        handle
    }

    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.tcp();
        self.sockets.get_mut::<tcp::Socket>(handle).listen(port).unwrap();
        handle
    }

    pub fn send(&mut self, handle: SocketHandle, data: &[u8]) {
        self.until(|sockets| {
            let socket = sockets.get_mut::<tcp::Socket>(handle);
            socket.can_send().then(|| assert_eq!(socket.send_slice(data), Ok(data.len())))
        });
    }

    /// Waits until the connection is there.
    pub fn establish(&mut self, handle: SocketHandle) {
        self.until(|sockets| sockets.get_mut::<tcp::Socket>(handle).may_send().then_some(()));
    }

    pub fn is_refused(&mut self, handle: SocketHandle) -> bool {
        self.until(|sockets| match sockets.get_mut::<tcp::Socket>(handle).state() {
            tcp::State::Closed => Some(true),
            tcp::State::Established => Some(false),
            _ => None,
        })
    }

    pub fn read_to_end(&mut self, handle: SocketHandle) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|sockets| {
            let socket = sockets.get_mut::<tcp::Socket>(handle);
            while socket.can_recv() {
                let taken = socket.recv(|bytes| (bytes.len(), bytes.to_vec()));
                all.extend(taken.unwrap());
            }
            (socket.state() == tcp::State::CloseWait).then(|| socket.close())
        });
        all
    }

    /// Sends back what comes, until the other end has sent all.
    pub fn echo(&mut self, handle: SocketHandle) {
        self.until(|sockets| {
            let socket = sockets.get_mut::<tcp::Socket>(handle);
            while socket.can_recv() && socket.can_send() {
                let room = socket.send_capacity() - socket.send_queue();
                let taken = socket.recv(|bytes| {
                    let most = room.min(bytes.len());
                    (most, bytes[..most].to_vec())
                });
                let taken = taken.unwrap();
                assert_eq!(socket.send_slice(&taken), Ok(taken.len()));
            }
            if socket.state() == tcp::State::CloseWait && !socket.can_recv() {
                socket.close();
            }
            matches!(socket.state(), tcp::State::Closed | tcp::State::TimeWait).then_some(())
        });
        self.sockets.remove(handle);
    }

    pub fn udp(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; 8192]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).unwrap();
        self.sockets.add(socket)
    }

    /// Sends back one datagram.
    pub fn echo_datagram(&mut self, handle: SocketHandle) {
        self.until(|sockets| {
            let socket = sockets.get_mut::<udp::Socket>(handle);
            let (data, from) = socket.recv().ok().map(|(data, from)| (data.to_vec(), from))?;
            socket.send_slice(&data, from).unwrap();
            Some(())
        });
    }
}
