//! A board that restarts while clients are connected (`reboot`): waiting for it, and telling a
//! restart from an end.

use crate::instance::{Instance, START};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(20);
/// Number of failed attempts, while the board is up, after which a socket is considered absent.
const MISSES: u32 = 5;

/// One start of a board, as found by a client that connected then.
#[derive(Clone, Debug)]
pub struct Life {
    instance: Instance,
    number: u64,
    /// The deaths of each domain.
    deaths: Vec<u64>,
}

impl Life {
    /// Returns whether the board has restarted since.
    pub fn is_over(&self) -> bool {
        soc::lives::count(&self.instance.folder) > self.number
    }

    /// Returns the names of the domains that have died since.
    pub fn died(&self) -> Vec<String> {
        let Ok(board) = self.instance.board() else { return vec![] };
        let now = self.instance.deaths();
        let died = now.iter().zip(&self.deaths).map(|(now, then)| now > then);
        let all = board.domains.into_iter().zip(died).filter(|(_, died)| *died);
        all.map(|(domain, _)| domain.name).collect()
    }
}

impl Instance {
    /// Returns the current life.
    pub fn life(&self) -> Life {
        let (number, deaths) = (soc::lives::count(&self.folder), self.deaths());
        Life { instance: self.clone(), number, deaths }
    }

    /// Returns how often each domain has died; nothing if the board does not run.
    fn deaths(&self) -> Vec<u64> {
        let states = self.board().map(|board| self.states(&board)).unwrap_or_default();
        states.into_iter().map(|(_, _, deaths)| deaths).collect()
    }

    /// Connects to a socket of the board; waits while the board restarts.
    ///
    /// The soc opens `control.sock` last and closes it first, and counts lives in between. So a
    /// connection belongs to a continuing life if the control socket was open before it, and the
    /// count did not change.
    pub fn connect(&self, name: &str) -> std::io::Result<UnixStream> {
        let is_whole = || UnixStream::connect(self.path("control.sock")).is_ok();
        let (start, mut misses) = (Instant::now(), 0);
        loop {
            let life = self.life();
            let before = is_whole();
            let why = match UnixStream::connect(self.path(name)) {
                Ok(stream) if before && !life.is_over() => return Ok(stream),
                Ok(_) => ErrorKind::ConnectionReset.into(),
                Err(why) => why,
            };
            // A complete life may have ended, and the next one may be complete by now.
            misses = if before && is_whole() && !life.is_over() { misses + 1 } else { 0 };
            if self.soc().is_none() {
                return Err(told(&why, "the board is not running"));
            } else if misses == MISSES {
                return Err(told(&why, &format!("the board does not serve {name}")));
            } else if start.elapsed() >= START {
                let seconds = START.as_secs();
                let text = format!("the board has not opened {name} in {seconds} s; see soc.log");
                return Err(told(&why, &text));
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn told(why: &std::io::Error, text: &str) -> std::io::Error {
    std::io::Error::new(why.kind(), format!("{text} ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_files::{CONSOLE, VSOCK};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_life_is_over_with_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::at(folder.path().to_path_buf());
        let first = instance.life();
        assert!(!first.is_over());
        soc::lives::next(folder.path()).unwrap();
        assert!(first.is_over() && !instance.life().is_over());
    }

    #[test]
    fn what_is_not_there_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::at(folder.path().to_path_buf());
        // There is no board.
        assert!(instance.connect(CONSOLE).is_err());
        // A complete board without this socket.
        let _control = UnixListener::bind(instance.path("control.sock")).unwrap();
        assert!(instance.connect(VSOCK).is_err());
        let _vsock = UnixListener::bind(instance.path(VSOCK)).unwrap();
        assert!(instance.connect(VSOCK).is_ok());
    }
}
