//! Requests as functions. How a request reaches the service, and how its caller waits meanwhile, is
//! the business of the function that is passed in.

use crate::{Reply, Request, kind, status};

/// Carries a request to the service and returns its reply.
pub type Ask<'a> = &'a mut dyn FnMut(Request) -> Reply;

/// Why there was no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many callers wait already.
    Crowded,
    /// The service does not know the request: it is of another version.
    Unknown,
}

/// A caller of the service.
pub struct Client<'a>(pub Ask<'a>);

impl Client<'_> {
    fn ask(&mut self, kind: u64, count: u64) -> Result<u64, Refusal> {
        let reply = (self.0)(Request { kind, count });
        match reply.status {
            status::DONE => Ok(reply.left),
            status::CROWDED => Err(Refusal::Crowded),
            _ => Err(Refusal::Unknown),
        }
    }

    /// Adds permits; returns how many there are then.
    pub fn add(&mut self, count: u64) -> Result<u64, Refusal> {
        self.ask(kind::ADD, count)
    }

    /// Takes one, waiting for it; returns how many are left.
    pub fn take(&mut self) -> Result<u64, Refusal> {
        self.ask(kind::TAKE, 0)
    }

    /// Returns how many there are.
    pub fn count(&mut self) -> Result<u64, Refusal> {
        self.ask(kind::COUNT, 0)
    }
}
