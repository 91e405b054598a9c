//! `lsof`: what processes have open, from `/proc/KERNEL/descriptors` of each kernel that runs.
//!
//! Contract: a kernel that rests, or does not answer, is not asked: reading its file would wake it.
//! `lsof` says on standard error which ones these are.

use crate::options::{Options, number};
use crate::power::{self, Kernel};
use crate::{Answer, put};
use penumbra::process::{self, Process};

pub const USAGE: &str = "lsof [-p PROCESS]
  what processes have open: files, directories, pipes, terminals, devices, sockets, and ends of
  channels with the channel's name, the side, the contract and the peer's kernel
  -p only this process";

/// A descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open<'a> {
    pid: u32,
    number: u32,
    kind: &'a str,
    detail: &'a str,
}

/// `lsof`: lists descriptors.
pub fn lsof(arguments: &[String]) -> Answer {
    let wanted = chosen(arguments)?;
    let all = process::list().map_err(|error| error.to_string())?;
    let process = wanted.map(|pid| {
        let process = all.iter().find(|process| process.pid == pid);
        process.ok_or_else(|| format!("{pid}: no such process; ps lists them"))
    });
    let process = process.transpose()?;
    let kernels = power::kernels()?;
    let mut rows = Vec::new();
    for (index, kernel) in kernels.iter().enumerate() {
        if process.is_some_and(|process| usize::from(process.kernel) != index) {
            continue;
        }
        match kernel.read("descriptors") {
            Some(text) => rows.extend(of_kernel(kernel, &text, wanted, &all)?),
            None => eprintln!("lsof: {} is not asked: it is {}", kernel.name, kernel.state),
        }
    }
    put(&table(&rows))
}

/// Returns the process that is asked for.
fn chosen(arguments: &[String]) -> Result<Option<u32>, String> {
    let options = Options::of(arguments, "p", true)?;
    if let Some(word) = options.rest.first() {
        return Err(format!("{word}: it does not look for files; lsof --help has its options"));
    }
    let mut wanted = None;
    for (letter, value) in options.all {
        match letter {
            'p' => {
                let pid = u32::try_from(number('p', &value)?);
                wanted = Some(pid.map_err(|_| format!("-p {value}: no process has this number"))?);
            }
            other => return Err(format!("-{other}: no such option; lsof --help lists them")),
        }
    }
    Ok(wanted)
}

/// A line of the table: program, process, kernel, number, kind, detail.
type Row = [String; 6];

/// Returns the lines of a kernel's file: of one process, or of all.
fn of_kernel(
    kernel: &Kernel,
    text: &str,
    wanted: Option<u32>,
    all: &[Process],
) -> Result<Vec<Row>, String> {
    // A line that begins with "! " says why there are no more.
    if let Some(why) = text.lines().find_map(|line| line.strip_prefix("! ")) {
        return Err(format!("/proc/{}/descriptors: {why}", kernel.name));
    }
    // The file of a kernel with very many descriptors is cut off, perhaps within a line.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).skip(1);
    let found = whole.filter_map(parse);
    let found = found.filter(|open| wanted.is_none_or(|pid| open.pid == pid));
    let row = |open: Open<'_>| {
        let process = all.iter().find(|process| process.pid == open.pid);
        let name = process.map_or("-", |process| process.name.as_str());
        let (pid, number) = (open.pid.to_string(), open.number.to_string());
        let [name, kernel, kind, detail] =
            [name, &kernel.name, open.kind, open.detail].map(str::to_string);
        [name, pid, kernel, number, kind, detail]
    };
    Ok(found.map(row).collect())
}

/// Parses a line: `PID NUMBER KIND DETAIL`. The detail may have several words.
fn parse(line: &str) -> Option<Open<'_>> {
    let (pid, rest) = line.trim().split_once(' ')?;
    let (number, rest) = rest.trim_start().split_once(' ')?;
    let (kind, detail) = rest.trim_start().split_once(' ')?;
    let detail = detail.trim();
    Some(Open { pid: pid.parse().ok()?, number: number.parse().ok()?, kind, detail })
}

fn table(rows: &[Row]) -> String {
    let mut text = "COMMAND        PID KERNEL     FD TYPE      NAME\n".to_string();
    for [name, pid, kernel, number, kind, detail] in rows {
        text += &format!("{name:12} {pid:>5} {kernel:8} {number:>4} {kind:9} {detail}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use penumbra::process::State;

    const TEXT: &str = "    pid    fd  kind      detail
      7     0  terminal  -
      7     3  directory /home and more
      9    20  end       main.2.17 server, contract a5a5a5a5, peer on main, open
      9    21  socket    tcp 0.0.0.0:80
      9    2";

    fn shown(wanted: Option<u32>) -> String {
        let kernel = Kernel { name: "shadow".to_string(), ..Kernel::default() };
        let process = Process {
            pid: 9,
            parent: 1,
            group: 9,
            kernel: 1,
            state: State::Running,
            began: 5,
            cpu: 0,
            memory: 0,
            messages: 0,
            name: "channels".to_string(),
        };
        table(&of_kernel(&kernel, TEXT, wanted, &[process]).unwrap())
    }

    #[test]
    fn a_descriptor_is_a_line_with_its_process_and_kernel() {
        assert_eq!(
            shown(None),
            "COMMAND        PID KERNEL     FD TYPE      NAME\n\
             -                7 shadow      0 terminal  -\n\
             -                7 shadow      3 directory /home and more\n\
             channels         9 shadow     20 end       main.2.17 server, contract a5a5a5a5, \
             peer on main, open\n\
             channels         9 shadow     21 socket    tcp 0.0.0.0:80\n"
        );
    }

    #[test]
    fn one_process_can_be_chosen() {
        assert_eq!(shown(Some(9)).lines().count(), 3);
        assert_eq!(shown(Some(8)).lines().count(), 1);
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<String>>();
        assert_eq!(chosen(&words("-p 9")), Ok(Some(9)));
        assert_eq!(chosen(&[]), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<String>>();
        for (text, says) in [
            ("-x", "-x: no such option; lsof --help lists them"),
            ("/etc/rc", "/etc/rc: it does not look for files; lsof --help has its options"),
            ("-p", "-p requires a value"),
            ("-p sh", "-p sh: not a number above 0"),
            ("-p 4294967296", "-p 4294967296: no process has this number"),
        ] {
            assert_eq!(chosen(&words(text)), Err(says.to_string()));
        }
        let kernel = Kernel { name: "main".to_string(), ..Kernel::default() };
        let failed = of_kernel(&kernel, "! descriptors: no memory for the list\n", None, &[]);
        assert_eq!(
            failed,
            Err("/proc/main/descriptors: descriptors: no memory for the list".to_string())
        );
    }
}
