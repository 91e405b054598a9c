//! One process on its main thread, from its start ([`super::start`]) to its end, on a stack of its
//! own.
//!
//! ```text
//!   thread --> stack --> files, program --> Begun(0) --> the engine runs it --> Ended
//!                  \          \--> Begun(why not)                closes its files
//! ```
//! One that moves ends here without a report, and one that comes begins with its own
//! ([`super::moves`]).

use super::accounts::account;
use super::guest::Guest;
use super::start::{self, Given};
use super::{LocalProcess, Processes, Running, ends, light, lives, moves, passage, with_table};
use crate::programs::stack::Stack;
use crate::programs::{Directory, Manifest, open_image};
use abi::fs::{Op, Request};
use abi::process::{End as How, Errno};
use abi::program::{engine, right};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::id::DomainId;
use kernel_engine::{End, Limits, Ran};
use kernel_msg::Level;
use kernel_process::authority::{Authority, Rights, open_directory};
use kernel_process::begin::{Limits as Allowed, StartData, decode};
use kernel_process::table::Preopen;
use kernel_process::wasi::rights;
use kernel_process::{Errno as WasiErrno, Halt, Installed, Object, Process, System};
use kernel_services::services::Patience;
use kernel_services::session::Session;

/// Default limits of a process.
const USUAL: Allowed = Allowed { memory: engine::RESERVATION, descriptors: 256 };
/// First descriptor of preopened directories, after input, output and standard error.
const FIRST_PREOPEN: u32 = 3;

/// The main thread.
pub(super) fn thread(pid: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), super::get()) else {
        return;
    };
    let Some(life) = processes.life(pid as u32) else { return };
    if let Some(main) = life.threads.main() {
        main.is_me(&kernel.scheduler);
    }
    if let Ok(stack) = Stack::get() {
        stack.run(live, pid);
    } else {
        processes.leave(&life, How::Lost, 0);
        start::fails(&Session::at(kernel, Level(0)), &life, Errno::Nomem);
    }
    if life.ended.get().is_none() {
        processes.remove(&life);
    }
}

/// The life of a process, on its own stack.
extern "C" fn live(pid: usize) {
    let (Some(kernel), Some(processes)) = (kernel_services::kernel::get(), super::get()) else {
        return;
    };
    let pid = pid as u32;
    let Some(life) = processes.life(pid) else { return };
    let (Some(given), Some(main)) = (life.startup.take(), life.threads.main()) else { return };
    let session = Session::at(kernel, Level(0));
    let mut guest = Guest::new(kernel, processes, life.clone(), main.clone());
    let head = moves::departed(kernel, &given.beginning);
    let prepared = match &head {
        Some(head) => {
            drop(given);
            passage::prepare(&session, &mut guest, &life, head)
        }
        None => prepare(&session, &mut guest, &life, given),
    };
    let running = match prepared {
        Ok(running) => running,
        Err(why) => {
            processes.leave(&life, How::Lost, 0);
            return start::fails(&session, &life, why);
        }
    };
    main.set_base(arch::backtrace::fp());
    // Succeeds: only this thread sets it.
    let Ok(running) = life.running.set(running) else { return };
    if head.is_none() {
        start::runs(&session, processes, &life);
    }
    if running.loaded.is_movable() {
        guest.can_move();
    }
    let end = run(processes, &life, running, guest);
    if end == End::Left {
        return processes.remove(&life);
    }
    if life.journey.is_coming() {
        let why = if matches!(end, End::Signal(_)) { Errno::Intr } else { Errno::Nomem };
        processes.leave(&life, How::Lost, 0);
        return start::fails(&session, &life, why);
    }
    let used = account(&kernel.scheduler, &life);
    let (how, status) = ends::encode(&end);
    processes.leave(&life, how, status);
    let ended = |table: &mut ::processes::client::Client<'_>| table.ended(pid, how, status, used);
    if with_table(&session, &Patience::ENDLESS, ended).is_err() {
        kernel_node::log!("process {pid}: the process table refused its end");
    }
}

