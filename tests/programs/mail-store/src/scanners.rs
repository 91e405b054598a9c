//! The programs that look for viruses, each with at most one mail at a time.
//!
//! Contract: a job that is given to a scanner comes back with a verdict, or without one if the
//! scanner ends. A scanner that has ended is looked for again by its name with the next job.

use mail_contracts::scan_v1::{CONTRACT, client, message};
use penumbra::channel::{Channel, connect};

/// What a scanner has found.
pub enum Verdict {
    Clean,
    /// The name of the virus.
    Infected(Vec<u8>),
}

/// What a scanner does, as far as is known.
enum State<J> {
    /// None serves the name.
    Gone,
    Idle(client::Idle<Channel>),
    Busy(client::Scanning<Channel>, J),
}

struct Scanner<J> {
    name: String,
    state: State<J>,
}

impl<J> Scanner<J> {
    /// Sends data, if it is there and has none.
    fn send(&mut self, data: &[u8]) -> Option<client::Scanning<Channel>> {
        let send = |to: client::Idle<Channel>| to.send_scan(&message::Scan {}, data.into()).ok();
        let before = match std::mem::replace(&mut self.state, State::Gone) {
            State::Idle(conversation) => send(conversation),
            State::Gone => None,
            busy @ State::Busy(..) => {
                self.state = busy;
                return None;
            }
        };
        // Another one may serve the name meanwhile.
        before.or_else(|| send(client::start(connect(&self.name, CONTRACT).ok()?)))
    }
}

/// All of them. `J` is what the caller gets back with a verdict.
pub struct Scanners<J>(Vec<Scanner<J>>);

/// A job that no scanner has taken.
pub struct Refused<J> {
    pub job: J,
    /// Some scanners have others.
    pub are_busy: bool,
}

impl<J> Scanners<J> {
    /// Those of these names.
    pub fn new(names: Vec<String>) -> Scanners<J> {
        let scanner = |name| Scanner { name, state: State::Gone };
        Scanners(names.into_iter().map(scanner).collect())
    }

    /// Returns the ends of those that have a job, to wait for a verdict.
    pub fn busy(&self) -> impl Iterator<Item = &Channel> {
        self.0.iter().filter_map(|scanner| match &scanner.state {
            State::Busy(conversation, _) => Some(conversation.transport()),
            _ => None,
        })
    }

    /// Returns whether all have a job.
    pub fn are_all_busy(&self) -> bool {
        self.busy().count() == self.0.len()
    }

    /// Gives data to one that has none.
    pub fn give(&mut self, data: &[u8], job: J) -> Result<(), Refused<J>> {
        for scanner in &mut self.0 {
            if let Some(conversation) = scanner.send(data) {
                scanner.state = State::Busy(conversation, job);
                return Ok(());
            }
        }
        Err(Refused { job, are_busy: self.busy().next().is_some() })
    }

    /// Receives the verdicts of those of [`Scanners::busy`] that are `ready`. One that has ended
    /// gives none.
    pub fn verdicts(&mut self, ready: impl Fn(usize) -> bool) -> Vec<(J, Option<Verdict>)> {
        let is_busy = |scanner: &&mut Scanner<J>| matches!(scanner.state, State::Busy(..));
        let asked = self.0.iter_mut().filter(is_busy).enumerate();
        asked
            .filter(|(index, _)| ready(*index))
            .filter_map(|(_, scanner)| verdict(scanner))
            .collect()
    }
}

fn verdict<J>(scanner: &mut Scanner<J>) -> Option<(J, Option<Verdict>)> {
    use client::received::Scanning::{Clean, Infected};
    let State::Busy(conversation, job) = std::mem::replace(&mut scanner.state, State::Gone) else {
        return None;
    };
    let (verdict, next) = match conversation.receive() {
        Ok(Clean { next, .. }) => (Verdict::Clean, next),
        Ok(Infected { message, next }) => {
            (Verdict::Infected(message.virus.as_slice().to_vec()), next)
        }
        Err(_) => return Some((job, None)),
    };
    scanner.state = State::Idle(next);
    Some((job, Some(verdict)))
}
