//! Light threads (docs/design/light-threads.md): where they begin and end, on both kernels.
//!
//! ```text
//!   strong kernel                                            weak kernel
//!     prepare: the turn of a process, if its program may start light threads
//!     begin ---- BeginLight: book, open program -------->  begin_here: a satellite of the
//!                                                             process, with its light threads
//!     keep <---- notices: [`crate::lights::turn`] ---------> keep
//!     end_for_all <------- ENDED: exit, trap --------------- end_program
//!     finish --- EndLight --------------------------------->  end_here: no thread is left
//! ```
//! Contract: frames of a process are freed when neither kernel has one mapped. `finish` unmaps them
//! here, then waits for the other kernel; if that one has died, nothing of it remains ([`forget`]
//! frees its blocks).

use super::start::Startup;
use super::threads::{self, Thread, Threads};
use super::{Ids, LocalProcess, Processes, Running, ends, forget, turns};
use crate::lights::list;
use crate::lights::memory::LentMemory;
use crate::lights::turn::{self, KEEPER, Turn};
use crate::programs::has_room;
use ::processes::name;
use abi::boot::role;
use abi::light::{BeginLight, LightNotice, notice};
use abi::moves::Image;
use abi::net;
use abi::process::{Errno, signal};
use abi::program::trap;
use abi::quota::Quota;
use abi::soc::state;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
use kernel_engine::{End, Limits, Start};
use kernel_msg::{Level, Refusal, Request};
use kernel_platform::Platform;
use kernel_platform::peers::{CallFailure, Procedure};
use kernel_process::{Interrupted, Object, Process};
use kernel_services::files::with_files;
use kernel_services::kernel::Kernel;
use kernel_services::session::Session;
use share::Mode;
use zerocopy::{FromBytes, IntoBytes};

/// Distinguishes a satellite's key from the process numbers of this kernel.
const SATELLITE: u32 = 1 << 31;
/// Most descriptors of a process with light threads: they must fit into its book.
pub const DESCRIPTORS: u32 = 256;
/// Memory in bytes for a program and a thread of it, without which none is begun for a peer.
const ROOM: u64 = 8 << 20;
/// Interval at which [`finish`] asks the other kernel again, and others look again.
const AGAIN_NS: u64 = 10_000_000;

/// Returns the kernel for light threads of processes of this kernel; `None`: it is a weak one
/// itself, or kernels of this board do not share files and sockets.
pub fn peer(kernel: &Kernel) -> Option<DomainId> {
    let (files, sockets) = (kernel.services.fs.mode(), kernel.services.net.mode());
    let has_one = matches!(sockets, Mode::Shadowed | Mode::Delegated(_));
    let is_shared = files == Mode::Shadowed && has_one && kernel.coherence.is_some();
    let is_strong = kernel.domain().role == role::MAIN && kernel.balloons.is_some();
    let weak = |&id: &DomainId| kernel.blob.domains()[id.index()].role != role::MAIN;
    if is_shared && is_strong { kernel.others().find(weak) } else { None }
}

/// Prepares a process whose program may start light threads on kernel `peer`; `image` is an open
/// file with its program for that one. Returns false without memory, or if there are too many such
/// processes: then its light threads are ordinary, and the file is the caller's.
pub fn prepare(kernel: &'static Kernel, life: &LocalProcess, peer: DomainId, image: u64) -> bool {
    let Some(memory) = LentMemory::new(kernel) else { return false };
    let turn = Arc::new(Turn::strong(life.pid, peer, memory));
    let is_added = list::add(&turn);
    if is_added {
        // Both succeed: a process begins once.
        let isa = kernel.blob.domains()[peer.index()].isa;
        let image = Image { handle: image, isa, reserved: 0 };
        let _ = (life.turn.set(turn), life.images.set(Vec::from([image])));
    }
    is_added
}

/// Starts a light thread for the calling thread, which is inside. Returns its number. Without a
/// kernel for it, it is an ordinary thread.
pub fn begin(
    kernel: &'static Kernel,
    processes: &'static Processes,
    (life, thread): (&Arc<LocalProcess>, &Thread),
    start: Start,
) -> Result<Option<u32>, Interrupted> {
    let turn = life.turn.get().filter(|_| !life.is_satellite());
    let image = turn.and_then(|turn| life.image(kernel.blob.domains()[turn.peer.index()].isa));
    let (Some(turn), Some(running), Some(image)) = (turn, life.running.get(), image) else {
        return Ok(threads::spawn(kernel, processes, life, start, None));
    };
    let Some(number) = turn.next_thread(threads::LAST) else { return Ok(None) };
    let head = request(life, turn, (number, start.argument()), (running, image));
    let was_inside = turns::leave(kernel, life, thread);
    let asked = turn.begin_alone(kernel, || {
        let (asked, may_exist) = begin_there(kernel, turn, head);
        turn.has_begun(may_exist);
        list::publish(kernel);
        asked
    });
    if was_inside {
        turns::enter(kernel, life, thread)?;
    }
    match asked {
        Ok(()) => Ok(Some(number)),
        Err(Errno::Hostunreach) => Ok(threads::spawn(kernel, processes, life, start, Some(number))),
        Err(why) => {
            kernel_node::log!("process {}: no light thread: {why:?}", life.pid);
            Ok(None)
        }
    }
}

