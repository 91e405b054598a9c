//! The system on a board's disk, as users see it: the shell on the console, programs of both
//! kernels in one pipeline, keys, the monitor on ctrl-t, and persistent files.

use super::disk::{clean, content, off_and_clean, poweroff, same};
use super::machine::demand;
use super::programs::{awaited, install_as, wrong};
use super::threads::put;
use super::{Failure, PATIENCE, Rig};
use builds::apps;
use deploy::{system, transfer};
use std::collections::BTreeSet;
use std::time::Duration;
use tree::place::Place;
use workbench::instance::Instance;

/// Ctrl-c, ctrl-d and ctrl-t.
const INTERRUPT: &str = "\x03";
const END: &str = "\x04";
pub(super) const AWAY: &str = "\x14";

/// End of the shell's prompt.
const PROMPT: &str = " $ ";

/// Starts a board with a system on its disk, and waits for the shell's first prompt.
pub(super) fn begin(rig: &mut Rig) -> Result<(), Failure> {
    begin_with(rig, "")
}

/// Does the same with words on the board's command line.
pub(super) fn begin_with(rig: &mut Rig, words: &str) -> Result<(), Failure> {
    rig.set_arguments(&system::arguments(words));
    // The disk of an earlier run would be kept.
    start(rig, |instance| Ok(std::fs::remove_file(instance.path("disk.disk"))?))
}

/// Starts it as `pen up` does, after `between`, and waits for the shell's first prompt.
fn start(
    rig: &mut Rig,
    between: impl FnOnce(&Instance) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let place = Place::find()?;
    rig.restart(|instance| {
        between(instance)?;
        let make = || {
            let (programs, board) = (apps::build(&place, &[])?, instance.board()?);
            system::prepare(&place, instance, &board, &programs, &instance.program_key()?)
        };
        make().map_err(|why| Failure::Wrong(format!("{why:#}")))
    })?;
    rig.expect("one system on every core", PATIENCE)?;
    rig.expect("/ $ ", PATIENCE).map(|_| ())
}

/// Returns the output of a line of shell script.
pub(super) fn ask(rig: &mut Rig, line: &str) -> Result<String, Failure> {
    // The echo of the line itself must not look like its end.
    rig.send(&format!("{line}; echo E\"\"ND $?"))?;
    let said = rig.expect("END ", PATIENCE)?;
    let status = rig.expect("\n", PATIENCE)?;
    // Input that is typed before the shell reads it is echoed twice.
    rig.expect(PROMPT, PATIENCE)?;
    let said = said.split_once('\n').map_or("", |(_, said)| said);
    let said = said.strip_suffix("END ").unwrap_or(said);
    Ok(format!("{}[{}]", said.replace('\r', ""), status.trim()))
}

pub(super) fn says(rig: &mut Rig, line: &str, wanted: &str) -> Result<(), Failure> {
    let found = ask(rig, line)?;
    if found == wanted {
        return Ok(());
    }
    Err(Failure::Wrong(format!("`{line}` says {found:?}, not {wanted:?}")))
}

/// Typical use of a console.
pub fn shell(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig)?;
    says(rig, "echo hello | cat", "hello\n[0]")?;
    says(rig, "false", "[1]")?;
    says(rig, "no-such-program", "sh: no-such-program: not found\n[127]")?;
    says(rig, "cd /home; pwd; ls", "/home\nreadme\n[0]")?;
    across(rig)?;
    tools(rig)?;
    threads(rig)?;
    sockets(rig)?;
    channels(rig)?;
    caged(rig)?;
    traps(rig)?;
    keys(rig)?;
    monitor(rig)?;
    kept(rig)
}

/// Pipelines, jobs and signals across both kernels.
fn across(rig: &mut Rig) -> Result<(), Failure> {
    // `sort` complains if `head` ends first.
    says(rig, "seq 2000 | KERNEL=1 sort -rn 2>/dev/null | head -n 2", "2000\n1999\n[0]")?;
    says(rig, "KERNEL=1 seq 300 | KERNEL=0 wc -l", "300\n[0]")?;
    sorting(rig)?;
    leaving(rig)?;
    let ended = ask(rig, "KERNEL=1 sh -c 'kill -TERM $$; echo not'")?;
    if !ended.contains("ended by signal 15 (TERM)") || !ended.ends_with("[143]") {
        return Err(Failure::Wrong(ended));
    }
    let listed = ask(rig, "KERNEL=1 sleep 1000 & sleep 1; ps")?;
    let is_there = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, _, _, "1", "runs", .., "sleep"])
    };
    if !listed.lines().any(is_there) {
        return Err(Failure::Wrong(format!("ps says {listed:?}")));
    }
    let ended = ask(rig, "kill %1; wait %1")?;
    if ended.ends_with("[143]") { Ok(()) } else { Err(Failure::Wrong(ended)) }
}

