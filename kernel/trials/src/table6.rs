//! Measures K2's table 6, in chip time: DMA transfers at full speed by one kernel, and by two at
//! once. A transfer includes everything from clearing the destination to freeing the descriptors.

use super::beside::beside;
use super::{Failure, Outcome, Session, number};
use base::prng::Prng;
use core::fmt::Write;
use core::sync::atomic::Ordering;
use kernel_services::kernel::Kernel;
use kernel_services::transfers::{self, Buffer};

/// Bytes of a transfer in K2's table 6.
pub const BATCHES: [u64; 4] = [4 << 10, 128 << 10, 256 << 10, 1 << 20];

/// A size that is measured.
struct Size {
    /// Name in records.
    name: &'static str,
    /// Number of transfers of one kernel alone; the same as for Linux in the lab.
    times: u64,
    /// How long both kernels make transfers, in ms.
    ms: u64,
}

/// In the order of [`BATCHES`].
const SIZES: [Size; BATCHES.len()] = [
    Size { name: "4k", times: 200, ms: 200 },
    Size { name: "128k", times: 40, ms: 400 },
    Size { name: "256k", times: 20, ms: 600 },
    Size { name: "1m", times: 8, ms: 2000 },
];
/// Time for both kernels to start, in ms.
const LEAD_MS: u64 = 300;

/// Measures one kernel alone: transfers one after the other, after a quarter of them as warm-up.
pub fn alone(session: &Session, out: &mut dyn Write) -> Outcome {
    let me = abi::boot::text(&session.kernel.domain().name);
    for (batch, size) in BATCHES.into_iter().zip(SIZES) {
        let mut copier = Copier::new(session, batch)?;
        copier.copies(size.times / 4)?;
        let start = arch::time::soc_time();
        copier.copies(size.times)?;
        let took = arch::time::soc_time() - start;
        copier.check()?;
        record(out, format_args!("{me}_{}", size.name), batch * size.times, took)?;
    }
    Ok(())
}

/// Measures this kernel and its first peer at once: the bytes that they move within a time span,
/// together and each, and their page faults in the shared block.
pub fn both(session: &Session, out: &mut dyn Write) -> Outcome {
    let me = abi::boot::text(&session.kernel.domain().name);
    let peer = super::first_peer(session.kernel)?;
    let other = abi::boot::text(&session.kernel.blob.domains()[peer.index()].name);
    for (batch, size) in BATCHES.into_iter().zip(SIZES) {
        let start = arch::time::soc_time() + LEAD_MS * 1_000_000;
        let span = size.ms * 1_000_000;
        let line = format_args!("dma window {batch} {start} {}", start + span);
        let (here, there) = beside(session, line, || moved(session, batch, start, start + span))?;
        let (here, there) = (here?, parse(&there)?);
        let name = size.name;
        record(out, format_args!("{name}"), here[0] + there[0], span)?;
        record(out, format_args!("{name}_{me}"), here[0], span)?;
        record(out, format_args!("{name}_{other}"), there[0], span)?;
        let faults = (here[1] + there[1]) * 1000 / size.ms;
        writeln!(out, "record k2.t6.{name}_faults {faults} faults/s")?;
    }
    Ok(())
}

/// Prints a record in MB (10^6 bytes) per second.
fn record(out: &mut dyn Write, name: core::fmt::Arguments<'_>, bytes: u64, ns: u64) -> Outcome {
    let hundredths = bytes * 100_000 / ns.max(1);
    write!(out, "record k2.t6.{name} {}.{:02} MB/s", hundredths / 100, hundredths % 100)?;
    Ok(writeln!(out)?)
}

/// `dma window BATCH START END`: the peer's part of [`both`].
pub fn window(session: &Session, out: &mut dyn Write, arguments: &[&str]) -> Outcome {
    let value = |index| number(arguments, index, 0);
    let [bytes, faults] = moved(session, value(0)?, value(1)?, value(2)?)?;
    Ok(writeln!(out, "{bytes} {faults}")?)
}

fn parse(answer: &[u8]) -> Result<[u64; 2], Failure> {
    let text = core::str::from_utf8(answer).unwrap_or("");
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    let both = numbers.next().zip(numbers.next());
    both.map(Into::into).ok_or(Failure::Failed("the other kernel does not say what it moved"))
}

/// Returns the number of this kernel's page faults in the shared block.
pub fn faults(kernel: &Kernel) -> u64 {
    kernel.coherence.as_ref().map_or(0, |coherence| coherence.counts()[0])
}

/// Makes transfers at full speed until `end`. Returns the bytes of those that ended after `start`,
/// and the page faults meanwhile.
fn moved(session: &Session, batch: u64, start: u64, end: u64) -> Result<[u64; 2], Failure> {
    let mut copier = Copier::new(session, batch)?;
    copier.copies(1)?;
    if arch::time::soc_time() >= start {
        return Err(Failure::Failed("it begins too late"));
    }
    while arch::time::soc_time() < start {
        copier.copies(1)?;
    }
    let (mut bytes, before) = (batch, faults(session.kernel));
    loop {
        copier.copies(1)?;
        if arch::time::soc_time() >= end {
            break;
        }
        bytes += batch;
    }
    let faults = faults(session.kernel) - before;
    copier.check()?;
    Ok([bytes, faults])
}

/// Two buffers, for transfers from one to the other.
pub struct Copier<'a> {
    session: &'a Session,
    from: Buffer,
    to: Buffer,
}

impl<'a> Copier<'a> {
    pub fn new(session: &'a Session, bytes: u64) -> Result<Copier<'a>, Failure> {
        let buffer = || Buffer::new(bytes as usize);
        let (Some(from), Some(to)) = (buffer(), buffer()) else {
            return Err(Failure::Failed("no memory in one piece for a batch of that size"));
        };
        let mut prng = Prng::new(bytes);
        from.words().for_each(|word| word.store(prng.next(), Ordering::Relaxed));
        Ok(Copier { session, from, to })
    }

    pub fn copies(&mut self, count: u64) -> Outcome {
        let Copier { session, from, to } = self;
        let bytes = from.bytes();
        (0..count).try_for_each(|_| {
            transfers::copy(session, from, to, bytes).map(|_| ()).map_err(Failure::from)
        })
    }

    pub fn check(&self) -> Outcome {
        match self.to.holds(&self.from, self.from.bytes()) {
            true => Ok(()),
            false => Err(Failure::Failed("the last copy differs from its source")),
        }
    }
}
