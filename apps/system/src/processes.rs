//! Processes: `ps`, `top`, `kill`, `move`, `on`, `limit`, `env`.

use crate::begin::run;
use crate::channels::Channels;
use crate::options::Options;
use crate::power::{self, Kernel};
use crate::tasks::Threads;
use crate::{Answer, put};
use penumbra::process::{self, Process, State, signal};
use penumbra::{End, Errno, ready};

/// `ps`: lists all processes; with `-l` also their energy, with `-T` a line for each thread.
pub fn ps(arguments: &[String]) -> Answer {
    let options = Options::of(arguments, "", true)?;
    if let Some(word) = options.rest.first() {
        return Err(format!("{word}: it lists all processes; ps --help has its options"));
    }
    let has = |wanted: char| options.all.iter().any(|(letter, _)| *letter == wanted);
    if let Some((other, _)) = options.all.iter().find(|(letter, _)| !"lT".contains(*letter)) {
        return Err(format!("-{other}: no such option; ps --help lists them"));
    }
    let all = process::list().map_err(|error| error.to_string())?;
    let kernels = match power::kernels() {
        Err(why) if has('l') || has('T') => return Err(why),
        found => found.unwrap_or_default(),
    };
    let threads = Threads::of(&kernels);
    if has('T') {
        return put(&threads.table(&all, &kernels));
    }
    put(&table(&all, &threads, has('l').then_some(&kernels)))
}

/// Formats a table of processes, with their energy if `kernels` are given.
fn table(all: &[Process], threads: &Threads, kernels: Option<&Vec<Kernel>>) -> String {
    let title = if kernels.is_some() { "        J" } else { "" };
    let mut text = format!("  PID  PPID  PGID KERNEL STATE       TIME   KIB THR{title} NAME\n");
    for p in all {
        let energy = kernels.map(|all| format!(" {:>8}", power::joules(all, p.kernel, p.cpu)));
        text.push_str(&format!(
            "{:5} {:5} {:5} {:6} {:7} {:>8} {:5} {:>3}{} {}\n",
            p.pid,
            p.parent,
            p.group,
            p.kernel,
            state(p.state),
            seconds(p.cpu),
            p.memory / 1024,
            threads.count(p),
            energy.unwrap_or_default(),
            p.name
        ));
    }
    text
}

fn state(state: State) -> String {
    match state {
        State::Waiting => "waiting".to_string(),
        State::Starting => "starts".to_string(),
        State::Running => "runs".to_string(),
        State::Ended(End::Exit(code)) => format!("exit {code}"),
        State::Ended(End::Signal(number)) => format!("sig {number}"),
        State::Ended(End::Trap(_)) => "trap".to_string(),
        State::Ended(End::Lost) => "lost".to_string(),
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:02}", ns / 1_000_000_000, ns / 10_000_000 % 100)
}

/// `top`: the kernels, their channels, and processes by their CPU time since the last update.
pub fn top(arguments: &[String]) -> Answer {
    let number = |option: &str, default: u64| {
        let at = arguments.iter().position(|a| a == option);
        let value = at.and_then(|at| arguments.get(at + 1));
        value.map_or(Ok(default), |v| v.parse().map_err(|_| format!("{v}: not a number")))
    };
    let (times, delay) = (number("-n", u64::MAX)?, number("-d", 2)?.clamp(1, 3600));
    let (mut before, mut at) = (Vec::new(), ready::now());
    let mut talked = Channels::default();
    for round in 0..times {
        let all = process::list().map_err(|error| error.to_string())?;
        let now = ready::now();
        let (kernels, elapsed) = (power::kernels()?, now.saturating_sub(at));
        let channels = Channels::of(&kernels);
        let shown = usage(&before, &all, elapsed, &kernels);
        let (head, talk) = (power::table(&kernels), channels.line(&talked, elapsed));
        // Moves home and clears the rest.
        let code = put(&format!("\x1b[H\x1b[J{head}\n{talk}{shown}"))?;
        if code != 0 {
            return Ok(code);
        }
        (before, at, talked) = (all, now, channels);
        if round + 1 < times {
            ready::sleep(delay * 1_000_000_000).map_err(|error| error.to_string())?;
        }
    }
    Ok(0)
}

/// Returns the shares of `elapsed` since `before`, largest first.
fn usage(before: &[Process], now: &[Process], elapsed: u64, kernels: &[Kernel]) -> String {
    let used = |p: &Process| {
        let earlier = before.iter().find(|b| b.pid == p.pid && b.began == p.began);
        p.cpu.saturating_sub(earlier.map_or(p.cpu, |b| b.cpu))
    };
    let mut rows: Vec<(u64, &Process)> = now.iter().map(|p| (used(p), p)).collect();
    rows.sort_by_key(|(used, p)| (std::cmp::Reverse(*used), p.pid));
    let running = now.iter().filter(|p| p.state == State::Running).count();
    let mut text = format!("{} processes, {running} running\n\n", now.len());
    text.push_str("  PID KERNEL  CPU%     TIME   KIB        J NAME\n");
    for (used, p) in rows {
        let share = (u128::from(used) * 1000).checked_div(u128::from(elapsed)).unwrap_or(0);
        text.push_str(&format!(
            "{:5} {:6} {:3}.{} {:>8} {:5} {:>8} {}\n",
            p.pid,
            p.kernel,
            share / 10,
            share % 10,
            seconds(p.cpu),
            p.memory / 1024,
            power::joules(kernels, p.kernel, p.cpu),
            p.name
        ));
    }
    text
}