/// Maximum requests to the file service for `seq 100000 | KERNEL=1 sort`: the pipe is filled and
/// drained 36 times, with a few requests each time.
const STREAMED: u64 = 1500;

/// A sort of 100,000 lines: completely on the second kernel, which does not have enough memory of
/// its own, and with input from the first one. `head` ends before `sort` does, which may or may not
/// print an error.
fn sorting(rig: &mut Rig) -> Result<(), Failure> {
    let all_there = "KERNEL=1 sh -c 'seq 100000 | sort -rn 2>/dev/null | head -n 1'";
    says(rig, all_there, "100000\n[0]")?;
    let before = requests(rig)?;
    says(rig, "seq 100000 | KERNEL=1 sort -rn 2>/dev/null | head -n 1", "100000\n[0]")?;
    let took = requests(rig)? - before;
    if took <= STREAMED { Ok(()) } else { Err(Failure::Wrong(format!("{took} requests"))) }
}

/// Returns the number of requests to the file service executed by both kernels.
fn requests(rig: &mut Rig) -> Result<u64, Failure> {
    let said = ask(rig, "cat /proc/main/services /proc/shadow/services")?;
    let counts = said.lines().filter(|line| line.starts_with("  fs ")).map(|line| {
        let counts = line.split_whitespace().last()?;
        counts.split('/').next()?.parse::<u64>().ok()
    });
    let counts: Option<Vec<u64>> = counts.collect();
    match counts {
        Some(counts) if counts.len() == 2 => Ok(counts.iter().sum()),
        _ => Err(Failure::Wrong(said)),
    }
}

/// Pipes that leave their kernel: full with a waiting writer, and empty with a waiting reader.
fn leaving(rig: &mut Rig) -> Result<(), Failure> {
    says(rig, "seq 100000 | KERNEL=1 tail -n 1", "100000\n[0]")?;
    let late = ask(rig, "{ sleep 2; echo late; } | { cat & KERNEL=1 cat; wait; }")?;
    let pipes = ask(rig, "cat /proc/main/services")?;
    // Pipes that were created on the first kernel for programs of the second one.
    let have_left = pipes.contains("private pipes: 0, ") && !pipes.contains(" 0 have left");
    if late.ends_with("\nlate\n[0]") && have_left {
        return Ok(());
    }
    Err(Failure::Wrong(format!("{late:?}, {pipes}")))
}

/// Tools that start programs or read their output.
fn tools(rig: &mut Rig) -> Result<(), Failure> {
    says(rig, "seq 3 | KERNEL=1 xargs -n 2 echo and", "and 1 2\nand 3\n[0]")?;
    says(rig, "seq 20 | grep -c '^1'; seq 9 | KERNEL=1 grep -E '[0-3]{2}'", "11\n[1]")?;
    says(rig, "find . -name 'read*' -type f | KERNEL=1 xargs -n 1 echo", "./readme\n[0]")?;
    says(rig, "KERNEL=1 find readme -exec echo {} and {} \\;", "readme and readme\n[0]")?;
    says(rig, "echo a-b | sed s/-/+/; seq 9 | KERNEL=1 sed -n '3p;$p'", "a+b\n3\n9\n[0]")?;
    says(rig, "echo h > h; KERNEL=1 ln h i; echo more >> i; cat h; rm h i", "h\nmore\n[0]")?;
    let ended = ask(rig, "KERNEL=1 sleep 1000 & echo $! | xargs kill -s TERM; wait $!")?;
    if ended.ends_with("[143]") { Ok(()) } else { Err(Failure::Wrong(ended)) }
}

/// `ps` counts the threads of a process, and `ps -T` has a line for each.
fn threads(rig: &mut Rig) -> Result<(), Failure> {
    put(rig, "threads")?;
    let listed = ask(rig, "KERNEL=1 threads spin & sleep 2; ps; ps -T; kill -s KILL %1")?;
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let process = lines.iter().find_map(|words| match words[..] {
        [pid, _, _, "1", "runs", _, _, count, "threads"] => Some((pid, count.parse::<usize>())),
        _ => None,
    });
    let is_thread = |words: &&Vec<&str>| match words[..] {
        [pid, _, "shadow", "normal", "running" | "ready" | "blocked", _, _, "threads"] => {
            Some(pid) == process.as_ref().map(|it| it.0)
        }
        _ => false,
    };
    let numbers: BTreeSet<&str> = lines.iter().filter(is_thread).map(|words| words[1]).collect();
    match process {
        Some((_, Ok(count @ 2..))) if numbers.len() == count && numbers.contains("0") => Ok(()),
        _ => Err(Failure::Wrong(format!("ps and ps -T say {listed:?}"))),
    }
}

