//! A program that has nothing to do with the others: a connection and a pair of UDP sockets on
//! loopback, whose every byte arrives, at once and in order.

use super::board::Board;
use abi::net::{Errno, LOCALHOST, Op, Reply, Request};
use base::prng::Prng;

/// The process tree of the bystander, which no other program belongs to.
const TREE: u32 = 9;

pub struct Bystander {
    /// The two ends of the connection, and the two UDP sockets.
    pub handles: Vec<u64>,
    random: Prng,
}

fn open(board: &mut Board<'_>, op: Op) -> Result<u64, Errno> {
    let request = Request { tree: TREE, ..Request::new(op, 0) };
    board.ask(request, &mut []).map(|reply| reply.handle)
}

fn connect(board: &mut Board<'_>, handle: u64, port: u16) -> Result<Reply, Errno> {
    let request = Request { address: LOCALHOST, port, ..Request::new(Op::Connect, handle) };
    board.ask(request, &mut [])
}

/// Makes a connection; returns both ends.
pub fn connection(board: &mut Board<'_>) -> Result<[u64; 2], Errno> {
    let listener = open(board, Op::Tcp)?;
    let port = board.ask(Request::new(Op::Listen, listener), &mut [])?.port;
    let near = open(board, Op::Tcp)?;
    connect(board, near, port)?;
    let accept = Request { tree: TREE, ..Request::new(Op::Accept, listener) };
    let far = board.ask(accept, &mut [])?.handle;
    board.ask(Request::new(Op::Close, listener), &mut [])?;
    Ok([near, far])
}

impl Bystander {
    pub fn new(board: &mut Board<'_>) -> Result<Bystander, Errno> {
        let mut handles = connection(board)?.to_vec();
        let pair = [open(board, Op::Udp)?, open(board, Op::Udp)?];
        let mut ports = [0; 2];
        for (port, &handle) in ports.iter_mut().zip(&pair) {
            let bind = Request { address: LOCALHOST, ..Request::new(Op::Bind, handle) };
            *port = board.ask(bind, &mut [])?.port;
        }
        connect(board, pair[0], ports[1])?;
        connect(board, pair[1], ports[0])?;
        handles.extend(pair);
        Ok(Bystander { handles, random: Prng::new(1) })
    }

    /// Sends in all four directions and compares what arrives. `changes`: as if a byte changed.
    pub fn exchange(&mut self, board: &mut Board<'_>, changes: bool) {
        for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
            let (from, to) = (self.handles[from], self.handles[to]);
            let length = 1 + self.random.below(1400) as usize;
            let sent: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
            // What others send to a receiver of datagrams is refused before it wakes.
            let waiting = receive(board, to);
            assert_eq!(waiting.err(), Some(Errno::Again), "there is something already");
            let send = Request { length: length as u32, ..Request::new(Op::Send, from) };
            let reply = board.ask(send, &mut sent.clone()).map(|reply| reply.value as usize);
            assert_eq!(reply, Ok(length), "a bystander could not send");
            let mut received = receive(board, to).unwrap_or_else(|why| panic!("nothing: {why:?}"));
            received[0] ^= u8::from(changes);
            assert!(sent == received, "other bytes arrived at a bystander");
        }
    }
}

fn receive(board: &mut Board<'_>, handle: u64) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 1472];
    let request = Request { length: 1472, ..Request::new(Op::Receive, handle) };
    let filled = board.ask(request, &mut bytes)?.filled;
    bytes.truncate(filled as usize);
    Ok(bytes)
}
