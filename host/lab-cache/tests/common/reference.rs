//! The reference: one line's real contents in memory and in every cache, in every state that some
//! choice of evictions leads to. It knows values, not rules: it detects that a word read was not
//! the newest, or that a write-back put an older word over a newer one.
//!
//! A cache may write a dirty copy back at any time and may drop a clean one at any time; all such
//! evictions are applied exhaustively before and after each event.

use std::collections::BTreeSet;

/// Words of the line.
pub const WORDS: usize = 3;
/// Maximum number of domains.
pub const DOMAINS: usize = 3;

/// Versions of the words.
type Words = [u32; WORDS];

/// An event on the line. Domains and words are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Read(usize, usize),
    Write(usize, usize),
    Fetch(usize, usize),
    UncachedRead(usize, usize),
    UncachedWrite(usize, usize),
    DeviceRead(usize),
    DeviceWrite(usize),
    Clean(usize),
    Invalidate(usize),
    CleanInvalidate(usize),
    Death(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cached {
    words: Words,
    dirty: bool,
}

/// One possible state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    memory: Words,
    newest: Words,
    copies: [Option<Cached>; DOMAINS],
    /// The newest value was dropped, and there was no write since.
    discarded: bool,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// A word that was read is not the newest, or a newer word was overwritten by an older.
    pub value: bool,
    /// Some word of the line that was read or written is not the newest. (Lines are not divided:
    /// every sharer must hand the line over.)
    pub line: bool,
}

impl Wrong {
    fn add(&mut self, value: bool, line: bool) {
        self.value |= value;
        self.line |= value || line;
    }
}

/// All possible states of the line.
pub struct Reference {
    worlds: BTreeSet<World>,
    version: u32,
}

impl Reference {
    pub fn new() -> Reference {
        let zero = [0; WORDS];
        let world = World { memory: zero, newest: zero, copies: [None; DOMAINS], discarded: false };
        Reference { worlds: BTreeSet::from([world]), version: 0 }
    }

    /// Applies `event` and the evictions after it. Returns what may go wrong.
    pub fn apply(&mut self, event: Event) -> Wrong {
        self.version += 1;
        let mut wrong = Wrong::default();
        let before = std::mem::take(&mut self.worlds);
        for world in before {
            for source in 0..2 {
                let mut next = world;
                next.apply(event, self.version, source, &mut wrong);
                self.worlds.insert(next);
            }
        }
        self.evict(&mut wrong);
        wrong
    }

    /// Returns whether the domain may be dirty now.
    pub fn may_be_dirty(&self, domain: usize) -> bool {
        self.worlds.iter().any(|w| w.copies[domain].is_some_and(|c| c.dirty))
    }

    fn evict(&mut self, wrong: &mut Wrong) {
        let mut todo: Vec<World> = self.worlds.iter().copied().collect();
        while let Some(world) = todo.pop() {
            for domain in 0..DOMAINS {
                let Some(copy) = world.copies[domain] else { continue };
                let mut next = world;
                if copy.dirty {
                    next.write_back(domain, wrong);
                } else {
                    next.copies[domain] = None;
                }
                if self.worlds.insert(next) {
                    todo.push(next);
                }
            }
        }
    }
}

impl World {
    fn write_back(&mut self, domain: usize, wrong: &mut Wrong) {
        let Some(copy) = self.copies[domain].as_mut().filter(|c| c.dirty) else { return };
        copy.dirty = false;
        let older = |w: usize| self.memory[w] == self.newest[w] && copy.words[w] != self.newest[w];
        let lost = (0..WORDS).any(older);
        self.memory = copy.words;
        wrong.add(lost, false);
    }

    fn look(&self, words: Words, word: usize, wrong: &mut Wrong) {
        wrong.add(words[word] != self.newest[word], words != self.newest || self.discarded);
    }

    fn fill(&mut self, domain: usize) -> Words {
        let memory = self.memory;
        self.copies[domain].get_or_insert(Cached { words: memory, dirty: false }).words
    }

    fn fetch(&mut self, domain: usize, word: usize, source: usize, wrong: &mut Wrong) {
        let copy = self.copies[domain].filter(|copy| !copy.dirty && source == 0);
        self.look(copy.map_or(self.memory, |copy| copy.words), word, wrong);
        self.fill(domain);
    }

    fn write(&mut self, domain: usize, word: usize, version: u32, wrong: &mut Wrong) {
        let base = self.fill(domain);
        let others = (0..DOMAINS).filter(|d| *d != domain);
        let dirty = others.into_iter().any(|d| self.copies[d].is_some_and(|c| c.dirty));
        wrong.add(false, dirty || (base != self.newest && !self.discarded));
        if self.discarded {
            self.newest = base;
        }
        self.discarded = false;
        self.newest[word] = version;
        if let Some(copy) = &mut self.copies[domain] {
            copy.dirty = true;
            copy.words[word] = version;
        }
    }

    fn write_memory(&mut self, word: usize, version: u32) {
        if self.discarded {
            self.newest = self.memory;
        }
        self.discarded = false;
        self.newest[word] = version;
        self.memory[word] = version;
    }

    fn drop_copy(&mut self, domain: usize) {
        self.discarded |= self.copies[domain].is_some_and(|copy| copy.dirty);
        self.copies[domain] = None;
    }

    fn apply(&mut self, event: Event, version: u32, source: usize, wrong: &mut Wrong) {
        match event {
            Event::Read(domain, word) => {
                let words = self.fill(domain);
                self.look(words, word, wrong);
            }
            Event::Fetch(domain, word) => self.fetch(domain, word, source, wrong),
            Event::Write(domain, word) => self.write(domain, word, version, wrong),
            Event::UncachedRead(_, word) | Event::DeviceRead(word) => {
                self.look(self.memory, word, wrong);
            }
            Event::UncachedWrite(_, word) | Event::DeviceWrite(word) => {
                let dirty = self.copies.iter().flatten().any(|copy| copy.dirty);
                wrong.add(false, dirty);
                self.write_memory(word, version);
            }
            Event::Clean(domain) => self.write_back(domain, wrong),
            Event::Invalidate(domain) => self.drop_copy(domain),
            Event::CleanInvalidate(domain) => {
                self.write_back(domain, wrong);
                self.drop_copy(domain);
            }
            Event::Death(domain) => {
                let lost = self.copies[domain].is_some_and(|copy| copy.dirty);
                self.copies[domain] = None;
                if lost {
                    self.newest = self.memory;
                }
            }
        }
    }
}
