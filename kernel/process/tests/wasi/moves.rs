//! Processes that move to another kernel, with their sockets.

use crate::common::*;
use abi::net::TREE_HANDLES;
use kernel_process::Process;

/// More than half of what a tree can have.
const MANY: u32 = TREE_HANDLES / 2 + 100;
const NEW: u64 = 0x6200;

#[test]
fn a_process_moves_with_more_than_half_of_the_sockets_of_its_tree() {
    let mut program = Program::new();
    let before = program.process;
    program.world.tree = 7;
    program.process = Process::new(MANY + 4).unwrap();
    let sockets: Vec<u64> = (0..MANY)
        .map(|_| {
            program.ok("socket", &[1, 6, 0, NEW]);
            u64::from(program.u32(NEW))
        })
        .collect();
    program.ok("listen", &[sockets[0], 8]);
    let table = program.process.table().save().unwrap();
    // The other kernel takes the handles, then this one closes its own.
    program.world.kernel = 1;
    let parts = program.process.parts();
    let moved = Process::of_parts(&mut program.world, MANY + 4, &parts, &table).unwrap();
    program.world.kernel = 0;
    program.process.close_all(&mut program.world);
    program.world.kernel = 1;
    program.process = moved;
    assert_eq!(program.world.net.census()[0], sockets.len());
    assert_eq!(program.flags(sockets[0]).0, 6);
    for socket in sockets {
        program.ok("fd_close", &[socket]);
    }
    program.process = before;
    program.end();
}
