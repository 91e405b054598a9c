//! The network device, between a kernel's driver and a network at its socket.

use super::*;
use crate::config::{Link, Net as Settings, Network};
use crate::virtio::net::Net;
use abi::ethernet::{Config, FEATURES, FRAME, HEADER, LINK_UP, RECEIVE, TRANSMIT};
use std::os::unix::net::UnixListener;
use zerocopy::{FromBytes, IntoBytes};

const ROOM: u64 = 0x800;
const TO: u64 = BUFFERS;
const FROM: u64 = BUFFERS + 0x8000;

fn settings(link: Option<Link>) -> Settings {
    let v4 = Network {
        address: [10, 0, 2, 15].into(),
        prefix: 24,
        gateway: [10, 0, 2, 2].into(),
        names: [10, 0, 2, 3].into(),
    };
    let v6 = Network {
        address: "fec0::15".parse().unwrap(),
        prefix: 64,
        gateway: "fec0::2".parse().unwrap(),
        names: "fec0::3".parse().unwrap(),
    };
    Settings { link, pcap: None, mac: [2, 0, 0, 0, 0, 1], v4, v6 }
}

fn open(settings: &Settings) -> Net {
    Net::open(settings, Gate::open(Instant::now())).unwrap()
}

fn listening() -> Driver<Net> {
    Driver::new(|folder| open(&settings(Some(Link::Listen(folder.join("net.sock"))))))
}

fn frame(fill: u8, length: usize) -> Vec<u8> {
    vec![fill; length]
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

impl Driver<Net> {
    fn network(&mut self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("net.sock")).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        self.device.turn();
        stream
    }

    fn space(&self) -> Config {
        let at = REGISTERS + offset_of!(DeviceRegisters, config) as u64;
        Config::read_from_bytes(&self.bytes(at, size_of::<Config>())).unwrap()
    }

    fn is_up(&self) -> bool {
        self.space().status.get() & LINK_UP != 0
    }

    fn send(&mut self, bytes: &[u8]) {
        let all = [&[0; HEADER], bytes].concat();
        self.ram.write(FROM, &all).unwrap();
        self.offer(TRANSMIT, 0, &[(FROM, all.len() as u32, false)]);
        self.device.turn();
    }

    fn offer_room(&mut self, index: u16) {
        self.offer(RECEIVE, index, &[(TO + ROOM * u64::from(index), ROOM as u32, true)]);
    }

    /// Returns the frame in buffer 0, which is the only one on offer.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let before = self.used(RECEIVE).0;
        self.offer_room(0);
        self.device.turn();
        let (after, _, length) = self.used(RECEIVE);
        assert!(after.wrapping_sub(before) <= 1);
        let bytes = self.bytes(TO, length as usize);
        (after != before).then(|| {
            assert_eq!(bytes[..HEADER], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
            bytes[HEADER..].to_vec()
        })
    }
}

#[test]
fn the_driver_is_told_the_addresses() {
    let driver = listening();
    assert_eq!(driver.register(offset_of!(DeviceRegisters, device_id)), 1);
    let offered = driver.register(offset_of!(DeviceRegisters, device_features));
    assert_eq!(offered, VERSION_1 | FEATURES);
    let space = driver.space();
    assert_eq!(space.mac, [2, 0, 0, 0, 0, 1]);
    assert_eq!((space.mtu.get(), space.queue_pairs.get(), space.status.get()), (1500, 1, 0));
    let addresses = space.addresses;
    assert_eq!((addresses.v4, addresses.prefix_v4), ([10, 0, 2, 15], 24));
    assert_eq!((addresses.gateway_v4, addresses.names_v4), ([10, 0, 2, 2], [10, 0, 2, 3]));
    assert_eq!((addresses.v6[..2].to_vec(), addresses.v6[15]), (vec![0xfe, 0xc0], 0x15));
    assert_eq!((addresses.gateway_v6[15], addresses.names_v6[15], addresses.prefix_v6), (2, 3, 64));
    let end = REGISTERS + offset_of!(DeviceRegisters, config) as u64 + size_of_val(&space) as u64;
    assert_eq!(driver.bytes(end, 8), [0; 8]);
    assert_eq!(space.as_bytes().len(), 80);
}

