//! `pen move`: moves a running process, or a shadowed service, to another kernel.

use crate::exec::kernel;
use crate::transfer::Stream;
use abi::host::{Kind, Move, MoveService};
use abi::program::ANY_KERNEL;
use anyhow::{Context, bail};
use workbench::instance::Instance;
use zerocopy::IntoBytes;

/// What stands before the name of a service.
const SERVICE: &str = "service";
/// What stands for a kernel: each executes its own requests.
const EACH: &str = "each";

/// `pen move`
#[derive(clap::Args)]
#[command(override_usage = "pen move PID KERNEL\n       pen move service NAME KERNEL|each")]
pub struct Line {
    /// PID KERNEL moves a process: its number, which `ps` on the board shows, and the kernel's
    /// name. `service NAME KERNEL` has that kernel execute the requests of all kernels to a
    /// shadowed service, which the monitor's `services` shows; with `each` in place of KERNEL,
    /// each kernel executes its own again.
    #[arg(num_args = 2..=3, required = true, value_name = "WHAT")]
    pub what: Vec<String>,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// `pen move`: returns when the process or the service has moved.
pub fn move_one(instance: &Instance, line: &Line) -> anyhow::Result<()> {
    let words: Vec<&str> = line.what.iter().map(String::as_str).collect();
    match *words {
        [SERVICE, name, to] => {
            let to = match to {
                EACH => ANY_KERNEL,
                name => kernel(&instance.board()?, Some(name))?,
            };
            let wanted = MoveService { kernel: to.into() };
            let frame = [wanted.as_bytes(), name.as_bytes()].concat();
            done(instance, (Kind::MoveService, &frame))
        }
        [pid, to] => {
            let pid: u32 = pid.parse().ok().with_context(|| {
                format!("{pid}: a process has a number; pen move service NAME KERNEL for a service")
            })?;
            let to = kernel(&instance.board()?, Some(to))?;
            let wanted = Move { pid: pid.into(), kernel: to.into() };
            done(instance, (Kind::Move, wanted.as_bytes()))
        }
        _ => bail!("pen move PID KERNEL, or pen move service NAME KERNEL|each"),
    }
}

/// Makes a request that the board confirms.
fn done(instance: &Instance, (kind, bytes): (Kind, &[u8])) -> anyhow::Result<()> {
    let mut stream = Stream::open(instance)?;
    stream.send(kind, bytes)?;
    match stream.receive()? {
        (Kind::Done, _) => Ok(()),
        (answer, _) => bail!("the board answered {answer:?} to {kind:?}"),
    }
}
