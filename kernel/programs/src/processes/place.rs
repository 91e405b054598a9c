//! Chooses the kernel of a new process: gathers the facts for `kernel_place` from the board, the
//! chip page, this kernel's memory, the program's image, the process table, the names of channels
//! and what the kernels publish of their use (docs/design/affinity.md).

use super::{Program, with_table};
use crate::programs::{self, Preferences, Programs};
use abi::boot::{Domain, MAX_DOMAINS, role};
use abi::names::{Listed, SERVICE};
use abi::process::Errno;
use abi::program::ANY_KERNEL;
use abi::soc::state;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base::id::DomainId;
use core::fmt::{self, Write};
use kernel_place::{
    Decision, Explanation, Facts, Refused, Server, explain_endpoint, is_wanted, missing,
    needs_load, weigh,
};
use kernel_platform::peers::Procedure;
use kernel_services::kernel::Kernel;
use kernel_services::names::with_names;
use kernel_services::power;
use kernel_services::services::Patience;
use kernel_services::session::Session;
use share::Mode;

/// A kernel that was chosen for a program.
pub struct Placed {
    pub kernel: u16,
    /// The program, if it has been found and that is this kernel.
    pub program: Option<Program>,
}

/// Chooses the kernel that runs the program `path`, and wakes it if it is asleep. `path` starts at
/// the file service's handle `directory`, or else at the root. `requested` is the requested kernel
/// or `ANY_KERNEL`.
pub fn place(
    session: &Session,
    requested: u32,
    directory: Option<u64>,
    path: &[u8],
) -> Result<Placed, Errno> {
    let (kernel, mut program) = (session.kernel, None);
    let mut board = Board::of(kernel);
    let placed = if requested != ANY_KERNEL {
        board.choose(kernel, Some(requested), &Preferences::default())
    } else {
        let preferences = match preferences_of(session, directory, path) {
            // The caller's directory is not valid, or not any more.
            Err(why @ (Errno::Restarted | Errno::Badf)) if directory.is_some() => return Err(why),
            // The kernel that starts the program reports what is wrong with it.
            Err(_) => Arc::default(),
            Ok((preferences, found)) => {
                program = found;
                preferences
            }
        };
        board.add_servers(session, &preferences);
        if needs_load(&preferences.kernel, board.facts()) {
            board.add_load(session);
        }
        board.choose(kernel, None, &preferences)
    };
    let at = placed.map_err(|why| refused(path, why))?.kernel;
    let (id, at) = (DomainId(at as u8), at as u16);
    match id == kernel.me {
        true => Ok(Placed { kernel: at, program }),
        false if wake(session, id) => Ok(Placed { kernel: at, program: None }),
        false => Err(Errno::Hostunreach),
    }
}

/// Writes where the program `path`, from the root, would start if no kernel is requested, and why.
/// Returns the name of that kernel, if there is one. Nothing is started or woken.
pub fn describe(
    session: &Session,
    path: &[u8],
    out: &mut dyn Write,
) -> Result<Option<&'static str>, Errno> {
    let kernel = session.kernel;
    let preferences = preferences_of(session, None, path)?.0;
    let mut board = Board::of(kernel);
    let servers = board.add_servers(session, &preferences);
    board.add_load(session);
    let outcome = board.choose(kernel, None, &preferences);
    let name = |at: usize| kernel.name_of(at);
    let (kernels, here) = (board.facts(), kernel.me.index());
    let explanation =
        Explanation { preferences: &preferences.kernel, kernels, here, outcome, name: &name };
    let written = write_endpoints(out, &preferences, &servers, &name);
    written.and_then(|()| explanation.write(out)).map_err(|_| Errno::Io)?;
    Ok(outcome.ok().map(|chosen| name(chosen.kernel)))
}

/// Returns which platform the program `path` requires and no kernel has, if that is so.
pub fn lacking(session: &Session, path: &[u8]) -> Option<String> {
    let preferences = preferences_of(session, None, path).ok()?.0;
    match Board::of(session.kernel).choose(session.kernel, None, &preferences) {
        Err(Refused::NoPlatform { required, is_on_board }) => {
            Some(format!("{}", missing(required, is_on_board)))
        }
        _ => None,
    }
}

fn write_endpoints(
    out: &mut dyn Write,
    preferences: &Preferences,
    servers: &[Server],
    name: &dyn Fn(usize) -> &'static str,
) -> fmt::Result {
    for it in &preferences.endpoints {
        let shown = core::str::from_utf8(&it.shown).unwrap_or("?");
        explain_endpoint(out, (shown, it.is_own), &it.affinity, servers, name)?;
    }
    Ok(())
}

