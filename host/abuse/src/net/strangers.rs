//! Frames of hosts that keep to no protocol, and what the peer's own stack does.
//!
//! A frame is made from nothing, or from one that the peer has sent or that the chip has sent: the
//! answer to that, with its numbers, so that it belongs to a connection. Then a few bytes may
//! change, with right or wrong checksums.

use super::board::Board;
use super::cable::frames::{checksum, noise};
use super::cable::hosts::{OURS, PEER, V4, V6};
use super::cable::world::config;
use super::packets::{Segment, datagram, packet, tcp};
use crate::bytes::Bytes;
use crate::mutate;
use base::prng::Prng;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::udp;

/// Ports that programs use, and so do strangers.
pub const PORTS: [u16; 4] = [7, 80, 2000, 53];
/// Sockets of the peer at most.
const SOCKETS: usize = 12;
/// Frames of a flood at most.
const FLOOD: usize = 60;

/// What the outside has done with its sockets.
#[derive(Default)]
pub struct Strangers {
    streams: Vec<SocketHandle>,
    datagrams: Vec<SocketHandle>,
}

impl Strangers {
    /// Does what the input says.
    pub fn act(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        match input.below(12) {
            0..4 => self.use_peer(board, input),
            4 => flood(board, input),
            5 | 6 => answer(board, input),
            7 => send(board, begin(input), input),
            8 => {
                let kept = board.told.len();
                let frame = board.told.get(input.below(kept.max(1))).cloned();
                send(board, frame.unwrap_or_default(), input);
            }
            9 => send(board, arp(input), input),
            10 => send(board, icmp(board, input), input),
            _ => {
                let mut random = Prng::new(input.u64());
                (0..1 + input.below(8)).for_each(|_| board.frame(noise(&mut random)));
            }
        }
    }

    /// The peer's own stack makes and uses connections.
    fn use_peer(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        if self.streams.len() + self.datagrams.len() >= SOCKETS {
            let oldest =
                if self.streams.is_empty() { &mut self.datagrams } else { &mut self.streams };
            board.peer.sockets.remove(oldest.remove(0));
        }
        let port = PORTS[input.below(PORTS.len())];
        match input.below(8) {
            0 => self.streams.push(board.peer.listen(port)),
            1 | 2 => {
                let from = 1024 + input.below(60_000) as u16;
                let hosts = if input.once_in(3) { V6 } else { V4 };
                self.streams.push(board.peer.connect(hosts, port, from));
            }
            3 if self.datagrams.is_empty() => self.datagrams.push(board.peer.udp(port)),
            3 => self.exchange_datagrams(board, input),
            _ => self.use_stream(board, input),
        }
        board.settle();
    }

    fn exchange_datagrams(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let socket = board.peer.sockets.get_mut::<udp::Socket<'_>>(self.datagrams[0]);
        while socket.recv().is_ok() {}
        let ours = if input.once_in(3) { V6.ours } else { V4.ours };
        let to = (::net::addresses::to_ip(ours), PORTS[input.below(PORTS.len())]);
        let _ = socket.send_slice(&vec![b'u'; input.below(1472)], to);
    }

    fn use_stream(&mut self, board: &mut Board<'_>, input: &mut Bytes<'_>) {
        let Some(&stream) = self.streams.get(input.below(self.streams.len().max(1))) else {
            return;
        };
        let socket = board.peer.stream(stream);
        match input.below(6) {
            0 => socket.close(),
            1 => socket.abort(),
            2 => drop(socket.recv(|bytes| (bytes.len(), ()))),
            3 => drop(socket.recv_slice(&mut [0; 5])),
            _ => drop(socket.send_slice(&vec![b's'; 1 + input.below(4000)])),
        }
    }
}

/// Sends a frame, perhaps with mistakes, and perhaps with checksums that hide them.
fn send(board: &mut Board<'_>, mut frame: Vec<u8>, input: &mut Bytes<'_>) {
    if input.once_in(3) {
        frame = mutate::spoil(&mut Prng::new(input.u64()), &frame);
    }
    if frame.len() >= 54 && frame[12..15] == [8, 0, 0x45] && !input.once_in(4) {
        if !input.once_in(4) {
            let length = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&length.to_be_bytes());
        }
        checksum(&mut frame);
    }
    board.frame(frame);
}

/// Returns the address of a host: the peer, one in its network, or far away.
fn host(input: &mut Bytes<'_>) -> [u8; 4] {
    match input.below(8) {
        0 | 1 => PEER,
        2 => [93, 184, input.byte(), input.byte()],
        3 => input.u32().to_be_bytes(),
        _ => [10, 0, 2, 100 + input.byte() % 100],
    }
}

/// Returns a SYN, mostly with options.
fn begin(input: &mut Bytes<'_>) -> Vec<u8> {
    let from = host(input);
    let mss = [2, 4, input.byte(), input.byte()];
    let scale = [3, 3, input.byte() % 20, 1];
    let options = [&mss[..], &scale, &[4, 2, 1, 1]].concat();
    let segment = Segment {
        ports: [input.number(16) as u16, PORTS[input.below(PORTS.len())]],
        numbers: [input.number(32) as u32, 0],
        flags: tcp::SYN,
        window: input.number(16) as u16,
        options: &options[..input.below(4) * 4],
        payload: &[],
    };
    packet(from, 6, &segment.bytes())
}

