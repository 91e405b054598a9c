//! The vsock device, between a kernel's driver and clients of its socket.

use super::*;
use crate::virtio::vsock::Vsock;
use abi::vsock::{
    BOARD, Consumed, HOST, Header, NO_RECEIVE, NO_SEND, Op, RECEIVE, TRANSMIT, WINDOW,
};
use zerocopy::{FromBytes, IntoBytes};

/// A kernel's end of the vsock device, one packet at a time.
struct Board {
    driver: Driver<Vsock>,
    /// Whether a receive buffer is offered.
    offered: bool,
    /// Number of packets received.
    seen: u16,
}

const ROOM: u64 = 0x2000;

impl Board {
    fn new() -> (Board, UnixStream) {
        let driver = Driver::new(|folder| Vsock::open(&folder.join("vsock.sock")).unwrap());
        let client = UnixStream::connect(driver.folder.path().join("vsock.sock")).unwrap();
        (Board { driver, offered: false, seen: 0 }, client)
    }

    fn send(&mut self, op: Op, client: u32, data: &[u8], consumed: u32) {
        self.send_from(1, op, client, data, consumed);
    }

    fn shutdown(&mut self, client: u32) {
        self.send_all(1, (Op::Shutdown, NO_SEND | NO_RECEIVE), client, &[], 0);
    }

    fn send_from(&mut self, port: u32, op: Op, client: u32, data: &[u8], consumed: u32) {
        self.send_all(port, (op, 0), client, data, consumed);
    }

    fn send_all(
        &mut self,
        port: u32,
        (op, flags): (Op, u32),
        client: u32,
        data: &[u8],
        consumed: u32,
    ) {
        let (ends, said) = ((BOARD, HOST), (op, data.len(), flags));
        let header = Header::new(ends, (port, client), said, &mut Consumed::default());
        let header = Header { consumed: consumed.into(), ..header };
        let bytes = [header.as_bytes(), data].concat();
        self.driver.ram.write(BUFFERS, &bytes).unwrap();
        self.driver.offer(TRANSMIT, 0, &[(BUFFERS, bytes.len() as u32, false)]);
        self.driver.device.turn();
    }

    /// Returns the next packet from the host, if there is one.
    fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        if !std::mem::replace(&mut self.offered, true) {
            self.driver.offer(RECEIVE, 0, &[(BUFFERS + ROOM, ROOM as u32, true)]);
        }
        self.driver.device.turn();
        let (index, _, length) = self.driver.used(RECEIVE);
        if std::mem::replace(&mut self.seen, index) == index {
            return None;
        }
        self.offered = false;
        let bytes = self.driver.bytes(BUFFERS + ROOM, length as usize);
        let (header, data) = Header::read_from_prefix(&bytes).unwrap();
        Some((header, data.to_vec()))
    }

    /// Returns all packets from the host: operations, and the concatenated data.
    fn take(&mut self) -> (Vec<Op>, Vec<u8>) {
        let (mut ops, mut all) = (Vec::new(), Vec::new());
        while let Some((header, data)) = self.receive() {
            ops.push(Op::from_code(header.op.get()).unwrap());
            all.extend(data);
        }
        (ops, all)
    }

    /// Opens a stream. Returns the board, the client and the stream's number.
    fn open() -> (Board, UnixStream, u32) {
        let (mut board, mut client) = Board::new();
        client.write_all(b"CONNECT 1\nearly").unwrap();
        let (header, _) = board.receive().unwrap();
        assert_eq!((header.op.get(), header.to_port.get()), (Op::Request as u16, 1));
        let number = header.from_port.get();
        assert_eq!(board.take(), (vec![], vec![]), "not before the kernel has said yes");
        board.send(Op::Response, number, &[], 0);
        let mut line = [0; 32];
        let read = client.read(&mut line).unwrap();
        assert_eq!(line[..read], *format!("OK {number}\n").as_bytes());
        assert_eq!(board.take(), (vec![Op::Data], b"early".to_vec()));
        (board, client, number)
    }
}

#[test]
fn a_client_names_a_port_and_then_its_socket_is_the_stream() {
    let (mut board, mut client, number) = Board::open();
    board.send(Op::Data, number, b"from the board", 5);
    let mut bytes = [0; 14];
    client.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"from the board");
    drop(client);
    assert_eq!(board.take().0, [Op::Shutdown]);
    board.send(Op::Data, number, b"without a reader", 5);
    assert_eq!(board.take().0, [Op::Reset]);
}

#[test]
fn the_host_sends_what_there_is_room_for_and_goes_on_when_there_is_more() {
    let (mut board, mut client, number) = Board::open();
    let writer = std::thread::spawn(move || {
        client.write_all(&[7; 3 * WINDOW as usize]).unwrap();
        client
    });
    let (mut got, mut told) = (5, 0);
    while got < 3 * WINDOW as usize + 5 {
        got += board.take().1.len();
        assert!(got - told <= WINDOW as usize);
        if got - told == WINDOW as usize || got == 3 * WINDOW as usize + 5 {
            told = got;
            board.send(Op::Credit, number, &[], told as u32);
        }
    }
    drop(writer.join().unwrap());
}

#[test]
fn what_the_kernel_wrote_before_it_ended_a_stream_arrives() {
    let (mut board, mut client, number) = Board::open();
    board.send(Op::Data, number, &[9; 4000], 5);
    board.shutdown(number);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, [9; 4000]);
    assert_eq!(board.take().0.last(), Some(&Op::Reset));
}

#[test]
fn nonsense_and_refusals_end_a_client_and_nothing_else() {
    for line in ["HELLO\n", "CONNECT x\n", "a line that is much too long to be a greeting\n"] {
        let (mut board, mut client) = Board::new();
        client.write_all(line.as_bytes()).unwrap();
        assert_eq!(board.take(), (vec![], vec![]));
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "{line}");
    }
    let (mut board, mut client) = Board::new();
    client.write_all(b"CONNECT 9\n").unwrap();
    let (header, _) = board.receive().unwrap();
    board.send_from(9, Op::Reset, header.from_port.get(), &[], 0);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    // For a stream that does not exist.
    board.send(Op::Data, 12345, b"x", 0);
    assert_eq!(board.take().0, [Op::Reset]);
    board.send(Op::Reset, 12345, &[], 0);
    assert_eq!(board.take().0, []);
}

#[test]
fn a_driver_that_begins_anew_is_asked_again() {
    let (mut board, mut client) = Board::new();
    client.write_all(b"CONNECT 1\n").unwrap();
    assert_eq!(board.take().0, [Op::Request]);
    board.driver.start();
    board.driver.available = [0; 2];
    (board.offered, board.seen) = (false, 0);
    assert_eq!(board.take().0, [Op::Request]);
}