fn preferences_of(
    session: &Session,
    directory: Option<u64>,
    path: &[u8],
) -> Result<(Arc<Preferences>, Option<Program>), Errno> {
    let processes = super::get().ok_or(Errno::Nosys)?;
    Programs::preferences(processes.programs.get(), session, directory, path)
}

fn refused(path: &[u8], why: Refused) -> Errno {
    match why {
        Refused::NoSuchKernel => Errno::Inval,
        Refused::Unavailable => Errno::Hostunreach,
        Refused::NoPlatform { required, is_on_board } => {
            let shown = String::from_utf8_lossy(path);
            kernel_node::log!("{shown}: {}", missing(required, is_on_board));
            Errno::Nodev
        }
    }
}

/// The facts about all kernels of the board.
struct Board {
    all: [Facts; MAX_DOMAINS],
    count: usize,
}

impl Board {
    /// Returns those that are known without asking anyone.
    fn of(kernel: &Kernel) -> Board {
        let mut board = Board { all: [Facts::default(); MAX_DOMAINS], count: 0 };
        for ((id, domain), facts) in (0..).zip(kernel.blob.domains()).zip(&mut board.all) {
            *facts = about(kernel, DomainId(id), domain);
            board.count += 1;
        }
        board
    }

    fn facts(&self) -> &[Facts] {
        self.all.get(..self.count).unwrap_or_default()
    }

    fn choose(
        &self,
        kernel: &Kernel,
        requested: Option<u32>,
        preferences: &Preferences,
    ) -> Result<Decision, Refused> {
        kernel_place::choose(requested, &preferences.kernel, kernel.me.index(), self.facts())
    }

    /// Adds the affinities to servers, if it matters where those are. Returns the servers.
    fn add_servers(&mut self, session: &Session, preferences: &Preferences) -> Vec<Server> {
        let affinities = preferences.affinities();
        if !is_wanted(&affinities) {
            return Vec::new();
        }
        // A program whose servers cannot be found starts like one whose servers do not run.
        let names = with_names(session, &Patience::ENDLESS, |names| names.list());
        let server = |listed: Listed| Server {
            name: listed.name,
            contract: listed.contract,
            kernel: listed.kernel.into(),
            pid: listed.pid,
        };
        let names = names.unwrap_or_default().into_iter();
        let names = names.filter(|listed| executes(session.kernel, listed));
        let servers: Vec<Server> = names.map(server).collect();
        weigh(&affinities, &servers, &mut self.all);
        servers
    }

    /// Adds the use and the number of processes of each kernel. If the table does not answer, the
    /// spawn that follows will report it.
    fn add_load(&mut self, session: &Session) {
        let mut counts = [0; MAX_DOMAINS];
        let asked = with_table(session, &Patience::ENDLESS, |table| table.load(&mut counts));
        for (at, facts) in self.all.iter_mut().enumerate().take(self.count) {
            facts.busy = power::busy(session.kernel, DomainId(at as u8));
            if asked.is_ok() {
                facts.processes = counts.get(at).copied().unwrap_or_default();
            }
        }
    }
}

/// Returns whether requests go where a name says. Each kernel has a name for a shadowed service;
/// while that has a home, its requests go there.
fn executes(kernel: &Kernel, listed: &Listed) -> bool {
    let service = listed.name.rest_below(SERVICE.as_bytes()).and_then(|rest| {
        let name = rest.split(|byte| *byte == b'/').next()?;
        core::str::from_utf8(name).ok()
    });
    let home = service.and_then(|service| kernel.services.home_of(service));
    home.is_none_or(|home| u16::from(home.0) == listed.kernel)
}

/// Returns the facts about the kernel of a domain. If each kernel has its own process table, the
/// others are not available.
fn about(kernel: &Kernel, id: DomainId, domain: &Domain) -> Facts {
    let mode = kernel.services.processes.mode();
    let apart = matches!(mode, Mode::Private | Mode::Independent);
    let (epoch, state) = kernel.soc.state(id);
    let is_me = id == kernel.me;
    Facts {
        is_available: is_me || !apart && epoch != 0 && state != state::DEAD,
        is_on_demand: !apart && epoch == 0 && state == state::OFF,
        is_strong: domain.role == role::MAIN,
        isa: domain.isa,
        cores: domain.cores,
        free: is_me.then(programs::room),
        ..Facts::default()
    }
}

/// Wakes a kernel that is asleep, or starts it: otherwise it does not learn of work in the table.
/// Returns whether it runs.
fn wake(session: &Session, id: DomainId) -> bool {
    !state::is_asleep(session.kernel.soc.state(id).1)
        || session.call(id, Procedure::SlowEcho, &[], &mut []).is_ok()
}
