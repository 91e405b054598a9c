//! A kernel's request to the soc, which the soc serves at some time, and the answer.

use abi::soc::error;
use soc::power::{Asker, Event};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Asking {
    /// The kernel waits for the answer.
    pub waits: bool,
    /// Its request, which has not been served: command and arguments.
    pub request: Option<(u64, [u64; 2])>,
    pub answer: Option<bool>,
}

impl Asking {
    pub fn ask(&mut self, command: u64, arguments: [u64; 2]) {
        (self.request, self.waits) = (Some((command, arguments)), true);
    }

    /// Takes the answer to the request that this step has made, or makes it.
    pub fn asked(&mut self, command: u64, arguments: [u64; 2]) -> Option<bool> {
        let answer = self.answer.take();
        if answer.is_none() {
            self.ask(command, arguments);
        }
        answer
    }

    /// Takes the request of kernel `d`: its command, and what the soc gets.
    pub fn take(&mut self, d: usize) -> Option<(u64, Event)> {
        let (command, [one, two]) = self.request.take()?;
        Some((command, Event::Request(Asker::Kernel(d, 1), command, one, two)))
    }

    /// The soc has served it.
    pub fn answered(&mut self, code: u64) {
        (self.answer, self.waits) = (Some(code == error::NONE), false);
    }
}
