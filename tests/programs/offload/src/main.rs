//! Measures an indexer beside a SAT solver, and apart from it, as in Helios' figure 8:
//! `./pen bench helios.index` runs it on main.
//!
//! ```text
//!   offload --solver.v1--> sat --serve, on main
//!      `--spawn, its output as a pipe--> index add, on a given kernel or as its manifest says
//! ```
//! Both begin at the same time, the solver with its formula, the indexer with its start. Each is
//! measured from there until it has answered or ended. It prints records in ms.

use offload::{clauses, dimacs, texts};
use penumbra::channel::{Channel, connect_when_served};
use penumbra::process::{list, signal};
use penumbra::ready::{self, Interest};
use penumbra::{Child, Command, File};
use sat::solver_v1::{CONTRACT, client, message};

/// Kernels of the board.
const MAIN: u32 = 0;
const SHADOW: u32 = 1;
/// The texts.
const FILES: usize = 100;
const WORDS: usize = 600;
const FOLDER: &str = "/corpus";
const INDEX: &str = "/corpus.index";
/// The formula: 4.2 clauses a variable.
const VARIABLES: u32 = 170;
const CLAUSES: usize = 714;
const SEED: u64 = 1;

type Failure = Box<dyn std::error::Error>;
type Solver = client::Idle<Channel>;

/// The kernel of the indexer.
#[derive(Clone, Copy)]
enum Where {
    On(u32),
    /// As its manifest says: another one than the solver's.
    Apart,
}

/// Time in ns until each was done; 0 for what did not run.
#[derive(Default)]
struct Times {
    indexer: u64,
    solver: u64,
}

/// An indexer that runs, and the end of its output.
struct Indexer {
    child: Child,
    output: File,
    wanted: u32,
}

impl Indexer {
    fn start(on: Where) -> Result<Indexer, Failure> {
        let (output, input) = File::pipe()?;
        let command = Command::new("/bin/index").args(["add", INDEX, FOLDER]);
        let command = command.file(input.number(), 1);
        let (command, wanted) = match on {
            Where::On(kernel) => (command.kernel(kernel), kernel),
            Where::Apart => (command, SHADOW),
        };
        Ok(Indexer { child: command.spawn()?, output, wanted })
    }

    /// Reads what it has printed. Returns whether it has ended.
    fn has_ended(&self) -> Result<bool, Failure> {
        Ok(self.output.read(&mut [0; 512])? == 0)
    }

    /// Checks how and where it ran.
    fn end(self) -> Result<(), Failure> {
        let all = list()?;
        let listed = all.iter().find(|process| process.pid == self.child.pid());
        let kernel = listed.map(|process| u32::from(process.kernel));
        let ended = self.child.wait()?;
        match kernel == Some(self.wanted) && ended.end.success() {
            true => Ok(()),
            false => Err(format!("the indexer on {kernel:?}: {ended:?}").into()),
        }
    }
}

/// Waits for an answer, which says whether the formula can be satisfied.
fn answer(solving: client::Solving<Channel>) -> Result<Solver, Failure> {
    match solving.receive()? {
        client::received::Solving::Satisfiable { next, .. } => Ok(next),
        client::received::Solving::Unsatisfiable { next, .. } => Ok(next),
        client::received::Solving::Invalid { message, .. } => {
            Err(String::from_utf8_lossy(message.why.as_slice()).into())
        }
    }
}

/// Lets the indexer run alone.
fn index(on: Where) -> Result<Times, Failure> {
    let begun = ready::now();
    let indexer = Indexer::start(on)?;
    while !indexer.has_ended()? {}
    let times = Times { indexer: ready::now() - begun, solver: 0 };
    indexer.end()?;
    Ok(times)
}

/// Lets the solver run alone.
fn solve(solver: Solver, formula: &str) -> Result<(Solver, Times), Failure> {
    let begun = ready::now();
    let solver = answer(solver.send_solve(&message::Solve {}, formula.as_bytes().into())?)?;
    Ok((solver, Times { indexer: 0, solver: ready::now() - begun }))
}

/// Lets both run at the same time.
fn both(solver: Solver, formula: &str, on: Where) -> Result<(Solver, Times), Failure> {
    let begun = ready::now();
    let solving = solver.send_solve(&message::Solve {}, formula.as_bytes().into())?;
    let indexer = Indexer::start(on)?;
    let mut times = Times::default();
    while times.indexer == 0 && times.solver == 0 {
        let what = [&indexer.output, solving.transport().file()].map(Interest::Read);
        let ready = ready::wait(&what, None)?;
        if ready.contains(&0) && indexer.has_ended()? {
            times.indexer = ready::now() - begun;
        }
        if ready.contains(&1) {
            times.solver = ready::now() - begun;
        }
    }
    while times.indexer == 0 && !indexer.has_ended()? {}
    if times.indexer == 0 {
        times.indexer = ready::now() - begun;
    }
    let solver = answer(solving)?;
    if times.solver == 0 {
        times.solver = ready::now() - begun;
    }
    indexer.end()?;
    Ok((solver, times))
}

fn record(name: &str, ns: u64) {
    println!("record helios.index_{name} {} ms", ns as f64 / 1e6);
}

fn main() -> Result<(), Failure> {
    std::fs::create_dir_all(FOLDER)?;
    for (name, text) in texts(SEED, FILES, WORDS) {
        std::fs::write(format!("{FOLDER}/{name}"), text)?;
    }
    let formula = dimacs(VARIABLES, &clauses(SEED, VARIABLES, CLAUSES));
    let server = Command::new("/bin/sat").arg("--serve").kernel(MAIN).spawn()?;
    let solver = client::start(connect_when_served("solver", CONTRACT)?);
    // The first run of a program on a kernel is slower: its image comes into memory.
    index(Where::On(SHADOW))?;
    index(Where::On(MAIN))?;
    let (solver, alone) = solve(solver, &formula)?;
    record("sat_alone", alone.solver);
    record("alone", index(Where::On(MAIN))?.indexer);
    let (solver, beside) = both(solver, &formula, Where::On(MAIN))?;
    record("beside", beside.indexer);
    record("sat_beside", beside.solver);
    let (solver, apart) = both(solver, &formula, Where::Apart)?;
    record("apart", apart.indexer);
    record("sat_apart", apart.solver);
    record("shadow", index(Where::On(SHADOW))?.indexer);
    drop(solver);
    server.kill(signal::KILL)?;
    server.wait()?;
    Ok(())
}
