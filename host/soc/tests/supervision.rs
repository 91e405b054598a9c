//! The soc process as seen by kernels and `pen`; its QEMUs are processes that only sleep.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use abi::lock::LockWord;
use abi::soc::{DomainPage, DomainStatus, command, error, state};
use common::*;
use serde_json::json;
use std::fs::Permissions;
use std::mem::offset_of;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const SLEEP: [&str; 2] = ["sleep", "1000"];

/// Returns the address of a domain's word of a lock.
fn word(domain: usize, lock: u64) -> u64 {
    PAGES + (domain * size_of::<DomainPage>() + offset_of!(DomainPage, locks)) as u64 + 8 * lock
}

fn two() -> soc::config::Config {
    config(vec![domain(0, "strong", &SLEEP), domain(1, "weak", &SLEEP)])
}

#[test]
fn peers_are_introduced_before_the_page_and_rings_reach_them() {
    let soc = Soc::start(&two());
    let mut strong = Peer::connect(&soc.path("slot0.sock"), 3);
    let mut weak = Peer::connect(&soc.path("slot1.sock"), 3);
    assert_eq!((strong.id, &strong.order[..]), (1, &[0, 2, -1, 1][..]));
    assert_eq!((weak.id, &weak.order[..]), (2, &[0, 1, -1, 2][..]));
    assert_eq!(strong.page.metadata().unwrap().len(), 4096);
    for vector in 0..usize::from(VECTORS) {
        strong.ring(2, vector);
        weak.wait(vector);
    }
    // A restarted QEMU gets the same doorbells, without the rings meant for its predecessor.
    strong.ring(2, 5);
    let mut again = Peer::connect(&soc.path("slot1.sock"), 3);
    assert_eq!(again.order, weak.order);
    let mut rings = [0u8; 8];
    use std::io::Read;
    assert!(again.doorbells[2][5].read(&mut rings).is_err(), "a stale ring was kept");
    strong.ring(2, 5);
    again.wait(5);
}

#[test]
fn no_other_user_reaches_memory_sockets_or_logs() {
    let soc = Soc::start(&two());
    // Made by the soc, or by a "QEMU", which inherits what the soc has set.
    for name in ["ram", "soc.log", "soc.pid", "control.sock", "slot0.sock", "strong.log"] {
        // A "QEMU" makes its own shortly after the soc has started it.
        until(name, || soc.path(name).exists());
        let mode = soc.path(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn a_folder_that_others_may_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711)).unwrap();
    let soc = Command::new(env!("CARGO_BIN_EXE_soc")).arg(folder.path()).output().unwrap();
    assert_eq!(soc.status.code(), Some(2));
    let said = String::from_utf8_lossy(&soc.stderr);
    assert!(said.contains("mode 711") && said.contains("chmod 700"), "{said}");
}

#[test]
fn a_kernel_is_ready_and_learns_the_time() {
    let soc = Soc::start(&two());
    let mut kernel = Kernel::new(&soc, 0, 3);
    assert_eq!(soc.state(0), (1, state::BOOTING));
    assert_eq!(kernel.ask(&soc, command::READY, 0, 0), error::NONE);
    assert_eq!(soc.state(0), (1, state::RUNNING));
    let mut before = 0;
    for _ in 0..100 {
        assert_eq!(kernel.ask(&soc, command::TIME, 0, 0), error::NONE);
        let now = soc.status(0, offset_of!(DomainStatus, time));
        assert!(now > before);
        before = now;
    }
    assert_eq!(kernel.ask(&soc, 99, 0, 0), error::INVALID);
    assert_eq!(kernel.ask(&soc, command::WAKE, 9, 0), error::INVALID);
}

#[test]
fn a_killed_domain_comes_back_clean_and_everybody_is_told() {
    let soc = Soc::start(&two());
    let mut kernel = Kernel::new(&soc, 0, 3);
    let idle = LockWord::default().in_life(4);
    let words = [(0, idle.attempt()), (3, idle.wanting().attempt()), (31, idle)];
    for (lock, left) in words {
        soc.ram.store(word(1, lock), left.0).unwrap();
    }
    soc.ram.store(word(0, 3), idle.attempt().0).unwrap();
    for epoch in 1..=3 {
        soc.until_state(1, (epoch, state::BOOTING));
        assert_eq!(soc.ask(json!({"op": "kill", "domain": "weak"})), json!({"ok": true}));
        while soc.state(1) != (epoch + 1, state::BOOTING) {
            kernel.peer.wait(VECTOR_CHIP);
        }
        assert_eq!(soc.status(1, offset_of!(DomainStatus, deaths)), epoch);
    }
    let found = |domain, lock| LockWord(soc.ram.load(word(domain, lock)).unwrap());
    let seen = words.map(|(lock, _)| (found(1, lock).blocks(), found(1, lock).broken()));
    assert_eq!(seen, [(false, 4), (false, 0), (false, 0)], "its attempts are over");
    assert!(found(0, 3).blocks(), "that of the living one is not");
    let stub = STUB + 0x1000 + offset_of!(abi::boot::StubTable, epoch) as u64;
    assert_eq!(soc.ram.load(stub).unwrap(), 4);
}

