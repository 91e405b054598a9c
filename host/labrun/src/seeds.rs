//! Bugs planted in specially built kernels (`arch::seeded`), one per run of an exact board, each in
//! the kernel of one ISA: the sanitizer must find every bug, and must find nothing without one.

use super::kit::Kit;
use anyhow::ensure;
use board::{Board, Isa, Kind};
use builds::kernels::{self, Built, Profile};
use lab::model::Mode;
use std::time::{Duration, Instant};
use workbench::findings::{self, Finding};
use workbench::instance::Instance;
use workbench::machine::Options;
use workbench::model::Choice;
use workbench::prepare;

/// Longer than any such run takes on a loaded host; a run that a bug has stopped ends after this
/// time.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGE: u64 = 4096;

/// A planted bug.
struct Seed {
    /// Its number in `arch::seeded`.
    number: u32,
    /// Its name.
    name: &'static str,
    /// The commands that expose it.
    by: &'static Shown,
    /// The kinds of findings that it may cause.
    kinds: &'static [&'static str],
}

/// Commands that expose bugs, and where.
struct Shown {
    /// The commands, by the ISA with the bug.
    script: fn(Isa) -> &'static str,
    /// Whether the bug may be found in this line.
    place: fn(&Board, u64) -> bool,
    on: &'static Setting,
}

const HANDOVER: Shown = Shown { script: handover, place: page, on: &EXACT };
const WORDS: Shown = Shown { script: handover, place: window, on: &EXACT };
const DMA: Shown = Shown { script: dma, place: own_memory, on: &EXACT };
const FETCH: Shown = Shown { script: code, place: code_page, on: &EXACT };
const REMAP: Shown = Shown { script: remap, place: own_memory, on: &EXACT };
const REMAP_AARCH64: Shown = Shown { script: remap, place: own_memory, on: &EXACT_AARCH64 };
const REMAP_CORES: Shown = Shown { script: remap, place: own_memory, on: &TWO_CORES };
const REMAP_HARTS: Shown = Shown { script: remap, place: own_memory, on: &THREE_HARTS };
const FAULTS: Shown = Shown { script: faults, place: global, on: &EXACT };
const MOVED: Shown = Shown { script: moved, place: own_memory, on: &TWO_CORES };

/// A board, and the ISAs that have bugs there.
struct Setting {
    board: &'static str,
    mode: Mode,
    isas: &'static [Isa],
}

const EXACT: Setting =
    Setting { board: "duo-1x1", mode: Mode::Full, isas: &[Isa::Aarch64, Isa::Riscv64] };
const EXACT_AARCH64: Setting =
    Setting { board: "duo-1x1", mode: Mode::Full, isas: &[Isa::Aarch64] };
/// RV64 completes maintenance with any fence, so also when it releases a lock.
const TWO_CORES: Setting = Setting { board: "duo", mode: Mode::Sanitizer, isas: &[Isa::Aarch64] };

/// A flush by one hart of RV64 does not concern the others.
const THREE_HARTS: Setting =
    Setting { board: "duo-1x3", mode: Mode::Sanitizer, isas: &[Isa::Riscv64] };

fn handover(_: Isa) -> &'static str {
    "handover 3"
}

fn dma(isa: Isa) -> &'static str {
    if isa == Isa::Aarch64 { "dma 4K 4K" } else { "on shadow dma 4K 4K" }
}

fn moved(_: Isa) -> &'static str {
    "moved"
}

fn remap(isa: Isa) -> &'static str {
    if isa == Isa::Aarch64 { "remap" } else { "on shadow remap" }
}

/// Pages of the shared block that the other kernel has had, and that are read, then written.
fn faults(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => "on shadow exercise 7 40; exercise 7 40",
        Isa::Riscv64 => "exercise 7 40; on shadow exercise 7 40",
    }
}

fn code(isa: Isa) -> &'static str {
    if isa == Isa::Aarch64 { "handover code" } else { "on shadow handover code" }
}

