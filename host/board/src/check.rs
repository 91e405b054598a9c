//! Checks a parsed file and converts it to a [`Board`]. Stops at the first problem.

use crate::block::Block;
use crate::device;
use crate::error::{Place, Reason};
use crate::file::{self, File};
use crate::memory::{self, Reach, range};
use crate::power;
use crate::service;
use crate::types::{Board, Cost, Costs, Domain, Fabric, Isa, Kind, Role, Start};
use crate::value::{between, count, name_of, sourced, take, unique};
use crate::window::Layout;
use abi::boot::{MAX_ARGUMENTS, MAX_CORES, MAX_DOMAINS, MAX_REGIONS, TWINS, options};
use toml::Spanned;

/// Maximum vectors that every supported machine has (GICv2m has 64 lines; one word has 32 bits).
const MAX_VECTORS: u32 = 32;
/// Most that `rest_after_ms` may be.
const MAX_REST_MS: u32 = 3_600_000;

impl Costs {
    /// Costs of the timing model; each name ends with its unit.
    pub const NAMES: &'static [&'static str] = &[
        "instruction_cycles",
        "clean_line_cycles",
        "invalidate_line_cycles",
        "miss_after_invalidate_cycles",
        "barrier_cycles",
        "tlb_invalidate_cycles",
        "exception_entry_cycles",
        "exception_exit_cycles",
        "uncached_load_cycles",
        "uncached_store_cycles",
        "mailbox_ns",
        "wake_gated_ns",
        "wake_inactive_us",
        "wake_off_us",
        "memory_mb_per_s",
    ];
}

pub fn board(raw: File) -> Place<Board> {
    let name = name_of(&raw.name)?;
    let ram = memory::block("RAM file", &raw.ram.base, &raw.ram.size, 1 << 20)?;
    let names = domain_names(&raw)?;
    count("memory regions", raw.memory.len(), MAX_REGIONS, 0)?;
    let placed = memory::regions(&raw.memory, ram, &names)?;
    memory::global(&placed)?;
    let (window, window_at) = memory::only(&placed, Kind::Uncached, None, 0, &names)?;
    let arguments = arguments(raw.arguments.as_ref())?;
    let twins = options(&arguments).any(|option| option == TWINS);
    let reach = Reach { placed: &placed, names: &names, twins };
    let domains = raw
        .domain
        .iter()
        .enumerate()
        .map(|(i, d)| domain(i, d, ram, &reach))
        .collect::<Place<Vec<_>>>()?;
    one_main(&raw.domain)?;
    power::clusters(&raw.domain, &domains)?;
    let fabric = fabric(&raw.fabric)?;
    let bytes = raw.device.iter().map(|d| d.get_ref().memory.get_ref().0).sum();
    let cores = domains.iter().map(|domain| domain.cores as usize).max().unwrap_or(1);
    let layout = Layout::compute(window, window_at, (domains.len(), cores), bytes)?;
    let devices = device::all(&raw.device, &fabric, &layout, &names)?;
    Ok(Board {
        name,
        description: raw.description,
        arguments,
        ram,
        fabric,
        services: service::all(&raw.services, &names, &devices)?,
        devices,
        regions: placed.iter().map(|p| p.region).collect(),
        domains,
        layout,
    })
}

fn arguments(text: Option<&Spanned<String>>) -> Place<String> {
    let Some(text) = text else { return Ok(String::new()) };
    if text.get_ref().len() >= MAX_ARGUMENTS {
        let shown = format!("{} bytes", text.get_ref().len());
        let must = format!("less than {MAX_ARGUMENTS} bytes");
        return Err((text.span().start, range("arguments", &shown, &must)));
    }
    Ok(text.get_ref().clone())
}