fn prepare(
    session: &Session,
    guest: &mut Guest,
    life: &Arc<LocalProcess>,
    Given { beginning, program }: Given,
) -> Result<Running, Errno> {
    let beginning = decode(&beginning).map_err(|_| Errno::Inval)?;
    let loaded = match program {
        Some(found) => found,
        None => {
            let programs = guest.processes.programs(session.kernel).ok_or(Errno::Nomem)?;
            programs.load_or_forget(session, beginning.directory(), beginning.path)?
        }
    };
    let mut quota = life.quota();
    quota.lower(life.pid, loaded.manifest.tree);
    life.set_quota(quota);
    let own = Allowed { memory: loaded.manifest.memory, descriptors: loaded.manifest.files };
    let allowed = own.or(USUAL).within(beginning.limits);
    let peer = light::peer(session.kernel).filter(|_| loaded.is_light());
    let most = if peer.is_some() { light::DESCRIPTORS } else { u32::MAX };
    let descriptors = allowed.descriptors.min(most);
    let mut process = Arc::new(Process::new(descriptors).map_err(|why| errno(why.into()))?);
    let own = Arc::get_mut(&mut process).ok_or(Errno::Io)?;
    fill(own, guest, &loaded.manifest, &beginning).map_err(errno)?;
    if let Some(peer) = peer
        && let Err(why) = share(guest, life, &process, (peer, &beginning))
    {
        process.close_all(guest);
        return Err(why);
    }
    if loaded.is_movable() {
        // Succeeds: a process begins once.
        let images = moves::images(session, beginning.directory(), beginning.path);
        let _ = life.images.set(images);
    }
    if let Some(turn) = life.turn.get() {
        turn.set_process(&process);
    }
    Ok(Running { loaded, process, limits: Limits { memory: allowed.memory } })
}

fn errno(halt: Halt) -> Errno {
    match halt {
        Halt::Failed(error) => Errno::from_code(error.0).unwrap_or(Errno::Badf),
        Halt::Stop(_) => Errno::Intr,
    }
}