/// Pages of the memory that belongs to no kernel: the first is passed back and forth, then there is
/// one per kernel for code (`handover` of the monitor).
fn is_ground(board: &Board, line: u64, pages: std::ops::Range<u64>) -> bool {
    let global = board.regions.iter().find(|region| region.kind == Kind::Global);
    global.is_some_and(|region| pages.contains(&(line.wrapping_sub(region.block.base) / PAGE)))
}

fn page(board: &Board, line: u64) -> bool {
    is_ground(board, line, 0..1)
}

fn code_page(board: &Board, line: u64) -> bool {
    is_ground(board, line, 1..3)
}

/// Buffers are in a kernel's own memory.
fn own_memory(board: &Board, line: u64) -> bool {
    is_of(board, line, Kind::Local)
}

/// The shared block is in memory that belongs to no kernel.
fn global(board: &Board, line: u64) -> bool {
    is_of(board, line, Kind::Global)
}

/// Words between domains.
fn window(board: &Board, line: u64) -> bool {
    is_of(board, line, Kind::Uncached)
}

fn is_of(board: &Board, line: u64, kind: Kind) -> bool {
    let mut regions = board.regions.iter().filter(|region| region.kind == kind);
    regions.any(|region| line.wrapping_sub(region.block.base) < region.block.size)
}

const CLEAN: &str = "missing clean";
const INVALIDATE: &str = "missing invalidate";
const LOST: &str = "lost update";
const TWO: &str = "two dirty copies";
const CODE: &str = "fetch of uncleaned code";
const ATOMIC: &str = "atomic on a shared line";

const STALE: &str = "stale translation";
const ENDLESS: &str = "endless fault";
const REUSED: &str = "memory reused while translated";
const REPLACED: &str = "translation replaced without a break";
const BARE: &str = "table linked before its entries";

/// Number in `arch::seeded` of the first bug about TLBs.
const FIRST_OF_TLBS: u32 = 21;

const SEEDS: &[Seed] = &[
    Seed { number: 1, name: "no clean", by: &HANDOVER, kinds: &[CLEAN] },
    Seed { number: 2, name: "no invalidate", by: &HANDOVER, kinds: &[INVALIDATE] },
    Seed { number: 3, name: "last line not cleaned", by: &HANDOVER, kinds: &[CLEAN] },
    Seed { number: 4, name: "last line not invalidated", by: &HANDOVER, kinds: &[INVALIDATE] },
    Seed { number: 5, name: "first line not cleaned", by: &HANDOVER, kinds: &[CLEAN] },
    Seed { number: 6, name: "no barrier after the clean", by: &HANDOVER, kinds: &[CLEAN] },
    Seed { number: 7, name: "invalidate for clean", by: &HANDOVER, kinds: &[LOST] },
    Seed { number: 8, name: "clean for invalidate", by: &HANDOVER, kinds: &[INVALIDATE] },
    Seed { number: 12, name: "clean before the write", by: &HANDOVER, kinds: &[CLEAN] },
    Seed { number: 13, name: "invalidate too early", by: &HANDOVER, kinds: &[CLEAN, INVALIDATE] },
    Seed { number: 14, name: "write out of turn", by: &HANDOVER, kinds: &[TWO, LOST, CLEAN] },
    Seed { number: 15, name: "write without invalidate", by: &HANDOVER, kinds: &[LOST] },
    Seed { number: 16, name: "false sharing", by: &HANDOVER, kinds: &[CLEAN, TWO, LOST] },
    Seed { number: 17, name: "read-modify-write", by: &HANDOVER, kinds: &[ATOMIC] },
    Seed { number: 18, name: "compare and exchange", by: &HANDOVER, kinds: &[ATOMIC] },
    Seed { number: 19, name: "swap of a shared word", by: &WORDS, kinds: &[ATOMIC] },
    Seed { number: 1, name: "device reads uncleaned", by: &DMA, kinds: &[CLEAN] },
    Seed { number: 9, name: "device writes a dirty buffer", by: &DMA, kinds: &[LOST] },
    Seed { number: 10, name: "old copy of a device's data", by: &DMA, kinds: &[INVALIDATE] },
    Seed { number: 11, name: "code not made visible", by: &FETCH, kinds: &[CODE] },
    Seed { number: 20, name: "maintenance left to another core", by: &MOVED, kinds: &[LOST] },
    Seed { number: 21, name: "no flush", by: &REMAP, kinds: &[REUSED] },
    Seed { number: 22, name: "last page not flushed", by: &REMAP, kinds: &[REUSED] },
    Seed { number: 23, name: "flush of one core", by: &REMAP_CORES, kinds: &[REUSED] },
    Seed { number: 24, name: "flush not completed", by: &REMAP_AARCH64, kinds: &[REUSED] },
    Seed { number: 25, name: "flush before the store", by: &REMAP_AARCH64, kinds: &[REUSED] },
    Seed { number: 26, name: "cached walks left", by: &REMAP, kinds: &[REUSED] },
    Seed { number: 27, name: "table without a barrier", by: &REMAP, kinds: &[BARE] },
    Seed { number: 28, name: "no break before make", by: &REMAP_AARCH64, kinds: &[REPLACED] },
    Seed { number: 29, name: "hart skipped", by: &REMAP_HARTS, kinds: &[STALE, REUSED] },
    Seed { number: 30, name: "no flush after a fault", by: &FAULTS, kinds: &[ENDLESS] },
];

