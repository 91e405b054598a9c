//! What the file of a name says: lines of `KEY: VALUE`.

use abi::names::{KERNEL, Listed, SERVICE};
use core::fmt::{self, Write};

/// What the file of a name says besides the table's entry.
pub trait Facts {
    fn kernel(&self, number: u16) -> &str;
    fn isa(&self, kernel: u16) -> &str;
    /// Returns the name of the program that a process runs.
    fn program(&self, pid: u32) -> Option<alloc::string::String>;
    /// Returns the mode of a service.
    fn mode(&self, service: &str) -> &str;
    /// Returns what a service serves.
    fn about(&self, service: &str) -> &str;
}

/// Writes the text of a name's file.
pub fn write(out: &mut dyn Write, listed: &Listed, facts: &dyn Facts) -> fmt::Result {
    writeln!(out, "kernel: {}", facts.kernel(listed.kernel))?;
    writeln!(out, "life: {}", listed.epoch)?;
    let mut parts = listed.name.text().split('/');
    match (parts.next(), parts.next()) {
        (Some(KERNEL), Some(_)) => {
            writeln!(out, "number: {}", listed.kernel)?;
            writeln!(out, "isa: {}", facts.isa(listed.kernel))
        }
        (Some(SERVICE), Some(service)) => {
            writeln!(out, "mode: {}", facts.mode(service))?;
            writeln!(out, "serves: {}", facts.about(service))
        }
        _ => server(out, listed, facts),
    }
}

fn server(out: &mut dyn Write, listed: &Listed, facts: &dyn Facts) -> fmt::Result {
    writeln!(out, "process: {}", listed.pid)?;
    // It may have ended a moment ago.
    writeln!(out, "program: {}", facts.program(listed.pid).as_deref().unwrap_or("?"))?;
    out.write_str("contract: ")?;
    crate::commands::hex(out, &listed.contract)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::names::Name;
    use alloc::string::String;

    struct Board;

    impl Facts for Board {
        fn kernel(&self, number: u16) -> &str {
            if number == 1 { "shadow" } else { "main" }
        }
        fn isa(&self, _: u16) -> &str {
            "rv64"
        }
        fn program(&self, pid: u32) -> Option<String> {
            (pid == 70).then(|| String::from("scanner"))
        }
        fn mode(&self, service: &str) -> &str {
            if service == "fs" { "shadowed" } else { "?" }
        }
        fn about(&self, _: &str) -> &str {
            "files"
        }
    }

    fn text(name: &str, pid: u32) -> String {
        let name = Name::new(name.as_bytes()).unwrap_or_default();
        let listed = Listed { name, contract: [0xa5; 16], pid, kernel: 1, epoch: 2 };
        let mut out = String::new();
        assert!(write(&mut out, &listed, &Board).is_ok());
        out
    }

    #[test]
    fn the_file_of_a_program_says_by_what_it_is_served() {
        let expected = "kernel: shadow\nlife: 2\nprocess: 70\nprogram: scanner\n\
                        contract: a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5\n";
        assert_eq!(text("mail/virus", 70), expected);
        assert!(text("mail/virus", 71).contains("program: ?\n"), "it has ended");
    }

    #[test]
    fn the_files_of_the_system_say_what_there_is() {
        assert_eq!(text("kernel/shadow", 0), "kernel: shadow\nlife: 2\nnumber: 1\nisa: rv64\n");
        let expected = "kernel: shadow\nlife: 2\nmode: shadowed\nserves: files\n";
        assert_eq!(text("service/fs/shadow", 0), expected);
    }
}