/// `ss` shows what listens, and what is connected.
fn sockets(rig: &mut Rig) -> Result<(), Failure> {
    says(rig, "ss -Hltn", "[0]")?;
    at_the_monitor(rig, "net serve 7", "listening")?;
    says(rig, "KERNEL=1 ss -Hltn", "tcp LISTEN 0 0 0.0.0.0:7 0.0.0.0:*\n[0]")?;
    says(rig, "ss -Hunlp", "udp UNCONN 0 0 0.0.0.0:7 0.0.0.0:* system\n[0]")?;
    says(rig, "ss | head -n 1 | grep -c 'Recv-Q Send-Q'; ss -Hnat | grep -c ESTAB", "1\n0\n[1]")?;
    says(rig, "ss -x", "ss: -x: no such option; ss --help lists them\n[1]")?;
    at_the_monitor(rig, "net talk 7 100", "100 of 100 bytes")?;
    says(rig, "ss -Hltun", "[0]")
}

/// `lsof` shows both ends of a channel between two kernels, while one program waits for the other.
fn channels(rig: &mut Rig) -> Result<(), Failure> {
    put(rig, "channels")?;
    says(rig, "lsof -x", "lsof: -x: no such option; lsof --help lists them\n[1]")?;
    ask(rig, "channels waits 1 channels > /dev/null & true")?;
    // The program says by a file that it has a message that it does not answer.
    let look = "ls /channels.held > /dev/null 2>&1 && lsof";
    let late = |listed: String| wrong("lsof", listed);
    let listed = awaited(PATIENCE, late, || {
        let listed = ask(rig, look)?;
        let is_there = listed.ends_with("[0]");
        Ok((listed, is_there))
    })?;
    let end = |kernel: &str, side: &str, peer: &str| {
        listed.lines().find_map(|line| match line.split_whitespace().collect::<Vec<&str>>()[..] {
            ["channels", pid, at, _, "end", channel, its, ref rest @ ..]
                if (at, its) == (kernel, side) && rest.ends_with(&["on", peer, "open"]) =>
            {
                Some((pid, channel))
            }
            _ => None,
        })
    };
    let both = end("main", "client,", "shadow,").zip(end("shadow", "server,", "main,"));
    let Some(((client, channel), (server, _))) = both.filter(|(one, two)| one.1 == two.1) else {
        return Err(wrong("lsof", listed));
    };
    let own = format!("lsof -p {client} | grep -c ' {client} main .*{channel} client'");
    says(rig, &own, "1\n[0]")?;
    says(rig, &format!("lsof -p {client} | grep -c ' {server} shadow '"), "0\n[1]")?;
    says(rig, "top -n 1 | grep -c '^[2-9] ends of channels, - messages/s'", "1\n[0]")?;
    // The shell may say that the job was killed.
    let ended = ask(rig, &format!("kill -s KILL {client} {server}; wait; rm /channels.held"))?;
    if ended.ends_with("[0]") { Ok(()) } else { Err(wrong("the end of both", ended)) }
}

/// Goes to the monitor for a command, and comes back.
fn at_the_monitor(rig: &mut Rig, line: &str, wanted: &str) -> Result<(), Failure> {
    rig.type_keys(AWAY)?;
    rig.expect("main> ", PATIENCE)?;
    demand(rig, line, wanted)?;
    rig.type_keys(AWAY)?;
    rig.expect("\n", PATIENCE)?;
    says(rig, "echo back", "back\n[0]")
}

/// A manifest without directories gives none, although the shell passes two.
fn caged(rig: &mut Rig) -> Result<(), Failure> {
    let manifest = rig.instance.path("caged.toml");
    std::fs::write(&manifest, "preopens = []\n")?;
    install_as(rig, Some(&manifest), "caged")?;
    says(rig, "caged args free", "free\n[0]")?;
    says(rig, "caged type readme; on 1 caged type readme", "tool: error 8\ntool: error 8\n[99]")
}

/// A program that exceeds its memory limit, after it has started two others: the trap names the
/// functions.
fn traps(rig: &mut Rig) -> Result<(), Failure> {
    for kernel in 0..2 {
        let line = format!("limit -m 8 on {kernel} sh -c 'x=long; while true; do x=$x$x; done'");
        let ended = ask(rig, &line)?;
        if !ended.ends_with("[134]") || !ended.contains("in <sh::shell::Shell<") {
            return Err(Failure::Wrong(ended));
        }
    }
    says(rig, "limit -n 4 cat readme 2>/dev/null", "[1]")
}

