//! Processes without programs: a thread takes the tasks of the process table, as a kernel does, and
//! each process is a moment that ends with the status which its start data demand.

use abi::process::{End, Errno, Reply};
use kernel_msg::Level;
use kernel_services::kernel;
use kernel_services::session::Session;
use processes::client::{Account, Client, News};

/// Longest start data.
pub const START: usize = 600;
/// How long the thread waits after the table has failed, in ns.
const PAUSE: u64 = 1_000_000;

/// Runs `work` with a client of the process table.
pub fn with_table<T>(
    session: &Session,
    work: impl FnOnce(&mut Client<'_>) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let table = &session.kernel.services.processes;
    table.asking(session, Reply::error(Errno::Io), |ask| work(&mut Client(ask))).0
}

/// The body of the thread that runs processes.
pub fn serve(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    loop {
        // A table that has restarted does not know the process any more.
        if with_table(&session, one).is_err() {
            kernel.scheduler.sleep_until(arch::time::soc_time() + PAUSE);
        }
    }
}

fn one(client: &mut Client<'_>) -> Result<(), Errno> {
    let mut room = [0; START];
    match client.next(&mut room)? {
        News::Begin { pid, quota, bytes, .. } => {
            let status = room[..bytes].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            client.begun(pid, quota, Ok(4096))?;
            client.ended(pid, End::Exit, status, Account::default())
        }
        News::Stop { pid, signal } => {
            client.ended(pid, End::Signal, signal.into(), Account::default())
        }
        News::Group { .. } => Ok(()),
    }
}
