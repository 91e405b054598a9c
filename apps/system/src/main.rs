//! One program for the tools that show the system. Its name (`ps`, `top`, `kill` and so on) or its
//! first argument selects the tool.
//!
//! Processes come from the SDK's list, everything else from files of `/proc`; if one is missing,
//! the tool reports it.

mod about;
mod begin;
mod channels;
mod files;
mod find;
mod glob;
mod grep;
mod look;
mod ls;
mod lsof;
mod options;
mod pattern;
mod power;
mod processes;
mod sockets;
mod tasks;
mod uname;
mod xargs;

use std::io::Write;
use std::process::ExitCode;

/// The result of a tool: an exit code, or an error message.
type Answer = Result<u32, String>;

/// A tool's name, its function, and its usage.
type Tool = (&'static str, fn(&[String]) -> Answer, &'static str);

/// 128 plus SIGPIPE.
const NOBODY_READS: u32 = 141;

const LS: &str = "ls [-1aACdfFghilnopqrRsStUx] [--color] [FILE...]
  -1 a line each; -C, -x columns; -l long; -g, -o, -n long without owner, without group, in numbers
  -a all names; -A all but . and ..; -d directories themselves; -R what is in them, too
  -t by time; -S by size; -U, -f as the directory has them; -r the other way round
  -h sizes with a unit; -F, -p marks after names; -i numbers of files; -s KiB of each";

const PS: &str = "ps [-l] [-T]
  -l with energy; -T a line for each thread
  THR: threads; - if there are none, or if their kernel rests, which is not woken to be asked";

const TOOLS: &[Tool] = &[
    ("ps", processes::ps, PS),
    ("top", processes::top, "top [-n TIMES] [-d SECONDS]"),
    ("kill", processes::kill, "kill [-SIGNAL | -s SIGNAL] PROCESS... | -l [SIGNAL...]"),
    ("move", processes::move_to, "move PROCESS KERNEL (number or name)"),
    ("on", processes::on, "on KERNEL PROGRAM [ARGUMENT...]"),
    ("limit", processes::limit, "limit [-m MIB] [-n FILES] PROGRAM [ARGUMENT...]"),
    ("env", processes::env, "env [NAME=VALUE...] [PROGRAM [ARGUMENT...]]"),
    (
        "xargs",
        xargs::xargs,
        "xargs [-0rt] [-I TEXT] [-L LINES] [-n WORDS] [-E END] [PROGRAM [ARGUMENT...]]",
    ),
    (
        "grep",
        grep::grep,
        "grep [-EFGHLchilnoqrsvwx] [-m LINES] [-e PATTERN]... [-f FILE] [PATTERN] [FILE...]",
    ),
    (
        "find",
        find::find,
        "find [-H | -L] [PATH...] [-name PATTERN | -type f | -exec PROGRAM {} \\; | ...]...",
    ),
    ("ls", ls::ls, LS),
    ("dir", ls::dir, "dir [OPTION...] [FILE...] (as ls -C)"),
    ("vdir", ls::vdir, "vdir [OPTION...] [FILE...] (as ls -l)"),
    ("uname", uname::uname, "uname [-asnrvmpio]"),
    ("arch", uname::arch, "arch"),
    ("ss", sockets::ss, sockets::USAGE),
    ("lsof", lsof::lsof, lsof::USAGE),
    ("stat", look::stat, "stat FILE..."),
    ("du", look::du, "du [-s] [FILE...]"),
    ("clear", look::clear, "clear"),
    ("free", files::free, "free [KERNEL]"),
    ("mount", files::mount, "mount (what is mounted where; mounts are made at boot)"),
    ("df", files::df, "df"),
    ("dmesg", files::dmesg, "dmesg [KERNEL]"),
    ("sync", files::sync, "sync"),
    ("reboot", files::reboot, "reboot"),
    ("poweroff", files::poweroff, "poweroff"),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match run(&words) {
        Ok(code) => ExitCode::from((code & 0xff) as u8),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the selected tool and its arguments.
fn chosen(words: &[String]) -> Option<(&'static Tool, &[String])> {
    let find = |name: &str| TOOLS.iter().find(|(tool, _, _)| *tool == name);
    let name = words.first()?.rsplit('/').next()?;
    if let Some(tool) = find(name) {
        return Some((tool, words.get(1..).unwrap_or_default()));
    }
    Some((find(words.get(1)?)?, words.get(2..).unwrap_or_default()))
}

fn run(words: &[String]) -> Answer {
    let Some((tool, arguments)) = chosen(words) else {
        let usages: Vec<&str> = TOOLS.iter().map(|(_, _, usage)| *usage).collect();
        return Err(format!("system: one of\n  {}", usages.join("\n  ")));
    };
    let (name, run, usage) = tool;
    if arguments.first().is_some_and(|a| a == "--help") {
        return put(&format!("{usage}\n"));
    }
    run(arguments).map_err(|why| format!("{name}: {why}"))
}

/// Writes a tool's output. Without a reader it returns SIGPIPE's exit code and prints no error.
fn put(text: &str) -> Answer {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(NOBODY_READS),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_chosen_by_its_name() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<String>>();
        let name = |text: &str| {
            let words = words(text);
            chosen(&words).map(|(tool, rest)| (tool.0, rest.len()))
        };
        assert_eq!(name("ps"), Some(("ps", 0)));
        assert_eq!(name("/bin/kill -9 5"), Some(("kill", 2)));
        assert_eq!(name("system top -n 1"), Some(("top", 2)));
        assert_eq!(name("system nothing"), None);
        assert_eq!(name("system"), None);
    }
}
