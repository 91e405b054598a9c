//! The home of `unsafe`: mappings at fixed addresses, words of shared memory, processes, futexes,
//! the handler of page faults, and the allocator of the kernels.
//!
//! Addresses that come in are of mappings that [`crate::chip`] and [`crate::soc`] have made, and
//! one process has the turn at a time, so nothing here is accessed by two at once.

#![allow(unsafe_code, reason = "a home of unsafe: system calls and memory by address")]

use crate::layout::{HIGH, HIGH_END};
use arch::trap::TrapFrame;
use arch::types::{Access, Fault, Rights};
use kernel_node::memory::HEAP;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Set in a kernel's process once the kernel has its heap.
static IN_KERNEL: AtomicBool = AtomicBool::new(false);

/// The allocator of the process: a kernel's own, as shipped, once there is one.
struct Heap;

#[global_allocator]
static GLOBAL: Heap = Heap;

fn is_kernels(at: *mut u8) -> bool {
    (HIGH..HIGH_END).contains(&(at as u64))
}

// SAFETY: each arm is an allocator of its own, and an address tells which one it belongs to: only
// the kernel's are in the simulated memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match IN_KERNEL.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            true => unsafe { HEAP.alloc(layout) },
            // SAFETY: the caller's promise.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        match is_kernels(at) {
            // SAFETY: allocated there; the caller's promise.
            true if IN_KERNEL.load(Ordering::Relaxed) => unsafe { HEAP.dealloc(at, layout) },
            // A process that ends: what its kernel allocated goes with it.
            true => {}
            // SAFETY: allocated there; the caller's promise.
            false => unsafe { System.dealloc(at, layout) },
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match is_kernels(at) {
            // SAFETY: allocated there; the caller's promise.
            true => unsafe { HEAP.realloc(at, layout, size) },
            // SAFETY: allocated there; the caller's promise.
            false => unsafe { System.realloc(at, layout, size) },
        }
    }
}

/// From now on this process allocates from the kernel's heap; `false`: from the host's again.
pub fn use_kernels_heap(on: bool) {
    IN_KERNEL.store(on, Ordering::Relaxed);
}

fn checked(what: &str, at: *mut libc::c_void, wanted: u64) {
    if at == libc::MAP_FAILED || (wanted != 0 && at as u64 != wanted) {
        let why = std::io::Error::last_os_error();
        panic!("cannot map {what} at {wanted:#x}: {why}");
    }
}

/// Maps zeroed memory at `at`, in whole pages, shared with the processes that this one forks.
pub fn map(what: &str, at: u64, bytes: u64) {
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let flags = kind | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the simulation's addresses are its own: no allocator or library maps there.
    let got = unsafe { libc::mmap(at as *mut _, bytes as usize, rights, flags, -1, 0) };
    checked(what, got, at);
}

/// A file in memory, to map twice. It stays open until the process ends.
#[derive(Clone, Copy)]
pub struct File(i32);

impl File {
    pub fn new(bytes: u64) -> File {
        // SAFETY: a name that ends with NUL.
        let file = unsafe { libc::memfd_create(c"cache".as_ptr(), 0) };
        assert!(file >= 0, "no file in memory: {}", std::io::Error::last_os_error());
        let file = File(file);
        file.clear(bytes);
        file
    }

    /// Replaces the contents by zeroes.
    pub fn clear(&self, bytes: u64) {
        // SAFETY: a file of this process.
        let done = unsafe { libc::ftruncate(self.0, 0) | libc::ftruncate(self.0, bytes as i64) };
        assert_eq!(done, 0, "a file in memory cannot be cleared");
    }

