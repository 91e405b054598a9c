//! The model: one function per event. Each looks up the line and returns at once if the access is
//! correct and changes no state; nearly all accesses take that path.

use core::sync::atomic::AtomicU64;

use crate::layout::{AttachError, Layout};
use crate::line::{Fault, Line};
use crate::party::{Access, Domain, Party, Site};
use crate::seen::Seen;
use crate::violation::{Event, Kind, Violation};

/// Callback for violations.
type Report<'r> = &'r mut dyn FnMut(&Violation);

/// A kind of atomic access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// The load of an exclusive pair.
    ExclusiveLoad,
    /// The store of an exclusive pair, or a read-modify-write.
    Change,
    /// A store of more than 64 bits.
    WideStore,
}

/// How an access reaches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Through the domain's caches.
    Cached,
    /// Bypassing them.
    Uncached,
}

/// The state of all caches, as seen by one process.
pub struct Model<'a> {
    pub(crate) layout: Layout<'a>,
    seen: Seen,
}

impl<'a> Model<'a> {
    /// Attaches to `words` (see [`crate::words_for`]), for `bytes` of RAM from physical address
    /// `base` on. Words that are all 0 mean empty caches; others continue an earlier state.
    pub fn attach(words: &'a [AtomicU64], base: u64, bytes: u64) -> Result<Self, AttachError> {
        let layout = Layout::attach(words, base, bytes)?;
        Ok(Model { layout, seen: Seen::new() })
    }

    /// Returns the number of new violations that were not reported, because this process remembers
    /// too many already.
    pub fn untold(&self) -> u64 {
        self.seen.untold()
    }

    /// A cached load.
    #[inline]
    pub fn read(&mut self, access: Access, report: Report) {
        let settled = |line: Line| line.read_is_settled(access.domain);
        if !self.layout.only_line(access.pa, access.len).is_some_and(settled) {
            self.each(access, settled, |m, line| m.bring_in(line, Event::Read, access, report));
        }
    }

    /// A cached store.
    #[inline]
    pub fn write(&mut self, access: Access, report: Report) {
        let settled = |line: Line| line.write_is_settled(access.domain);
        if !self.layout.only_line(access.pa, access.len).is_some_and(settled) {
            self.each(access, settled, |m, line| m.change(line, access, report));
        }
    }

    /// An instruction fetch. One call per execution of a translated block is enough.
    #[inline]
    pub fn fetch(&mut self, domain: Domain, pa: u64, len: u64, report: Report) {
        let settled = |line: Line| line.fetch_is_settled(domain);
        if !self.layout.only_line(pa, len).is_some_and(settled) {
            let access = Access { domain, pa, len, pc: pa };
            self.each(access, settled, |m, line| m.bring_in(line, Event::Fetch, access, report));
        }
    }

    /// A load that bypasses the cache.
    #[inline]
    pub fn uncached_read(&mut self, access: Access, report: Report) {
        let settled = |line: Line| line.uncached_read_is_settled(access.domain);
        if !self.layout.only_line(access.pa, access.len).is_some_and(settled) {
            self.each(access, settled, |m, line| m.poll(line, access, report));
        }
    }

    /// A store that bypasses the cache.
    #[inline]
    pub fn uncached_write(&mut self, access: Access, report: Report) {
        let settled = |line: Line| line.uncached_write_is_settled(access.domain);
        if !self.layout.only_line(access.pa, access.len).is_some_and(settled) {
            self.each(access, settled, |m, line| m.post(line, access, report));
        }
    }

    /// A device reads memory. `pc` appears in reports and identifies the device.
    pub fn device_read(&mut self, pa: u64, len: u64, pc: u64, report: Report) {
        let Some((first, last)) = self.layout.span(pa, len) else { return };
        let site = Site { party: Party::DEVICES, pc };
        for line in first..=last {
            let now = self.layout.line(line);
            let fault = now.fault_of_memory_read(Kind::MissingClean);
            self.tell(line, now, fault, Event::DeviceRead, site, report);
        }
    }

    /// A device writes memory.
    pub fn device_write(&mut self, pa: u64, len: u64, pc: u64, report: Report) {
        let Some((first, last)) = self.layout.span(pa, len) else { return };
        let site = Site { party: Party::DEVICES, pc };
        for line in first..=last {
            let now = self.layout.line(line);
            self.tell(line, now, now.fault_of_device_write(), Event::DeviceWrite, site, report);
            self.layout.set_line(line, now.after_device_write());
            self.layout.set_writer_pc(line, pc);
            self.layout.mark(line, 0);
        }
    }

