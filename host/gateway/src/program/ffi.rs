//! libslirp, the TCP/IP of QEMU's user network, behind safe functions. The only home of `unsafe` in
//! this crate.
//!
//! Rules that the unsafe code relies on:
//! - **One thread.** [`Slirp`] is neither `Send` nor `Sync`, because it has a raw pointer. libslirp
//!   calls back only from within our calls, on their thread.
//! - **[`State`] is only shared.** Callbacks get a pointer to it that lives as long as libslirp's
//!   context. They borrow its cells for one statement, and call nothing meanwhile.
//! - **Layouts are those of SlirpConfig version 1** (libslirp 4.0) and of the callbacks of that
//!   version. A library of the same soname reads no more of either when it is given version 1.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{listen, sockopt};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The version of [`Config`].
const VERSION: u32 = 1;
/// Frames that wait for [`Slirp::next`]; more are lost, as in a full queue of a switch.
const FRAMES: usize = 1024;

/// Families of addresses, as Linux numbers them.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Flags of published ports: datagrams; a socket of IPv6 that leaves the port of IPv4 alone.
const FORWARD_UDP: c_int = 1;
const FORWARD_V6ONLY: c_int = 2;

/// Clients that may connect to a published port at the same time.
const BACKLOG: i32 = 128;

/// libslirp's flags, and those of poll.
const EVENTS: [(c_int, PollFlags); 5] = [
    (1, PollFlags::IN),
    (2, PollFlags::OUT),
    (4, PollFlags::PRI),
    (8, PollFlags::ERR),
    (16, PollFlags::HUP),
];

/// The network that libslirp makes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The chip, which DHCP would assign.
    pub chip: Ipv4Addr,
    pub network: Ipv4Addr,
    pub mask: Ipv4Addr,
    /// This host: its loopback.
    pub host: Ipv4Addr,
    /// Forwards to the host's DNS server.
    pub names: Ipv4Addr,
    pub network6: Ipv6Addr,
    pub prefix6: u8,
    pub host6: Ipv6Addr,
    pub names6: Ipv6Addr,
}

/// `struct in_addr`: network byte order.
#[repr(C)]
#[derive(Clone, Copy)]
struct Address(u32);

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Address {
        Address(u32::from_ne_bytes(address.octets()))
    }
}

/// `struct in6_addr`.
#[repr(C, align(4))]
#[derive(Clone, Copy)]
struct Address6([u8; 16]);

/// `struct sockaddr_in` or `struct sockaddr_in6`, with its length.
#[repr(C, align(8))]
struct Name {
    bytes: [u8; 28],
    length: u32,
}

impl From<SocketAddr> for Name {
    fn from(from: SocketAddr) -> Name {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&from.port().to_be_bytes());
        let (family, length) = match from {
            SocketAddr::V4(v4) => {
                bytes[4..8].copy_from_slice(&v4.ip().octets());
                (AF_INET, 16)
            }
            SocketAddr::V6(v6) => {
                bytes[8..24].copy_from_slice(&v6.ip().octets());
                (AF_INET6, 28)
            }
        };
        bytes[..2].copy_from_slice(&family.to_ne_bytes());
        Name { bytes, length }
    }
}

/// `SlirpConfig`, version 1.
#[repr(C)]
struct Config {
    version: u32,
    restricted: c_int,
    in_enabled: bool,
    vnetwork: Address,
    vnetmask: Address,
    vhost: Address,
    in6_enabled: bool,
    vprefix_addr6: Address6,
    vprefix_len: u8,
    vhost6: Address6,
    vhostname: *const c_char,
    tftp_server_name: *const c_char,
    tftp_path: *const c_char,
    bootfile: *const c_char,
    vdhcp_start: Address,
    vnameserver: Address,
    vnameserver6: Address6,
    vdnssearch: *const *const c_char,
    vdomainname: *const c_char,
    if_mtu: usize,
    if_mru: usize,
    disable_host_loopback: bool,
    enable_emu: bool,
}