#[test]
fn frames_pass_in_both_directions() {
    let mut driver = listening();
    let mut network = driver.network();
    assert!(driver.is_up() && driver.interrupted());
    for length in [14, 60, FRAME] {
        driver.send(&frame(length as u8, length));
        reads(&mut network, &framed(&frame(length as u8, length)));
        network.write_all(&framed(&frame(7, length))).unwrap();
        assert_eq!(driver.receive(), Some(frame(7, length)));
    }
    assert_eq!(driver.used(TRANSMIT).0, 3);
    assert!(driver.interrupted());
}

#[test]
fn without_a_network_frames_are_dropped() {
    for mut driver in [listening(), Driver::new(|_| open(&settings(None)))] {
        assert!(!driver.is_up() && !driver.interrupted());
        driver.send(&frame(1, 100));
        assert_eq!(driver.used(TRANSMIT).0, 1);
        assert!(driver.interrupted() && driver.receive().is_none());
    }
}

#[test]
fn a_frame_in_pieces_is_put_together() {
    let mut driver = listening();
    let mut network = driver.network();
    let bytes = [framed(&frame(1, 60)), framed(&frame(2, 61))].concat();
    let (first, last) = bytes.split_at(3);
    network.write_all(first).unwrap();
    assert_eq!(driver.receive(), None);
    network.write_all(&last[..30]).unwrap();
    driver.device.turn();
    assert_eq!(driver.used(RECEIVE).0, 0);
    driver.offer_room(1);
    network.write_all(&last[30..]).unwrap();
    driver.device.turn();
    assert_eq!(driver.used(RECEIVE), (2, 1, (HEADER + 61) as u32));
    assert_eq!(driver.bytes(TO + HEADER as u64, 60), frame(1, 60));
}

#[test]
fn frames_that_ethernet_cannot_have_are_dropped() {
    let mut driver = listening();
    let mut network = driver.network();
    for length in [0, 13, FRAME + 1, 65_535] {
        network.write_all(&framed(&frame(3, length))).unwrap();
        driver.device.turn();
        driver.send(&frame(3, length.min(2 * FRAME)));
    }
    // A chain that ends inside the header.
    driver.offer(TRANSMIT, 0, &[(FROM, HEADER as u32 - 1, false)]);
    driver.send(&frame(4, 60));
    network.write_all(&framed(&frame(5, 60))).unwrap();
    reads(&mut network, &framed(&frame(4, 60)));
    assert_eq!(driver.receive(), Some(frame(5, 60)));
    assert!(!driver.needs_reset());
}

#[test]
fn a_network_that_sends_nonsense_or_closes_makes_room_for_the_next() {
    let mut driver = listening();
    for bytes in [&b"\xff\xff\xff\xff"[..], b"GET / HTTP/1.1\r\n", b""] {
        let mut network = driver.network();
        assert!(driver.is_up());
        network.write_all(bytes).unwrap();
        // The rest of a frame that never comes must not be taken for the next network's.
        network.write_all(&[0, 0, 1]).unwrap();
        drop(network);
        driver.device.turn();
        assert!(!driver.is_up() && driver.interrupted() && !driver.needs_reset());
        driver.send(&frame(1, 60));
    }
    let generation = driver.register(offset_of!(DeviceRegisters, generation));
    assert_eq!(generation, 6);
    let mut first = driver.network();
    let mut second = driver.network();
    driver.send(&frame(2, 60));
    reads(&mut first, &framed(&frame(2, 60)));
    // The second one is attached when the first has gone.
    drop(first);
    driver.device.turn();
    driver.device.turn();
    driver.send(&frame(3, 60));
    reads(&mut second, &framed(&frame(3, 60)));
}