/// A run of the same commands without a bug.
struct Control {
    on: &'static Setting,
    /// The commands.
    script: &'static str,
    /// What the console prints if they work, and how often.
    says: &'static [(&'static str, usize)],
}

const CONTROLS: &[Control] = &[
    Control {
        on: &EXACT,
        script: "handover 3; handover code; dma 4K 4K; on shadow dma 4K 4K; \
                 on shadow handover code; remap; on shadow remap; exercise 7 40; \
                 on shadow exercise 7 40",
        says: &[
            ("handed over 3 times", 1),
            ("written code was run", 2),
            ("1 transfers, 0 errors, 0 wrong", 2),
            ("mapped 6 times, 0 wrong", 2),
        ],
    },
    Control {
        on: &EXACT,
        script: "ping shadow 1; domain off shadow; domain on shadow; ping shadow 1",
        says: &[
            ("answer from", 2),
            ("domain shadow: off; memory kept", 1),
            ("domain shadow: woken", 1),
        ],
    },
    Control {
        on: &TWO_CORES,
        script: "moved; remap",
        says: &[("moved 10 times, 0 wrong", 1), ("mapped 6 times, 0 wrong", 1)],
    },
    Control {
        on: &THREE_HARTS,
        script: "on shadow remap; on shadow smp 20",
        says: &[("mapped 6 times, 0 wrong", 1)],
    },
];

/// Numbers of bugs, counted for both ISAs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Those planted.
    pub planted: usize,
    /// Those found.
    pub found: usize,
}

/// The results of all runs.
#[derive(Default)]
pub struct Tally {
    /// Bugs about caches.
    pub caches: Count,
    /// Bugs about TLBs.
    pub tlbs: Count,
    /// Bugs that were not found, and what was found instead.
    pub missed: Vec<String>,
    /// Findings without a bug. If there are any, no bugs are planted.
    pub false_reports: Vec<Finding>,
}

/// `sanitizer.seeded.aarch64`: every bug is found in the kernel of this ISA, and nothing else.
pub fn on_aarch64(kit: &Kit<'_>) -> anyhow::Result<()> {
    all_are_found(kit, Isa::Aarch64)
}

/// `sanitizer.seeded.riscv64`
pub fn on_riscv64(kit: &Kit<'_>) -> anyhow::Result<()> {
    all_are_found(kit, Isa::Riscv64)
}

fn all_are_found(kit: &Kit<'_>, isa: Isa) -> anyhow::Result<()> {
    let Tally { missed, false_reports, .. } = run_all(kit, &[isa])?;
    ensure!(false_reports.is_empty(), "nothing was planted: {false_reports:?}");
    ensure!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
    Ok(())
}

