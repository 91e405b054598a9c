//! The weak kernel dies while wrk loads a server on each kernel.
//!
//! ```text
//!   wrk -> lighttpd on main    its connections continue without an error
//!   wrk -> lighttpd on shadow  its connections are reset; the next life serves again
//! ```
//! The board is `duo-delegated`: main executes the services for both kernels. Where both execute
//! them (`duo`), a service loses its state if shadow dies within a step, or with the only copy of
//! one of its pages; connections of main are lost then, too.

use super::curl::Client;
use super::lighttpd::{LIGHTTPD, PORT, put_site, site_file};
use super::load::{CONNECTIONS, Load};
use super::{Serving, needs};
use crate::host::push;
use crate::machine::{demand, until};
use crate::peers::wait_for;
use crate::programs::{LOST, awaited, wrong};
use crate::threads::put_with;
use crate::{Failure, PATIENCE, Rig};
use abi::soc::state;
use std::time::Duration;
use tree::place::Place;

/// Port of the server on shadow.
const WEAK_PORT: u16 = 81;
/// How long a wrk asks if nothing stops it, in s.
const SECONDS: u64 = 600;
/// How long wrk asks after the next life has begun.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Kills per nightly run.
const OFTEN: u64 = 1_000;

/// Kills the weak kernel so many times.
pub fn killed(rig: &mut Rig, times: u64) -> Result<(), Failure> {
    let mut pair = Pair::start(rig)?;
    (0..times).try_for_each(|round| pair.round(rig, round))?;
    pair.end(rig)
}

/// The same, up to the next multiple of [`OFTEN`]. The number of kills so far is in a file, so that
/// an interrupted run continues; a kill that fails is repeated.
pub fn killed_often(rig: &mut Rig) -> Result<(), Failure> {
    let mut pair = Pair::start(rig)?;
    let file = Place::find()?.target.join("servers-killed");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let before = known.trim().parse::<u64>().unwrap_or(0);
    let goal = (before / OFTEN + 1) * OFTEN;
    for number in before..goal {
        pair.round(rig, number)?;
        std::fs::write(&file, format!("{}\n", number + 1))?;
    }
    println!("{goal} kills in all, {} in this run", goal - before);
    pair.end(rig)
}

/// A server on each kernel.
struct Pair {
    strong: Serving,
    weak: Serving,
}

fn start(rig: &mut Rig, kernel: &str) -> Result<Serving, Failure> {
    let port = if kernel == "main" { PORT } else { WEAK_PORT };
    let configuration = format!("/{kernel}.conf");
    let serving = Serving::start(rig, kernel, LIGHTTPD, &["-D", "-f", &configuration], port)?;
    serves(rig, &serving)?;
    Ok(serving)
}

fn serves(rig: &Rig, serving: &Serving) -> Result<(), Failure> {
    let client = Client::new(rig, serving.host_port)?;
    client.gets("/index.html", &[], "200", &site_file("site/index.html")?)
}

/// Waits until the connections of both wrks on the chip, main's and shadow's, are as `wanted`.
fn until_open(rig: &mut Rig, wanted: impl Fn(usize, usize) -> bool) -> Result<(), Failure> {
    let late = |said: String| wrong("connections of wrk", said);
    awaited(PATIENCE, late, || {
        let said = rig.ask("main", "sockets", PATIENCE)?;
        let open = |port: u16| said.matches(&format!("10.0.2.15:{port} ")).count();
        let is_so = wanted(open(PORT), open(WEAK_PORT));
        Ok((said, is_so))
    })
    .map(|_| ())
}

impl Pair {
    fn start(rig: &mut Rig) -> Result<Pair, Failure> {
        needs(&["curl", "wrk"])?;
        rig.expect("main> ", PATIENCE)?;
        until(rig, "network", "link      up")?;
        put_site(rig)?;
        let manifest = rig.instance.path("lighttpd.toml");
        let rules = format!("net = [\"listen:{PORT}\", \"listen:{WEAK_PORT}\"]\n");
        std::fs::write(&manifest, format!("{rules}limits = {{ files = 512 }}\n"))?;
        put_with(rig, LIGHTTPD, Some(&manifest))?;
        let configuration = String::from_utf8_lossy(&site_file("lighttpd.conf")?).into_owned();
        for (kernel, port) in [("main", PORT), ("shadow", WEAK_PORT)] {
            let text = configuration.replace("server.port = 80", &format!("server.port = {port}"));
            let text = text.replace("\"[::]:80\"", &format!("\"[::]:{port}\""));
            // A log of all requests would fill the file system in memory.
            let text = text.replace("accesslog.filename = \"/access.log\"", "");
            let path = format!("/{kernel}.conf");
            push(&rig.instance, text.as_bytes(), &path).map_err(|why| wrong(&path, why))?;
        }
        Ok(Pair { strong: start(rig, "main")?, weak: start(rig, "shadow")? })
    }

    /// One kill.
    fn round(&mut self, rig: &mut Rig, round: u64) -> Result<(), Failure> {
        let failed = |why: Failure| Failure::Wrong(format!("kill {round}: {why}"));
        self.kill(rig, round).map_err(failed)?;
        rig.counted.add(1, "kills");
        Ok(())
    }

    fn kill(&mut self, rig: &mut Rig, round: u64) -> Result<(), Failure> {
        let epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
        let strong = Load::start(self.strong.host_port, SECONDS)?;
        let weak = Load::start(self.weak.host_port, SECONDS)?;
        until_open(rig, |main, shadow| main > 0 && shadow > 0)?;
        std::thread::sleep(Duration::from_millis(round * 377 % 1_500));
        rig.kill("shadow")?;
        wait_for(rig, "came back", |next, now| next == epoch + 1 && now == state::RUNNING)?;
        // Its connections have been reset, and nothing listens there.
        until_open(rig, |_, shadow| shadow == 0)?;
        let client = Client::new(rig, self.weak.host_port)?;
        if let Ok(found) = client.get("/index.html", &[]) {
            return Err(wrong("a server that is dead answers", found.0));
        }
        std::thread::sleep(AFTERWARDS);
        let (strong, weak) = (strong.stop()?, weak.stop()?);
        if weak.errors == 0 {
            return Err(wrong("wrk at the kernel that died", weak));
        }
        if strong.requests < CONNECTIONS || strong.errors + strong.refused > 0 {
            return Err(wrong("wrk at the kernel that lives", strong));
        }
        demand(rig, "audit", "the invariant holds")?;
        serves(rig, &self.strong)?;
        let dead = std::mem::replace(&mut self.weak, start(rig, "shadow")?);
        let found = dead.lost(rig)?;
        match found.code == LOST {
            true => Ok(()),
            false => Err(wrong("the server that died", found)),
        }
    }

    fn end(self, rig: &mut Rig) -> Result<(), Failure> {
        self.weak.end(rig)?;
        self.strong.end(rig)?;
        demand(rig, "on shadow audit", "the invariant holds").map(|_| ())
    }
}
