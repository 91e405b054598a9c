//! Safe wrappers of the system calls, and the only `unsafe` code of this crate.
//!
//! Every address that is passed to the system belongs to a slice or value that lives until the call
//! returns; the system keeps none.

#[cfg(not(target_os = "wasi"))]
pub use elsewhere::*;
#[cfg(target_os = "wasi")]
pub use {channel::*, wasi::*};

use crate::Errno;
use crate::layout::ChannelMessage;

/// A message to be sent; `ends` are descriptors.
#[cfg_attr(not(target_os = "wasi"), allow(dead_code, reason = "a host has no channels"))]
pub struct Outgoing<'a> {
    pub tag: u16,
    pub bytes: &'a [u8],
    /// Address and length of its block, with the flags of the message. After it was sent, zeros may
    /// be there.
    pub block: ([u32; 2], u16),
    pub ends: [u32; 2],
}

/// The result of a receiving call, and the message: lengths are those needed after `MSGSIZE`.
pub type Answered = (Result<(), Errno>, ChannelMessage);

#[cfg(target_os = "wasi")]
mod wasi {
    use crate::Errno;
    use crate::layout::{
        Ended, Event, Fdstat, Filestat, Identity, InheritedFile, Listed, SocketAddress, Spawn,
        Subscription,
    };

    mod penumbra {
        use crate::layout::{Ended, Identity, Listed, SocketAddress, Spawn};
        #[link(wasm_import_module = "penumbra")]
        unsafe extern "C" {
            pub fn spawn(what: *const Spawn, pid: *mut u32) -> u32;
            pub fn wait(pid: i32, flags: u32, ended: *mut Ended) -> u32;
            pub fn kill(pid: i32, signal: u32) -> u32;
            #[link_name = "move"]
            pub fn move_to(pid: u32, kernel: u32) -> u32;
            pub fn group(pid: u32, group: u32) -> u32;
            #[link_name = "self"]
            pub fn who(what: *mut Identity) -> u32;
            pub fn list(above: u32, buffer: *mut Listed, bytes: u32, used: *mut u32) -> u32;
            pub fn pipe(ends: *mut u32) -> u32;
            pub fn dup(descriptor: u32, new: *mut u32) -> u32;
            pub fn terminal(descriptor: u32, mode: u32, group: u32) -> u32;
            pub fn socket(family: u32, kind: u32, flags: u32, new: *mut u32) -> u32;
            pub fn bind(descriptor: u32, address: *const SocketAddress) -> u32;
            pub fn listen(descriptor: u32, backlog: u32) -> u32;
            pub fn connect(descriptor: u32, address: *const SocketAddress) -> u32;
            pub fn accept(
                descriptor: u32,
                flags: u32,
                address: *mut SocketAddress,
                new: *mut u32,
            ) -> u32;
            pub fn send_to(
                descriptor: u32,
                pieces: *const [u32; 2],
                count: u32,
                flags: u32,
                address: *const SocketAddress,
                sent: *mut u32,
            ) -> u32;
            pub fn recv_from(
                descriptor: u32,
                pieces: *const [u32; 2],
                count: u32,
                flags: u32,
                address: *mut SocketAddress,
                received: *mut u32,
                found: *mut u16,
            ) -> u32;
            pub fn local_address(descriptor: u32, address: *mut SocketAddress) -> u32;
            pub fn peer_address(descriptor: u32, address: *mut SocketAddress) -> u32;
            pub fn get_option(descriptor: u32, option: u32, value: *mut u32) -> u32;
            pub fn set_option(descriptor: u32, option: u32, value: u32) -> u32;
        }
    }

    unsafe extern "C" {
        /// Of the C library with threads (`sdk/libc/light.c`). Programs that do not call it are
        /// linked without it.
        fn penumbra_next_thread_is_light();
    }

