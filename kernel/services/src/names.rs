//! Names of channels, for threads of this kernel: a client of the name service, and the names of
//! this kernel, of its services, and of what its programs serve.
//!
//! ```text
//!   keep_channels: a door was closed --> its names are removed
//!   keep:          the table began another life --> all names of this kernel are registered again
//! ```
//! Contract: a name is registered as long as its door is open; those of the system have none, and
//! stay until this kernel dies. The two threads may meet: [`keep`] looks after each registration
//! whether its door has been closed meanwhile.

use crate::kernel::Kernel;
use crate::services::{Patience, ServiceFailure};
use crate::session::Session;
use ::names::client::{Client, Registration};
use abi::names::{Errno, KERNEL, NO_DOOR, Name, Reply, SERVICE};
use alloc::format;
use kernel_msg::Level;
use kernel_node::log;

/// Runs `work` with a client of the name service. Failures of the service become errors:
/// `Hostunreach` if the table's home does not answer, `Intr` when patience ends, `Restarted` if
/// the service restarts again and again, else `Io`. What this kernel registers is of its present
/// life.
///
/// A request that a restart of the service aborts is repeated, as each may be executed twice. After
/// a restart the table is empty: [`abi::names::lives`] of an edition tells whether it was.
pub fn with_names<R>(
    session: &Session,
    patience: &Patience<'_>,
    work: impl FnOnce(&mut Client<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let names = &session.kernel.services.names;
    work(&mut Client(
        &mut |request, bulk| match names.ask_again(session, request, bulk, patience) {
            Ok(Some(reply)) => reply,
            Ok(None) => Reply::error(Errno::Intr),
            Err(ServiceFailure::Home(_)) => Reply::error(Errno::Hostunreach),
            Err(ServiceFailure::Restarted) => Reply::error(Errno::Restarted),
            Err(_) => Reply::error(Errno::Io),
        },
    ))
}

/// Registers a name, and keeps it registered until its door is closed.
pub fn serve(
    session: &Session,
    patience: &Patience<'_>,
    registration: Registration,
) -> Result<(), Errno> {
    let kernel = session.kernel;
    if !kernel.registered.add(registration) {
        return Err(Errno::Nospc);
    }
    let registered = with_names(session, patience, |names| names.register(registration));
    if registered.is_err() {
        kernel.registered.remove(registration.door);
    }
    registered.map(|_| ())
}

/// The body of the thread that keeps the channels of this kernel. Does not return.
pub fn keep_channels(kernel: &'static Kernel) {
    let session = Session::at(kernel, Level(0));
    kernel.channels.is_kept(kernel);
    loop {
        kernel.channels.wake_owed(kernel, &kernel.peers);
        while let Some(door) = kernel.channels.closed_door(kernel) {
            kernel.registered.remove(door);
            close(&session, door);
        }
        kernel.channels.await_work(kernel);
    }
}

/// Removes the names of a door from the table. If the service does not answer, it has lost its
/// table, and the names with it.
fn close(session: &Session, door: u64) {
    let _ = with_names(session, &Patience::ENDLESS, |names| names.close(door));
}

/// The body of the thread that registers the names of this kernel in each life of the table. Does
/// not return.
pub fn keep(kernel: &'static Kernel) {
    let session = Session::at(kernel, Level(0));
    for name in names_of(kernel) {
        if !kernel.registered.add(Registration { name, door: NO_DOOR, ..Registration::default() }) {
            log!("no memory for the name {}", name.text());
        }
    }
    let mut edition = 0;
    loop {
        match with_names(&session, &Patience::IDLE, |names| names.watch_life(edition)) {
            Ok(new) if register_all(&session) => edition = new,
            // The service is not there now: look again later.
            _ => kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS),
        }
    }
}

/// Returns the names of this kernel, and of the services whose requests it executes.
fn names_of(kernel: &'static Kernel) -> impl Iterator<Item = Name> {
    let me = kernel.name();
    let services = kernel.services.executed(kernel).into_iter();
    let services = services.map(move |service| format!("{SERVICE}/{service}/{me}"));
    let all = [format!("{KERNEL}/{me}")].into_iter().chain(services);
    all.filter_map(|text| Name::new(text.as_bytes()))
}

/// Registers all names of this kernel. Returns false if the service does not answer.
fn register_all(session: &Session) -> bool {
    session.kernel.registered.all().into_iter().all(|registration| {
        let Registration { name, door, .. } = registration;
        let done = with_names(session, &Patience::ENDLESS, |names| names.register(registration));
        if !session.kernel.registered.has(door) {
            close(session, door);
        }
        match done {
            Err(Errno::Hostunreach | Errno::Restarted | Errno::Io) => false,
            // Another program may have the name meanwhile.
            Err(why) if door == NO_DOOR => {
                log!("{} is not registered: {}", name.text(), explain(why));
                true
            }
            _ => true,
        }
    })
}

/// When a service that did not answer is asked again.
const AGAIN_NS: u64 = 100_000_000;

/// Returns a text for the user.
pub fn explain(why: Errno) -> &'static str {
    match why {
        Errno::Exist => "the name is taken",
        Errno::Noent => "there is no such name",
        Errno::Inval => "that is no valid name",
        Errno::Nospc => "the table of names is full",
        Errno::Dquot => "the programs that were started together have as many as they may",
        Errno::Isdir => "there are names below it",
        Errno::Notdir => "the beginning of it is a name",
        Errno::Perm => "that name is the system's",
        Errno::Again => "too many programs wait for changes of the names; try again",
        Errno::Hostunreach => "the kernel that has the names does not answer",
        Errno::Restarted => "the service was restarted meanwhile",
        Errno::Intr => "interrupted",
        Errno::Io => "the service does not run here; `services` says why",
        Errno::Nosys | Errno::Success => "refused",
    }
}
