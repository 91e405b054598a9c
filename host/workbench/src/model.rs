//! Computes the lab's model of a board: costs and powers of its file in the clock's units, and
//! addresses of the kernels' code and words.

use abi::boot::{BLOCK, MAINTENANCE_OFFSET, VA_OFFSET};
use abi::soc::DomainPage;
use board::{Block, Board, Costs, Kind, Power, Region};
use builds::image::{self, ImageError};
use lab::clock;
use lab::model::{self, Lab, Memory, Mode, Point, Powers};
use std::mem::offset_of;

const PS_OF_NS: f64 = 1000.0;
const PS_OF_US: f64 = 1_000_000.0;

/// Options of a run in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How far a domain may run past another, in ns.
    pub quantum_ns: u64,
    /// All costs but the instruction's are zero.
    pub no_costs: bool,
    /// What is measured.
    pub mode: Mode,
    /// Executions of each block of code are counted too ([`crate::profile`]). Chip time is the
    /// same; it needs a mode in which domains take turns.
    pub profile: bool,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { quantum_ns: 1000, no_costs: false, mode: Mode::default(), profile: false }
    }
}

/// Parses a mode.
pub fn mode(name: &str) -> Result<Mode, String> {
    let names = Mode::ALL.map(Mode::name).join(", ");
    Mode::named(name).ok_or_else(|| format!("the lab's modes are {names}"))
}

/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// How far a domain may run at a time.
const MOST_PS: u64 = 20_000_000;

/// Returns the model of `board`; `elf` returns the kernel of each domain.
pub fn of<'e>(
    board: &Board,
    choice: Choice,
    elf: impl Fn(&board::Domain) -> Option<&'e [u8]>,
) -> Result<Lab, ImageError> {
    let mut domains = Vec::new();
    for (index, domain) in board.domains.iter().enumerate() {
        domains.push(self::domain(board, index, domain, choice, elf(domain))?);
    }
    let mut lab = Lab {
        quantum_ps: choice.quantum_ns * 1000,
        most_ps: MOST_PS,
        mode: choice.mode,
        soc: Board::SOC_SLOT as usize,
        vectors: board.fabric.vectors as usize,
        hash: String::new(),
        memory: memory(board),
        domains,
        points: Vec::new(),
    };
    lab.hash = lab.fingerprint();
    Ok(lab)
}

fn range(block: Block) -> (u64, u64) {
    (block.base, block.end())
}

/// Returns the shared block, in the middle of the global memory (`kernel/coherence`).
fn shared(board: &Board) -> (u64, u64) {
    let global = board.regions.iter().find(|region| region.kind == Kind::Global);
    global.map_or((0, 0), |Region { block: Block { base, size }, .. }| {
        let start = base + size / BLOCK / 2 * BLOCK;
        (start, start + BLOCK)
    })
}

/// Returns the layout of physical memory, for the sanitizer.
fn memory(board: &Board) -> Memory {
    let staging = board.domains.iter().map(|domain| range(domain.staging));
    Memory {
        base: board.ram.base,
        bytes: board.ram.size,
        offset: VA_OFFSET,
        maintenance: MAINTENANCE_OFFSET,
        shared: shared(board),
        uncached: std::iter::once(range(board.layout.window)).chain(staging).collect(),
        devices: board.devices.iter().map(|d| (d.registers, d.name.clone())).collect(),
    }
}

/// Returns the reserved memory that the domain's emulator writes at a reset: all that it can
/// access, except the stubs of other domains.
fn loaded(board: &Board, of: &board::Domain) -> Vec<(u64, u64)> {
    let reserved = board.regions.iter().filter(|region| region.kind == Kind::Reserved);
    let reached = reserved.map(|region| region.block).filter(|block| of.ram.holds(*block));
    let within = |block: &Block, stub: u64| (block.base..block.end()).contains(&stub);
    let foreign = |block: &Block| board.domains.iter().any(|d| within(block, d.stub));
    reached.filter(|b| within(b, of.stub) || !foreign(b)).map(range).collect()
}

