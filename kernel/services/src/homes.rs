//! Moves a shadowed service to another kernel, for a user (docs/design/services.md). The mechanism
//! is in `services::homes`.

use crate::duty;
use crate::services::NotMoved;
use crate::session::{Failure, Session};
use abi::soc::state;
use base::id::DomainId;
use kernel_platform::peers::{CallFailure, Procedure};

/// How often a change is made again because another kernel has made one at the same time.
const TRIES: usize = 8;

/// What a user writes instead of a kernel's name: each kernel executes its own requests.
pub const EACH: &str = "each";

/// Has kernel `to` execute the requests of all kernels to a service; `None`: each kernel executes
/// its own. Returns when all kernels that run know that. Those that are asleep learn of it when
/// they wake.
pub fn move_service(session: &Session, name: &str, to: Option<DomainId>) -> Result<(), Failure> {
    let kernel = session.kernel;
    for _ in 0..TRIES {
        let place = match kernel.services.set_home(kernel, name, to) {
            Err(NotMoved::Busy) => continue,
            other => other.map_err(explain)?,
        };
        tell_all(session, to)?;
        duty::look(kernel);
        if kernel.services.home(place) == to {
            let home = to.map_or("each kernel", |to| kernel.name_of(to.index()));
            kernel_node::log!("service {name}: executed by {home}");
            return Ok(());
        }
    }
    Err(explain(NotMoved::Busy))
}

/// Has the peers that run look at the homes: the new one first, so that a kernel which stops
/// serving a device does so when that one serves it. A kernel that does not answer looks when the
/// state of a domain changes.
fn tell_all(session: &Session, to: Option<DomainId>) -> Result<(), Failure> {
    let others = || session.kernel.others();
    others().filter(|peer| Some(*peer) == to).try_for_each(|home| tell(session, home))?;
    let mut told = Ok(());
    for peer in others().filter(|peer| Some(*peer) != to) {
        // All of them, also after a failure.
        told = told.and(tell(session, peer));
    }
    told
}

/// Has a peer that runs look at the homes.
fn tell(session: &Session, peer: DomainId) -> Result<(), Failure> {
    if session.kernel.soc.state(peer).1 != state::RUNNING {
        return Ok(());
    }
    match session.call(peer, Procedure::LookAtHomes, &[], &mut []) {
        // If it starts again, it takes the homes from the others.
        Ok(_) | Err(CallFailure::PeerLost | CallFailure::Busy) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

fn explain(why: NotMoved) -> Failure {
    Failure::Failed(match why {
        NotMoved::Unknown => "no such service; `services` lists them",
        NotMoved::NotShadowed => {
            "only a shadowed service can move while the board runs; the board file gives this one \
             its mode and home"
        }
        NotMoved::Stays(why) => why,
        NotMoved::NoKernel => "that kernel does not run; `peers` shows the kernels' states",
        NotMoved::Busy => "other kernels move services at the same time; try again",
    })
}
