//! The command about names of channels.

use super::{Command, Failure, Outcome, Session, hex};
use abi::names::Listed;
use core::fmt::Write;
use kernel_services::names::{explain, with_names};
use kernel_services::services::Patience;

pub const COMMANDS: &[Command] = &[Command {
    name: "names",
    arguments: "",
    help: "the names of kernels, services and channels: kernel, process and contract of each",
    run: list,
}];

fn list(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let all = with_names(session, &Patience::ENDLESS, |names| names.list());
    let all = all.map_err(|why| Failure::Failed(explain(why)))?;
    show(out, &all, &|kernel| session.kernel.name_of(kernel.into()))
}

fn show(out: &mut dyn Write, all: &[Listed], kernel: &dyn Fn(u16) -> &'static str) -> Outcome {
    writeln!(out, "  {:<8} {:>5}  {:<32}  name", "kernel", "pid", "contract")?;
    for listed in all {
        write!(out, "  {:<8} {:>5}  ", kernel(listed.kernel), listed.pid)?;
        match listed.name.is_of_system() {
            true => write!(out, "{:<32}", "-")?,
            false => hex(out, &listed.contract)?,
        }
        writeln!(out, "  {}", listed.name.text())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::names::Name;
    use alloc::string::String;

    #[test]
    fn a_name_is_shown_with_its_server() {
        let name = Name::new(b"mail/virus").unwrap_or_default();
        let listed = Listed { name, contract: [0xa5; 16], pid: 70, kernel: 1, epoch: 2 };
        let mut out = String::new();
        let kernel = |kernel| if kernel == 1 { "shadow" } else { "?" };
        let name = Name::new(b"kernel/shadow").unwrap_or_default();
        let system = Listed { name, kernel: 1, epoch: 2, ..Listed::default() };
        assert!(show(&mut out, &[system, listed], &kernel).is_ok());
        let expected = "  kernel     pid  contract                          name\n  \
                        shadow       0  -                                 kernel/shadow\n  \
                        shadow      70  a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5  mail/virus\n";
        assert_eq!(out, expected);
    }
}