/// Sends many SYNs, or many datagrams, of hosts that do not exist.
fn flood(board: &mut Board<'_>, input: &mut Bytes<'_>) {
    let (first, is_tcp, port) =
        (input.number(16) as u16, !input.once_in(3), PORTS[input.below(PORTS.len())]);
    for number in 0..input.below(FLOOD) as u16 {
        let from = [10, 0, 2, 100 + (number % 100) as u8];
        let ports = [first.wrapping_add(number), port];
        let window = number.wrapping_mul(40);
        let segment = Segment {
            ports,
            numbers: [first.into(), 0],
            flags: tcp::SYN,
            window,
            options: &[],
            payload: &[],
        };
        board.frame(match is_tcp {
            true => packet(from, 6, &segment.bytes()),
            false => packet(from, 17, &datagram(ports, &[b'f'; 100])),
        });
    }
}

/// Sends an answer to something that the chip has sent: the connection continues, stops, ends.
fn answer(board: &mut Board<'_>, input: &mut Bytes<'_>) {
    let kept = board.heard.len();
    let Some(heard) = board.heard.get(input.below(kept.max(1))).cloned() else { return };
    if heard.len() < 54 || heard[12..14] != [8, 0] || heard[23] != 6 {
        return send(board, reflected(heard), input);
    }
    let word = |at: usize| u16::from_be_bytes([heard[at], heard[at + 1]]);
    let number = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let (header, flags) = (usize::from(heard[46] >> 4) * 4, heard[47]);
    let ends = u32::from(flags & (tcp::SYN | tcp::FIN) != 0);
    let length = (heard.len() - 34).saturating_sub(header) as u32;
    let payload = vec![b'a'; if input.once_in(2) { 0 } else { input.below(1460) }];
    let slip = |input: &mut Bytes<'_>| if input.once_in(6) { input.number(16) as u32 } else { 0 };
    let segment = Segment {
        ports: [word(36), word(34)],
        numbers: [
            number(42).wrapping_sub(slip(input)),
            number(38).wrapping_add(length + ends).wrapping_add(slip(input)),
        ],
        flags: match input.below(10) {
            0 => tcp::RST,
            1 => tcp::FIN | tcp::ACK,
            2 => input.byte(),
            3 | 4 => tcp::ACK | tcp::PUSH,
            5 if flags & tcp::ACK == 0 => tcp::SYN,
            _ if flags & (tcp::SYN | tcp::ACK) == tcp::SYN => tcp::SYN | tcp::ACK,
            _ => tcp::ACK,
        },
        window: [0, 1, 20, 4000, u16::MAX][input.below(5)],
        options: &[],
        payload: &payload,
    };
    let from = [heard[30], heard[31], heard[32], heard[33]];
    send(board, packet(from, 6, &segment.bytes()), input);
}

/// Returns a frame that comes back.
fn reflected(mut frame: Vec<u8>) -> Vec<u8> {
    let (to, from) = frame.split_at_mut(6);
    to.swap_with_slice(&mut from[..6]);
    if frame.len() >= 42 && frame[12..14] == [8, 0] {
        let (from, to) = frame[26..34].split_at_mut(4);
        from.swap_with_slice(to);
        let (from, to) = frame[34..38].split_at_mut(2);
        from.swap_with_slice(to);
    }
    frame
}

/// Returns a question or an answer of ARP.
fn arp(input: &mut Bytes<'_>) -> Vec<u8> {
    let from = if input.once_in(6) { OURS } else { host(input) };
    let mac = [2, 0, 0, input.byte() % 2, 1, from[3]];
    let mut frame = config().mac.to_vec();
    if input.once_in(2) {
        frame.fill(0xff);
    }
    frame.extend(mac);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + input.byte() % 3]);
    frame.extend(mac);
    frame.extend(from);
    frame.extend(config().mac);
    frame.extend(if input.once_in(5) { host(input) } else { OURS });
    frame.extend(vec![0; input.below(20)]);
    frame
}

/// Returns an echo request, or an error about a packet that the chip has sent.
fn icmp(board: &Board<'_>, input: &mut Bytes<'_>) -> Vec<u8> {
    let from = host(input);
    let kind = [8, 8, 3, 5, 11, 12, 0, input.byte()][input.below(8)];
    let mut body = vec![kind, input.byte() % 16, 0, 0, 0, 7, 0, 1];
    let about = board.heard.get(input.below(board.heard.len().max(1)));
    match about {
        Some(about) if kind != 8 && about.len() > 14 => {
            let some = input.below(about.len() - 13);
            body.extend(&about[14..14 + some]);
        }
        _ => body.extend(vec![b'e'; input.below(1400)]),
    }
    packet(from, 1, &body)
}
