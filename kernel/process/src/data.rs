//! Reading, writing and positioning.

use crate::errno::{Done, Errno, Halt};
use crate::memory::{GuestMemory, SCRATCH};
use crate::object::Object;
use crate::process::Process;
use crate::system::{System, ask};
use crate::table::Descriptor;
use crate::transfer::{Channel, FileChannel, SocketChannel, Transfer, Until, Way, by_null};
use crate::wasi::{LAST_ADVICE, fdflags, rights, whence};
use abi::fs::{Op, Request, flag};

/// Returns the sync that the flags of a descriptor require before a read or after a write.
fn durable(descriptor: &Descriptor, reading: bool) -> Option<Op> {
    let syncs = descriptor.syncs;
    let wanted = !reading || syncs & fdflags::RSYNC != 0;
    match (wanted && descriptor.has_positions(), syncs & fdflags::SYNC, syncs & fdflags::DSYNC) {
        (true, 0, 0) | (false, ..) => None,
        (true, 0, _) => Some(Op::Datasync),
        (true, ..) => Some(Op::Sync),
    }
}

/// Makes all changes so far durable, without waiting for later ones.
fn sync(system: &mut dyn System, op: Op, handle: u64) -> Done {
    let begin = Request::new(op, handle);
    let reply = ask(system, begin, &mut [])?;
    begin.follow_up(&reply).map_or(Ok(()), |wait| ask(system, wait, &mut []).map(|_| ()))
}

impl Process {
    /// Reads or writes at the position.
    #[inline(always)]
    fn transfer(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        from: (Way, u32),
        list: (u32, u32, u32),
    ) -> Done {
        match self.move_single(memory, system, from, list) {
            Some(done) => done,
            None => self.move_list(memory, system, from, list),
        }
    }

    #[inline(never)]
    fn move_list(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        (way, fd): (Way, u32),
        list: (u32, u32, u32),
    ) -> Done {
        let descriptor = self.data(fd, way.right())?;
        match way {
            Way::In => self.read(memory, system, descriptor, list, None),
            Way::Out => self.write(memory, system, descriptor, list, None),
        }
    }

    /// Reads into a list of buffers, at the position or at an offset.
    fn read(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        descriptor: Descriptor,
        (list, count, done): (u32, u32, u32),
        offset: Option<u64>,
    ) -> Done {
        memory.check(done, 4)?;
        if descriptor.syncs != 0
            && let Some(op) = durable(&descriptor, true)
        {
            sync(system, op, descriptor.file()?)?;
        }
        let moved = match descriptor.object {
            Object::File(_) if descriptor.is_null => by_null(&memory.bytes, Way::In, list, count)?,
            Object::File(handle) => {
                let channel = FileChannel::new(Way::In, handle, offset);
                let until = Until::of(Way::In, !descriptor.has_positions());
                Transfer { channel, until, system }.run(memory, list, count)?
            }
            Object::Socket(_) => by_socket(memory, system, (Way::In, &descriptor), (list, count))?,
            Object::End(_) => return Err(Errno::NOTSUP.into()),
        };
        memory.store_u32(done, moved)?;
        Ok(())
    }

    /// Writes a message to the program's standard error, if it has one. Text that cannot be written
    /// is dropped.
    pub fn complain(&self, system: &mut dyn System, text: &mut [u8]) {
        let Ok(descriptor) = self.data(2, rights::FD_WRITE) else { return };
        let length = text.len().min(SCRATCH);
        let text = &mut text[..length];
        let _ = match descriptor.object {
            Object::File(handle) => FileChannel::new(Way::Out, handle, None).send_now(system, text),
            Object::Socket(_) => SocketChannel::new(Way::Out, &descriptor)
                .map_err(Halt::from)
                .and_then(|mut channel| {
                    channel.request.flags |= abi::net::flag::NONBLOCK;
                    channel.step(system, text, false).map(drop)
                }),
            Object::End(_) => return,
        };
    }

    /// Writes a list of buffers.
    fn write(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        descriptor: Descriptor,
        (list, count, done): (u32, u32, u32),
        offset: Option<u64>,
    ) -> Done {
        memory.check(done, 4)?;
        let moved = match descriptor.object {
            Object::File(_) if descriptor.is_null => by_null(&memory.bytes, Way::Out, list, count)?,
            Object::File(handle) => {
                let channel = FileChannel::new(Way::Out, handle, offset);
                let until = Until::of(Way::Out, !descriptor.has_positions());
                Transfer { channel, until, system: &mut *system }.run(memory, list, count)?
            }
            Object::Socket(_) => by_socket(memory, system, (Way::Out, &descriptor), (list, count))?,
            Object::End(_) => return Err(Errno::NOTSUP.into()),
        };
        if descriptor.syncs != 0
            && moved != 0
            && let Some(op) = durable(&descriptor, false)
        {
            sync(system, op, descriptor.file()?)?;
        }
        memory.store_u32(done, moved)?;
        Ok(())
    }

    #[inline]
    pub fn fd_read(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        nread: u32,
    ) -> Done {
        self.transfer(memory, system, (Way::In, fd), (iovs, count, nread))
    }

