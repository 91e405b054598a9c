//! Requests of kernels and of clients of the control socket, and their answers.

use super::Supervisor;
use crate::config::REQUEST_KICK;
use crate::control::{Operation, good, refused};
use crate::fabric::Doorbell;
use crate::memory::{Answer, MemoryError};
use crate::power::{Asker, Event};
use crate::qemu::Qemu;
use abi::soc::{command, error, state};
use serde_json::{Value, json};

impl Supervisor {
    pub(super) fn serve_kernels(&mut self) {
        if !self.parts.fabric.own(usize::from(REQUEST_KICK)).is_some_and(Doorbell::take) {
            return;
        }
        for d in 0..self.handled.len() {
            let request = match self.parts.chip.request(d, self.handled[d]) {
                Ok(None) => continue,
                Ok(Some(request)) => request,
                Err(e) => {
                    log::error!("The request page of {} cannot be read: {e}.", self.name(d));
                    continue;
                }
            };
            self.handled[d] = request.sequence;
            let asker = Asker::Kernel(d, request.sequence);
            if request.command == command::PANIC {
                log::error!("The kernel of {} has panicked.", self.name(d));
            }
            if request.command == command::ENERGY {
                self.tell_energy(asker, request.arg0);
                continue;
            }
            self.request(asker, request.command, [request.arg0, request.arg1]);
        }
    }

    /// A reproducible run does not restart, because the next start has a different seed and time.
    fn request(&mut self, asker: Asker, command: u64, [arg0, arg1]: [u64; 2]) {
        if command != command::REBOOT || !self.parts.config.exact {
            return self.step(Event::Request(asker, command, arg0, arg1));
        }
        if let Err(e) = self.answer(asker, error::ABSENT, 0) {
            log::error!("A restart could not be refused: {e}.");
        }
    }

    fn tell_energy(&mut self, asker: Asker, domain: u64) {
        let known = usize::try_from(domain).ok().filter(|&d| d < self.qemus.len());
        let used = known.map(|d| self.gate().energy_nj(self.slot(d)));
        let (error, value) = match used {
            None => (error::INVALID, 0),
            Some(None) => (error::ABSENT, 0),
            Some(Some(nj)) => (error::NONE, nj),
        };
        if let Err(e) = self.answer(asker, error, value) {
            log::error!("The energy of domain {domain} could not be returned: {e}.");
        }
    }

    pub(super) fn answer(
        &mut self,
        asker: Asker,
        error: u64,
        value: u64,
    ) -> Result<(), MemoryError> {
        match asker {
            Asker::Kernel(d, sequence) => {
                let answer = Answer { error, value, time: self.now() };
                self.parts.chip.answer(d, sequence, answer)?;
                self.ring_chip(d);
            }
            Asker::Client(client) => {
                let answer = if error == error::NONE { good() } else { refused(error_text(error)) };
                self.parts.control.answer(client, &answer);
            }
        }
        Ok(())
    }

    pub(super) fn serve_client(&mut self, client: u64, operation: &Operation) {
        let asker = Asker::Client(client);
        let index = |name: &String| self.parts.config.domains.iter().position(|d| d.name == *name);
        let answer = match operation {
            Operation::Status {} => self.status(),
            Operation::Shutdown {} => return self.request(asker, command::SHUTDOWN, [0; 2]),
            Operation::Reboot {} => return self.request(asker, command::REBOOT, [0; 2]),
            Operation::Kill { domain } => match index(domain) {
                Some(d) if self.qemus[d].is_some() => {
                    log::warn!("A client of the control socket kills {domain}.");
                    self.step(Event::Crash(d));
                    good()
                }
                Some(_) => refused("it has no QEMU now"),
                None => refused("no such domain"),
            },
            Operation::Cut { device, after, seed } => {
                match self.parts.cuts.iter().find(|(name, _)| name == device) {
                    Some((_, cut)) => {
                        cut.order(*after, *seed);
                        good()
                    }
                    None => refused("no such disk"),
                }
            }
            Operation::Power { domain, action } => match index(domain) {
                Some(d) => {
                    return self.step(Event::Request(asker, action.command(), d as u64, 0));
                }
                None => refused("no such domain"),
            },
        };
        self.parts.control.answer(client, &answer);
    }

    fn status(&self) -> Value {
        let domains = (0..self.qemus.len()).filter_map(|d| {
            let view = self.power.view(d)?;
            Some(json!({
                "name": self.name(d), "index": d, "state": state::name(view.state),
                "epoch": view.epoch, "deaths": view.deaths, "busy": view.busy,
                "pid": self.qemus[d].as_ref().map(Qemu::pid),
            }))
        });
        json!({
            "ok": true,
            "pid": std::process::id(),
            "uptime": self.now() as f64 / 1e9,
            "time_ns": self.now(), "domains": domains.collect::<Vec<_>>(),
        })
    }
}

fn error_text(error: u64) -> &'static str {
    match error {
        error::INVALID => "no such command or domain",
        error::ABSENT => "this board has no such thing",
        error::STATE => "the domain is not in a state that allows it",
        _ => "the emulator did not answer; see soc.log",
    }
}