/// Input for programs, and keys that end them.
fn keys(rig: &mut Rig) -> Result<(), Failure> {
    rig.send("cat > typed")?;
    rig.expect("cat > typed", PATIENCE)?;
    rig.expect("\n", PATIENCE)?;
    rig.send("first line")?;
    rig.send("secondd\x7f line")?;
    rig.type_keys(END)?;
    rig.expect("/home $ ", PATIENCE)?;
    says(rig, "cat typed", "first line\nsecond line\n[0]")?;
    rig.send("sleep 1000")?;
    rig.expect("\n", PATIENCE)?;
    // It may not have started: the foreground process would then drop the line.
    std::thread::sleep(std::time::Duration::from_secs(3));
    rig.type_keys(INTERRUPT)?;
    rig.expect("^C", PATIENCE)?;
    rig.expect("/home $ ", PATIENCE)?;
    says(rig, "echo $?", "130\n[0]")
}

fn monitor(rig: &mut Rig) -> Result<(), Failure> {
    rig.type_keys(AWAY)?;
    rig.expect("main> ", PATIENCE)?;
    let said = rig.ask("main", "ps", PATIENCE)?;
    if !said.contains("sh") {
        return Err(Failure::Wrong(format!("the monitor's ps says {said:?}")));
    }
    rig.type_keys(AWAY)?;
    rig.expect("\n", PATIENCE)?;
    says(rig, "echo back", "back\n[0]")?;
    rig.send("exit 3")?;
    rig.expect("/ $ ", PATIENCE)?;
    says(rig, "cd /home; echo again", "again\n[0]")
}

/// The tool `reboot`, on the other kernel: the shell comes back, and the disk is clean.
pub fn restarted(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig)?;
    says(rig, "grep -c ' state running' /proc/power", "2\n[0]")?;
    says(rig, "cd /home; echo unsynced > before", "[0]")?;
    rig.send("KERNEL=1 reboot")?;
    rig.rejoin()?;
    rig.expect("one system on every core", PATIENCE)?;
    rig.expect("/ $ ", PATIENCE)?;
    says(rig, "cd /home; cat before; rm before", "unsynced\n[0]")?;
    rig.type_keys(AWAY)?;
    rig.expect("main> ", PATIENCE)?;
    off_and_clean(rig)
}

/// Written files exist after a restart, and the file system is clean.
fn kept(rig: &mut Rig) -> Result<(), Failure> {
    let script = "echo 'echo script $1; exit 7' > script; sh script x";
    says(rig, script, "script x\n[7]")?;
    says(rig, "echo 'echo the script; sleep 1000; echo not' > /etc/rc", "[0]")?;
    rig.type_keys(AWAY)?;
    rig.expect("main> ", PATIENCE)?;
    poweroff(rig)?;
    rig.restart(|board| {
        clean(board)?;
        let typed = content(board, "home/typed")?;
        let text = String::from_utf8_lossy(&typed);
        if text == "first line\nsecond line\n" {
            return Ok(());
        }
        Err(Failure::Wrong(format!("the disk has {text:?}")))
    })?;
    // Ctrl-c ends the boot script, and the shell starts.
    rig.expect("the script", PATIENCE)?;
    rig.type_keys(INTERRUPT)?;
    rig.expect("^C", PATIENCE)?;
    rig.expect("/ $ ", PATIENCE)?;
    says(rig, "cd /home; KERNEL=1 cat script", "echo script $1; exit 7\n[0]")?;
    says(rig, "echo last > last; KERNEL=1 sync", "[0]")?;
    ends_with(rig, "last")
}

/// Without `pen down` the disk is repaired before the board starts again; with it, no repair is
/// necessary.
pub fn down(rig: &mut Rig) -> Result<(), Failure> {
    begin(rig)?;
    says(rig, "cd /home; echo first > first; KERNEL=1 sync", "[0]")?;
    // An fsync marks the disk as in use. Five seconds after the last one everything would be
    // written and the disk marked clean.
    says(rig, "shred -x -n 1 -s 99 first; echo lost > lost", "[0]")?;
    rig.send("while shred -x -n 1 -s 99 first; do echo lost > lost; done")?;
    std::thread::sleep(Duration::from_secs(1));
    start(rig, |instance| match clean(instance) {
        Ok(()) => Err(Failure::Wrong("the disk is clean: this run shows nothing".to_string())),
        Err(_) => Ok(()),
    })?;
    says(rig, "cd /home; wc -c < first; KERNEL=1 cp first other; echo last > last", "99\n[0]")?;
    let settled = transfer::settle(&rig.instance, PATIENCE);
    settled.map_err(|why| Failure::Wrong(format!("{why:#}")))?;
    ends_with(rig, "last")
}

/// The board ends; the file system is clean, and contains this file with its name in it.
fn ends_with(rig: &mut Rig, name: &str) -> Result<(), Failure> {
    rig.instance.stop()?;
    clean(&rig.instance)?;
    let found = content(&rig.instance, &format!("home/{name}"))?;
    same(name, &found, format!("{name}\n").as_bytes())
}