/// `SlirpCb` as of version 1.
#[repr(C)]
struct Callbacks {
    send_packet: extern "C" fn(*const c_void, usize, *mut c_void) -> isize,
    guest_error: extern "C" fn(*const c_char, *mut c_void),
    clock_get_ns: extern "C" fn(*mut c_void) -> i64,
    timer_new: extern "C" fn(*const c_void, *mut c_void, *mut c_void) -> *mut c_void,
    timer_free: extern "C" fn(*mut c_void, *mut c_void),
    timer_mod: extern "C" fn(*mut c_void, i64, *mut c_void),
    register_poll_fd: extern "C" fn(c_int, *mut c_void),
    unregister_poll_fd: extern "C" fn(c_int, *mut c_void),
    notify: extern "C" fn(*mut c_void),
}

#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

type AddPoll = extern "C" fn(c_int, c_int, *mut c_void) -> c_int;
type GetEvents = extern "C" fn(c_int, *mut c_void) -> c_int;

// By the name of the library itself: QEMU's packages bring that, and not the one for compilers.
#[link(name = "libslirp.so.0", kind = "dylib", modifiers = "+verbatim")]
// SAFETY: as libslirp.h declares them.
unsafe extern "C" {
    fn slirp_new(
        config: *const Config,
        callbacks: *const Callbacks,
        own: *mut c_void,
    ) -> *mut Context;
    fn slirp_cleanup(context: *mut Context);
    fn slirp_input(context: *mut Context, frame: *const u8, length: c_int);
    fn slirp_pollfds_fill(context: *mut Context, ms: *mut u32, add: AddPoll, own: *mut c_void);
    fn slirp_pollfds_poll(context: *mut Context, failed: c_int, get: GetEvents, own: *mut c_void);
    fn slirp_add_hostxfwd(
        context: *mut Context,
        host: *const u8,
        host_length: u32,
        guest: *const u8,
        guest_length: u32,
        flags: c_int,
    ) -> c_int;
    fn slirp_remove_hostxfwd(
        context: *mut Context,
        host: *const u8,
        host_length: u32,
        flags: c_int,
    ) -> c_int;
}

static CALLBACKS: Callbacks = Callbacks {
    send_packet,
    guest_error,
    clock_get_ns,
    timer_new,
    timer_free,
    timer_mod,
    register_poll_fd: ignore_fd,
    unregister_poll_fd: ignore_fd,
    notify,
};

/// What the callbacks use.
struct State {
    start: Instant,
    frames: RefCell<VecDeque<Vec<u8>>>,
}

/// Returns the state.
///
/// # Safety
/// `own` is what [`Slirp::new`] gave to libslirp, and the context lives.
unsafe fn state<'a>(own: *mut c_void) -> &'a State {
    // SAFETY: the caller's promise; [`Slirp`] keeps the state for as long, and only shares it.
    unsafe { &*own.cast::<State>() }
}

extern "C" fn send_packet(frame: *const c_void, length: usize, own: *mut c_void) -> isize {
    // SAFETY: libslirp gives us a frame of that length for the time of this call.
    let frame = unsafe { std::slice::from_raw_parts(frame.cast::<u8>(), length) };
    // SAFETY: `own` is ours.
    let mut frames = unsafe { state(own) }.frames.borrow_mut();
    if frames.len() < FRAMES {
        frames.push_back(frame.to_vec());
    }
    length as isize
}

extern "C" fn guest_error(text: *const c_char, _own: *mut c_void) {
    // SAFETY: a C string for the time of this call.
    let text = unsafe { CStr::from_ptr(text) };
    eprintln!("gateway: the chip: {}", text.to_string_lossy());
}

extern "C" fn clock_get_ns(own: *mut c_void) -> i64 {
    // SAFETY: `own` is ours.
    let start = unsafe { state(own) }.start;
    i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX)
}

/// The only timer would send router advertisements now and then. The chip has fixed addresses, and
/// each advertisement would end its rest, so the timer never expires.
extern "C" fn timer_new(_: *const c_void, _: *mut c_void, _: *mut c_void) -> *mut c_void {
    NonNull::dangling().as_ptr()
}

