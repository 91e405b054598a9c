//! Chooses the kernel of a new process: gathers the facts for `kernel_place` from the board, the
//! chip page, this kernel's memory and the process table (docs/design/processes.md).

use super::with_table;
use crate::programs;
use abi::boot::{MAX_DOMAINS, role};
use abi::process::Errno;
use abi::program::{ANY_KERNEL, class};
use abi::soc::state;
use base::id::DomainId;
use kernel_place::{Facts, Refused, Wishes, needs_load};
use kernel_platform::peers::Procedure;
use kernel_services::kernel::Kernel;
use kernel_services::services::Patience;
use kernel_services::session::Session;
use share::Mode;

/// Chooses the kernel that runs the program `path`, and wakes it if it is asleep. `path` starts at
/// the file service's handle `directory`, or else at the root. `requested` is the requested kernel
/// or `ANY_KERNEL`.
pub fn place(
    session: &Session,
    requested: u32,
    directory: Option<u64>,
    path: &[u8],
) -> Result<u16, Errno> {
    let kernel = session.kernel;
    let mut board = [Facts::default(); MAX_DOMAINS];
    let facts = board.get_mut(..kernel.blob.domains().len()).ok_or(Errno::Inval)?;
    facts.iter_mut().enumerate().for_each(|(at, facts)| *facts = about(kernel, at));
    let requested = (requested != ANY_KERNEL).then_some(requested);
    let mut wishes = Wishes { class: class::NORMAL, ..Wishes::default() };
    if requested.is_none() && facts.iter().filter(|facts| facts.is_available).count() > 1 {
        // The kernel that starts the program reports what is wrong with it.
        let known = super::get().and_then(|all| all.class(session, directory, path));
        wishes.class = known.unwrap_or(wishes.class);
        if needs_load(&wishes, facts) {
            count(session, facts);
        }
    }
    let placed = kernel_place::choose(requested, &wishes, kernel.me.index(), facts);
    let chosen = placed.map_err(|why| match why {
        Refused::NoSuchKernel => Errno::Inval,
        Refused::Unavailable | Refused::NoPlatform { .. } => Errno::Hostunreach,
    })?;
    let at = chosen.kernel;
    let id = DomainId(at as u8);
    if id == kernel.me || wake(session, id) { Ok(at as u16) } else { Err(Errno::Hostunreach) }
}

/// Returns the facts about the kernel of domain `at`. If each kernel has its own process table, the
/// others are not available.
fn about(kernel: &Kernel, at: usize) -> Facts {
    let id = DomainId(at as u8);
    let Some(domain) = kernel.blob.domains().get(at) else { return Facts::default() };
    let mode = kernel.services.processes.mode();
    let apart = matches!(mode, Mode::Private | Mode::Independent);
    let (epoch, state) = kernel.soc.state(id);
    let is_me = id == kernel.me;
    Facts {
        is_available: is_me || !apart && epoch != 0 && state != state::DEAD,
        is_strong: domain.role == role::MAIN,
        isa: domain.isa,
        cores: domain.cores,
        free: is_me.then(programs::room),
        ..Facts::default()
    }
}

/// Adds the number of processes of each kernel. If the table does not answer, the spawn that
/// follows will report it.
fn count(session: &Session, facts: &mut [Facts]) {
    let mut counts = [0; MAX_DOMAINS];
    let asked = with_table(session, &Patience::ENDLESS, |table| table.load(&mut counts));
    if asked.is_ok() {
        facts.iter_mut().zip(counts).for_each(|(facts, count)| facts.processes = count);
    }
}

/// Wakes a kernel that is asleep: otherwise it does not learn of work in the table. Returns whether
/// it runs.
fn wake(session: &Session, id: DomainId) -> bool {
    !state::is_asleep(session.kernel.soc.state(id).1)
        || session.call(id, Procedure::SlowEcho, &[], &mut []).is_ok()
}
