//! Figures about the lab itself, each a record of `./pen bench lab`: its exactness, its cost for
//! the host, and the speed of the two cores in chip time. benches/lab.toml lists them.

use super::charges;
use super::kit::GAME;
use super::kit::Kit;
use super::{figure6, network, points, seeds, shares, table4, table5, table6, ways};
use anyhow::{Context, ensure};
use builds::kernels::Profile;
use lab::model::Mode;
use records::said::Said;
use std::cell::RefCell;
use tree::place::Place;
use tree::progress::Step;
use workbench::model::Choice;
use workbench::prepare;

const BOARD: &str = "duo-1x1";

type Figure = fn(&Kit<'_>) -> anyhow::Result<Vec<Said>>;

/// The records of each measurement; a name that ends with a point is a prefix.
const FIGURES: [(&[&str], Figure); 26] = [
    (
        &["lab.pingpong_spread", "lab.pingpong_error", "lab.mailbox_error", "lab.mailbox_latest"],
        ping_pong,
    ),
    (&["lab.idle5s_host_seconds"], idle),
    (
        &[
            "lab.slowdown_time",
            "lab.slowdown_energy",
            "lab.slowdown_sanitizer",
            "lab.slowdown_full",
        ],
        slowdown,
    ),
    (
        &[
            "sanitizer.seeded",
            "sanitizer.found",
            "sanitizer.tlb_seeded",
            "sanitizer.tlb_found",
            "sanitizer.false_reports",
        ],
        planted,
    ),
    (&["lab.weak_core_share"], weak_core),
    (&["rpc.soc_ns_int", "rpc.soc_ns_64", "rpc.soc_ns_4k"], calls),
    (&["hang."], hangs),
    (&["kill.points"], crash_points),
    (&["step."], steps),
    (&["irq.handover_us."], handovers),
    (&["lock.hw_uncontended"], domain_lock),
    (&["k2.t4."], table4::records),
    (&["k2.t6."], table6::records),
    (&["k2.t5."], table5::faults),
    (&["rest."], figure6::transitions),
    (&["duo.main_share."], shares::records),
    (&["day."], ways::day),
    (&["k2.f6.dma."], figure6::dma),
    (&["k2.f6.ext2."], figure6::files),
    (&["k2.f6.udp."], figure6::datagrams),
    (&["net.rx_wake_us"], network::wakes),
    (&["net.serve_hour_wakes", "net.serve_hour_power"], network::hour),
    (&["net.http_requests_per_mj"], network::requests),
    (&["k2.s93."], section93),
    (&["shadow.op_local", "shadow.op_moved"], table5::requests),
    (&["shadow.dispatch"], table5::dispatches),
];

/// Measures what the named records need.
pub fn measure(place: &Place, names: &[String]) -> anyhow::Result<Vec<Said>> {
    let (_, kernels) = prepare::board_and_kernels(place, BOARD, Profile::KernelTrials)?;
    let folder = place.target.join("benches").join("lab");
    let kit = Kit { place, kernels: &kernels, folder, counted: RefCell::default() };
    let mut all = Vec::new();
    for (records, figure) in FIGURES {
        if names.iter().any(|name| records.iter().any(|record| is_of(name, record))) {
            let step = Step::begin(&format!("measuring {}", records.join(", ")));
            all.extend(figure(&kit)?);
            step.done();
        }
    }
    Ok(all)
}

fn is_of(name: &str, record: &str) -> bool {
    name == record || (record.ends_with('.') && name.starts_with(record))
}

fn said(name: &str, value: f64, unit: &str) -> Said {
    (name.to_owned(), value, unit.to_owned())
}

/// Five runs on an idle host and five on a loaded one, then the block-exact reference.
fn ping_pong(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let mut runs = Vec::new();
    for load in [0, 3] {
        let load = super::Load::begin(load);
        for _ in 0..5 {
            runs.push(kit.run(BOARD, GAME, Choice::default())?);
        }
        drop(load);
    }
    let reference = kit.run(BOARD, GAME, Choice { quantum_ns: 0, ..Choice::default() })?;
    let games = reference.values.len();
    ensure!(games == 3 && runs.iter().all(|run| run.values.len() == games), "records are missing");
    let (mut spread, mut error) = (0f64, 0f64);
    for (game, (_, exact, _)) in reference.values.iter().enumerate() {
        let values = || runs.iter().map(|run| run.values[game].1);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        spread = spread.max(most - least);
        error = error.max((least - exact).abs().max((most - exact).abs()) / exact * 100.0);
    }
    let (mean, latest) = runs[0].late_ps;
    Ok(vec![
        said("lab.pingpong_spread", spread, "ns"),
        said("lab.pingpong_error", error, "%"),
        said("lab.mailbox_error", mean / 1e3, "ns"),
        said("lab.mailbox_latest", latest as f64 / 1e3, "ns"),
    ])
}

/// An idle board, from the start of the soc to its end, including boot and power-off.
fn idle(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, "ping shadow 2; nap 5000; ping shadow 1", Choice::default())?;
    ensure!(outcome.end > 5_000_000_000_000, "it slept {} ps", outcome.end);
    Ok(vec![said("lab.idle5s_host_seconds", outcome.host, "s")])
}

