//! `dma`: DMA transfers as in the K2 paper's benchmark, and transfers that the engine must refuse.

use super::beside::beside;
use super::stress::on_all_cores;
use super::table6::{self, BATCHES};
use super::{Command, Failure, Outcome, Session, number};
use abi::boot::{Region, kind};
use abi::dma::{MAX_BYTES, RING, flag};
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};
use dma::{BATCH, Refusal, Transfer};
use kernel_msg::Level;
use kernel_services::kernel::Kernel;
use kernel_services::transfers::{self, Buffer, DmaError};

pub const COMMANDS: &[Command] = &[Command {
    name: "dma",
    arguments: "[both] [BYTES [BATCH]]|faults|crowd [ROUNDS]|window BATCH START END",
    help: "DMA copies, compared (both: with a peer); what is refused; full rings",
    run: dma,
}];

/// Default number of bytes to copy with each batch size.
const TOTAL: u64 = 1 << 20;
/// Most bytes to copy, so that a typing error does not occupy the monitor for hours.
const MOST: u64 = 1 << 30;

fn dma(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let kernel = session.kernel;
    let (both, sizes) = match arguments {
        ["faults"] => return faults(session, out),
        ["window", numbers @ ..] => return table6::window(session, out, numbers),
        ["crowd", rounds @ ..] => return crowd(kernel, out, number(rounds, 0, 50)?),
        ["both", sizes @ ..] => (true, sizes),
        sizes => (false, sizes),
    };
    if sizes.len() > 2 {
        return Err(Failure::Usage);
    }
    let size = |index: usize, default| sizes.get(index).map_or(Some(default), |word| size(word));
    let total = size(0, TOTAL).ok_or(Failure::Usage)?;
    let batch = size(1, total.min(BATCHES[0])).ok_or(Failure::Usage)?;
    if total > MOST {
        return Err(Failure::Failed("at most 1024M at a time"));
    }
    let more = BATCHES.iter().copied().filter(|&other| other > batch && other <= total);
    let more = more.take(if sizes.len() < 2 { BATCHES.len() } else { 0 });
    describe(kernel, out)?;
    let mut good = true;
    for batch in core::iter::once(batch).chain(more) {
        good &= if both {
            run_both(session, out, total, batch)?
        } else {
            run(session, out, total, batch)?
        };
    }
    if good { Ok(()) } else { Err(Failure::Failed("not everything was copied as it should be")) }
}

fn describe(kernel: &'static Kernel, out: &mut dyn Write) -> Outcome {
    let engine = transfers::engine(kernel).ok_or(DmaError::NoEngine)?;
    write!(out, "  engine: {} MB/s, set-up ", engine.bandwidth_mbps)?;
    write!(out, "{} ns; our channels", engine.setup_ns)?;
    for channel in (0..u64::BITS).filter(|channel| engine.channels >> channel & 1 != 0) {
        write!(out, " {channel}")?;
    }
    Ok(writeln!(out)?)
}

/// Parses `4096`, `128K` or `1M`; not 0.
fn size(word: &str) -> Option<u64> {
    let (digits, shift) = match word.as_bytes().last()? {
        b'K' => (&word[..word.len() - 1], 10),
        b'M' => (&word[..word.len() - 1], 20),
        _ => (word, 0),
    };
    let size = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (size > 0).then_some(size)
}

/// Part of the line that [`run`] prints on success.
const GOOD: &str = " 0 errors, 0 wrong, ";