fn request(
    life: &LocalProcess,
    turn: &Turn,
    (number, argument): (u32, u32),
    (running, image): (&Running, u64),
) -> BeginLight {
    BeginLight {
        pid: life.pid,
        number,
        argument,
        descriptors: DESCRIPTORS,
        restricted: running.process.is_restricted().into(),
        memory: running.limits.memory,
        image,
        quota: life.quota().words(),
        book: turn.memory.pages(),
        source: running.loaded.manifest.source,
        name: life.name,
        ..BeginLight::default()
    }
}

/// Asks the other kernel to begin a light thread. `Hostunreach`: there is none that could. Also
/// returns whether the thread may exist: without an answer, it may.
fn begin_there(
    kernel: &'static Kernel,
    turn: &Turn,
    mut head: BeginLight,
) -> (Result<(), Errno>, bool) {
    let (epoch, code) = kernel.soc.state(turn.peer);
    let is_there = epoch != 0 && !state::is_over(code) && code != state::BOOTING;
    if !is_there || !turn.begin_with(Epoch(epoch as _)) {
        return (Err(Errno::Hostunreach), false);
    }
    // Before it has the thread: if it dies then, this kernel is woken.
    list::publish(kernel);
    (head.home_epoch, head.epoch) = (kernel.epoch.0 as _, epoch as _);
    let mut answer = [0; 8];
    let session = Session::at(kernel, Level(0));
    match session.call(turn.peer, Procedure::BeginLight, head.as_bytes(), &mut answer) {
        Ok(_) => match Errno::from_code(u64::from_le_bytes(answer) as u16) {
            Some(Errno::Success) => (Ok(()), true),
            why => (Err(why.unwrap_or(Errno::Io)), false),
        },
        Err(CallFailure::Refused(Refusal::NoMemory)) => (Err(Errno::Nomem), false),
        Err(CallFailure::PeerLost | CallFailure::Silent) => (Err(Errno::Io), true),
        Err(_) => (Err(Errno::Io), false),
    }
}

/// Handles [`Procedure::BeginLight`] on a handler thread.
pub fn begin_here(session: &Session, request: &Request, payload: &[u8]) -> Errno {
    let Some(processes) = super::get() else { return Errno::Again };
    // A handler must not wait for memory of the kernel that waits for it.
    if !has_room(ROOM) {
        return Errno::Nomem;
    }
    let Ok(ask) = BeginLight::read_from_bytes(payload) else { return Errno::Inval };
    let satellite = satellite(session, processes, request.from, &ask);
    let begun = satellite.and_then(|(life, is_new)| {
        let region = life.turn.get().and_then(|turn| turn.region()).ok_or(Errno::Io)?;
        let start = Start::new(region.clone(), ask.argument);
        let begun = threads::spawn(session.kernel, processes, &life, start, Some(ask.number));
        if begun.is_none() && is_new {
            stop_satellite(session.kernel, processes, &life);
            dissolve(session.kernel, processes, &life);
        }
        begun.map(|_| ()).ok_or(Errno::Again)
    });
    begun.err().unwrap_or(Errno::Success)
}