/// Prepares a process that may have light threads on kernel `peer`: its descriptors must be valid
/// there, and its program must be there.
fn share(
    guest: &mut Guest,
    life: &LocalProcess,
    process: &Process,
    (peer, beginning): (DomainId, &StartData<'_>),
) -> Result<(), Errno> {
    guest.share_objects(process, peer)?;
    let isa = guest.kernel().blob.domains()[peer.index()].isa;
    let session = Session::at(guest.kernel(), Level(0));
    // Without one, it has no light threads there.
    let image = open_image(&session, isa, beginning.directory(), beginning.path);
    if let Ok(image) = image
        && !light::prepare(guest.kernel(), life, peer, image)
    {
        close(guest, image);
    }
    Ok(())
}

impl Guest {
    /// Makes the objects of a process's descriptors valid on kernel `peer`. Fails with `Notsup` for
    /// a process with ends of channels: an end is valid on one kernel only.
    pub(super) fn share_objects(&mut self, process: &Process, peer: DomainId) -> Result<(), Errno> {
        if process.has_ends() {
            return Err(Errno::Notsup);
        }
        let mut objects = Vec::new();
        process.table().each(&mut |number, it| objects.push((number, it.object)));
        for (number, object) in objects {
            // A private pipe leaves.
            let there = match object {
                Object::File(handle) => {
                    let handle = self.for_others(handle).map_err(|_| Errno::Intr)?;
                    Object::File(handle.map_err(|why| errno(WasiErrno::from(why).into()))?)
                }
                other => other.at(self, peer.0.into()).map_err(errno)?,
            };
            if there == object {
                continue;
            }
            // Its own handles are for all that have used it.
            let own = there.dup(self).map_err(errno)?;
            let changed = process.table().change(number, |it| {
                it.object = own;
                Ok(())
            });
            let unused = if changed.is_ok() { object } else { own };
            // Fails only if the service has restarted.
            let _ = unused.close(self);
            changed.map_err(|_| Errno::Badf)?;
        }
        Ok(())
    }
}

/// Gives a new process the files and strings of its start data and of the program's manifest.
fn fill(
    process: &mut Process,
    guest: &mut Guest,
    manifest: &Manifest,
    beginning: &StartData<'_>,
) -> Result<(), Halt> {
    let has = |right| manifest.rights & right != 0;
    let installed = Installed { folders: has(right::FOLDERS), signals: has(right::SIGNALS) };
    process.begin(guest, beginning, installed)?;
    let done = parent_of(guest, beginning)
        .and_then(|parent| apply_manifest(guest, manifest, parent.as_ref(), process));
    if done.is_err() {
        process.close_all(guest);
    }
    done
}

/// Returns the authority of the program that starts this one; `None` if the system does, which may
/// use everything. A parent that has ended meanwhile was not the system.
fn parent_of(guest: &mut Guest, beginning: &StartData<'_>) -> Result<Option<Authority>, Halt> {
    if guest.is_root() { Ok(None) } else { Authority::of(guest, beginning).map(Some) }
}

/// Adds the manifest's arguments, environment and directories to the process.
fn apply_manifest(
    guest: &mut Guest,
    manifest: &Manifest,
    parent: Option<&Authority>,
    process: &mut Process,
) -> Result<(), Halt> {
    process.add_arguments(&manifest.arguments)?;
    process.add_environment(&manifest.environment)?;
    for directory in &manifest.preopens {
        let inheriting = if directory.write { rights::INHERITING } else { rights::READ_ONLY };
        let given = (inheriting & rights::DIRECTORY, inheriting);
        let handle = open_folder(guest, directory, parent, given).inspect_err(|why| {
            let shown = String::from_utf8_lossy(&directory.path);
            let pid = guest.pid();
            kernel_node::log!(
                "process {pid}: its manifest's {shown} does not exist, or its parent may not use \
                 it so: {why:?}"
            );
        })?;
        let number = process.free_descriptor(FIRST_PREOPEN);
        let number = number.inspect_err(|_| close(guest, handle))?;
        let is_path = directory.name == directory.path;
        let preopen = Preopen { name: &directory.name, is_path };
        process.give(guest, number, handle, given, Some(preopen))?;
    }
    open_listeners(guest, &manifest.listen, process)?;
    if let Some(rules) = &manifest.net {
        process.restrict(rules).inspect_err(|_| {
            let pid = guest.pid();
            kernel_node::log!("process {pid}: its parent may not reach what its manifest names");
        })?;
    }
    Ok(())
}

/// Opens the listeners of the manifest, with the parent's authority, after the directories: the C
/// library looks for those until it finds a descriptor that is none. The environment says where
/// they are.
fn open_listeners(guest: &mut Guest, ports: &[u16], process: &mut Process) -> Result<(), Halt> {
    if ports.is_empty() {
        return Ok(());
    }
    let first = free_row(process, ports.len() as u32)?;
    for (number, &port) in (first..).zip(ports) {
        process.open_listener(guest, number, port).inspect_err(|why| {
            let pid = guest.pid();
            kernel_node::log!("process {pid}: its manifest's listener at port {port}: {why:?}");
        })?;
    }
    let count = ports.len();
    let told = format!("LISTEN_FDS={count}\0LISTEN_FDS_FIRST={first}\0");
    Ok(process.set_environment(told.as_bytes())?)
}

/// Returns the first of `count` free descriptors that follow each other.
fn free_row(process: &Process, count: u32) -> Result<u32, WasiErrno> {
    let mut first = process.free_descriptor(FIRST_PREOPEN)?;
    let mut number = first;
    while number - first + 1 < count {
        match process.free_descriptor(number + 1)? {
            next if next == number + 1 => number = next,
            next => (first, number) = (next, next),
        }
    }
    Ok(first)
}

fn close(guest: &mut Guest, handle: u64) {
    // Fails only if it is not open.
    let _ = guest.files(Request::new(Op::Close, handle), &mut []);
}

/// Opens a directory of the manifest. A grant, and any of a program that the system starts, is
/// opened with the kernel's authority, others with the parent's. The process does not start if
/// there is no such directory, or the parent may not use it so (`NOTCAPABLE`).
fn open_folder(
    guest: &mut Guest,
    directory: &Directory,
    parent: Option<&Authority>,
    given: Rights,
) -> Result<u64, Halt> {
    let root = guest.root()?;
    if root.error != 0 {
        return Err(WasiErrno::from(root.errno()).into());
    }
    let opened = match parent {
        Some(parent) if !directory.is_grant => {
            parent.open(guest, root.handle, &directory.path, given)
        }
        _ => open_directory(guest, root.handle, &directory.path),
    };
    close(guest, root.handle);
    opened.map_err(|halt| match halt {
        Halt::Failed(WasiErrno::STALE | WasiErrno::NFILE | WasiErrno::NOMEM) | Halt::Stop(_) => {
            halt
        }
        Halt::Failed(_) => WasiErrno::NOTCAPABLE.into(),
    })
}

/// Runs the program to its end, for all of its threads.
fn run(processes: &Processes, life: &LocalProcess, running: &Running, guest: Guest) -> End {
    let Some(programs) = processes.programs.get() else {
        return End::NoMemory(String::from("there is no engine"));
    };
    let kernel = guest.kernel();
    kernel_services::idle::to_program(kernel);
    let Ran { end, mut guest } =
        lives::inside(guest, |guest| programs.run(&running.loaded, running.given(), guest));
    match end {
        // It is reported by the kernel that it runs on.
        End::Left => drop(life.threads.set_end(end)),
        end if life.journey.is_coming() => drop(life.threads.set_end(end)),
        end => lives::end_with(&mut guest, life, running, end),
    }
    let end = life.threads.await_end(&kernel.scheduler);
    light::finish(kernel, life);
    running.process.close_all(&mut guest);
    for image in life.images.get().into_iter().flatten() {
        close(&mut guest, image.handle);
    }
    end
}