extern "C" fn timer_free(_timer: *mut c_void, _own: *mut c_void) {}

extern "C" fn timer_mod(_timer: *mut c_void, _at: i64, _own: *mut c_void) {}

extern "C" fn ignore_fd(_fd: c_int, _own: *mut c_void) {}

/// The loop looks at everything after each call anyway.
extern "C" fn notify(_own: *mut c_void) {}

extern "C" fn add_poll(fd: c_int, events: c_int, own: *mut c_void) -> c_int {
    // SAFETY: the list of `wait`, which nothing else uses during its call of libslirp.
    let list = unsafe { &mut *own.cast::<Vec<(c_int, c_int)>>() };
    list.push((fd, events));
    list.len() as c_int - 1
}

extern "C" fn get_events(index: c_int, own: *mut c_void) -> c_int {
    // SAFETY: as in `add_poll`.
    let list = unsafe { &*own.cast::<Vec<(c_int, c_int)>>() };
    usize::try_from(index).ok().and_then(|index| list.get(index)).map_or(0, |(_, events)| *events)
}

fn to_poll(events: c_int) -> PollFlags {
    EVENTS.iter().filter(|(bit, _)| events & bit != 0).map(|(_, flag)| *flag).collect()
}

fn from_poll(flags: PollFlags) -> c_int {
    EVENTS.iter().filter(|(_, flag)| flags.contains(*flag)).fold(0, |all, (bit, _)| all | bit)
}

/// A TCP/IP stack between frames and sockets of the host.
pub struct Slirp {
    context: NonNull<Context>,
    state: Rc<State>,
}

impl Slirp {
    /// Makes a network; `None` if libslirp refuses.
    pub fn new(settings: &Settings) -> Option<Slirp> {
        let config = Config {
            version: VERSION,
            restricted: 0,
            in_enabled: true,
            vnetwork: settings.network.into(),
            vnetmask: settings.mask.into(),
            vhost: settings.host.into(),
            in6_enabled: true,
            vprefix_addr6: Address6(settings.network6.octets()),
            vprefix_len: settings.prefix6,
            vhost6: Address6(settings.host6.octets()),
            vhostname: null(),
            tftp_server_name: null(),
            tftp_path: null(),
            bootfile: null(),
            vdhcp_start: settings.chip.into(),
            vnameserver: settings.names.into(),
            vnameserver6: Address6(settings.names6.octets()),
            vdnssearch: null(),
            vdomainname: null(),
            // 0: Ethernet's.
            if_mtu: 0,
            if_mru: 0,
            disable_host_loopback: false,
            enable_emu: false,
        };
        let state = Rc::new(State { start: Instant::now(), frames: RefCell::default() });
        let own = Rc::as_ptr(&state).cast_mut().cast();
        // SAFETY: `config` is read during the call; callbacks and state outlive the context.
        let context = unsafe { slirp_new(&config, &CALLBACKS, own) };
        Some(Slirp { context: NonNull::new(context)?, state })
    }

    /// Receives a frame of the chip.
    pub fn input(&mut self, frame: &[u8]) {
        let Ok(length) = c_int::try_from(frame.len()) else { return };
        // SAFETY: the context lives, and libslirp copies the frame.
        unsafe { slirp_input(self.context.as_ptr(), frame.as_ptr(), length) };
    }

