//! The gateway process: started with the board, started again when it ends, killed with the board.
//!
//! A thread of its own starts it and waits for it. The process dies with that thread, and so with
//! the soc, however the soc ends.

use crate::config::Gateway;
use crate::fabric::Doorbell;
use crate::qemu::dependent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A gateway that has run for less is started again only after this time.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps the gateway running until `stop` is rung.
pub fn run(gateway: &Gateway, folder: &Path, stop: &Doorbell) {
    loop {
        let start = Instant::now();
        match dependent(&gateway.command, folder, &gateway.log).and_then(|mut it| it.spawn()) {
            Ok(child) => {
                if follow(child, stop) {
                    return;
                }
            }
            Err(e) => log::error!("Gateway: it cannot be started: {e}."),
        }
        let pause = PAUSE.saturating_sub(start.elapsed());
        if wait(&mut [PollFd::new(stop, PollFlags::IN)], Some(pause)) {
            return;
        }
    }
}

/// Waits until the process ends, or kills it when `stop` is rung. Returns whether it was.
fn follow(mut child: Child, stop: &Doorbell) -> bool {
    log::info!("Gateway: process {}.", child.id());
    let stops = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(ended) => {
            let mut both = [PollFd::new(stop, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
            wait(&mut both, None);
            !both[0].revents().is_empty()
        }
        Err(e) => {
            log::error!("Gateway: it cannot be watched: {e}.");
            false
        }
    };
    // It may have ended already.
    let _ = child.kill();
    match child.wait() {
        Ok(status) if !stops => log::error!("Gateway: it has ended ({status}); see its log."),
        _ => {}
    }
    stops
}

/// Waits for one of `all`. Returns whether it was in time.
fn wait(all: &mut [PollFd<'_>], most: Option<Duration>) -> bool {
    // A pause is a second at most, so it fits.
    let time = most.and_then(|most| Timespec::try_from(most).ok());
    rustix::io::retry_on_intr(|| poll(all, time.as_ref())).is_ok_and(|ready| ready != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    #[test]
    fn a_gateway_is_started_again_and_ends_with_its_board() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        // The first one crashes at once, the second one stays.
        let script = "echo $$; [ -e there ] && exec sleep 1000; touch there; kill -9 $$";
        let command = ["sh", "-c", script].map(String::from).to_vec();
        let gateway = Gateway { command, log: log.clone() };
        let stop = Arc::new(Doorbell::new().unwrap());
        let thread = std::thread::spawn({
            let (stop, folder) = (stop.clone(), folder.path().to_path_buf());
            move || run(&gateway, &folder, &stop)
        });
        while lines(&log) < 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let text = std::fs::read_to_string(&log).unwrap();
        let alive = || text.lines().filter(|pid| Path::new("/proc").join(pid).exists()).count();
        assert_eq!(alive(), 1);
        stop.ring();
        thread.join().unwrap();
        assert_eq!((alive(), lines(&log)), (0, 2));
    }
}