#[test]
fn a_driver_without_buffers_stops_the_network() {
    let mut driver = listening();
    let mut network = driver.network();
    network.set_nonblocking(true).unwrap();
    let mut sent = 0u32;
    while sent < 10_000 {
        let mut bytes = frame(0, 1000);
        bytes[..4].copy_from_slice(&sent.to_be_bytes());
        // A socket takes all of so small a message, or nothing.
        match network.write(&framed(&bytes)) {
            Ok(1004) => sent += 1,
            Ok(n) => panic!("{n} bytes of a frame"),
            Err(_) => break,
        }
        driver.device.turn();
    }
    assert!(sent < 10_000, "frames without end were accepted");
    for index in 0..sent {
        assert_eq!(driver.receive().unwrap()[..4], index.to_be_bytes());
    }
    assert_eq!(driver.receive(), None);
}

#[test]
fn a_network_that_does_not_read_stops_the_driver() {
    let mut driver = listening();
    let mut network = driver.network();
    let mut sent = 0;
    while driver.used(TRANSMIT).0 == sent {
        assert!(sent < 10_000, "frames without end were accepted");
        driver.send(&frame(sent as u8, 1000));
        sent += 1;
    }
    // The last one waits in its queue; no ring of the driver is needed to send it later.
    let mut bytes = vec![0; 1004];
    for index in 0..sent {
        network.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[4..], frame(index as u8, 1000));
        driver.device.turn_from_outside();
    }
    assert_eq!(driver.used(TRANSMIT).0, sent);
    // A network that goes takes nothing more, and the driver gets its buffers back.
    while driver.used(TRANSMIT).0 == sent {
        driver.send(&frame(0, 1000));
        sent += 1;
    }
    drop(network);
    driver.device.turn_from_outside();
    assert_eq!(driver.used(TRANSMIT).0, sent);
}

#[test]
fn a_receive_buffer_that_is_too_small_is_a_mistake_of_the_driver() {
    let mut driver = listening();
    let mut network = driver.network();
    network.write_all(&framed(&frame(1, 60))).unwrap();
    driver.offer(RECEIVE, 0, &[(TO, (HEADER + FRAME - 1) as u32, true)]);
    driver.device.turn();
    assert!(driver.needs_reset());
    driver.start();
    assert_eq!(driver.receive(), Some(frame(1, 60)));
}

#[test]
fn a_device_connects_and_connects_again() {
    let mut listener = None;
    let mut driver = Driver::new(|folder| {
        let path = folder.join("passt.sock");
        listener = Some(UnixListener::bind(&path).unwrap());
        open(&settings(Some(Link::Connect(path))))
    });
    for fill in 0..2 {
        while !driver.is_up() {
            std::thread::yield_now();
            driver.device.turn_from_outside();
        }
        let (mut network, _) = listener.as_ref().unwrap().accept().unwrap();
        driver.send(&frame(fill, 60));
        reads(&mut network, &framed(&frame(fill, 60)));
        drop(network);
        driver.device.turn_from_outside();
        assert!(!driver.is_up());
    }
}

#[test]
fn the_capture_has_both_directions() {
    let mut driver = Driver::new(|folder| {
        let link = Some(Link::Listen(folder.join("net.sock")));
        open(&Settings { pcap: Some(folder.join("pcap")), ..settings(link) })
    });
    let mut network = driver.network();
    driver.send(&frame(1, 60));
    network.write_all(&framed(&frame(2, FRAME))).unwrap();
    driver.receive().unwrap();
    let bytes = std::fs::read(driver.folder.path().join("pcap")).unwrap();
    let (head, bytes) = bytes.split_at(24);
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(head, 0), word(head, 4), word(head, 20)), (0xa1b2_3c4d, 0x4_0002, 1));
    let (first, second) = bytes.split_at(16 + 60);
    assert_eq!((word(first, 8), &first[16..]), (60, &frame(1, 60)[..]));
    assert_eq!((word(second, 12), &second[16..]), (FRAME as u32, &frame(2, FRAME)[..]));
    let time = |record| (word(record, 0), word(record, 4));
    assert!(time(first) <= time(second) && time(second).1 < 1_000_000_000);
}
