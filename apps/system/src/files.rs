//! Tools that print files of `/proc`: memory, mounts, messages, power.

use crate::{Answer, put};

const MEMORY: &str = "meminfo";
const MOUNTS: &str = "/proc/mounts";
const MESSAGES: &str = "kmsg";
const POWER: &str = "/proc/power";

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// Reads a file of the named kernel, or of the first one.
fn of(arguments: &[String], file: &str) -> Result<String, String> {
    match arguments.first() {
        Some(kernel) if !kernel.contains('/') => read(&format!("/proc/{kernel}/{file}")),
        Some(kernel) => Err(format!("{kernel}: no such kernel")),
        None => read(&format!("/proc/{file}")),
    }
}

/// `free`: formats lines of `NAME: NUMBER kB` as a table.
pub fn free(arguments: &[String]) -> Answer {
    put(&memory(&of(arguments, MEMORY)?))
}

fn memory(text: &str) -> String {
    let rows: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(':')).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, &str)| format!("{name:width$} {:>12}\n", value.trim());
    rows.iter().map(line).collect()
}

/// `mount`: lists the mounts. Programs cannot mount: only kernels may send the file service that
/// request.
pub fn mount(arguments: &[String]) -> Answer {
    if !arguments.is_empty() {
        return Err("it shows what is mounted; mounts are made at boot".to_string());
    }
    put(&mounts(&read(MOUNTS)?))
}

/// Formats lines of `WHAT WHERE KIND OPTIONS [BYTES FREE]`.
fn mounts(text: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (what, place, kind) = (words.next()?, words.next()?, words.next()?);
        let options = words.next().unwrap_or("rw");
        Some(format!("{what} on {place} type {kind} ({options})\n"))
    };
    text.lines().filter_map(line).collect()
}

/// `df`: free space of each mount.
pub fn df(_: &[String]) -> Answer {
    put(&room(&read(MOUNTS)?))
}

fn room(text: &str) -> String {
    let mut table =
        format!("{:16} {:>10} {:>10} {:>10} {:>4} where\n", "what", "KiB", "used", "free", "use");
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, place, _, _, bytes, free, ..] = words.as_slice() else { continue };
        let (Ok(bytes), Ok(free)) = (bytes.parse::<u64>(), free.parse::<u64>()) else { continue };
        let used = bytes.saturating_sub(free);
        let share = (u128::from(used) * 100).div_ceil(u128::from(bytes.max(1)));
        let (all, used, free) = (bytes / 1024, used / 1024, free / 1024);
        table.push_str(&format!("{what:16} {all:>10} {used:>10} {free:>10} {share:>3}% {place}\n"));
    }
    table
}

/// `dmesg`: a kernel's log.
pub fn dmesg(arguments: &[String]) -> Answer {
    put(&of(arguments, MESSAGES)?)
}

fn power(path: &str, word: &str) -> Answer {
    std::fs::write(path, word).map_err(|error| format!("{path}: {error}"))?;
    Ok(0)
}

/// `sync`: returns once all writes are on the disks. This kernel does it, so no other one is woken.
pub fn sync(_: &[String]) -> Answer {
    let kernel = penumbra::process::identity().map_err(|error| error.to_string())?.kernel;
    power(&format!("/proc/{kernel}/power"), "sync\n")
}

/// `reboot`
pub fn reboot(_: &[String]) -> Answer {
    power(POWER, "reboot\n")
}

/// `poweroff`
pub fn poweroff(_: &[String]) -> Answer {
    power(POWER, "poweroff\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_tables() {
        assert_eq!(
            memory("Total: 5 kB\nno line\nFree:  12 kB\n"),
            "Total         5 kB\nFree         12 kB\n"
        );
        let text = "ramfs / ramfs rw 2097152 1048576\nproc /proc procfs\n";
        assert_eq!(mounts(text), "ramfs on / type ramfs (rw)\nproc on /proc type procfs (rw)\n");
        let shown = room(text);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2);
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["ramfs", "2048", "1024", "1024", "50%", "/"]);
        assert_eq!(room("a b c d 0 9\n").lines().count(), 2);
    }
}
