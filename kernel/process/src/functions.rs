//! The list of all functions that a program may import, stated once.
//!
//! `for_each_function` passes the list to a macro, from which an engine makes typed calls.
//! [`FUNCTIONS`] is the same list as data, and [`call`] calls a function by its index there.
//! Arguments are 32 or 64 bits wide, in the order of the import.

use crate::errno::{Errno, Stop, outcome};
use crate::memory::GuestMemory;
use crate::process::Process;
use crate::system::System;

pub const WASI: &str = "wasi_snapshot_preview1";

/// Calls `$with!` with the list. Its other arguments come first, in brackets:
///
/// ```text
/// for_each_function!(register, linker)  -->  register! { [linker]
///     wasi "fd_close" fd_close(fd: i32) -> i32;
///     ... }
/// ```
/// `wasi` or `own` is the module ([`WASI`], [`abi::program::MODULE`]), the string is the name of
/// the import, and the name after it is the method of [`Process`]. Methods take the memory, the
/// [`System`], and the arguments as unsigned numbers. Only `proc_exit` has no result, and does not
/// return.
#[macro_export]
macro_rules! for_each_function {
    ($with:ident $(, $more:tt)*) => { $with! { [$($more)*]
        wasi "args_get" args_get(table: i32, buffer: i32) -> i32;
        wasi "args_sizes_get" args_sizes_get(count: i32, bytes: i32) -> i32;
        wasi "environ_get" environ_get(table: i32, buffer: i32) -> i32;
        wasi "environ_sizes_get" environ_sizes_get(count: i32, bytes: i32) -> i32;
        wasi "clock_res_get" clock_res_get(id: i32, resolution: i32) -> i32;
        wasi "clock_time_get" clock_time_get(id: i32, precision: i64, time: i32) -> i32;
        wasi "fd_advise" fd_advise(fd: i32, offset: i64, length: i64, advice: i32) -> i32;
        wasi "fd_allocate" fd_allocate(fd: i32, offset: i64, length: i64) -> i32;
        wasi "fd_close" fd_close(fd: i32) -> i32;
        wasi "fd_datasync" fd_datasync(fd: i32) -> i32;
        wasi "fd_fdstat_get" fd_fdstat_get(fd: i32, stat: i32) -> i32;
        wasi "fd_fdstat_set_flags" fd_fdstat_set_flags(fd: i32, flags: i32) -> i32;
        wasi "fd_fdstat_set_rights"
            fd_fdstat_set_rights(fd: i32, base: i64, inheriting: i64) -> i32;
        wasi "fd_filestat_get" fd_filestat_get(fd: i32, stat: i32) -> i32;
        wasi "fd_filestat_set_size" fd_filestat_set_size(fd: i32, size: i64) -> i32;
        wasi "fd_filestat_set_times"
            fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, which: i32) -> i32;
        wasi "fd_pread"
            fd_pread(fd: i32, iovs: i32, count: i32, offset: i64, nread: i32) -> i32;
        wasi "fd_prestat_get" fd_prestat_get(fd: i32, stat: i32) -> i32;
        wasi "fd_prestat_dir_name" fd_prestat_dir_name(fd: i32, path: i32, length: i32) -> i32;
        wasi "fd_pwrite"
            fd_pwrite(fd: i32, iovs: i32, count: i32, offset: i64, nwritten: i32) -> i32;
        wasi "fd_read" fd_read(fd: i32, iovs: i32, count: i32, nread: i32) -> i32;
        wasi "fd_readdir"
            fd_readdir(fd: i32, buffer: i32, bytes: i32, cookie: i64, used: i32) -> i32;
        wasi "fd_renumber" fd_renumber(fd: i32, to: i32) -> i32;
        wasi "fd_seek" fd_seek(fd: i32, offset: i64, from: i32, position: i32) -> i32;
        wasi "fd_sync" fd_sync(fd: i32) -> i32;
        wasi "fd_tell" fd_tell(fd: i32, position: i32) -> i32;
        wasi "fd_write" fd_write(fd: i32, iovs: i32, count: i32, nwritten: i32) -> i32;
        wasi "path_create_directory"
            path_create_directory(fd: i32, path: i32, length: i32) -> i32;
        wasi "path_filestat_get"
            path_filestat_get(fd: i32, lookup: i32, path: i32, length: i32, stat: i32) -> i32;
        wasi "path_filestat_set_times"
            path_filestat_set_times(
                fd: i32, lookup: i32, path: i32, length: i32,
                accessed: i64, modified: i64, which: i32
            ) -> i32;
        wasi "path_link"
            path_link(
                old_fd: i32, lookup: i32, old: i32, old_length: i32,
                new_fd: i32, new: i32, new_length: i32
            ) -> i32;
        wasi "path_open"
            path_open(
                fd: i32, lookup: i32, path: i32, length: i32, how: i32,
                base: i64, inheriting: i64, flags: i32, opened: i32
            ) -> i32;
        wasi "path_readlink"
            path_readlink(
                fd: i32, path: i32, length: i32, buffer: i32, bytes: i32, used: i32
            ) -> i32;
        wasi "path_remove_directory"
            path_remove_directory(fd: i32, path: i32, length: i32) -> i32;
        wasi "path_rename"
            path_rename(
                fd: i32, old: i32, old_length: i32, new_fd: i32, new: i32, new_length: i32
            ) -> i32;
        wasi "path_symlink"
            path_symlink(old: i32, old_length: i32, fd: i32, new: i32, new_length: i32) -> i32;
        wasi "path_unlink_file" path_unlink_file(fd: i32, path: i32, length: i32) -> i32;
        wasi "poll_oneoff"
            poll_oneoff(subscriptions: i32, events: i32, count: i32, found: i32) -> i32;
        wasi "proc_exit" proc_exit(status: i32);
        wasi "proc_raise" proc_raise(number: i32) -> i32;
        wasi "random_get" random_get(buffer: i32, bytes: i32) -> i32;
        wasi "sched_yield" sched_yield() -> i32;
        wasi "sock_accept" sock_accept(fd: i32, flags: i32, accepted: i32) -> i32;
        wasi "sock_recv"
            sock_recv(
                fd: i32, iovs: i32, count: i32, flags: i32, received: i32, found: i32
            ) -> i32;
        wasi "sock_send"
            sock_send(fd: i32, iovs: i32, count: i32, flags: i32, sent: i32) -> i32;
        wasi "sock_shutdown" sock_shutdown(fd: i32, how: i32) -> i32;
        own "spawn" spawn(what: i32, pid: i32) -> i32;
        own "wait" wait(pid: i32, flags: i32, ended: i32) -> i32;
        own "kill" kill(pid: i32, signal: i32) -> i32;
        own "move" move_to(pid: i32, kernel: i32) -> i32;
        own "move_point" move_point() -> i32;
        own "group" group(pid: i32, group: i32) -> i32;
        own "self" who(what: i32) -> i32;
        own "list" list(above: i32, buffer: i32, bytes: i32, used: i32) -> i32;
        own "pipe" pipe(ends: i32) -> i32;
        own "dup" dup(fd: i32, new: i32) -> i32;
        own "terminal" terminal(fd: i32, mode: i32, group: i32) -> i32;
        own "socket" socket(family: i32, kind: i32, flags: i32, new: i32) -> i32;
        own "bind" bind(fd: i32, address: i32) -> i32;
        own "listen" listen(fd: i32, backlog: i32) -> i32;
        own "connect" connect(fd: i32, address: i32) -> i32;
        own "accept" accept(fd: i32, flags: i32, address: i32, new: i32) -> i32;
        own "send_to"
            send_to(
                fd: i32, iovs: i32, count: i32, flags: i32, address: i32, sent: i32
            ) -> i32;
        own "recv_from"
            recv_from(
                fd: i32, iovs: i32, count: i32, flags: i32, address: i32, received: i32, found: i32
            ) -> i32;
        own "local_address" local_address(fd: i32, address: i32) -> i32;
        own "peer_address" peer_address(fd: i32, address: i32) -> i32;
        own "get_option" get_option(fd: i32, option: i32, value: i32) -> i32;
        own "set_option" set_option(fd: i32, option: i32, value: i32) -> i32;
        own "channel" channel(contract: i32, bytes: i32, ends: i32) -> i32;
        own "channel_use"
            channel_use(fd: i32, contract: i32, bytes: i32, side: i32) -> i32;
        own "channel_send" channel_send(fd: i32, message: i32) -> i32;
        own "channel_receive" channel_receive(fd: i32, message: i32, flags: i32) -> i32;
        own "channel_call" channel_call(fd: i32, message: i32, reply: i32) -> i32;
        own "name_serve"
            name_serve(name: i32, length: i32, contract: i32, bytes: i32, door: i32) -> i32;
        own "name_connect"
            name_connect(
                name: i32, length: i32, contract: i32, bytes: i32, flags: i32, end: i32
            ) -> i32;
        own "window_flush" window_flush(at: i32, length: i32) -> i32;
        own "window_refresh" window_refresh(at: i32, length: i32) -> i32;
        own "window_close" window_close(at: i32) -> i32;
    } };
}

