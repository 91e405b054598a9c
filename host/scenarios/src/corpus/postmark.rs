//! PostMark on each kernel, in memory and on an ext2, and Debian's binary of it on the host.
//!
//! Its random numbers are its own, so what it does to files follows from its seed: how many it has
//! created, read, appended and deleted, and how many bytes, must be the same everywhere. Times and
//! rates are not compared.

use crate::disk::{begin, done, off_and_clean};
use crate::host::push;
use crate::machine::demand;
use crate::programs::{Running, wrong};
use crate::servers::needs;
use crate::threads::put;
use crate::{Failure, Rig};
use deploy::exec::Line;
use std::process::Command;

/// The program of apps/corpus.toml, and of Debian.
const PROGRAM: &str = "postmark";
const CONFIGURATION: &str = "/workload";
/// Folders of the board: in memory, and on the disk.
const FOLDERS: [&str; 2] = ["mails", "disk/mails"];
/// Small files through the C library's buffers; larger ones in several folders without, more of
/// them read and created.
const WORKLOADS: [&str; 2] = [
    "set number 100\nset transactions 500\nset size 500 10000\nset seed 7\n",
    "set number 30\nset transactions 200\nset size 2000 40000\nset seed 11\n\
     set subdirectories 4\nset buffering false\nset read 4096\nset write 4096\n\
     set bias read 8\nset bias create 6\n",
];

/// Both workloads in each folder from each kernel.
pub fn postmark(rig: &mut Rig) -> Result<(), Failure> {
    needs(&[PROGRAM])?;
    begin(rig, 1024)?;
    put(rig, PROGRAM)?;
    FOLDERS.iter().try_for_each(|folder| done(rig, &format!("fs mkdir {folder}")))?;
    for workload in WORKLOADS {
        let wanted = on_host(rig, workload)?;
        for (kernel, folder) in ["main", "shadow"].iter().flat_map(|it| FOLDERS.map(|f| (it, f))) {
            let found = on_board(rig, kernel, folder, workload)?;
            if found != wanted {
                return Err(wrong(
                    &format!("{workload:?} in {folder} on {kernel}"),
                    (found, wanted),
                ));
            }
        }
    }
    demand(rig, "audit", "the invariant holds")?;
    off_and_clean(rig)
}

fn configuration(folder: &str, workload: &str) -> String {
    format!("set location {folder}\n{workload}run\nquit\n")
}

/// Returns the lines about files and bytes, without their rates.
fn counts(out: &[u8]) -> Vec<String> {
    let out = String::from_utf8_lossy(out);
    let lines = out.lines().skip_while(|line| *line != "Files:");
    lines.map(|line| line.split(" (").next().unwrap_or_default().to_string()).collect()
}

fn on_host(rig: &Rig, workload: &str) -> Result<Vec<String>, Failure> {
    let folder = rig.instance.path("postmark");
    std::fs::create_dir_all(folder.join("mails"))?;
    std::fs::write(folder.join("workload"), configuration("mails", workload))?;
    let output = Command::new(PROGRAM).arg("workload").current_dir(&folder).output()?;
    let counts = counts(&output.stdout);
    let has_counts = counts.iter().filter(|line| line.starts_with('\t')).count() == 10;
    match output.status.success() && output.stderr.is_empty() && has_counts {
        true => Ok(counts),
        false => Err(wrong("PostMark on the host", output)),
    }
}

fn on_board(
    rig: &mut Rig,
    kernel: &str,
    folder: &str,
    workload: &str,
) -> Result<Vec<String>, Failure> {
    let text = configuration(&format!("/{folder}"), workload);
    push(&rig.instance, text.as_bytes(), CONFIGURATION).map_err(|why| wrong("push", why))?;
    let line = Line::on(kernel, PROGRAM, &[CONFIGURATION]);
    let found = Running::of(&rig.instance, line, b"").end()?;
    if found.code != 0 || !found.err.is_empty() {
        return Err(wrong(&format!("PostMark in {folder} on {kernel}"), found));
    }
    // It has deleted what it created.
    done(rig, &format!("fs rmdir {folder}"))?;
    done(rig, &format!("fs mkdir {folder}"))?;
    Ok(counts(&found.out))
}