/// `kill`: signals processes and (negative numbers) groups.
pub fn kill(arguments: &[String]) -> Answer {
    if let Some(("-l", texts)) = arguments.split_first().map(|(a, rest)| (a.as_str(), rest)) {
        return signals(texts);
    }
    let (which, rest) =
        signal::chosen(arguments).map_err(|text| format!("{text}: no such signal"))?;
    if rest.is_empty() {
        return Err("which process?".to_string());
    }
    let mut code = 0;
    for text in rest {
        let pid: i32 = text.parse().map_err(|_| format!("{text}: not a number"))?;
        if let Err(error) = process::kill(pid, which) {
            eprintln!("kill: {text}: {error}");
            code = 1;
        }
    }
    Ok(code)
}

/// `kill -l`: prints all names, or translates numbers and names.
fn signals(texts: &[String]) -> Answer {
    if texts.is_empty() {
        return put(&(signal::names() + "\n"));
    }
    let line = |text: &String| {
        let told = signal::told(text).ok_or(format!("{text}: no such signal"))?;
        Ok(told + "\n")
    };
    put(&texts.iter().map(line).collect::<Result<String, String>>()?)
}

/// `move`: moves a running process to another kernel.
pub fn move_to(arguments: &[String]) -> Answer {
    let [pid, name] = arguments else {
        return Err("which process, and to which kernel?".to_string());
    };
    let pid: u32 = pid.parse().map_err(|_| format!("{pid}: not a number"))?;
    let kernel = match name.parse() {
        Ok(number) => number,
        Err(_) => {
            let kernels = power::kernels()?;
            let place = kernels.iter().position(|kernel| kernel.name == *name);
            place.ok_or_else(|| format!("{name}: no such kernel"))? as u32
        }
    };
    process::move_to(pid, kernel).map_err(|error| match error {
        Errno::NOTSUP => "its program is not installed with `movable = true`".to_string(),
        Errno::BUSY => "it is on its way to another kernel".to_string(),
        other => other.to_string(),
    })?;
    Ok(0)
}

/// `on`: runs a program on a given kernel.
pub fn on(arguments: &[String]) -> Answer {
    let [kernel, program, rest @ ..] = arguments else {
        return Err("which kernel, and which program?".to_string());
    };
    let kernel: u32 = kernel.parse().map_err(|_| format!("{kernel}: not a number"))?;
    run(program, rest, std::env::vars().collect(), |command| command.kernel(kernel))
}

/// `limit`: runs a program with lower limits, which its descendants inherit.
pub fn limit(arguments: &[String]) -> Answer {
    let (mut memory, mut descriptors, mut rest) = (0, 0, arguments);
    while let [option, value, more @ ..] = rest
        && option.starts_with('-')
    {
        let number = value.parse::<u32>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| format!("{value}: not a number above 0"))?;
        match option.as_str() {
            "-m" => memory = u64::from(number) << 20,
            "-n" => descriptors = number,
            _ => return Err(format!("{option}: no such limit; there are -m MIB and -n FILES")),
        }
        rest = more;
    }
    let [program, rest @ ..] = rest else { return Err("which program?".to_string()) };
    let variables = std::env::vars().collect();
    run(program, rest, variables, |command| command.memory(memory).descriptors(descriptors))
}

/// `env`: prints the environment, or runs a program with a different one.
pub fn env(arguments: &[String]) -> Answer {
    let mut variables: Vec<(String, String)> = std::env::vars().collect();
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        match first.split_once('=') {
            Some((name, value)) => {
                variables.retain(|(n, _)| n != name);
                variables.push((name.to_string(), value.to_string()));
            }
            None if first == "-i" => variables.retain(|(n, _)| n == "PWD"),
            None => break,
        }
        rest = more;
    }
    if let Some((program, rest)) = rest.split_first() {
        return run(program, rest, variables, |command| command);
    }
    let lines: String = variables.iter().map(|(n, value)| format!("{n}={value}\n")).collect();
    put(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, cpu: u64, name: &str) -> Process {
        Process {
            pid,
            parent: 1,
            group: pid,
            kernel: 0,
            state: State::Running,
            began: 5,
            cpu,
            memory: 65536,
            messages: 0,
            name: name.to_string(),
        }
    }

    #[test]
    fn a_process_is_a_line() {
        let mut ended = process(8, 1_500_000_000, "cat");
        ended.state = State::Ended(End::Signal(9));
        let all = [process(7, 0, "sh"), ended];
        let threads = Threads::parse(0, "title\n 7 0 normal running 0 1\n 7 3 light blocked 0 1\n");
        let text = table(&all, &threads, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], "    7     1     7      0 runs        0.00    64   2 sh");
        assert_eq!(lines[2], "    8     1     8      0 sig 9       1.50    64   - cat");
        let kernels = power::parse("main power 20.0 mW\n");
        let text = table(&all, &threads, Some(&kernels));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "    8     1     8      0 sig 9       1.50    64   -   0.0300 cat");
    }

    #[test]
    fn who_used_most_comes_first() {
        let before = [process(1, 0, "idle"), process(2, 100, "busy")];
        let now = [process(1, 0, "idle"), process(2, 600, "busy"), process(3, 50, "new")];
        let text = usage(&before, &now, 1000, &[]);
        let names = text.lines().skip(3).filter_map(|line| line.rsplit(' ').next());
        let names: Vec<&str> = names.collect();
        assert_eq!(names, ["busy", "idle", "new"]);
        assert!(text.contains(" 50.0 "), "{text}");
        assert!(usage(&[], &now, 0, &[]).contains("3 processes, 3 running"));
    }
}
