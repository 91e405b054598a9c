//! A real QEMU under the soc: five instructions that increment a counter in shared memory show
//! whether its core runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use abi::soc::{DomainStatus, command, error, state};
use common::*;
use serde_json::json;
use soc::config::Config;
use std::mem::offset_of;

/// auipc t0, 0x180; loop: ld t1, (t0); addi t1, t1, 1; sd t1, (t0); j loop
const COUNTER: [u32; 5] = [0x0018_0297, 0x0002_b303, 0x0013_0313, 0x0062_b023, 0xff5f_f06f];
const COUNT: u64 = BASE + 0x18_0000;

fn qemu() -> Vec<&'static str> {
    "qemu-system-riscv64 -M virt,aia=aplic-imsic,memory-backend=ram -cpu rv64 -smp 1,maxcpus=2 \
     -m 16M -object memory-backend-file,id=ram,mem-path=ram,size=16M,share=on -bios none \
     -nodefaults -display none -chardev socket,id=iv,path=slot1.sock \
     -device ivshmem-doorbell,chardev=iv,vectors=8 -qmp unix:weak.qmp,server=on,wait=off"
        .split_whitespace()
        .collect()
}

fn count(soc: &Soc) -> u64 {
    soc.ram.load(COUNT).unwrap()
}

fn runs(soc: &Soc) {
    let before = count(soc);
    until(&format!("the core counts\n{}", soc.log()), || count(soc) != before);
}

/// Returns a board whose weak domain is the counter, and the folder of its image, if there is an
/// emulator for it. No kernel sends READY there.
fn board(boot_patience_ms: u64) -> Option<(Soc, tempfile::TempDir)> {
    if std::process::Command::new("qemu-system-riscv64").arg("--version").output().is_err() {
        eprintln!("skipped: qemu-system-riscv64 is not installed");
        return None;
    }
    let image: Vec<u8> = COUNTER.iter().flat_map(|word| word.to_le_bytes()).collect();
    let images = tempfile::tempdir().unwrap();
    let path = images.path().join("counter");
    std::fs::write(&path, image).unwrap();
    let mut weak = domain(1, "weak", &qemu());
    (weak.staging_pa, weak.image) = (BASE, Some(path));
    let domains = vec![domain(0, "strong", &["sleep", "1000"]), weak];
    let soc = Soc::start(&Config { boot_patience_ms, ..config(domains) });
    runs(&soc);
    Some((soc, images))
}

#[test]
fn who_does_not_come_up_is_told_of_with_where_it_stands() {
    let Some((soc, _images)) = board(300) else { return };
    let told = |what: &str| until(what, || soc.log().contains(what));
    told("weak has not come up for 300ms; it has sent 0 requests.");
    told("The registers of weak:");
    told("x5/t0"); // one of the counter's registers
    assert!(!soc.log().contains("The registers of strong"), "it has no emulator to ask");
    runs(&soc);
    // Once per boot.
    let times = || soc.log().matches("The registers of weak:").count();
    assert_eq!(times(), 1);
    soc.ask(json!({"op": "kill", "domain": "weak"}));
    until("the next boot is reported", || times() == 2);
    runs(&soc);
}

#[test]
fn power_of_a_real_emulator() {
    let Some((soc, _images)) = board(60_000) else { return };
    let mut strong = Kernel::new(&soc, 0, 3);
    runs(&soc);
    let wakes = |soc: &Soc| soc.status(1, offset_of!(DomainStatus, wakes));
    for (epoch, round) in [(1, 0), (2, 1)] {
        assert_eq!(wakes(&soc), 1 + 2 * round);
        assert_eq!(strong.ask(&soc, command::INACTIVE, 1, 0), error::NONE, "round {round}");
        assert_eq!(soc.state(1), (epoch, state::INACTIVE));
        stands_still(&soc, &mut strong);
        assert_eq!(strong.ask(&soc, command::WAKE, 1, 0), error::NONE);
        assert_eq!(soc.state(1), (epoch, state::BOOTING));
        assert_eq!(wakes(&soc), 2 + 2 * round);
        runs(&soc);
        assert_eq!(strong.ask(&soc, command::OFF, 1, 0), error::NONE);
        assert_eq!(soc.state(1), (epoch, state::COLD));
        stands_still(&soc, &mut strong);
        assert_eq!(strong.ask(&soc, command::WAKE, 1, 0), error::NONE);
        assert_eq!(soc.state(1), (epoch + 1, state::BOOTING));
        runs(&soc);
    }
    soc.ask(json!({"op": "kill", "domain": "weak"}));
    soc.until_state(1, (4, state::BOOTING));
    assert_eq!((wakes(&soc), soc.status(0, offset_of!(DomainStatus, wakes))), (6, 1));
    runs(&soc);
}

/// A running core counts within the time of a hundred requests to the soc.
fn stands_still(soc: &Soc, strong: &mut Kernel) {
    let before = count(soc);
    for _ in 0..100 {
        strong.ask(soc, command::TIME, 0, 0);
    }
    assert_eq!(count(soc), before);
}
