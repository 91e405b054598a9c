//! Measures PostMark on each kernel, after Helios' figure 7. `./pen bench helios.postmark` runs it
//! on main, with services on one kernel or another.
//!
//! It prints records in ms: from the start of PostMark until it has ended and a sync is done.

use penumbra::Command;
use std::time::Instant;

const WORKLOAD: &str = "set location /mails\nset number 50\nset transactions 200\n\
                        set size 500 10000\nset seed 7\nrun\nquit\n";
/// Records, and the kernel of PostMark.
const PLACES: [(&str, u32); 2] = [("postmark", 0), ("postmark_on_shadow", 1)];
const FOLDER: &str = "/mails";
const CONFIGURATION: &str = "/workload";
/// The first run is slower: the program's image comes into memory.
const RUNS: usize = 2;

type Failure = Box<dyn std::error::Error>;

/// Runs PostMark once on a kernel. Returns the time in ms.
fn run(kernel: u32) -> Result<f64, Failure> {
    std::fs::create_dir(FOLDER)?;
    std::fs::write(CONFIGURATION, WORKLOAD)?;
    let begun = Instant::now();
    let command = Command::new("/bin/postmark").args([CONFIGURATION]).kernel(kernel);
    let ended = command.spawn()?.wait()?;
    std::fs::File::open(FOLDER)?.sync_all()?;
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    std::fs::remove_dir(FOLDER)?;
    match ended.end.code() {
        0 => Ok(ms),
        code => Err(format!("PostMark ended with {code}").into()),
    }
}

fn main() -> Result<(), Failure> {
    for (name, kernel) in PLACES {
        let times = (0..RUNS).map(|_| run(kernel)).collect::<Result<Vec<_>, _>>()?;
        if let Some(ms) = times.last() {
            println!("record helios.{name} {ms:.3} ms");
        }
    }
    Ok(())
}