    mod preview1 {
        use crate::layout::{Event, Fdstat, Filestat, Subscription};
        #[link(wasm_import_module = "wasi_snapshot_preview1")]
        unsafe extern "C" {
            pub fn sock_shutdown(fd: u32, how: u32) -> u32;
            pub fn fd_close(fd: u32) -> u32;
            pub fn fd_read(fd: u32, pieces: *const [u32; 2], count: u32, done: *mut u32) -> u32;
            pub fn fd_write(fd: u32, pieces: *const [u32; 2], count: u32, done: *mut u32) -> u32;
            pub fn fd_seek(fd: u32, offset: i64, whence: u32, position: *mut u64) -> u32;
            pub fn fd_fdstat_get(fd: u32, stat: *mut Fdstat) -> u32;
            pub fn fd_fdstat_set_flags(fd: u32, flags: u32) -> u32;
            pub fn fd_prestat_get(fd: u32, prestat: *mut [u32; 2]) -> u32;
            pub fn fd_prestat_dir_name(fd: u32, name: *mut u8, bytes: u32) -> u32;
            pub fn path_open(
                fd: u32,
                lookup: u32,
                path: *const u8,
                bytes: u32,
                how: u32,
                rights: u64,
                inheriting: u64,
                flags: u32,
                new: *mut u32,
            ) -> u32;
            pub fn path_filestat_get(
                fd: u32,
                lookup: u32,
                path: *const u8,
                bytes: u32,
                stat: *mut Filestat,
            ) -> u32;
            pub fn poll_oneoff(
                what: *const Subscription,
                events: *mut Event,
                count: u32,
                done: *mut u32,
            ) -> u32;
            pub fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
        }
    }

    /// Converts the result of a call. A number of more than 16 bits is not a WASI error and becomes
    /// `IO`.
    pub(super) fn check(number: u32) -> Result<(), Errno> {
        let number = u16::try_from(number).unwrap_or(Errno::IO.number());
        Errno::from_number(number).map_or(Ok(()), Err)
    }

    /// Returns the address of a slice and its number of elements, as the system expects them.
    pub fn place<T>(of: &[T]) -> [u32; 2] {
        [of.as_ptr() as usize as u32, of.len() as u32]
    }

    /// Starts a program. `kept` borrows everything that `what` points to, so that it lives until
    /// the call returns.
    pub fn spawn(what: &Spawn, kept: &[&[u8]], files: &[InheritedFile]) -> Result<u32, Errno> {
        let mut pid = 0;
        // SAFETY: `what` and `pid` are valid; `kept` and `files` borrow what `what` points to.
        let error = unsafe { penumbra::spawn(what, &mut pid) };
        let _ = (kept, files);
        check(error).map(|()| pid)
    }

    /// Waits for a child, as `waitpid` does.
    pub fn wait(pid: i32, flags: u32) -> Result<Ended, Errno> {
        let mut ended = Ended::default();
        // SAFETY: `ended` is valid for writes of its layout, of which every bit pattern is a value.
        check(unsafe { penumbra::wait(pid, flags, &mut ended) }).map(|()| ended)
    }

