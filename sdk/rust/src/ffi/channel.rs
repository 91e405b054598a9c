//! The calls of channels. As in `ffi`, every address that is passed lives until the call returns.

use super::wasi::check;
use super::{Answered, Outgoing, place};
use crate::Errno;
use crate::channel::Block;
use crate::layout::{ChannelMessage, HAS_BLOCK, NO_END};

mod penumbra {
    use crate::layout::ChannelMessage;
    #[link(wasm_import_module = "penumbra")]
    unsafe extern "C" {
        pub fn channel(contract: *const u8, bytes: u32, ends: *mut u32) -> u32;
        pub fn channel_use(end: u32, contract: *const u8, bytes: u32, side: u32) -> u32;
        pub fn channel_send(end: u32, message: *const ChannelMessage) -> u32;
        pub fn channel_receive(end: u32, message: *mut ChannelMessage, flags: u32) -> u32;
        pub fn channel_call(
            end: u32,
            message: *const ChannelMessage,
            reply: *mut ChannelMessage,
        ) -> u32;
        pub fn window_flush(at: *const u8, length: u32) -> u32;
        pub fn window_refresh(at: *const u8, length: u32) -> u32;
        pub fn window_close(at: *const u8) -> u32;
        pub fn name_serve(
            name: *const u8,
            length: u32,
            contract: *const u8,
            bytes: u32,
            door: *mut u32,
        ) -> u32;
        pub fn name_connect(
            name: *const u8,
            length: u32,
            contract: *const u8,
            bytes: u32,
            flags: u32,
            end: *mut u32,
        ) -> u32;
    }
}

/// Creates a channel. Returns the client's end and the server's end.
pub fn channel(contract: &[u8]) -> Result<[u32; 2], Errno> {
    let (bytes, mut ends) = (contract.len() as u32, [0; 2]);
    // SAFETY: `contract` is borrowed; `ends` is valid for writes of two numbers.
    check(unsafe { penumbra::channel(contract.as_ptr(), bytes, ends.as_mut_ptr()) }).map(|()| ends)
}

/// Says by which contract an end is used, and as which side.
pub fn channel_use(end: u32, contract: &[u8], side: u32) -> Result<(), Errno> {
    let bytes = contract.len() as u32;
    // SAFETY: `contract` is borrowed.
    check(unsafe { penumbra::channel_use(end, contract.as_ptr(), bytes, side) })
}

/// Serves a name. Returns the door, at which new channels arrive.
pub fn name_serve(name: &str, contract: &[u8]) -> Result<u32, Errno> {
    let (length, bytes, mut door) = (name.len() as u32, contract.len() as u32, 0);
    // SAFETY: `name` and `contract` are borrowed; `door` is valid for writes.
    check(unsafe {
        penumbra::name_serve(name.as_ptr(), length, contract.as_ptr(), bytes, &mut door)
    })
    .map(|()| door)
}

/// Connects to the program that serves a name. Returns the client's end.
pub fn name_connect(name: &str, contract: &[u8], flags: u32) -> Result<u32, Errno> {
    let (length, bytes, mut end) = (name.len() as u32, contract.len() as u32, 0);
    // SAFETY: `name` and `contract` are borrowed; `end` is valid for writes.
    check(unsafe {
        penumbra::name_connect(name.as_ptr(), length, contract.as_ptr(), bytes, flags, &mut end)
    })
    .map(|()| end)
}

/// Sends a message.
pub fn channel_send(end: u32, outgoing: &Outgoing<'_>) -> Result<(), Errno> {
    let message = described(outgoing);
    // SAFETY: `message` points to what `outgoing` borrows.
    check(unsafe { penumbra::channel_send(end, &message) })
}

/// Receives a message: its fields into `bytes`, its block into the room of `block`.
pub fn channel_receive(end: u32, bytes: &mut [u8], block: &mut Block, flags: u32) -> Answered {
    let mut message = room(bytes, block);
    // SAFETY: `message` points to `bytes` and the room of `block`, borrowed for writes.
    let error = unsafe { penumbra::channel_receive(end, &mut message, flags) };
    answered(error, message, bytes, block)
}

/// Sends a message, then receives one.
pub fn channel_call(
    end: u32,
    outgoing: &Outgoing<'_>,
    bytes: &mut [u8],
    block: &mut Block,
) -> Answered {
    let (message, mut reply) = (described(outgoing), room(bytes, block));
    // SAFETY: `message` points to what `outgoing` borrows, `reply` to `bytes` and the room
    // of `block`, borrowed for writes.
    let error = unsafe { penumbra::channel_call(end, &message, &mut reply) };
    answered(error, reply, bytes, block)
}

/// Makes stores to a window visible to its receiver.
pub fn window_flush(at: *const u8, length: u32) -> Result<(), Errno> {
    // SAFETY: the system accesses windows of the program only.
    check(unsafe { penumbra::window_flush(at, length) })
}

/// Makes a range of a window show what its sender has made visible.
pub fn window_refresh(at: *const u8, length: u32) -> Result<(), Errno> {
    // SAFETY: the system accesses windows of the program only, to whose bytes nothing refers.
    check(unsafe { penumbra::window_refresh(at, length) })
}

/// Ends a window.
pub fn window_close(at: *const u8) -> Result<(), Errno> {
    // SAFETY: as above.
    check(unsafe { penumbra::window_close(at) })
}

fn described(outgoing: &Outgoing<'_>) -> ChannelMessage {
    let (bytes, ends, tag) = (place(outgoing.bytes), outgoing.ends, outgoing.tag);
    let (block, flags) = outgoing.block;
    ChannelMessage { bytes, block, ends, tag, flags, reserved: 0 }
}

fn room(bytes: &mut [u8], block: &mut Block) -> ChannelMessage {
    let (at, length) = block.room();
    let block = [at as usize as u32, length as u32];
    ChannelMessage { bytes: place(bytes), block, ends: [NO_END; 2], ..Default::default() }
}

fn answered(error: u32, mut message: ChannelMessage, bytes: &[u8], block: &mut Block) -> Answered {
    let result = check(error);
    if result.is_ok() {
        message.bytes[1] = message.bytes[1].min(bytes.len() as u32);
        let length = (message.block[1] as usize).min(block.room().1);
        let has_block = message.flags & HAS_BLOCK != 0;
        // SAFETY: the system has written this many bytes, and not more than there is room for.
        unsafe { block.set_len(if has_block { length } else { 0 }) };
    }
    (result, message)
}