fn domain(
    board: &Board,
    index: usize,
    from: &board::Domain,
    choice: Choice,
    elf: Option<&[u8]>,
) -> Result<model::Domain, ImageError> {
    let base = VA_OFFSET.wrapping_add(from.image.base);
    let symbol = |name: &str| match elf {
        Some(elf) => image::symbol(elf, name).map(|at| at.map_or(0, |at| base.wrapping_add(at))),
        None => Ok(0),
    };
    let vectors = match symbol("exception_vectors")? {
        0 => symbol("trap_vector")?,
        at => at,
    };
    let shown =
        |block: Block| (VA_OFFSET.wrapping_add(block.base), VA_OFFSET.wrapping_add(block.end()));
    let page = board.layout.domains + (index * size_of::<DomainPage>()) as u64;
    let khz = from.nominal_mhz.max(1) * 1000;
    Ok(model::Domain {
        name: from.name.clone(),
        slot: from.slot as usize,
        isa: from.isa.name().to_owned(),
        cores: from.cores,
        khz,
        frequency: VA_OFFSET.wrapping_add(page + offset_of!(DomainPage, frequency_mhz) as u64),
        gate: VA_OFFSET.wrapping_add(page + offset_of!(DomainPage, gate_idle) as u64),
        cluster: from.power.as_ref().and_then(|power| power.cluster.clone()).unwrap_or_default(),
        xdomain: (symbol("__xdomain_start")?, symbol("__xdomain_end")?),
        vectors: (vectors, vectors + VECTORS),
        window: shown(board.layout.window),
        ram: range(from.ram),
        loaded: loaded(board, from),
        costs: costs(&from.costs, from.nominal_mhz, choice.no_costs),
        powers: told_powers(from, choice.mode, khz),
    })
}

/// Size of AArch64's table of exception entries; RV64's single entry is at its start.
const VECTORS: u64 = 2048;

fn costs(from: &Costs, mhz: u32, none: bool) -> model::Costs {
    let value = |name: &str| {
        let found = from.0.iter().find(|cost| cost.name == name);
        found.map_or(0.0, |cost| if none { 0.0 } else { cost.value })
    };
    let units = |name: &str| clock::units(value(name));
    let per = |name: &str, ps: f64| (value(name) * ps).round() as u64;
    // Transfer of a line to or from memory, in cycles of the boot frequency.
    let line = match value("memory_mb_per_s") {
        0.0 => 0,
        speed => clock::units(LINE / speed * f64::from(mhz)),
    };
    let instruction = from.0.iter().find(|cost| cost.name == "instruction_cycles");
    model::Costs {
        // One cycle if the board file does not say; also with `no_costs`.
        instruction: clock::units(instruction.filter(|_| !none).map_or(1.0, |cost| cost.value)),
        clean: units("clean_line_cycles") + line,
        // An invalidated line is read again, so this includes the miss.
        invalidate: units("invalidate_line_cycles") + units("miss_after_invalidate_cycles") + line,
        barrier: units("barrier_cycles"),
        tlb: units("tlb_invalidate_cycles"),
        entry: units("exception_entry_cycles"),
        exit: units("exception_exit_cycles"),
        load: units("uncached_load_cycles"),
        store: units("uncached_store_cycles"),
        mailbox_ps: per("mailbox_ns", PS_OF_NS),
        wake_gated_ps: per("wake_gated_ns", PS_OF_NS),
        wake_inactive_ps: per("wake_inactive_us", PS_OF_US),
        wake_off_ps: per("wake_off_us", PS_OF_US),
    }
}

fn powers(from: &Power) -> Powers {
    let uw = |mw: f64| (mw * 1000.0).round() as u64;
    let point = |point: &board::Point| Point {
        khz: point.mhz * 1000,
        mv: point.mv,
        active_uw: uw(point.active_mw),
        idle_uw: uw(point.idle_mw),
        gated_uw: uw(point.gated_mw),
    };
    Powers {
        points: from.points.iter().map(point).collect(),
        inactive_uw: uw(from.inactive_mw),
        off_uw: uw(from.off_mw),
        source: format!("{}; {}", from.source, from.rail),
    }
}

/// Returns the powers of the board file; without energy, only the frequencies.
fn told_powers(from: &board::Domain, mode: Mode, khz: u32) -> Powers {
    let Some(table) = &from.power else { return unknown(khz) };
    let told = powers(table);
    if mode.tells_energy() {
        return told;
    }
    let silent = |point: &Point| Point { khz: point.khz, ..Point::default() };
    let points = told.points.iter().map(silent).collect();
    Powers { points, source: "not asked for".to_owned(), ..Powers::default() }
}

/// Powers of a domain without a power table: it has time but no energy.
fn unknown(khz: u32) -> Powers {
    let points = vec![Point { khz, ..Point::default() }];
    Powers { points, source: "unknown".to_owned(), ..Powers::default() }
}