fn domain_names(raw: &File) -> Place<Vec<String>> {
    let mut names = Vec::new();
    let mut machines: Vec<String> = Vec::new();
    if raw.domain.is_empty() {
        return Err((0, Reason::Missing("a board needs at least one [[domain]]".to_string())));
    }
    for entry in &raw.domain {
        let domain = entry.get_ref();
        unique("domain", &domain.name, &mut names)?;
        count("domains", names.len(), MAX_DOMAINS, entry.span().start)?;
        let machine = domain.qemu.as_ref().unwrap_or(&domain.name);
        if machines.contains(machine.get_ref()) {
            let why = "several kernels in one QEMU (`qemu` names a process that has a domain)";
            return Err((machine.span().start, Reason::NotYet(why)));
        }
        machines.push(machine.get_ref().clone());
    }
    Ok(names)
}

/// Returns when a domain starts. The main one has to start the others.
fn start(raw: &file::Domain) -> Place<Start> {
    match &raw.start {
        None => Ok(Start::default()),
        Some(when) if *raw.role.get_ref() == Role::Main && *when.get_ref() == Start::OnDemand => {
            let why = "the main domain starts with the board: no other kernel could start it";
            Err((when.span().start, Reason::Conflict(why.to_string())))
        }
        Some(when) => Ok(*when.get_ref()),
    }
}

fn one_main(domains: &[Spanned<file::Domain>]) -> Place<()> {
    let mut mains = domains.iter().filter(|d| *d.get_ref().role.get_ref() == Role::Main);
    if mains.next().is_none() {
        let why = "no domain has the role main; exactly one must".to_string();
        return Err((domains[0].get_ref().role.span().start, Reason::Missing(why)));
    }
    match mains.next() {
        Some(second) => {
            let why = "a second domain with the role main; the others are shadow".to_string();
            Err((second.get_ref().role.span().start, Reason::Conflict(why)))
        }
        None => Ok(()),
    }
}

fn domain(
    index: usize,
    entry: &Spanned<file::Domain>,
    file_ram: Block,
    reach: &Reach<'_>,
) -> Place<Domain> {
    let &Reach { placed, names, .. } = reach;
    let (raw, at) = (entry.get_ref(), entry.span().start);
    if *raw.role.get_ref() == Role::Proxy {
        let why = "proxy kernels; role is main or shadow";
        return Err((raw.role.span().start, Reason::NotYet(why)));
    }
    if !*raw.mmu.get_ref() {
        return Err((
            raw.mmu.span().start,
            Reason::NotYet("cores without an MMU; leave `mmu` out"),
        ));
    }
    let cores = between("cores", &raw.cores, 1, MAX_CORES as u32)?;
    if raw.cpu.get_ref().is_empty() {
        let why = "cpu must name a core model of QEMU, such as cortex-a76 or rv64".to_string();
        return Err((raw.cpu.span().start, Reason::Missing(why)));
    }
    let ram = memory::block("RAM window", &raw.ram.base, &raw.ram.size, 1 << 20)?;
    window_of_file(raw, ram, file_ram)?;
    memory::stub(&raw.stub, raw.isa, placed)?;
    reach.check(index, ram)?;
    let (local, _) = memory::only(placed, Kind::Local, Some(index), at, names)?;
    let (staging, _) = memory::only(placed, Kind::Staging, Some(index), at, names)?;
    memory::at_most_one(placed, Kind::Bulk, Some(index), names)?;
    let image_max = raw.image_max.get_ref().0;
    if image_max == 0 || image_max > local.size || !image_max.is_multiple_of(4096) {
        let shown = crate::units::shown(image_max);
        let must = format!("whole pages within the {} local", crate::units::shown(local.size));
        return Err((raw.image_max.span().start, range("image_max", &shown, &must)));
    }
    Ok(Domain {
        name: raw.name.get_ref().clone(),
        isa: raw.isa,
        role: *raw.role.get_ref(),
        cores,
        cpu: raw.cpu.get_ref().clone(),
        ram,
        stub: *raw.stub.get_ref(),
        image: Block { base: local.base, size: image_max },
        staging,
        restart: raw.restart,
        start: start(raw)?,
        rest_after_ms: rest_after(raw)?,
        frequencies_mhz: raw.frequencies_mhz.get_ref().clone(),
        nominal_mhz: frequency(raw)?,
        costs: costs(raw)?,
        power: power::power(raw)?,
        slot: index as u32 + 1,
    })
}