/// Copies `total` bytes, `batch` at a time, and compares each copy with its source. Returns whether
/// all were correct.
fn run(session: &Session, out: &mut dyn Write, total: u64, batch: u64) -> Result<bool, Failure> {
    let buffer = || Buffer::new(batch.min(total) as usize);
    let (Some(from), Some(mut to)) = (buffer(), buffer()) else {
        return Err(Failure::Failed("no memory in one piece for a batch of that size"));
    };
    let mut prng = Prng::new(arch::time::soc_time());
    from.words().for_each(|word| word.store(prng.next(), Ordering::Relaxed));
    let (mut count, mut errors, mut wrong, mut took) = (0, 0, 0, 0);
    let mut left = total;
    while left > 0 {
        let bytes = batch.min(left) as usize;
        let start = arch::time::local_ns();
        let result = transfers::copy(session, &from, &mut to, bytes);
        took += arch::time::local_ns() - start;
        match result {
            Err(_) => errors += 1,
            Ok(_) => wrong += u64::from(!to.holds(&from, bytes)),
        }
        count += 1;
        left -= bytes as u64;
    }
    let tenths = total * 10_000 / took.max(1);
    write!(out, "  batch {batch:>8}: {total} bytes in {count} transfers, ")?;
    write!(out, "{errors} errors, {wrong} wrong, ")?;
    writeln!(out, "{}.{} MB/s", tenths / 10, tenths % 10)?;
    Ok(errors + wrong == 0)
}

/// Does [`run`] here and in the first peer at the same time.
fn run_both(
    session: &Session,
    out: &mut dyn Write,
    total: u64,
    batch: u64,
) -> Result<bool, Failure> {
    let line = format_args!("dma {total} {batch}");
    let (here, answer) = beside(session, line, || run(session, out, total, batch))?;
    let text = core::str::from_utf8(&answer).unwrap_or("");
    let there = text.lines().find(|line| line.contains("batch"));
    writeln!(out, "{}, over there", there.unwrap_or("  no batch"))?;
    Ok(here? && there.is_some_and(|line| line.contains(GOOD)))
}

/// Rounds of each thread of a crowd, and the number of correct transfers.
static ROUNDS: AtomicU64 = AtomicU64::new(0);
static RIGHT: AtomicU64 = AtomicU64::new(0);

/// Submits full batches from two threads on each core at once: more than the rings hold.
fn crowd(kernel: &'static Kernel, out: &mut dyn Write, rounds: u64) -> Outcome {
    let rounds = rounds.min(100_000);
    ROUNDS.store(rounds, Ordering::Relaxed);
    RIGHT.store(0, Ordering::Relaxed);
    on_all_cores(kernel, "dma crowd", one_of_crowd)?;
    let wanted = rounds * BATCH as u64 * 2 * u64::from(kernel.domain().cores);
    let right = RIGHT.load(Ordering::Relaxed);
    writeln!(out, "  {right} of {wanted} fills were right")?;
    if right == wanted { Ok(()) } else { Err(Failure::Failed("some were lost or wrong")) }
}

fn one_of_crowd(index: usize) {
    /// Bytes of a fill.
    const PART: usize = 512;
    let Some(kernel) = kernel_services::kernel::get() else { return };
    let session = Session::at(kernel, Level(0));
    let Some(mut buffer) = Buffer::new(PART * BATCH) else { return };
    let start = buffer.address().0;
    for round in 0..ROUNDS.load(Ordering::Relaxed) {
        let pattern = |part: usize| round << 32 | (index * BATCH + part) as u64 | 1 << 63;
        let fill = |part| Transfer::fill(pattern(part), start + (part * PART) as u64, PART as u64);
        let mut batch: [Transfer; BATCH] = core::array::from_fn(fill);
        buffer.clear();
        buffer.hand_over();
        let result = transfers::transfer(&session, &mut batch);
        buffer.take_back();
        let mut words = buffer.words();
        let right = (0..BATCH).filter(|&part| {
            let filled = |word: &AtomicU64| word.load(Ordering::Relaxed) == pattern(part);
            words.by_ref().take(PART / 8).filter(|word| filled(word)).count() == PART / 8
        });
        if result.is_ok() {
            RIGHT.fetch_add(right.count() as u64, Ordering::Relaxed);
        }
    }
}

/// Size of the buffers of the transfers that are refused, in bytes.
const SMALL: usize = 4096;