/// Runs what shows the bugs, without one; then every bug on each of `isas`.
pub fn run_all(kit: &Kit<'_>, isas: &[Isa]) -> anyhow::Result<Tally> {
    let built = kernels::build(kit.place, &[Isa::Aarch64, Isa::Riscv64], Profile::KernelSeeded)?;
    let mut tally = Tally::default();
    for control in CONTROLS {
        let arguments = format!("run={}", control.script);
        let run = run(kit, control.on, &built, &arguments, |_, all| !all.is_empty())?;
        if run.findings.is_empty() {
            run.must_have_said(control)?;
        }
        tally.false_reports.extend(run.findings);
    }
    if !tally.false_reports.is_empty() {
        return Ok(tally);
    }
    for &isa in isas {
        for seed in SEEDS.iter().filter(|seed| seed.by.on.isas.contains(&isa)) {
            let script = (seed.by.script)(isa);
            let arguments = format!("seed={},{} run={script}", seed.number, isa.name());
            let hit = |board: &Board, finding: &Finding| seed.shows(isa, board, finding);
            let is_found = |board: &Board, all: &[Finding]| all.iter().any(|f| hit(board, f));
            let run = run(kit, seed.by.on, &built, &arguments, is_found)?;
            let of_tlbs = seed.number >= FIRST_OF_TLBS;
            let count = if of_tlbs { &mut tally.tlbs } else { &mut tally.caches };
            count.planted += 1;
            match run.findings.iter().find(|finding| hit(&run.board, finding)) {
                Some(it) => {
                    count.found += 1;
                    eprintln!("  {:<8} {:<30} {}", isa.name(), seed.name, it.text);
                }
                None => {
                    let all = &run.findings;
                    tally.missed.push(format!("{} on {}: {all:?}", seed.name, isa.name()));
                }
            }
        }
    }
    Ok(tally)
}

impl Seed {
    /// Returns whether the finding is caused by this bug, planted in the kernel of `isa`.
    fn shows(&self, isa: Isa, board: &Board, finding: &Finding) -> bool {
        let planted = board.domains.iter().find(|domain| domain.isa == isa);
        let takes_part = planted.is_some_and(|domain| finding.parties.contains(&domain.name));
        let place = (self.by.place)(board, finding.line);
        takes_part && place && self.kinds.contains(&finding.kind.as_str())
    }
}

/// The result of a run.
struct Run {
    board: Board,
    findings: Vec<Finding>,
    /// Whether the board has powered off.
    ended: bool,
    /// The console's output.
    console: String,
}

impl Run {
    /// Checks that the run did what it should; otherwise it says nothing about the sanitizer.
    fn must_have_said(&self, control: &Control) -> anyhow::Result<()> {
        let Run { ended, console, .. } = self;
        ensure!(ended, "a run without a bug did not end:\n{console}");
        for &(text, times) in control.says.iter().chain(&[("powering off", 1)]) {
            let count = console.matches(text).count();
            ensure!(count == times, "\"{text}\" {count} times, not {times}:\n{console}");
        }
        Ok(())
    }
}

/// Runs a board until it ends, or `enough` was found.
fn run(
    kit: &Kit<'_>,
    on: &Setting,
    built: &[Built],
    arguments: &str,
    enough: impl Fn(&Board, &[Finding]) -> bool,
) -> anyhow::Result<Run> {
    let instance = Instance::at(kit.folder.clone());
    let choice = Choice { mode: on.mode, ..Choice::default() };
    let options = Options {
        lab: Some((choice, prepare::plugin()?)),
        arguments: Some(format!("{arguments};poweroff")),
        ..Options::default()
    };
    let board = kit.place.board_file(on.board);
    instance.start(&prepare::soc_binary()?, &board, built, &options)?;
    let board = instance.board()?;
    let start = Instant::now();
    let mut ended = false;
    let mut all = Vec::new();
    while !ended && !enough(&board, &all) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        ended = instance.soc().is_none();
        // A line may be incomplete: the next look sees all of it.
        all = findings::read(&kit.folder).unwrap_or_default();
    }
    instance.stop()?;
    let console = std::fs::read(instance.path("console.log")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console).into_owned();
    Ok(Run { board, findings: findings::read(&kit.folder)?, ended, console })
}