    /// An exclusive, a read-modify-write, or a store of more than 64 bits. The load or store that
    /// it contains is checked too and needs no other call.
    pub fn atomic(&mut self, access: Access, what: Atomic, path: Path, report: Report) {
        let Some((first, last)) = self.layout.span(access.pa, access.len) else { return };
        for line in first..=last {
            let now = self.layout.line(line);
            let fault = match what {
                Atomic::WideStore => now.fault_of_wide_store(access.domain, path == Path::Cached),
                _ => now.fault_of_atomic(access.domain),
            };
            self.tell(line, now, fault, Event::Atomic, access.site(), report);
        }
        match (what, path) {
            (Atomic::ExclusiveLoad, Path::Cached) => self.read(access, report),
            (Atomic::ExclusiveLoad, Path::Uncached) => self.uncached_read(access, report),
            (_, Path::Cached) => self.write(access, report),
            (_, Path::Uncached) => self.uncached_write(access, report),
        }
    }

    /// The domain cleans the line at `pa`, and may keep it.
    pub fn clean(&mut self, domain: Domain, pa: u64) {
        self.maintain(pa, |line| line.after_clean(domain));
    }

    /// The domain makes its changes of the line at `pa` visible to its own instruction fetches only
    /// (DC CVAU).
    pub fn unify(&mut self, domain: Domain, pa: u64) {
        self.maintain(pa, |line| line.after_unify(domain));
    }

    /// Returns whether the domain's cache may hold changes of the line at `pa`.
    pub fn is_dirty(&self, domain: Domain, pa: u64) -> bool {
        let line = self.layout.span(pa, 1).map(|(line, _)| self.layout.line(line));
        line.is_some_and(|line| line.dirty() & domain.bit() != 0)
    }

    /// Records that the caller keeps a copy of the line at `pa` as its writer has just cleaned it.
    pub fn saved(&mut self, pa: u64) {
        self.maintain(pa, |line| line.saved(true));
    }

    /// The domain invalidates the line at `pa`; changes are lost.
    pub fn invalidate(&mut self, domain: Domain, pa: u64) {
        self.maintain(pa, |line| line.after_invalidate(domain));
    }

    /// The domain cleans and invalidates the line at `pa`.
    pub fn clean_invalidate(&mut self, domain: Domain, pa: u64) {
        self.maintain(pa, |line| line.after_clean(domain).after_invalidate(domain));
    }

    fn maintain(&mut self, pa: u64, change: impl Fn(Line) -> Line) {
        let Some((line, _)) = self.layout.span(pa, 1) else { return };
        let now = self.layout.line(line);
        let next = change(now);
        if next != now {
            self.layout.set_line(line, next);
        }
    }

    /// Applies `event` to every line of the access that is not settled.
    #[inline(never)]
    fn each(
        &mut self,
        access: Access,
        settled: impl Fn(Line) -> bool,
        mut event: impl FnMut(&mut Self, usize),
    ) {
        let Some((first, last)) = self.layout.span(access.pa, access.len) else { return };
        for line in first..=last {
            if !settled(self.layout.line(line)) {
                event(self, line);
            }
        }
    }

    fn bring_in(&mut self, line: usize, event: Event, access: Access, report: Report) {
        let now = self.layout.line(line);
        let fault = match event {
            Event::Fetch => now.fault_of_fetch(access.domain),
            _ => now.fault_of_read(access.domain),
        };
        self.tell(line, now, fault, event, access.site(), report);
        self.layout.set_line(line, now.after_read(access.domain));
        self.layout.set_reader_pc(line, access.pc);
        self.layout.mark(line, access.domain.bit());
    }

    fn change(&mut self, line: usize, access: Access, report: Report) {
        let now = self.layout.line(line);
        let fault = now.fault_of_write(access.domain);
        self.tell(line, now, fault, Event::Write, access.site(), report);
        self.layout.set_line(line, now.after_write(access.domain));
        self.layout.set_writer_pc(line, access.pc);
        self.layout.mark(line, access.domain.bit());
    }

    fn poll(&mut self, line: usize, access: Access, report: Report) {
        let now = self.layout.line(line);
        let fault = now.fault_of_memory_read(Kind::UncachedAlias);
        self.tell(line, now, fault, Event::UncachedRead, access.site(), report);
        self.layout.set_line(line, now.after_uncached_read(access.domain));
        self.layout.mark(line, access.domain.bit());
    }

    fn post(&mut self, line: usize, access: Access, report: Report) {
        let now = self.layout.line(line);
        let fault = now.fault_of_uncached_write();
        self.tell(line, now, fault, Event::UncachedWrite, access.site(), report);
        self.layout.set_line(line, now.after_uncached_write(access.domain));
        self.layout.set_writer_pc(line, access.pc);
        self.layout.mark(line, access.domain.bit());
    }

    /// Reports `fault`, if there is one that was not reported before.
    fn tell(
        &mut self,
        line: usize,
        now: Line,
        fault: Option<Fault>,
        event: Event,
        access: Site,
        report: Report,
    ) {
        let Some(Fault { kind, other, missing }) = fault else { return };
        let site = |pc: u64| move |party: Party| Site { party, pc };
        let violation = Violation {
            kind,
            line: self.layout.address(line),
            event,
            access,
            other,
            missing,
            writer: now.writer().map(site(self.layout.writer_pc(line))),
            reader: now.reader().map(site(self.layout.reader_pc(line))),
        };
        if self.seen.is_new(&violation) {
            report(&violation);
        }
    }
}