    /// Writes at the position, or at the end (APPEND).
    #[inline]
    pub fn fd_write(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        nwritten: u32,
    ) -> Done {
        self.transfer(memory, system, (Way::Out, fd), (iovs, count, nwritten))
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn fd_pread(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        offset: u64,
        nread: u32,
    ) -> Done {
        let descriptor = self.positioned(fd, rights::FD_READ | rights::FD_SEEK)?;
        self.read(memory, system, descriptor, (iovs, count, nread), Some(place(offset)?))
    }

    /// Writes at an offset, even with APPEND.
    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn fd_pwrite(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        offset: u64,
        nwritten: u32,
    ) -> Done {
        let descriptor = self.positioned(fd, rights::FD_WRITE | rights::FD_SEEK)?;
        self.write(memory, system, descriptor, (iovs, count, nwritten), Some(place(offset)?))
    }

    pub fn fd_seek(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        offset: u64,
        from: u32,
        position: u32,
    ) -> Done {
        let moves = offset != 0 || from != whence::CUR;
        let descriptor = self.positioned(fd, 0)?;
        if moves || descriptor.with(rights::FD_TELL).is_err() {
            descriptor.with(rights::FD_SEEK)?;
        }
        let flags = match from {
            whence::SET => 0,
            whence::CUR => flag::CURRENT,
            whence::END => flag::END,
            _ => return Err(Errno::INVAL.into()),
        };
        self.seek(memory, system, Request { flags, offset, ..seek(&descriptor)? }, position)
    }

    pub fn fd_tell(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        position: u32,
    ) -> Done {
        let descriptor = self.positioned(fd, 0)?;
        if descriptor.with(rights::FD_TELL).is_err() {
            descriptor.with(rights::FD_SEEK)?;
        }
        self.seek(memory, system, Request { flags: flag::CURRENT, ..seek(&descriptor)? }, position)
    }

    fn seek(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        request: Request,
        position: u32,
    ) -> Done {
        memory.check(position, 8)?;
        let reply = ask(system, request, &mut [])?;
        memory.store_u64(position, reply.value)?;
        Ok(())
    }

    /// Declares how a file will be used. No effect.
    pub fn fd_advise(
        &self,
        _memory: &mut GuestMemory<'_>,
        _system: &mut dyn System,
        fd: u32,
        offset: u64,
        length: u64,
        advice: u32,
    ) -> Done {
        self.positioned(fd, rights::FD_ADVISE)?;
        if advice > LAST_ADVICE || offset.checked_add(length).is_none() {
            return Err(Errno::INVAL.into());
        }
        Ok(())
    }

    /// Reserves space for a range, repeating the request until the file service has done all of it.
    pub fn fd_allocate(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        mut offset: u64,
        mut length: u64,
    ) -> Done {
        let descriptor = self.positioned(fd, rights::FD_ALLOCATE)?;
        if length == 0 {
            return Err(Errno::INVAL.into());
        }
        if offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Errno::FBIG.into());
        }
        while length != 0 {
            let request = Request::new(Op::Allocate, descriptor.file()?);
            let reply = ask(system, Request { offset, length, ..request }, &mut [])?;
            let done = reply.value.min(length);
            if done == 0 {
                return Err(Errno::IO.into());
            }
            (offset, length) = (offset.saturating_add(done), length - done);
        }
        Ok(())
    }

    pub fn fd_datasync(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
    ) -> Done {
        self.sync(system, fd, rights::FD_DATASYNC, Op::Datasync)
    }

    pub fn fd_sync(&self, _memory: &mut GuestMemory<'_>, system: &mut dyn System, fd: u32) -> Done {
        self.sync(system, fd, rights::FD_SYNC, Op::Sync)
    }

    fn sync(&self, system: &mut dyn System, fd: u32, right: u64, op: Op) -> Done {
        let descriptor = self.table.get(fd)?.with(right)?;
        sync(system, op, descriptor.file()?)
    }

    pub fn fd_filestat_set_size(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        size: u64,
    ) -> Done {
        let descriptor = self.data(fd, rights::FD_FILESTAT_SET_SIZE)?;
        let request = Request::new(Op::SetSize, descriptor.file()?);
        ask(system, Request { length: size, ..request }, &mut [])?;
        Ok(())
    }
}

/// Receives or sends a list of buffers.
#[inline(never)]
fn by_socket(
    memory: &mut GuestMemory<'_>,
    system: &mut dyn System,
    (way, descriptor): (Way, &Descriptor),
    (list, count): (u32, u32),
) -> Result<u32, Halt> {
    let channel = SocketChannel::new(way, descriptor)?;
    let until = channel.until();
    Transfer { channel, until, system }.run(memory, list, count)
}

fn seek(descriptor: &Descriptor) -> Result<Request, Errno> {
    Ok(Request::new(Op::Seek, descriptor.file()?))
}

/// Checks an offset in a file.
fn place(offset: u64) -> Result<u64, Halt> {
    if offset > i64::MAX as u64 { Err(Errno::INVAL.into()) } else { Ok(offset) }
}
