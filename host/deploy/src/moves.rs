//! `pen move`: moves a running process to another kernel.

use crate::exec::kernel;
use crate::transfer::Stream;
use abi::host::{Kind, Move};
use anyhow::bail;
use workbench::instance::Instance;
use zerocopy::IntoBytes;

/// `pen move`
#[derive(clap::Args)]
pub struct Line {
    /// Number of the process: `ps` on the board shows it.
    pub pid: u32,
    /// Name of the kernel.
    pub kernel: String,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// `pen move`: returns when the process runs there.
pub fn move_process(instance: &Instance, line: &Line) -> anyhow::Result<()> {
    let to = kernel(&instance.board()?, Some(&line.kernel))?;
    let wanted = Move { pid: line.pid.into(), kernel: to.into() };
    let mut stream = Stream::open(instance)?;
    stream.send(Kind::Move, wanted.as_bytes())?;
    match stream.receive()? {
        (Kind::Done, _) => Ok(()),
        (kind, _) => bail!("the board answered {kind:?} to a request to move a process"),
    }
}