/// Calls, threads and copies, after a boot.
const WORK: &str = "rpc 500 7; smp 2000; on shadow smp 2000; dma 1M 64K";
/// Runs of each mode. The minimum counts, because other load on the host only adds time.
const RUNS: usize = 4;

/// Host time in each mode, relative to plain emulation.
fn slowdown(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let least = |choice: Option<Choice>| {
        let host = (0..RUNS).map(|_| Ok(kit.run_as(BOARD, WORK, choice)?.host));
        let all = host.collect::<anyhow::Result<Vec<f64>>>()?;
        Ok::<f64, anyhow::Error>(all.into_iter().fold(f64::INFINITY, f64::min))
    };
    let plain = least(None)?;
    let slower = |mode: Mode| {
        let took = least(Some(Choice { mode, ..Choice::default() }))?;
        Ok(said(&format!("lab.slowdown_{}", mode.name()), took / plain, "x"))
    };
    Mode::ALL.into_iter().map(slower).collect()
}

/// Numbers of planted bugs on both ISAs, of those found, and of false findings.
fn planted(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let tally = seeds::run_all(kit, &[board::Isa::Aarch64, board::Isa::Riscv64])?;
    Ok(vec![
        said("sanitizer.seeded", tally.caches.planted as f64, "bugs"),
        said("sanitizer.found", tally.caches.found as f64, "bugs"),
        said("sanitizer.tlb_seeded", tally.tlbs.planted as f64, "bugs"),
        said("sanitizer.tlb_found", tally.tlbs.found as f64, "bugs"),
        said("sanitizer.false_reports", tally.false_reports.len() as f64, "reports"),
    ])
}

fn weak_core(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    Ok(vec![said("lab.weak_core_share", charges::weak_share(kit)?, "%")])
}

/// Calls between the kernels, in chip time.
fn calls(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, "ping shadow 2; bench rpc-soc 200", Choice::default())?;
    outcome.values.first().context("the kernel reported nothing")?;
    Ok(outcome.values)
}

/// How long a kernel waits for one that hangs.
fn hangs(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, "ping shadow 2; bench hang", Choice::default())?;
    ensure!(outcome.values.len() == 2, "the kernel reported {:?}", outcome.values);
    Ok(outcome.values)
}

/// Sampled points at which a domain dies or is stopped.
fn crash_points(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    Ok(vec![said("kill.points", points::tried(kit)? as f64, "points")])
}

/// Requests to every service from both kernels, alone and at once, and about a large file.
const SERVICES: &str = "ping shadow 2; bench steps-begin; exercise 1 2000; \
                        on shadow exercise 2 2000; net check 20; on shadow net check 20; \
                        pipe 50000; dma 1M 64K; on shadow dma 1M 64K; survive 1; \
                        on shadow large write 7; large read; large empty; \
                        large write 7; on shadow large read; on shadow large remove; bench steps";

/// The longest step of a service in each kernel, with its waits and without.
fn steps(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, SERVICES, Choice::default())?;
    ensure!(outcome.values.len() == 4, "the kernels reported {:?}", outcome.values);
    Ok(outcome.values)
}

/// Main goes to rest, and shadow takes over the devices; main wakes and takes them over again.
fn handovers(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let run = "ping shadow 2; nap 8000; bench handover";
    let outcome = kit.run("duo-1x1-rest", run, Choice::default())?;
    let all = outcome.values.iter().filter(|value| value.1 > 0.0).count();
    ensure!(all == 2, "the kernels reported {:?}", outcome.values);
    Ok(outcome.values)
}

/// Main's clock on that board, in MHz.
const MHZ: f64 = 350.0;

/// Taking and releasing a lock between domains that no other core wants, in cycles of main.
fn domain_lock(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome = kit.run(BOARD, "ping shadow 2; sequence 1000", Choice::default())?;
    let ns = |name: &str| {
        let value = outcome.values.iter().find(|(known, ..)| known == name);
        value.map(|(_, ns, _)| *ns).with_context(|| format!("the kernel reported no {name}"))
    };
    let cycles = (ns("sequence.lock")? - ns("sequence.plain")?) * MHZ / 1e3;
    Ok(vec![said("lock.hw_uncontended", cycles, "cycles")])
}

/// K2's section 9.3: frame allocation from a shared allocator, and from each kernel's own.
fn section93(kit: &Kit<'_>) -> anyhow::Result<Vec<Said>> {
    let outcome =
        kit.run("duo-1x1-frames", "ping shadow 2; bench frames-both", Choice::default())?;
    outcome.values.first().context("the kernels reported nothing")?;
    Ok(outcome.values)
}