/// Returns the time without work after which a domain rests.
fn rest_after(raw: &file::Domain) -> Place<Option<u32>> {
    let Some(ms) = &raw.rest_after_ms else { return Ok(None) };
    if *ms.get_ref() > MAX_REST_MS {
        let must = format!("at most {MAX_REST_MS} (an hour)");
        return Err((ms.span().start, range("rest_after_ms", &ms.get_ref().to_string(), &must)));
    }
    Ok(Some(*ms.get_ref()))
}

/// Checks that a domain's window is in the RAM file, and where its machine has its RAM.
fn window_of_file(raw: &file::Domain, ram: Block, file_ram: Block) -> Place<()> {
    let at = raw.ram.base.span().start;
    if !file_ram.holds(ram) {
        let shown = format!("{:#x}..{:#x}", ram.base, ram.end());
        let must = format!("inside the RAM file {:#x}..{:#x}", file_ram.base, file_ram.end());
        return Err((at, range("RAM window", &shown, &must)));
    }
    let machine = match raw.isa {
        Isa::Aarch64 => 0x4000_0000,
        Isa::Riscv64 => 0x8000_0000,
    };
    if ram.base != machine {
        let must = format!("{machine:#x}, where this machine has its RAM");
        return Err((at, range("base of the RAM window", &format!("{:#x}", ram.base), &must)));
    }
    Ok(())
}

fn frequency(raw: &file::Domain) -> Place<u32> {
    let Some(nominal) = &raw.nominal_mhz else {
        return match raw.frequencies_mhz.get_ref().as_slice() {
            [] => Ok(0),
            _ => {
                let why = "nominal_mhz must say which frequency it boots at".to_string();
                Err((raw.frequencies_mhz.span().start, Reason::Missing(why)))
            }
        };
    };
    between("nominal_mhz", nominal, 1, 10_000)?;
    if raw.frequencies_mhz.get_ref().contains(nominal.get_ref()) {
        return Ok(*nominal.get_ref());
    }
    let must = "one of frequencies_mhz";
    Err((nominal.span().start, range("nominal_mhz", &nominal.get_ref().to_string(), must)))
}

fn costs(raw: &file::Domain) -> Place<Costs> {
    let mut list = Vec::new();
    for (name, cost) in &raw.costs {
        if !Costs::NAMES.contains(&name.get_ref().as_str()) {
            let why =
                format!("unknown cost \"{}\"; known: {}", name.get_ref(), Costs::NAMES.join(", "));
            return Err((name.span().start, Reason::Syntax(why)));
        }
        let at = cost.span().start;
        let cost = cost.get_ref();
        if !(cost.value >= 0.0 && cost.value.is_finite()) {
            return Err((at, range("cost", &cost.value.to_string(), "0 or more")));
        }
        sourced(at, &cost.source)?;
        list.push(Cost {
            name: name.get_ref().clone(),
            value: cost.value,
            source: cost.source.clone(),
        });
    }
    Ok(Costs(list))
}

fn fabric(raw: &Spanned<file::Fabric>) -> Place<Fabric> {
    let f = raw.get_ref();
    let vectors = between("vectors", &f.vectors, 4, MAX_VECTORS)?;
    let mut taken: Vec<(u32, String)> = Vec::new();
    for (name, vector) in [("message", &f.message), ("dsm", &f.dsm), ("chip", &f.chip)] {
        take(vector, vectors, format!("fabric.{name}"), &mut taken)?;
    }
    Ok(Fabric {
        vectors,
        message: *f.message.get_ref(),
        dsm: *f.dsm.get_ref(),
        chip: *f.chip.get_ref(),
    })
}