    /// Sends a signal.
    pub fn kill(pid: i32, signal: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { penumbra::kill(pid, signal) })
    }

    /// Moves a running process to another kernel.
    pub fn move_to(pid: u32, kernel: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { penumbra::move_to(pid, kernel) })
    }

    /// Changes the group of a process, as `setpgid` does.
    pub fn group(pid: u32, group: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { penumbra::group(pid, group) })
    }

    /// Returns the caller's identity.
    pub fn who() -> Result<Identity, Errno> {
        let mut what = Identity::default();
        // SAFETY: `what` is valid for writes, and every bit pattern of it is a value.
        check(unsafe { penumbra::who(&mut what) }).map(|()| what)
    }

    /// Lists processes with numbers above `above`. Returns how many entries of `room` were filled.
    pub fn list(above: u32, room: &mut [Listed]) -> Result<usize, Errno> {
        let (mut used, bytes) = (0, size_of_val(room) as u32);
        // SAFETY: `room` is valid for writes of `bytes` bytes, of which every pattern is a value.
        let error = unsafe { penumbra::list(above, room.as_mut_ptr(), bytes, &mut used) };
        check(error).map(|()| (used as usize / size_of::<Listed>()).min(room.len()))
    }

    /// Creates a pipe. Returns the read end and the write end.
    pub fn pipe() -> Result<[u32; 2], Errno> {
        let mut ends = [0; 2];
        // SAFETY: `ends` is valid for writes of two numbers.
        check(unsafe { penumbra::pipe(ends.as_mut_ptr()) }).map(|()| ends)
    }

    /// Duplicates a descriptor.
    pub fn dup(descriptor: u32) -> Result<u32, Errno> {
        let mut new = 0;
        // SAFETY: `new` is valid for writes.
        check(unsafe { penumbra::dup(descriptor, &mut new) }).map(|()| new)
    }

    /// Sets a terminal's mode and foreground group.
    pub fn terminal(descriptor: u32, mode: u32, group: u32) -> Result<(), Errno> {
        // SAFETY: nothing of this program's memory is read or written.
        check(unsafe { penumbra::terminal(descriptor, mode, group) })
    }

    /// Creates a socket of this kind.
    pub fn socket(family: u32, kind: u32) -> Result<u32, Errno> {
        let mut new = 0;
        // SAFETY: `new` is valid for writes.
        check(unsafe { penumbra::socket(family, kind, 0, &mut new) }).map(|()| new)
    }

    /// Gives a socket a local address.
    pub fn bind(descriptor: u32, address: &SocketAddress) -> Result<(), Errno> {
        // SAFETY: `address` is valid.
        check(unsafe { penumbra::bind(descriptor, address) })
    }

    /// Makes a socket accept connections.
    pub fn listen(descriptor: u32, backlog: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { penumbra::listen(descriptor, backlog) })
    }

    /// Connects a socket.
    pub fn connect(descriptor: u32, address: &SocketAddress) -> Result<(), Errno> {
        // SAFETY: `address` is valid.
        check(unsafe { penumbra::connect(descriptor, address) })
    }

    /// Takes a connection. Returns its descriptor and the peer's address.
    pub fn accept(descriptor: u32) -> Result<(u32, SocketAddress), Errno> {
        let (mut new, mut peer) = (0, SocketAddress::default());
        // SAFETY: `peer` and `new` are valid for writes, and every bit pattern of them is a value.
        let error = unsafe { penumbra::accept(descriptor, 0, &mut peer, &mut new) };
        check(error).map(|()| (new, peer))
    }

    /// Sends to an address, or to the peer. Returns how many bytes.
    pub fn send(descriptor: u32, data: &[u8], to: Option<&SocketAddress>) -> Result<usize, Errno> {
        let (piece, mut done) = (place(data), 0);
        let to = to.map_or(core::ptr::null(), |to| to as *const SocketAddress);
        // SAFETY: `piece` points to `data`, which is borrowed; `to` is valid or null; so is `done`.
        let error = unsafe { penumbra::send_to(descriptor, &piece, 1, 0, to, &mut done) };
        check(error).map(|()| (done as usize).min(data.len()))
    }

    /// Receives. Returns how many bytes, and the address of the sender.
    pub fn receive(
        descriptor: u32,
        into: &mut [u8],
        flags: u32,
    ) -> Result<(usize, SocketAddress), Errno> {
        let (piece, mut done, mut found) = (place(into), 0, 0);
        let mut from = SocketAddress::default();
        // SAFETY: `piece` points to `into`, which is borrowed for writes; the others are valid for
        // writes, and every bit pattern of them is a value.
        let error = unsafe {
            penumbra::recv_from(descriptor, &piece, 1, flags, &mut from, &mut done, &mut found)
        };
        check(error).map(|()| ((done as usize).min(into.len()), from))
    }

    /// Closes directions of a stream.
    pub fn shutdown(descriptor: u32, how: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { preview1::sock_shutdown(descriptor, how) })
    }

    /// Returns the address of a socket.
    pub fn local_address(descriptor: u32) -> Result<SocketAddress, Errno> {
        let mut address = SocketAddress::default();
        // SAFETY: `address` is valid for writes, and every bit pattern of it is a value.
        check(unsafe { penumbra::local_address(descriptor, &mut address) }).map(|()| address)
    }

    /// Returns the address of its peer.
    pub fn peer_address(descriptor: u32) -> Result<SocketAddress, Errno> {
        let mut address = SocketAddress::default();
        // SAFETY: `address` is valid for writes, and every bit pattern of it is a value.
        check(unsafe { penumbra::peer_address(descriptor, &mut address) }).map(|()| address)
    }

    /// Returns an option of a socket.
    pub fn get_option(descriptor: u32, option: u32) -> Result<u32, Errno> {
        let mut value = 0;
        // SAFETY: `value` is valid for writes.
        check(unsafe { penumbra::get_option(descriptor, option, &mut value) }).map(|()| value)
    }

    /// Changes an option of a socket.
    pub fn set_option(descriptor: u32, option: u32, value: u32) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { penumbra::set_option(descriptor, option, value) })
    }

    /// Makes the calling thread's next `pthread_create` create a light thread.
    pub fn next_thread_is_light() {
        // SAFETY: sets a thread-local variable of the C library.
        unsafe { penumbra_next_thread_is_light() }
    }

    /// Closes a descriptor.
    pub fn close(descriptor: u32) -> Result<(), Errno> {
        // SAFETY: a number only.
        check(unsafe { preview1::fd_close(descriptor) })
    }

    /// Reads at the position.
    pub fn read(descriptor: u32, into: &mut [u8]) -> Result<usize, Errno> {
        let (piece, mut done) = (place(into), 0);
        // SAFETY: `piece` points to `into`, which is borrowed for writes; `done` is valid.
        let error = unsafe { preview1::fd_read(descriptor, &piece, 1, &mut done) };
        check(error).map(|()| (done as usize).min(into.len()))
    }

    /// Writes at the position.
    pub fn write(descriptor: u32, data: &[u8]) -> Result<usize, Errno> {
        let (piece, mut done) = (place(data), 0);
        // SAFETY: `piece` points to `data`, which is borrowed; `done` is valid.
        let error = unsafe { preview1::fd_write(descriptor, &piece, 1, &mut done) };
        check(error).map(|()| (done as usize).min(data.len()))
    }

    /// Moves the position. Returns the new one.
    pub fn seek(descriptor: u32, offset: i64, whence: u32) -> Result<u64, Errno> {
        let mut position = 0;
        // SAFETY: `position` is valid for writes.
        let error = unsafe { preview1::fd_seek(descriptor, offset, whence, &mut position) };
        check(error).map(|()| position)
    }

    /// Returns the type, flags and rights of a descriptor.
    pub fn fdstat(descriptor: u32) -> Result<Fdstat, Errno> {
        let mut stat = Fdstat::default();
        // SAFETY: `stat` is valid for writes, and every bit pattern of it is a value.
        check(unsafe { preview1::fd_fdstat_get(descriptor, &mut stat) }).map(|()| stat)
    }

    /// Replaces a descriptor's flags.
    pub fn set_flags(descriptor: u32, flags: u16) -> Result<(), Errno> {
        // SAFETY: numbers only.
        check(unsafe { preview1::fd_fdstat_set_flags(descriptor, u32::from(flags)) })
    }

    /// Returns the length of a preopened directory's name.
    pub fn prestat(descriptor: u32) -> Result<usize, Errno> {
        let mut prestat = [0; 2];
        // SAFETY: `prestat` is valid for writes of its 8 bytes.
        let error = unsafe { preview1::fd_prestat_get(descriptor, &mut prestat) };
        check(error).map(|()| prestat[1] as usize)
    }

    /// Copies the name of a preopened directory.
    pub fn prestat_name(descriptor: u32, name: &mut [u8]) -> Result<(), Errno> {
        let bytes = name.len() as u32;
        // SAFETY: `name` is borrowed for writes of `bytes` bytes.
        let error = unsafe { preview1::fd_prestat_dir_name(descriptor, name.as_mut_ptr(), bytes) };
        check(error)
    }

    /// Opens a path. `rights` apply to the file and are inherited by what is opened through it.
    pub fn open(
        directory: u32,
        path: &str,
        how: u16,
        rights: [u64; 2],
        flags: u16,
    ) -> Result<u32, Errno> {
        let ([at, bytes], mut new) = (place(path.as_bytes()), 0);
        let (how, flags) = (u32::from(how), u32::from(flags));
        let (own, inheriting) = (rights[0], rights[1]);
        let at = at as usize as *const u8;
        // SAFETY: `at` and `bytes` are those of `path`, which is borrowed; `new` is valid.
        let error = unsafe {
            preview1::path_open(directory, 1, at, bytes, how, own, inheriting, flags, &mut new)
        };
        check(error).map(|()| new)
    }

    /// Returns the metadata of the file at a path.
    pub fn filestat(directory: u32, path: &str, follow: bool) -> Result<Filestat, Errno> {
        let ([at, bytes], mut stat) = (place(path.as_bytes()), Filestat::default());
        let (at, lookup) = (at as usize as *const u8, u32::from(follow));
        // SAFETY: `at` and `bytes` are those of `path`, which is borrowed; `stat` is valid for
        // writes, and every bit pattern of it is a value.
        let error = unsafe { preview1::path_filestat_get(directory, lookup, at, bytes, &mut stat) };
        check(error).map(|()| stat)
    }

    /// Waits until one of the subscriptions is ready. Returns how many of `events` were filled.
    pub fn poll(what: &[Subscription], events: &mut [Event]) -> Result<usize, Errno> {
        let count = what.len().min(events.len()) as u32;
        let mut done = 0;
        // SAFETY: both slices are borrowed and have at least `count` elements.
        let error =
            unsafe { preview1::poll_oneoff(what.as_ptr(), events.as_mut_ptr(), count, &mut done) };
        check(error).map(|()| (done as usize).min(events.len()))
    }

    /// Returns the time of a clock, in ns.
    pub fn clock(which: u32) -> Result<u64, Errno> {
        let mut time = 0;
        // SAFETY: `time` is valid for writes.
        check(unsafe { preview1::clock_time_get(which, 1, &mut time) }).map(|()| time)
    }
}

#[cfg(target_os = "wasi")]
mod channel;
#[cfg(not(target_os = "wasi"))]
mod elsewhere;