    /// Maps it at `at`, without any right if `hidden`.
    pub fn map(&self, at: u64, bytes: u64, hidden: bool) {
        let rights = if hidden { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: as in `map`.
        let got = unsafe { libc::mmap(at as *mut _, bytes as usize, rights, flags, self.0, 0) };
        checked("a cache", got, at);
    }
}

/// Changes the rights to one page.
pub fn protect(at: u64, bytes: u64, rights: Option<Rights>) {
    let rights = match rights {
        None => libc::PROT_NONE,
        Some(Rights::ReadWrite) => libc::PROT_READ | libc::PROT_WRITE,
        Some(_) => libc::PROT_READ,
    };
    // SAFETY: a mapping of this simulation.
    let done = unsafe { libc::mprotect(at as *mut _, bytes as usize, rights) };
    assert_eq!(done, 0, "the rights of {at:#x} cannot be changed");
}

/// Loads a word of 4 or 8 bytes.
pub fn load(at: u64, bytes: usize) -> u64 {
    // SAFETY: mapped and aligned, by the contract of `arch::words`.
    unsafe {
        match bytes {
            4 => (at as *const u32).read_volatile().into(),
            _ => (at as *const u64).read_volatile(),
        }
    }
}

/// Stores a word of 4 or 8 bytes.
pub fn store(at: u64, bytes: usize, value: u64) {
    // SAFETY: as in `load`.
    unsafe {
        match bytes {
            4 => (at as *mut u32).write_volatile(value as u32),
            _ => (at as *mut u64).write_volatile(value),
        }
    }
}

/// Copies bytes between two mappings of the simulation.
pub fn copy(from: u64, to: u64, bytes: u64) {
    // SAFETY: both are mapped, and they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes as usize) };
}

/// Writes bytes into a mapping of the simulation.
pub fn write(to: u64, bytes: &[u8]) {
    copy(bytes.as_ptr() as u64, to, bytes.len() as u64);
}

/// Returns bytes of a mapping of the simulation.
pub fn read(from: u64, bytes: u64) -> Vec<u8> {
    let mut into = vec![0; bytes as usize];
    copy(from, into.as_mut_ptr() as u64, bytes);
    into
}

/// Returns the value at `at`, which is in shared memory and all zero at first.
pub fn shared<T: Sync>(at: u64) -> &'static T {
    // SAFETY: the caller has mapped it for good; `T` is made of atomics, valid when zero.
    unsafe { &*(at as *const T) }
}

/// Sleeps until `word` is not 0, and clears it. Returns false after a second.
pub fn take(word: &AtomicU32) -> bool {
    let until = std::time::Instant::now() + Duration::from_secs(1);
    while word.swap(0, Ordering::SeqCst) == 0 {
        if std::time::Instant::now() > until {
            return false;
        }
        let limit = libc::timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: the word and the limit are valid during the call.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, &raw const limit)
        };
    }
    true
}

/// Sets `word` and wakes the process that sleeps in [`take`].
pub fn give(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
    // SAFETY: a valid word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Forks: the child runs `run` and does not return. Returns its process id.
pub fn fork(run: impl FnOnce()) -> i32 {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a system call; the child must not outlive this process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            run();
            exit(0)
        }
        pid => {
            assert!(pid > 0, "cannot fork: {}", std::io::Error::last_os_error());
            pid
        }
    }
}

/// Kills a child and waits for its end.
pub fn kill(pid: i32) {
    // SAFETY: a child that has not been waited for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Returns the status of a child that has ended; with `wait`, waits for its end.
pub fn ended(pid: i32, wait: bool) -> Option<i32> {
    let mut status = 0;
    let flags = if wait { 0 } else { libc::WNOHANG };
    // SAFETY: the status is valid during the call.
    (unsafe { libc::waitpid(pid, &raw mut status, flags) } == pid).then_some(status)
}

/// Ends this process at once.
pub fn exit(status: i32) -> ! {
    // SAFETY: no code of this process needs to run at its end.
    unsafe { libc::_exit(status) }
}

/// Runs this process on one core of the host, so that a change of turn is cheap.
pub fn stay_on(cpu: usize) {
    // SAFETY: a set of one core, valid during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Writes to the log without allocating.
pub fn say(bytes: &[u8]) {
    // SAFETY: the bytes are valid during the call.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}

/// Passes page faults of this process to the kernel, on the stack that faulted.
pub fn catch_faults() {
    // SAFETY: the handler has the signature that SA_SIGINFO demands. It runs on the stack of the
    // interrupted thread, like a kernel's, and may be entered again.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Bit of the page fault's error code: a write.
const WRITE: i64 = 1 << 1;

extern "C" fn on_fault(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the host passes both, valid until the handler returns.
    let (address, registers) = unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        ((*info).si_addr() as u64, &mut context.uc_mcontext.gregs)
    };
    let is_write = registers[libc::REG_ERR as usize] & WRITE != 0;
    let access = if is_write { Access::Write } else { Access::Read };
    let [pc, sp] = [libc::REG_RIP, libc::REG_RSP].map(|register| register as usize);
    let mut frame = TrapFrame::at(registers[pc] as u64, registers[sp] as u64);
    if !arch::cpu::delivery::fault(&mut frame, Fault::Page { address, access, is_cached: false }) {
        say(b"a page fault before the kernel handles faults\n");
        exit(3);
    }
    registers[pc] = frame.pc() as i64;
    registers[sp] = frame.sp() as i64;
}

/// Bytes of a kernel stack; code with checks needs more than a board's.
const STACK: u64 = 1 << 20;

/// Allocates a stack with a guard page, outside the kernel's memory. Returns its top.
pub fn stack() -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, wherever the host puts it.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), STACK as usize, rights, flags, -1, 0) };
    checked("a stack", at, 0);
    protect(at as u64, 4096, None);
    at as usize + STACK as usize
}
