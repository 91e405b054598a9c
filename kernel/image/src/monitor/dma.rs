//! The DMA engine at work: what the K2 paper's benchmark does, and what the engine must refuse.

use super::{Command, Failure, Outcome};
use crate::devices::dma::{Buffer, DmaError};
use crate::kernel::Kernel;
use abi::boot::kind;
use abi::dma::{MAX_BYTES, RING, flag};
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::Ordering;
use drivers::dma::{Refusal, Transfer};

pub const COMMANDS: &[Command] = &[Command {
    name: "dma",
    arguments: "[BYTES [BATCH]] | faults",
    help: "copy by the DMA engine and check; or what it refuses",
    run: dma,
}];

/// Bytes of a transfer in K2's table 6.
const BATCHES: [u64; 4] = [4 << 10, 128 << 10, 256 << 10, 1 << 20];
/// Bytes copied with each, unless the command says otherwise.
const TOTAL: u64 = 1 << 20;

fn dma(kernel: &'static Kernel, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    if arguments == ["faults"] {
        return faults(kernel, out);
    }
    let [total, batch] = [0, 1].map(|index| arguments.get(index).map(|word| size(word)));
    let total = total.unwrap_or(Some(TOTAL)).ok_or(Failure::Usage)?;
    describe(kernel, out)?;
    let mut good = true;
    match batch {
        Some(batch) => good = run(kernel, out, total, batch.ok_or(Failure::Usage)?)?,
        None if total < BATCHES[0] => good = run(kernel, out, total, total)?,
        None => {
            for batch in BATCHES.into_iter().filter(|&batch| batch <= total) {
                good &= run(kernel, out, total, batch)?;
            }
        }
    }
    if good { Ok(()) } else { Err(Failure::Failed("not everything was copied as it should be")) }
}

fn describe(kernel: &Kernel, out: &mut dyn Write) -> Outcome {
    let engine = kernel.devices.dma_engine(kernel).ok_or(explain(DmaError::NoEngine))?;
    write!(out, "  engine: {} MB/s, set-up ", engine.bandwidth_mbps)?;
    write!(out, "{} ns; our channels", engine.setup_ns)?;
    for channel in (0..u64::BITS).filter(|channel| engine.channels >> channel & 1 != 0) {
        write!(out, " {channel}")?;
    }
    Ok(writeln!(out)?)
}

/// `4096`, `128K` or `1M`; not 0.
fn size(word: &str) -> Option<u64> {
    let (digits, shift) = match word.as_bytes().last()? {
        b'K' => (&word[..word.len() - 1], 10),
        b'M' => (&word[..word.len() - 1], 20),
        _ => (word, 0),
    };
    let size = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (size > 0).then_some(size)
}

fn explain(error: DmaError) -> Failure {
    Failure::Failed(error.text())
}

/// `total` bytes, `batch` at a time, each copy compared with its source; was all well?
fn run(
    kernel: &'static Kernel,
    out: &mut dyn Write,
    total: u64,
    batch: u64,
) -> Result<bool, Failure> {
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
        let result = kernel.devices.dma_copy(kernel, &from, &mut to, bytes);
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
    writeln!(out, "{errors} errors, {wrong} wrong, {}.{} MB/s", tenths / 10, tenths % 10)?;
    Ok(errors + wrong == 0)
}

/// Bytes of the buffers that the refused transfers are about.
const SMALL: usize = 4096;

fn faults(kernel: &'static Kernel, out: &mut dyn Write) -> Outcome {
    let (Some(from), Some(mut to)) = (Buffer::new(SMALL), Buffer::new(SMALL)) else {
        return Err(Failure::Failed("no memory"));
    };
    describe(kernel, out)?;
    let mut failed = 0;
    for (name, transfer, wanted) in bad_transfers(kernel, from.address().0, to.address().0) {
        let result = kernel.devices.dma_transfer(kernel, &[transfer]);
        failed += u32::from(result != Err(DmaError::Refused(wanted)));
        match result {
            Ok(_) => writeln!(out, "  {name:<28} DONE")?,
            Err(why) => writeln!(out, "  {name:<28} refused: {}", why.text())?,
        }
    }
    for (name, count) in
        [("a descriptor never written", 1), ("more than the ring holds", RING as u32 + 1)]
    {
        kernel.devices.dma_damage(kernel, count).map_err(explain)?;
        writeln!(out, "  {name:<28} refused: the channel is opened anew")?;
    }
    from.words().for_each(|word| word.store(0x5ca1_ab1e, Ordering::Relaxed));
    kernel.devices.dma_copy(kernel, &from, &mut to, SMALL).map_err(explain)?;
    if failed > 0 || !to.holds(&from, SMALL) {
        return Err(Failure::Failed("the engine did what it must refuse, or the reverse"));
    }
    writeln!(out, "  all refused, and the engine copies as before")?;
    Ok(())
}

/// What nobody may ask for, by name, and how it must be refused.
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
    let bytes = SMALL as u64;
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
}