/// Returns this kernel's part of a process of kernel `from`, and whether it is new: it is made for
/// the first light thread.
fn satellite(
    session: &Session,
    processes: &'static Processes,
    from: DomainId,
    ask: &BeginLight,
) -> Result<(Arc<LocalProcess>, bool), Errno> {
    let kernel = session.kernel;
    let home = Epoch(ask.home_epoch as _);
    let is_current = || {
        let (epoch, code) = kernel.soc.state(from);
        epoch == u64::from(ask.home_epoch) && !state::is_over(code)
    };
    if u64::from(ask.epoch) != u64::from(kernel.epoch.0) || !is_current() {
        return Err(Errno::Hostunreach);
    }
    let key = ask.pid | SATELLITE;
    if let Some(life) = processes.life(key) {
        let is_ours = |turn: &Arc<Turn>| turn.peer == from && !turn.has_lost_peer(kernel);
        let is_ours = life.turn.get().is_some_and(is_ours);
        return is_ours.then_some((life, false)).ok_or(Errno::Again);
    }
    let programs = processes.programs(kernel).ok_or(Errno::Nomem)?;
    let name = name::received(&ask.name);
    let loaded = programs.load_handle(session, ask.image, name::text(&name))?;
    if loaded.manifest.source != ask.source {
        kernel_node::log!("process {}: its program here is another version", ask.pid);
        return Err(Errno::Noexec);
    }
    let memory = LentMemory::join(kernel, ask.book).ok_or(Errno::Nomem)?;
    let turn = Arc::new(Turn::weak(ask.pid, (from, home), memory));
    let region = programs.region_in(&loaded, turn.memory.clone()).ok_or(Errno::Noexec)?;
    turn.set_region(&region);
    let process = Process::new(ask.descriptors.min(DESCRIPTORS));
    let mut process = process.map_err(|_| Errno::Nomem)?;
    if ask.restricted != 0 {
        process.restrict(&[]).map_err(|_| Errno::Nomem)?;
    }
    let process = Arc::new(process);
    turn.set_process(&process);
    let ids = Ids { pid: ask.pid, parent: 0, group: 0, watcher: 0 };
    let (threads, quota) = (Threads::without_main(), Quota::of_words(ask.quota));
    let life = Arc::new(LocalProcess::new(ids, name, threads, quota, Startup::new(None)));
    // Both succeed: nothing else knows it yet.
    let _ = life.running.set(Running { loaded, process, limits: Limits { memory: ask.memory } });
    let _ = life.turn.set(turn.clone());
    let is_first = {
        let mut living = processes.living.lock();
        let is_first = !living.contains_key(&key);
        if is_first {
            living.insert(key, life.clone());
        }
        is_first
    };
    // If its kernel has died meanwhile, the thread that tends turns finds it.
    match is_first && list::add(&turn) && is_current() {
        true => Ok((life, true)),
        false => {
            if is_first {
                turn.end(kernel);
                dissolve(kernel, processes, &life);
            }
            Err(Errno::Again)
        }
    }
}

/// Ends the program for the kernel with its normal threads, because a light thread has ended it.
pub fn end_program(platform: &Platform, life: &LocalProcess, end: &End) {
    let Some(turn) = life.turn.get().filter(|_| life.is_satellite()) else { return };
    let (how, status) = ends::encode(end);
    let (value, other) = (how as u32, status);
    let notice =
        LightNotice { pid: life.pid, kind: notice::ENDED, value, other, ..Default::default() };
    turn.notify_peer(platform, notice);
}

/// Ends the light threads of a process whose normal threads have ended, and puts its memory away.
/// Its descriptors are then as the last thread has left them.
pub fn finish(kernel: &'static Kernel, life: &LocalProcess) {
    let Some(turn) = life.turn.get() else { return };
    turn.end(kernel);
    turn.retire(kernel);
    if let Some(ran) = turn.has_peer().then(|| end_there(kernel, turn)).flatten() {
        life.threads.have_run(ran);
        turn.load_last();
    }
    list::remove(turn);
    list::publish(kernel);
}

/// Ends the threads on the other kernel. Returns their core time in ns; `None`: it is dead.
fn end_there(kernel: &'static Kernel, turn: &Turn) -> Option<u64> {
    let session = Session::at(kernel, Level(0));
    let pid = u64::from(turn.pid);
    while !turn.has_lost_peer(kernel) {
        if let Ok(ran) = session.call_value(turn.peer, Procedure::EndLight, pid) {
            return Some(ran);
        }
        kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS);
    }
    None
}

/// Handles [`Procedure::EndLight`] on a handler thread. Returns the core time of the threads in ns.
pub fn end_here(kernel: &'static Kernel, request: &Request, payload: &[u8]) -> u64 {
    let pid = payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) as u32);
    let Some(processes) = super::get() else { return 0 };
    let life = processes.life(pid | SATELLITE);
    let is_theirs =
        |life: &Arc<LocalProcess>| life.turn.get().is_some_and(|turn| turn.peer == request.from);
    // If the reply to an earlier call was lost, so is the time.
    let Some(life) = life.filter(is_theirs) else { return 0 };
    stop_satellite(kernel, processes, &life);
    dissolve(kernel, processes, &life);
    life.threads.ran(&kernel.scheduler)
}

