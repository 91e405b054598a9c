//! A client of the name service for threads of this kernel.

use crate::services::{Patience, ServiceFailure};
use crate::session::Session;
use ::names::client::Client;
use abi::names::{Errno, Reply};

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