fn faults(session: &Session, out: &mut dyn Write) -> Outcome {
    let kernel = session.kernel;
    let (Some(from), Some(mut to)) = (Buffer::new(SMALL), Buffer::new(SMALL)) else {
        return Err(Failure::Failed("no memory"));
    };
    describe(kernel, out)?;
    let mut failed = 0;
    for (name, transfer, wanted) in bad_transfers(kernel, from.address().0, to.address().0) {
        let result = transfers::transfer(session, &mut [transfer]);
        failed += u32::from(result != Err(DmaError::Refused(wanted)));
        match result {
            Ok(_) => writeln!(out, "  {name:<28} DONE")?,
            Err(why) => writeln!(out, "  {name:<28} refused: {}", why.text())?,
        }
    }
    for (name, count) in
        [("a descriptor never written", 1), ("more than the ring holds", RING as u32 + 1)]
    {
        transfers::damage(session, count)?;
        writeln!(out, "  {name:<28} refused: the channel is opened again")?;
    }
    from.words().for_each(|word| word.store(0x5ca1_ab1e, Ordering::Relaxed));
    transfers::copy(session, &from, &mut to, SMALL)?;
    if failed > 0 || !to.holds(&from, SMALL) {
        return Err(Failure::Failed("the engine did what it must refuse, or the reverse"));
    }
    writeln!(out, "  all refused, and the engine copies as before")?;
    Ok(())
}

/// Returns invalid transfers: name, transfer, and the refusal that is expected.
fn bad_transfers(
    kernel: &Kernel,
    from: u64,
    to: u64,
) -> impl Iterator<Item = (&'static str, Transfer, Refusal)> {
    let top = kernel.blob.domains().iter().map(|d| d.ram_base + d.ram_size).max().unwrap_or(0);
    let regions = kernel.blob.regions();
    let reserved = regions.iter().find(|region| region.kind == kind::RESERVED);
    let reserved = reserved.map_or(kernel.blob.window.base, |region| region.base);
    let (window, staging) = (kernel.blob.window.base, kernel.domain().staging_pa);
    let is_foreign = |r: &&Region| r.kind == kind::LOCAL && r.owner != kernel.me.index() as u32;
    let foreign = regions.iter().find(is_foreign).map(|region| region.base);
    let bytes = SMALL as u64;
    let of_others = foreign.into_iter().flat_map(move |at| {
        [
            ("destination of another", Transfer::copy(from, at, bytes), Refusal::Foreign),
            ("source of another", Transfer::copy(at, to, bytes), Refusal::Foreign),
        ]
    });
    let flags = |flags| Transfer { flags, ..Transfer::copy(from, to, bytes) };
    [
        ("source outside RAM", Transfer::copy(top, to, bytes), Refusal::Address),
        ("destination outside RAM", Transfer::copy(from, u64::MAX - 63, bytes), Refusal::Address),
        ("fill across the end of RAM", Transfer::fill(1, top - 8, bytes), Refusal::Address),
        ("destination reserved", Transfer::copy(from, reserved, bytes), Refusal::Protected),
        ("destination uncached window", Transfer::copy(from, window, bytes), Refusal::Protected),
        ("source uncached window", Transfer::copy(window, to, bytes), Refusal::Protected),
        ("destination staging area", Transfer::copy(from, staging, bytes), Refusal::Protected),
        ("no bytes", Transfer::copy(from, to, 0), Refusal::Length),
        ("too many bytes", Transfer::copy(from, to, MAX_BYTES + 1), Refusal::Length),
        ("source is destination", Transfer::copy(from, from, bytes), Refusal::Overlap),
        ("destination inside source", Transfer::copy(from, from + 64, bytes), Refusal::Overlap),
        ("neither copy nor fill", flags(0), Refusal::Flags),
        ("copy and fill", flags(flag::COPY | flag::FILL), Refusal::Flags),
        ("unknown flags", flags(flag::COPY | 1 << 63), Refusal::Flags),
    ]
    .into_iter()
    .chain(of_others)
}