#[test]
fn a_panic_says_whether_to_boot_again() {
    let soc = Soc::start(&two());
    let mut weak = Kernel::new(&soc, 1, 3);
    weak.post(&soc, command::PANIC, 1, 0);
    soc.until_state(1, (2, state::BOOTING));
    let mut weak = Kernel::new(&soc, 1, 3);
    weak.post(&soc, command::PANIC, 0, 0);
    soc.until_state(1, (2, state::DEAD));
    let mut strong = Kernel::new(&soc, 0, 3);
    assert_eq!(strong.ask(&soc, command::INACTIVE, 1, 0), error::STATE);
    assert_eq!(strong.ask(&soc, command::WAKE, 1, 0), error::NONE);
    soc.until_state(1, (3, state::BOOTING));
}

#[test]
fn a_crash_loop_is_given_up_and_the_board_goes_on() {
    let soc = Soc::start(&config(vec![domain(0, "strong", &SLEEP), domain(1, "weak", &["false"])]));
    soc.until_state(1, (6, state::DEAD));
    assert!(soc.log().contains("weak died too often"));
    assert_eq!(Kernel::new(&soc, 0, 3).ask(&soc, command::READY, 0, 0), error::NONE);
}

#[test]
fn a_board_whose_domains_all_crash_too_often_ends() {
    let domains = vec![domain(0, "strong", &["false"]), domain(1, "weak", &["false"])];
    let mut soc = Soc::start(&config(domains));
    assert_eq!(soc.ended(), Some(1));
    assert!(soc.log().contains("no domain of the board is left"));
}

#[test]
fn an_essential_death_ends_the_board_and_leaves_nothing() {
    let mut config = two();
    config.domains[0].essential = true;
    let mut soc = Soc::start(&config);
    let status = soc.ask(json!({"op": "status"}));
    let pids: Vec<u64> = [0, 1].map(|d| status["domains"][d]["pid"].as_u64().unwrap()).into();
    soc.ask(json!({"op": "kill", "domain": "strong"}));
    assert_eq!(soc.ended(), Some(1));
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    for gone in ["control.sock", "slot0.sock", "slot1.sock", "soc.pid"] {
        assert!(!soc.path(gone).exists(), "{gone} was left");
    }
    assert!(soc.log().contains("cannot continue without it"));
}

