//! Several threads that accept, and descriptors that are scarce.

use crate::common::*;
use kernel_process::{Bytes, FUNCTIONS, GuestMemory, Process, Scratch};
use std::sync::Arc;

const AGAIN: u16 = 6;
const MFILE: u16 = 33;
const NEW: u64 = 0x6200;

/// Calls a function in a thread with this memory.
fn call(
    process: &Process,
    world: &mut World,
    memory: &mut [u8],
    name: &str,
    numbers: &[u64],
) -> u16 {
    let function = FUNCTIONS.iter().find(|function| function.name == name).unwrap();
    let mut scratch = Scratch::default();
    let mut memory = GuestMemory::new(Bytes::Own(memory), &mut scratch);
    (function.entry)(process, &mut memory, world, numbers).unwrap()
}

/// A process with a listener as descriptor 0, and room for as many others.
struct Server {
    process: Arc<Process>,
    world: World,
    memory: Vec<u8>,
    port: u16,
}

impl Server {
    fn new(room: u32) -> Server {
        let (process, world) = (Arc::new(Process::new(1 + room).unwrap()), World::new());
        let mut server = Server { process, world, memory: vec![0; MEMORY], port: 0 };
        assert_eq!(server.call("socket", &[1, 6, 0, NEW]), 0);
        assert_eq!(server.call("listen", &[0, 8]), 0);
        assert_eq!(server.call("local_address", &[0, NEW]), 0);
        let port = &server.memory[NEW as usize + 2..][..2];
        server.port = u16::from_le_bytes(port.try_into().unwrap());
        server
    }

    fn call(&mut self, name: &str, numbers: &[u64]) -> u16 {
        call(&self.process, &mut self.world, &mut self.memory, name, numbers)
    }

    fn new_number(&self) -> u8 {
        self.memory[NEW as usize]
    }

    /// Another process connects, and sends a byte.
    fn connect(&mut self, byte: u8) {
        let port = self.port;
        self.world.with_net(|c| {
            let near = c.connect(port).unwrap();
            c.send(near, &mut [byte]).unwrap();
        });
    }

    fn accept(&mut self) -> u16 {
        self.call("accept", &[0, 0, 0, NEW])
    }

    fn read(&mut self, fd: u64) -> u8 {
        let list = [BUFFER as u32, 1].map(u32::to_le_bytes).concat();
        self.memory[LIST as usize..][..8].copy_from_slice(&list);
        assert_eq!(self.call("fd_read", &[fd, LIST, 1, RESULT]), 0);
        self.memory[BUFFER as usize]
    }
}

#[test]
fn two_accepts_with_one_free_descriptor_lose_no_connection() {
    let mut server = Server::new(1);
    server.connect(b'a');
    server.connect(b'b');
    let process = server.process.clone();
    server.world.at_accept = Some(Box::new(move |world| {
        let memory = &mut vec![0; MEMORY];
        assert_eq!(call(&process, world, memory, "accept", &[0, 0, 0, NEW]), MFILE);
        // Nothing else gets the descriptor of the first accept.
        assert_eq!(call(&process, world, memory, "socket", &[1, 6, 0, NEW]), MFILE);
        assert_eq!(call(&process, world, memory, "fd_close", &[1]), BADF);
        assert_eq!(call(&process, world, memory, "fd_renumber", &[0, 1]), BADF);
    }));
    assert_eq!((server.accept(), server.new_number()), (0, 1));
    assert_eq!(server.read(1), b'a');
    assert_eq!(server.accept(), MFILE);
    assert_eq!(server.call("fd_close", &[1]), 0);
    assert_eq!((server.accept(), server.new_number()), (0, 1));
    assert_eq!(server.read(1), b'b');
}

#[test]
fn an_accept_that_fails_gives_its_descriptor_back() {
    let mut server = Server::new(1);
    for _ in 0..3 {
        assert_eq!(server.call("fd_fdstat_set_flags", &[0, 4]), 0);
        assert_eq!(server.accept(), AGAIN);
        assert_eq!(server.call("socket", &[1, 6, 0, NEW]), 0);
        assert_eq!((server.new_number(), server.accept()), (1, MFILE));
        assert_eq!(server.call("fd_close", &[1]), 0);
        // Nothing comes, and a signal ends the wait.
        assert_eq!(server.call("fd_fdstat_set_flags", &[0, 0]), 0);
        let entry = FUNCTIONS.iter().find(|function| function.name == "accept").unwrap().entry;
        let Server { process, world, memory, .. } = &mut server;
        let mut scratch = Scratch::default();
        let mut memory = GuestMemory::new(Bytes::Own(memory), &mut scratch);
        assert!(entry(process, &mut memory, world, &[0, 0, 0, NEW]).is_err());
        assert_eq!(process.table().count(), 1);
    }
}