fn stop_satellite(kernel: &'static Kernel, processes: &Processes, life: &LocalProcess) {
    if let Some(turn) = life.turn.get() {
        let _ = life.threads.set_end(End::Signal(signal::KILL));
        // A thread that is refused finds that it must end.
        processes.stop(kernel, life, signal::KILL);
        turn.end(kernel);
    }
}

/// Waits for the end of a satellite's threads, and removes it.
fn dissolve(kernel: &'static Kernel, processes: &Processes, life: &LocalProcess) {
    let Some(turn) = life.turn.get() else { return };
    turn.await_end(kernel);
    turn.retire(kernel);
    let removed = processes.take(life.pid | SATELLITE, life);
    if removed.is_some() && turn.has_lost_peer(kernel) {
        close_files(kernel, life);
    }
    drop(removed);
    list::remove(turn);
}

/// Closes the files of a satellite whose process is lost. Those that its kernel had opened are
/// closed already.
fn close_files(kernel: &'static Kernel, life: &LocalProcess) {
    let Some(running) = life.running.get() else { return };
    let (session, mut handles) = (Session::at(kernel, Level(0)), Vec::new());
    running.process.table().each(&mut |_, descriptor| handles.push(descriptor.object));
    for object in handles {
        match object {
            Object::File(handle) => drop(with_files(&session, |client| client.close(handle))),
            Object::Socket(handle) => {
                let close = net::Request::new(net::Op::Close, handle);
                let _ = kernel.services.net.ask(&session, close, &mut []);
            }
            // Its kernel had it.
            Object::End(_) => {}
        }
    }
}

/// Handles a notice of a peer. From any context.
pub fn heard(platform: &Platform, request: &Request, payload: &[u8]) -> Result<usize, Refusal> {
    let notice = LightNotice::read_from_bytes(payload).map_err(|_| Refusal::Refused)?;
    list::heard(platform, request.from, &notice);
    Ok(0)
}

/// Thread: tends the turns of this kernel. Does not return.
pub fn keep(_: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), super::get()) else {
        return;
    };
    list::publish(kernel);
    if kernel.epoch.0 > 1 {
        // Their processes are lost, whose light threads were here.
        let have = |peer: &DomainId| kernel.soc.lights(*peer) != 0;
        kernel.others().filter(have).for_each(|peer| kernel.peers.wake_resting(kernel, peer));
    }
    loop {
        kernel.scheduler.mark_upkeep();
        let mut due = None;
        match list::all() {
            None => due = Some(arch::time::soc_time() + AGAIN_NS),
            Some(turns) => {
                for turn in turns {
                    look_after(kernel, processes, &turn);
                    due = turn.tend(kernel).into_iter().chain(due).min();
                }
            }
        }
        forget::dead(kernel);
        kernel.scheduler.wait_until(&KEEPER, due, turn::has_news);
    }
}

/// Ends a process that a light thread has ended, or that was lost with the other kernel.
fn look_after(kernel: &'static Kernel, processes: &'static Processes, turn: &Arc<Turn>) {
    let key = if turn.is_weak() { turn.pid | SATELLITE } else { turn.pid };
    let Some(life) = processes.life(key) else { return };
    if let Some((how, status)) = turn.take_end() {
        end_for_all(kernel, processes, &life, ends::decode(how, status));
    }
    if turn.is_broken() && life.stop_signal().is_none() {
        let end = End::Trap(trap::NO_MEMORY, Default::default());
        end_program(kernel, &life, &end);
        end_for_all(kernel, processes, &life, end);
    }
    if !turn.has_lost_peer(kernel) {
        return;
    }
    if !life.is_satellite() {
        end_for_all(kernel, processes, &life, End::Lost);
        return turn.lose_peer(kernel);
    }
    stop_satellite(kernel, processes, &life);
    turn.lose_peer(kernel);
    if turn.is_done() {
        dissolve(kernel, processes, &life);
    }
}

fn end_for_all(kernel: &Kernel, processes: &Processes, life: &LocalProcess, end: End) {
    let _ = life.threads.set_end(end);
    if life.stop_signal().is_none() {
        processes.stop(kernel, life, signal::KILL);
    }
}

/// Prepares a rest of this kernel. Returns false if it must not rest yet.
pub fn before_rest(platform: &Platform) -> bool {
    !list::exist() || list::all().is_some_and(|turns| turns.iter().all(|turn| turn.rest(platform)))
}

/// Returns whether this kernel may rest: it has nothing that the other one needs. While no other
/// thread runs.
pub fn may_rest() -> bool {
    !list::exist() || list::all().is_some_and(|turns| turns.iter().all(|turn| turn.is_away()))
}