/// Type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    I32,
    I64,
}

/// Calls a function with its arguments; a 32-bit argument is in the lower half of its word.
pub type Entry = fn(&Process, &mut GuestMemory<'_>, &mut dyn System, &[u64]) -> Result<u16, Stop>;

#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub module: &'static str,
    /// Name of the import.
    pub name: &'static str,
    pub parameters: &'static [Type],
    /// It returns an error number (32 bits).
    pub result: bool,
    pub entry: Entry,
}

macro_rules! module {
    (wasi) => {
        WASI
    };
    (own) => {
        abi::program::MODULE
    };
}

macro_rules! size {
    (i32) => {
        Type::I32
    };
    (i64) => {
        Type::I64
    };
}

macro_rules! word {
    (i32, $value:expr) => {
        $value as u32
    };
    (i64, $value:expr) => {
        $value
    };
}

macro_rules! results {
    ($result:ident) => {
        true
    };
    () => {
        false
    };
}

macro_rules! functions {
    ([] $($module:ident $text:literal $name:ident($($arg:ident: $type:ident),*)
        $(-> $result:ident)?;)*) => {
        pub const FUNCTIONS: &[Function] = &[$(Function {
            module: module!($module),
            name: $text,
            parameters: &[$(size!($type)),*],
            result: results!($($result)?),
            entry: |process, memory, system, numbers| {
                let mut _numbers = numbers.iter().copied();
                $(let $arg = word!($type, _numbers.next().unwrap_or(0));)*
                outcome(process.$name(memory, system, $($arg),*))
            },
        },)*];
    };
}

for_each_function!(functions);

/// Calls the function with this index in [`FUNCTIONS`]. Missing arguments are 0; an invalid index
/// returns [`Errno::NOSYS`].
pub fn call(
    place: usize,
    process: &Process,
    memory: &mut GuestMemory<'_>,
    system: &mut dyn System,
    numbers: &[u64],
) -> Result<u16, Stop> {
    match FUNCTIONS.get(place) {
        Some(function) => (function.entry)(process, memory, system, numbers),
        None => Ok(Errno::NOSYS.0),
    }
}