#[test]
fn the_board_ends_in_order_when_asked() {
    let mut soc = Soc::start(&two());
    assert_eq!(soc.ask(json!({"op": "shutdown"})), json!({"ok": true}));
    assert_eq!(soc.ended(), Some(0));

    let mut soc = Soc::start(&two());
    let pid = rustix::process::Pid::from_child(&soc.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(soc.ended(), Some(0));

    let mut soc = Soc::start(&two());
    Kernel::new(&soc, 1, 3).post(&soc, command::SHUTDOWN, 0, 0);
    assert_eq!(soc.ended(), Some(0));
}

/// Waits for the board's next life.
fn again(soc: &mut Soc, life: u64) {
    let control = soc.path("control.sock");
    until("the board starts again", || {
        soc::lives::count(soc.folder.path()) == life
            && std::os::unix::net::UnixStream::connect(&control).is_ok()
    });
    soc.ram = soc::memory::Ram::attach(&soc.path("ram"), BASE).unwrap();
    soc.until_state(0, (1, state::BOOTING));
    soc.until_state(1, (1, state::BOOTING));
}

#[test]
fn a_board_starts_again_from_nothing() {
    let mut soc = Soc::start(&two());
    let seed = BLOB_PA + (offset_of!(abi::boot::Blob, given) + 32) as u64;
    let before = soc.ask(json!({"op": "status"}));
    assert_eq!(soc.ask(json!({"op": "kill", "domain": "weak"})), json!({"ok": true}));
    soc.until_state(1, (2, state::BOOTING));
    soc.ram.store(word(0, 1), u64::MAX).unwrap();
    soc.ram.store(BASE + SIZE - 8, 7).unwrap();
    let mut kernel = Kernel::new(&soc, 0, 3);
    assert_eq!(kernel.ask(&soc, command::READY, 0, 0), error::NONE);
    kernel.post(&soc, command::REBOOT, 0, 0);
    again(&mut soc, 2);
    let status = soc.ask(json!({"op": "status"}));
    assert_eq!(status["pid"], before["pid"], "another process is the soc");
    let old = &before["domains"][0]["pid"];
    assert!(*old != status["domains"][0]["pid"]);
    assert!(!std::path::Path::new(&format!("/proc/{old}")).exists());
    assert_eq!(soc.status(1, offset_of!(DomainStatus, deaths)), 0);
    assert_eq!(soc.status(0, offset_of!(DomainStatus, answered)), 0);
    let words = [word(0, 1), BASE + SIZE - 8, PAGES].map(|pa| soc.ram.load(pa).unwrap());
    assert_eq!(words, [0; 3], "something of the first life is left");
    let first = soc.ram.load(seed).unwrap();
    assert_ne!(first, 0);
    assert_eq!(soc.ask(json!({"op": "reboot"})), json!({"ok": true}));
    again(&mut soc, 3);
    assert_ne!(soc.ram.load(seed).unwrap(), first);
    assert!(soc.log().contains("start 2.") && soc.log().contains("start 3."));
    soc.ask(json!({"op": "shutdown"}));
    assert_eq!(soc.ended(), Some(0));
    assert!(!soc.path("soc.pid").exists());
}

#[test]
fn a_run_that_must_repeat_does_not_restart() {
    let mut config = two();
    config.exact = true;
    let soc = Soc::start(&config);
    assert_eq!(Kernel::new(&soc, 1, 3).ask(&soc, command::REBOOT, 0, 0), error::ABSENT);
    assert_eq!(soc.ask(json!({"op": "reboot"}))["ok"], json!(false));
    soc.until_state(0, (1, state::BOOTING));
    assert_eq!(soc::lives::count(soc.folder.path()), 1);
}

#[test]
fn a_killed_soc_takes_its_emulators_with_it() {
    let mut soc = Soc::start(&two());
    let pid = soc.ask(json!({"op": "status"}))["domains"][0]["pid"].as_u64().unwrap();
    soc.process.kill().unwrap();
    // Gone, or a zombie that its new parent has not reaped.
    until("the emulator dies", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn an_emulator_without_a_monitor_is_killed_and_the_asker_told() {
    let soc = Soc::start(&two());
    let mut strong = Kernel::new(&soc, 0, 3);
    assert_eq!(strong.ask(&soc, command::INACTIVE, 1, 0), error::PLATFORM);
    soc.until_state(1, (2, state::BOOTING));
}

#[test]
fn a_domain_without_power_starts_when_woken() {
    let mut config = two();
    config.domains[1].start = soc::config::Start::Off;
    let soc = Soc::start(&config);
    assert_eq!(soc.state(1), (0, state::OFF));
    assert_eq!(
        soc.ask(json!({"op": "power", "domain": "weak", "action": "wake"})),
        json!({"ok": true})
    );
    assert_eq!(soc.state(1), (1, state::BOOTING));
    let refused = soc.ask(json!({"op": "power", "domain": "none", "action": "wake"}));
    assert_eq!(refused["ok"], json!(false));
}

/// Returns the numbers of the processes that play its domains.
fn emulators(soc: &Soc) -> Vec<u64> {
    let status = soc.ask(json!({"op": "status"}));
    (0..2).map(|d| status["domains"][d]["pid"].as_u64().unwrap()).collect()
}

#[test]
fn a_tied_board_ends_with_its_starter_in_any_life() {
    for lives in 1..=2 {
        let mut soc = Soc::start(&two());
        if lives == 2 {
            assert_eq!(soc.ask(json!({"op": "reboot"})), json!({"ok": true}));
            again(&mut soc, 2);
        }
        let emulators = emulators(&soc);
        drop(soc.process.stdin.take());
        assert_eq!(soc.ended(), Some(0), "{}", soc.log());
        for pid in emulators {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
        }
    }
}

#[test]
fn a_board_that_is_not_tied_outlives_its_starter() {
    let mut soc = Soc::start(&soc::config::Config { tied: false, ..two() });
    drop(soc.process.stdin.take());
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(soc.state(0), (1, state::BOOTING));
    assert!(soc.process.try_wait().unwrap().is_none());
}
