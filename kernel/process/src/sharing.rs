//! Functions on windows: memory that two processes share ([`crate::windows`]).

use crate::errno::{Done, Errno, Halt};
use crate::memory::{Bytes, GuestMemory};
use crate::process::Process;
use crate::system::System;
use crate::windows::{Role, Window};
use abi::channel::ChannelMessage;
use kernel_contract::Block;
use kernel_contract::exchange::LONGEST_BLOCK;

/// Bytes that are copied at once.
const COPIED: usize = 512;

/// Returns the block of a message that is sent as a window, with what the program has there.
fn copied(memory: &Bytes<'_>, system: &mut dyn System, from: [u32; 2]) -> Result<Block, Errno> {
    let [at, length] = from;
    let window = system.window(length as usize)?;
    let mut copy = [0; COPIED];
    for offset in (0..length as usize).step_by(COPIED) {
        memory.read(at + offset as u32, &mut copy)?;
        window.store(offset, &copy);
    }
    window.flush(0, length as usize);
    Ok(Block::shared(window))
}

impl Process {
    /// Sends a message whose block becomes a window. `send` sends it, with the block.
    pub(crate) fn send_window(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        message: &ChannelMessage,
        send: impl FnOnce(&mut GuestMemory<'_>, &mut dyn System, &mut Option<Block>) -> Done,
    ) -> Done {
        let from @ [_, length] = message.block;
        if length as usize > LONGEST_BLOCK {
            return Err(Errno::PROTO.into());
        }
        let id = self.windows.reserve(memory, system, from)?;
        let sent = copied(memory, system, from).map_err(Halt::from).and_then(|block| {
            let window = block.window().cloned();
            send(memory, system, &mut Some(block))?;
            // Cannot fail: it is reserved.
            let window = window.filter(|window| window.clone().show(id)).ok_or(Errno::IO)?;
            self.windows.settle(id, length, Role::Sent(window));
            Ok(())
        });
        if sent.is_err() {
            self.windows.end(system, id);
        }
        sent
    }

    /// Makes what the program has stored in a range of a window that it has sent visible to the
    /// receiver.
    pub fn window_flush(
        &self,
        _: &mut GuestMemory<'_>,
        _: &mut dyn System,
        at: u32,
        length: u32,
    ) -> Done {
        match self.windows.find(at, length) {
            Some((Role::Sent(window), offset)) => {
                window.flush(offset as usize, length as usize);
                Ok(())
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Makes a range of a window that was received show what the sender has made visible.
    pub fn window_refresh(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        at: u32,
        length: u32,
    ) -> Done {
        match self.windows.find(at, length) {
            // It is the sender's memory, and the message that said so came by way of a lock.
            Some((Role::Near(_), _)) => Ok(()),
            Some((Role::Far(name), offset)) => {
                memory.touch(at, length)?;
                let range = offset as usize..(offset + length) as usize;
                let block = system.copy_window(&name, range)??;
                block.each(|offset, piece| memory.store(at + offset as u32, piece))?;
                Ok(())
            }
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Ends the window that begins at an address. The program has zeros there afterwards, or, of
    /// one from another kernel, the last copy.
    pub fn window_close(&self, _: &mut GuestMemory<'_>, system: &mut dyn System, at: u32) -> Done {
        let is_it = |it: &Window| it.at == at && !matches!(it.role, Role::Reserved);
        self.windows.take(is_it).ok_or(Errno::INVAL)?.end(system);
        Ok(())
    }
}
