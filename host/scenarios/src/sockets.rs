//! Sockets of programs, in C and in Rust: on one kernel, from one kernel to the other, and when one
//! of them dies.

use super::machine::until;
use super::programs::{LOST, Running, back, pid_of, wrong};
use super::threads::{put, put_with};
use super::{Failure, PATIENCE, Rig};
use builds::apps;
use deploy::exec::Line;
use tree::place::Place;

/// Programs of apps/corpus.toml.
const IN_C: &str = "sockets";
const IN_RUST: &str = "sockets-rust";
const WITH_STD: &str = "std-net";
const INHERITS: &str = "listener-rust";
/// What `sockets all` prints.
const ALL: &str = "ok streams\nok datagrams\nok errors\nok listeners\nok options\nok families\n\
    ok names\nok polls\n";
const ALL_RUST: &str = "ok streams\nok datagrams\nok streams\nok datagrams\n";
const ALL_STD: &str = "ok streams\nok datagrams\nok streams\nok datagrams\nok limits\nok others\n";
/// What a tree of processes gets when no other one has sockets.
const FULL: &str = "1008 sockets, then ENFILE\n";
/// What the kernel's log says then.
const SAYS_FULL: &str = "(sockets): its tree has all sockets that it may have";
const BACK: &str = "5000 of 5000 bytes came back\n";
const LISTENING: &str = "listening\n";
const ENDED: &str = "all connections have ended\n";
/// Deaths after which the end of one client at least is known: the process table may be lost with
/// the kernel, and how its processes ended.
const DEATHS: usize = 4;
const INTERRUPTED: u8 = 128 + 2;
/// Exit code of `sockets victim` when its connection is reset.
const RESET: u8 = 7;

fn begin(rig: &Rig, kernel: &str, program: &str, arguments: &[&str]) -> Running {
    Running::of(&rig.instance, Line::on(kernel, program, arguments), b"")
}

/// Waits for the end of a program, which must print this and nothing else.
fn says(running: Running, what: &str, wanted: &str) -> Result<(), Failure> {
    let found = running.end()?;
    let good = found.code == 0 && found.out == wanted.as_bytes() && found.err.is_empty();
    if good { Ok(()) } else { Err(wrong(what, found)) }
}

fn runs(
    rig: &Rig,
    kernel: &str,
    program: &str,
    arguments: &[&str],
    wanted: &str,
) -> Result<(), Failure> {
    let what = format!("{program} {arguments:?} on {kernel}");
    says(begin(rig, kernel, program, arguments), &what, wanted)
}

/// Servers in C, in Rust with the SDK and in Rust with std on kernel `server`, for clients in C and
/// Rust on `client`; every byte is compared.
fn talk(rig: &Rig, server: &str, client: &str) -> Result<(), Failure> {
    let bytes = if rig.watched { 2_000 } else { 40_000 };
    let (sent, back) = (bytes.to_string(), format!("{bytes} of {bytes} bytes came back\n"));
    let servers = [
        (IN_C, "7", LISTENING, IN_RUST),
        (IN_RUST, "8", "", WITH_STD),
        (WITH_STD, "10", "", WITH_STD),
    ];
    for (program, port, start, in_rust) in servers {
        let serving = begin(rig, server, program, &["echo", port, "3"]);
        // Two at a time, as far as the server allows.
        let one = begin(rig, client, IN_C, &["client", port, &sent]);
        let other = begin(rig, client, in_rust, &["client", port, &sent]);
        says(one, "a client in C", &back)?;
        says(other, "a client in Rust", &back)?;
        // A client that exits without closing: its end of the connection is closed for it.
        runs(rig, client, IN_C, &["abandon", port], "")?;
        says(serving, &format!("a server on {server}"), &format!("{start}{ENDED}"))?;
    }
    let serving = begin(rig, server, IN_C, &["udp", "9", "50"]);
    runs(rig, client, IN_C, &["ask", "9", "50"], "50 of 50 datagrams came back\n")?;
    says(serving, "a server of datagrams", "")
}

/// Programs on these kernels.
fn programs(rig: &mut Rig, kernels: &[&str]) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, IN_C)?;
    put(rig, IN_RUST)?;
    put(rig, WITH_STD)?;
    for kernel in kernels {
        runs(rig, kernel, IN_C, &["all"], ALL)?;
        runs(rig, kernel, IN_RUST, &[], ALL_RUST)?;
        runs(rig, kernel, WITH_STD, &[], ALL_STD)?;
    }
    for server in kernels {
        kernels.iter().try_for_each(|client| talk(rig, server, client))?;
    }
    // Twice: the first process has closed its sockets.
    for kernel in kernels {
        runs(rig, kernel, IN_C, &["full"], FULL)?;
        runs(rig, kernel, IN_C, &["full"], FULL)?;
        until(rig, &format!("fs cat proc/{kernel}/kmsg"), SAYS_FULL)?;
    }
    Ok(())
}

