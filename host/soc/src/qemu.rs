//! A running QEMU: its process, a descriptor that becomes readable when it ends, and the worker
//! that talks to its monitor.

use crate::config::Domain;
use crate::fabric::Doorbell;
use crate::qmp::{Order, Outcome, Worker, remove_socket};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// The soc may die between the fork and the setting of the parent-death signal, which then never
/// comes. So this script, which runs after the signal is set, checks that its parent is still the
/// soc ($0).
const STILL_OURS: &str = r#"[ "$PPID" = "$0" ] || exit 1; exec "$@""#;

/// Returns the command that starts `command` in `folder`. The process dies with the calling thread
/// (`setpriv --pdeathsig`). It is not in this process's group, so Ctrl-C reaches only the soc.
pub fn dependent(command: &[String], folder: &Path, log: &Path) -> std::io::Result<Command> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut dependent = Command::new("setpriv");
    dependent
        .args(["--pdeathsig", "KILL", "--", "sh", "-c", STILL_OURS])
        .arg(std::process::id().to_string())
        .args(command)
        .current_dir(folder)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    Ok(dependent)
}

/// A QEMU that was started and not yet reaped.
#[derive(Debug)]
pub struct Qemu {
    child: Child,
    ended: OwnedFd,
    orders: Sender<Order>,
}

impl Qemu {
    /// Starts a QEMU. It dies with the calling thread, so only the main thread may call this.
    pub fn start(
        index: usize,
        domain: &Domain,
        folder: &Path,
        outcomes: Sender<Outcome>,
        bell: Arc<Doorbell>,
    ) -> std::io::Result<Qemu> {
        remove_socket(&domain.qmp);
        let mut child = dependent(&domain.command, folder, &domain.log)?.spawn()?;
        let watch = |child: &Child| pidfd_open(Pid::from_child(child), PidfdFlags::empty());
        let ended = watch(&child).inspect_err(|_| stop(&mut child))?;
        let (orders, receiver) = channel();
        let worker = Worker {
            domain: index,
            name: domain.name.clone(),
            path: domain.qmp.clone(),
            outcomes,
            bell,
        };
        std::thread::Builder::new()
            .name(format!("qmp {}", domain.name))
            .spawn(move || worker.run(&receiver))
            .inspect_err(|_| stop(&mut child))?;
        Ok(Qemu { child, ended, orders })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns a descriptor that is readable once it has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Returns how it ended, if it has.
    pub fn reap(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Queues a job. Returns false if its worker has ended.
    pub fn order(&self, order: Order) -> bool {
        self.orders.send(order).is_ok()
    }

    /// Kills it; [`Qemu::ended`] becomes readable when it has ended.
    pub fn kill(&mut self) -> std::io::Result<()> {
        self.child.kill()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills it and waits for its end.
    pub fn finish(mut self) {
        stop(&mut self.child);
    }
}

fn stop(child: &mut Child) {
    if let Err(e) = child.kill().and_then(|()| child.wait()) {
        log::error!("QEMU {} could not be stopped: {e}.", child.id());
    }
}