    /// Returns the next frame for the chip.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        self.state.frames.borrow_mut().pop_front()
    }

    /// Waits for the sockets of the network and for `more`, at most for `most`, and moves data of
    /// the sockets.
    pub fn wait(
        &mut self,
        more: &[(BorrowedFd<'_>, PollFlags)],
        most: Duration,
    ) -> std::io::Result<()> {
        let mut ms = u32::try_from(most.as_millis()).unwrap_or(u32::MAX);
        let mut sockets = self.sockets(&mut ms);
        let open = |fd: c_int| {
            // SAFETY: libslirp has just named this open socket of its own, and closes none before
            // we call it again.
            unsafe { BorrowedFd::borrow_raw(fd) }
        };
        let theirs = sockets.iter().map(|&(fd, events)| (open(fd), to_poll(events)));
        let (happened, result) = wait(theirs.chain(more.iter().copied()), ms);
        for (socket, flags) in sockets.iter_mut().zip(&happened) {
            socket.1 = from_poll(*flags);
        }
        let (failed, own) = (c_int::from(result.is_err()), (&raw mut sockets).cast());
        // SAFETY: as above, with `get_events`.
        unsafe { slirp_pollfds_poll(self.context.as_ptr(), failed, get_events, own) };
        result
    }

    /// Publishes `guest` at `host`, of the same family.
    pub fn add(
        &mut self,
        is_udp: bool,
        host: SocketAddr,
        guest: SocketAddr,
    ) -> std::io::Result<()> {
        let (from, to) = (Name::from(host), Name::from(guest));
        let (flags, context) = (flags(is_udp, host), self.context.as_ptr());
        // SAFETY: the context lives; libslirp reads so many bytes of the two addresses, which have
        // the layout of Linux's structures, during the call.
        let result = unsafe {
            slirp_add_hostxfwd(
                context,
                from.bytes.as_ptr(),
                from.length,
                to.bytes.as_ptr(),
                to.length,
                flags,
            )
        };
        if result != 0 {
            return Err(std::io::Error::last_os_error());
        }
        self.lengthen_backlogs();
        Ok(())
    }

    /// Lets more than the one client of libslirp's backlog connect at the same time.
    fn lengthen_backlogs(&mut self) {
        for (fd, _) in self.sockets(&mut 0) {
            // SAFETY: as in `wait`.
            let socket = unsafe { BorrowedFd::borrow_raw(fd) };
            if sockopt::socket_acceptconn(socket).unwrap_or(false) {
                // At worst it stays as short as it is.
                let _ = listen(socket, BACKLOG);
            }
        }
    }

    /// Returns the sockets of the network, and what each waits for; lowers `ms` to the time of
    /// libslirp's next timer.
    fn sockets(&mut self, ms: &mut u32) -> Vec<(c_int, c_int)> {
        let mut sockets: Vec<(c_int, c_int)> = Vec::new();
        let own = (&raw mut sockets).cast();
        // SAFETY: the context lives; `add_poll` gets the list, which lives during the call.
        unsafe { slirp_pollfds_fill(self.context.as_ptr(), ms, add_poll, own) };
        sockets
    }

    /// Publishes nothing at `host` any more. Returns whether there was something.
    pub fn remove(&mut self, is_udp: bool, host: SocketAddr) -> bool {
        let (from, flags) = (Name::from(host), flags(is_udp, host));
        let context = self.context.as_ptr();
        // SAFETY: as in `add`.
        unsafe { slirp_remove_hostxfwd(context, from.bytes.as_ptr(), from.length, flags) == 0 }
    }
}

impl Drop for Slirp {
    fn drop(&mut self) {
        // SAFETY: the context lives, and this is its last use; the state is dropped after it.
        unsafe { slirp_cleanup(self.context.as_ptr()) };
    }
}

fn flags(is_udp: bool, host: SocketAddr) -> c_int {
    let udp = if is_udp { FORWARD_UDP } else { 0 };
    udp | if host.is_ipv6() { FORWARD_V6ONLY } else { 0 }
}

/// Waits for `all`, at most `ms` milliseconds. Returns what has happened to each.
pub fn wait<'fd>(
    all: impl Iterator<Item = (BorrowedFd<'fd>, PollFlags)>,
    ms: u32,
) -> (Vec<PollFlags>, std::io::Result<()>) {
    let mut all: Vec<PollFd<'_>> =
        all.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    let time = Timespec { tv_sec: (ms / 1000).into(), tv_nsec: i64::from(ms % 1000) * 1_000_000 };
    let result = match poll(&mut all, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    };
    (all.iter().map(PollFd::revents).collect(), result)
}