/// One kernel.
pub fn alone(rig: &mut Rig) -> Result<(), Failure> {
    programs(rig, &["main"])?;
    runs(rig, "main", IN_C, &["many"], "ok many\n")
}

/// Two kernels and one service, in any mode.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    programs(rig, &["main", "shadow"])?;
    for kernel in ["main", "shadow"] {
        runs(rig, kernel, IN_C, &["many"], "ok many\n")?;
        killed(rig, kernel)?;
    }
    Ok(())
}

/// A signal ends a program that waits for a connection, and one that waits for data.
fn killed(rig: &mut Rig, kernel: &str) -> Result<(), Failure> {
    for (port, connects) in [("11", false), ("12", true)] {
        let waiting = begin(rig, kernel, IN_C, &["hold", port]);
        let pid = pid_of(rig, kernel, IN_C)?;
        if connects {
            // It has accepted this one when it ends.
            runs(rig, "main", IN_C, &["abandon", port], "")?;
        }
        rig.ask("main", &format!("kill {pid} INT"), PATIENCE)?;
        let found = waiting.end()?;
        if found.code != INTERRUPTED {
            return Err(wrong("a program that waits for a connection, killed", found));
        }
    }
    Ok(())
}

/// A program reaches what its manifest allows, if its parent may; everything else is refused.
pub fn allowed(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    for kernel in ["main", "shadow"] {
        for (rules, what, wanted) in [
            ("[\"connect:*:9\", \"listen:80\"]", "refused", "ok refused\n"),
            ("[\"connect:*:*\", \"listen:*\"]", "all", ALL),
        ] {
            let manifest = rig.instance.path("sockets.toml");
            std::fs::write(&manifest, format!("net = {rules}\n"))?;
            put_with(rig, IN_C, Some(&manifest))?;
            runs(rig, kernel, IN_C, &[what], wanted)?;
        }
        // It may not listen, and gets a listener.
        std::fs::write(rig.instance.path("sockets.toml"), "listen = [\"tcp:80\"]\nnet = []\n")?;
        put_with(rig, IN_C, Some(&rig.instance.path("sockets.toml")))?;
        put(rig, IN_RUST)?;
        let serving = begin(rig, kernel, IN_C, &["inherited", "0", "1"]);
        runs(rig, kernel, IN_RUST, &["client", "80", "5000"], BACK)?;
        says(serving, "a listener of a manifest", &format!("{LISTENING}{ENDED}"))?;
        put_with(rig, INHERITS, Some(&rig.instance.path("sockets.toml")))?;
        let serving = begin(rig, kernel, INHERITS, &["2"]);
        for _ in 0..2 {
            runs(rig, kernel, IN_RUST, &["client", "80", "5000"], BACK)?;
        }
        says(serving, "a listener in Rust's std", &format!("{LISTENING}{ENDED}"))?;
        listening_file(rig, kernel)?;
    }
    Ok(())
}

/// A program in a file gets a listener by `pen exec --listen`.
fn listening_file(rig: &mut Rig, kernel: &str) -> Result<(), Failure> {
    let built = apps::build_for_test(&Place::find()?, INHERITS);
    let built = built.map_err(|why| wrong("build", format!("{why:#}")))?;
    let none = rig.instance.path("none.toml");
    std::fs::write(&none, "net = []\n")?;
    let line = Line::on(kernel, &built.wasm.display().to_string(), &["1"]).at(&none, 81);
    let serving = Running::of(&rig.instance, line, b"");
    runs(rig, kernel, IN_RUST, &["client", "81", "5000"], BACK)?;
    says(serving, "a listener of the command line", &format!("{LISTENING}{ENDED}"))
}

/// Kills the kernel of a server. Returns the code with which its client ended: [`RESET`] or
/// [`LOST`].
fn victim_of(rig: &mut Rig) -> Result<u8, Failure> {
    let _holding = begin(rig, "shadow", IN_C, &["hold", "13"]);
    let victim = begin(rig, "main", IN_C, &["victim", "13"]);
    // The client is connected, and about to wait for data.
    runs(rig, "main", IN_C, &["abandon", "14"], "")?;
    rig.kill("shadow")?;
    let found = victim.end()?;
    match found.code {
        RESET | LOST => Ok(found.code),
        _ => Err(wrong("the client of a kernel that died", found)),
    }
}

/// The kernel of a server dies: its client's connection is reset, and sockets still work.
pub fn lost(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    put(rig, IN_C)?;
    let mut is_seen = false;
    for _ in 0..DEATHS {
        is_seen = victim_of(rig)? == RESET;
        back(rig)?;
        put(rig, IN_C)?;
        if is_seen {
            break;
        }
    }
    if !is_seen {
        return Err(wrong("the client of a kernel that died", "how it ended was never known"));
    }
    for kernel in ["main", "shadow"] {
        runs(rig, kernel, IN_C, &["all"], ALL)?;
    }
    Ok(())
}
