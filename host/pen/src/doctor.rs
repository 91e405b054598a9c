//! `pen doctor`: checks tools, disk space and leftovers, and says what to do about each problem.

use crate::test;
use std::path::Path;
use std::process::{Command, ExitCode};
use tree::place::Place;
use workbench::instance::Instance;
use workbench::processes;

/// Disk space for RAM file, images and build output.
const DISK: u64 = 6 << 30;
/// Memory for two QEMUs and a compiler.
const MEMORY: u64 = 1 << 30;
/// Maximum length of a socket's path.
const SOCKET: usize = 107;

/// Returns the length left for the path of the root by our longest socket path.
fn root() -> usize {
    let names = scenarios::ALL.iter().map(|scenario| test::sanitized(scenario).len());
    SOCKET - names.max().unwrap_or(0) - "/target/tests//control.sock".len()
}

/// `pen doctor`
pub fn doctor(place: &Place) -> anyhow::Result<ExitCode> {
    let mut healthy = true;
    let mut line = |good: bool, what: &str, advice: &str| {
        println!("{} {what}", if good { "ok  " } else { "BAD " });
        if !good {
            println!("     {advice}");
            healthy = false;
        }
    };
    let setup = "./pen setup installs it (as root)";
    for program in ["qemu-system-aarch64", "qemu-system-riscv64", "setsid"] {
        let (good, what) = version(Path::new(program));
        line(good, &what, setup);
    }
    let rustc = place.rustc.clone().unwrap_or_else(|| "rustc".into());
    for program in [&place.cargo, &rustc] {
        let (good, what) = version(program);
        line(good, &what, setup);
    }
    if let Some(linker) = &place.linker {
        let (good, what) = version(linker);
        line(good, &what, setup);
    }
    let free = free_disk(&place.root);
    let advice = "make room: target/ can be removed at any time";
    line(free >= DISK, &format!("{} MiB of disk free", free >> 20), advice);
    let free = free_memory();
    let available = format!("{} MiB of memory available", free >> 20);
    line(free >= MEMORY, &available, "end programs that use much memory");
    let length = place.root.as_os_str().len();
    let what = format!("the tree's path has {length} characters");
    line(length <= root(), &what, "sockets need short paths: move the tree");
    for instance in Instance::all(place) {
        match (instance.soc().is_some(), instance.machines().len()) {
            (true, n) => line(true, &format!("board {} runs, {n} QEMUs", instance.name), ""),
            (false, 0) => {}
            (false, n) => {
                let what = format!("board {} is dead and has left {n} QEMUs", instance.name);
                line(false, &what, &format!("./pen down {} ends them", instance.name));
            }
        }
    }
    for stray in processes::strays(place) {
        line(stray.keeper.is_some(), &stray.text(), &stray.end());
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn version(program: &Path) -> (bool, String) {
    match Command::new(program).arg("--version").output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            (true, format!("{}: {}", program.display(), text.lines().next().unwrap_or("?")))
        }
        Err(e) => (false, format!("{}: {e}", program.display())),
    }
}

fn free_disk(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |s| s.f_bavail * s.f_frsize)
}

fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok())
        .map_or(0, |kib: u64| kib << 10)
}
