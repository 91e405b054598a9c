//! The frequency of this domain: a word of its page, which the chip follows at the store.

use super::{Command, Failure, Outcome, Session, number};
use abi::soc::DomainPage;
use base::port::Words;
use core::fmt::Write;
use core::mem::offset_of;

pub const COMMANDS: &[Command] = &[Command {
    name: "frequency",
    arguments: "MHZ",
    help: "run this domain at another of its board's frequencies; told in the lab only",
    run: frequency,
}];

/// The chip ignores a frequency that the board does not list; time goes on at the old one.
fn frequency(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let mhz = number(arguments, 0, 0)?;
    if mhz == 0 {
        return Err(Failure::Usage);
    }
    session.kernel.own_page.store(offset_of!(DomainPage, frequency_mhz), mhz);
    Ok(writeln!(out, "  asked for {mhz} MHz")?)
}
