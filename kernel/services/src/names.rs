//! Names of channels, for threads of this kernel: a client of the name service, and the names that
//! programs of this kernel serve.
//!
//! Contract: a name is registered as long as its door is open. The thread of [`keep`] removes the
//! names of doors that were closed, and registers all names again if the service has restarted
//! without its table.

use crate::kernel::Kernel;
use crate::services::{Patience, ServiceFailure};
use crate::session::Session;
use ::names::client::{Client, Registration};
use abi::names::{Errno, Reply};
use kernel_msg::Level;

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
    // It begins to watch the table.
    kernel.channels.call_keeper(kernel);
    registered.map(|_| ())
}

/// The body of the thread that keeps the channels of this kernel. Does not return.
pub fn keep(kernel: &'static Kernel) {
    let session = Session::at(kernel, Level(0));
    kernel.channels.is_kept(kernel);
    let mut edition = 0;
    loop {
        kernel.channels.wake_owed(kernel, &kernel.peers);
        while let Some(door) = kernel.channels.closed_door(kernel) {
            kernel.registered.remove(door);
            // If the service does not answer, it has lost its table, and the name with it.
            let _ = with_names(&session, &Patience::ENDLESS, |names| names.close(door));
        }
        if kernel.registered.is_empty() {
            kernel.channels.await_work(kernel, &|| !kernel.registered.is_empty());
            continue;
        }
        let has_work = || kernel.channels.has_work() || kernel.registered.is_empty();
        let patience = Patience::unless(&has_work).idle();
        match with_names(&session, &patience, |names| names.watch(edition, 0)) {
            Ok(new) => {
                edition = new;
                for registration in kernel.registered.lost(edition) {
                    // Another program may have the name meanwhile.
                    let _ = with_names(&session, &Patience::ENDLESS, |names| {
                        names.register(registration)
                    });
                }
            }
            Err(Errno::Intr) => {}
            // The service is not there now: look again later.
            Err(_) => kernel.scheduler.sleep_until(arch::time::soc_time() + AGAIN_NS),
        }
    }
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
        Errno::Again => "too many programs wait for changes of the names; try again",
        Errno::Hostunreach => "the kernel that has the names does not answer",
        Errno::Restarted => "the service was restarted meanwhile",
        Errno::Intr => "interrupted",
        Errno::Io => "the service does not run here; `services` says why",
        Errno::Nosys | Errno::Success => "refused",
    }
}
