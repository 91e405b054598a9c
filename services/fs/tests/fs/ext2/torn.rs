//! Power cuts at every write of short traces, each write torn at every sector, and cuts during the
//! replay.
//!
//! A trace is what a disk completed while a few requests were made. After a cut, the device holds
//! all that was flushed, and any sectors of later writes up to the next flush. Files change only
//! where no data that a sync made durable are, so after a replay the file system must be as it was
//! after some request, and none before the last completed sync.

use super::disk::{Done, SECTOR, put};
use super::tools::{Image, assert_clean, make};
use super::tree::{Tree, tree};
use crate::common::Solo;
use abi::fs::{Errno, flag};
use base::prng::Prng;
use std::collections::BTreeMap;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE | flag::EXCLUSIVE;

/// What happened, and what must be there when.
#[derive(Clone)]
pub struct Trace {
    pub block: usize,
    pub image: Vec<u8>,
    pub events: Vec<Done>,
    /// The tree after each request.
    pub states: Vec<Tree>,
    /// After so many events, no state before this one may be found.
    pub synced: Vec<(usize, usize)>,
}

/// A few requests, and what their result should be.
struct Load {
    solo: Solo,
    random: Prng,
    block: usize,
    root: u64,
    /// The text of each file, and whether it is open.
    files: Vec<Vec<u8>>,
    names: BTreeMap<String, usize>,
    directories: Vec<String>,
    /// Open files.
    held: Vec<u64>,
    /// Whether it marks the device clean now and then, also in the background.
    settles: bool,
    states: Vec<Tree>,
    synced: Vec<(usize, usize)>,
}

impl Load {
    fn note(&mut self) {
        let files =
            self.names.iter().map(|(name, id)| (name.clone(), Some(self.files[*id].clone())));
        let folders = self.directories.iter().filter(|it| !it.is_empty());
        let folders = folders.map(|it| (it.trim_end_matches('/').to_string(), None));
        self.states.push(files.chain(folders).collect());
    }

    fn path(&mut self) -> String {
        let at = self.random.below(self.directories.len() as u64) as usize;
        let long = "x".repeat(self.random.below(120) as usize);
        format!("{}n{}-{long}", self.directories[at], self.random.below(1000))
    }

    fn some(&mut self) -> Option<(String, usize)> {
        let at = self.random.below(self.names.len().max(1) as u64) as usize;
        self.names.iter().nth(at).map(|(name, id)| (name.clone(), *id))
    }

    fn data(&mut self) -> Vec<u8> {
        let most = [100, 3000, 30_000][self.random.below(3) as usize];
        let length = 1 + self.random.below(most) as usize;
        let first = self.random.next() as u8 | 1;
        (0..length).map(|at| first ^ (at / 7) as u8).collect()
    }

    fn create(&mut self) -> Result<(), Errno> {
        let (path, root, data) = (self.path(), self.root, self.data());
        let file = self.solo.with(|c| c.open(root, path.as_bytes(), NEW))?;
        let id = self.files.len();
        self.files.push(Vec::new());
        self.names.insert(path, id);
        self.note();
        self.append(file, id, &data)?;
        self.close_or_hold(file)
    }

    fn close_or_hold(&mut self, file: u64) -> Result<(), Errno> {
        if self.random.chance(1, 4) {
            self.held.push(file);
            return Ok(());
        }
        self.solo.with(|c| c.close(file))
    }

    fn append(&mut self, file: u64, id: usize, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            let at = self.files[id].len();
            let some = self.solo.with(|c| c.write_at(file, at as u64, &data[done..]))?;
            self.files[id].extend(&data[done..done + some]);
            done += some;
            self.note();
        }
        Ok(())
    }

    fn change(&mut self) -> Result<(), Errno> {
        let Some((name, id)) = self.some() else { return Ok(()) };
        let (root, data) = (self.root, self.data());
        let file = self.solo.with(|c| c.open(root, name.as_bytes(), flag::READ | flag::WRITE))?;
        match self.random.below(3) {
            0 => {
                let blocks = self.files[id].len() / self.block;
                let size = self.block * self.random.below(blocks as u64 + 1) as usize;
                self.solo.with(|c| c.set_size(file, size as u64))?;
                self.files[id].truncate(size);
                self.note();
            }
            1 => {
                let size = self.files[id].len() + self.random.below(5000) as usize;
                self.solo.with(|c| c.set_size(file, size as u64))?;
                self.files[id].resize(size, 0);
                self.note();
            }
            _ => self.append(file, id, &data)?,
        }
        self.close_or_hold(file)
    }

    fn rename_or_link(&mut self) -> Result<(), Errno> {
        let (Some((old, id)), mut new) = (self.some(), self.path()) else { return Ok(()) };
        let root = self.root;
        if self.random.chance(1, 2) {
            self.solo.with(|c| c.link(root, old.as_bytes(), root, new.as_bytes()))?;
        } else {
            if let Some((there, other)) = self.some()
                && self.random.chance(1, 2)
                && other != id
            {
                new = there;
            }
            self.solo.with(|c| c.rename(root, old.as_bytes(), root, new.as_bytes()))?;
            self.names.remove(&old);
        }
        self.names.insert(new, id);
        self.note();
        Ok(())
    }

    fn directory(&mut self) -> Result<(), Errno> {
        let (path, root) = (self.path(), self.root);
        let at = self.random.below(self.directories.len() as u64) as usize;
        let one = self.directories[at].clone();
        let inside = |path: &String| path.starts_with(&one) && *path != one;
        let empty = !self.names.keys().any(inside) && !self.directories.iter().any(inside);
        if !one.is_empty() && empty {
            self.directories.remove(at);
            self.solo.with(|c| c.rmdir(root, one.trim_end_matches('/').as_bytes()))?;
        } else if !one.is_empty() && !path.starts_with(&one) && self.random.chance(1, 2) {
            let old = one.trim_end_matches('/');
            self.solo.with(|c| c.rename(root, old.as_bytes(), root, path.as_bytes()))?;
            let moved = |it: &String| match it.strip_prefix(&one) {
                Some(rest) => format!("{path}/{rest}"),
                None => it.clone(),
            };
            self.directories = self.directories.iter().map(&moved).collect();
            self.names = self.names.iter().map(|(name, id)| (moved(name), *id)).collect();
        } else {
            self.solo.with(|c| c.mkdir(root, path.as_bytes()))?;
            self.directories.push(format!("{path}/"));
        }
        self.note();
        Ok(())
    }

    fn step(&mut self) -> Result<(), Errno> {
        if self.settles && self.random.chance(1, 6) {
            // As the timer does: further requests come while places are written.
            self.solo.ext2().begin_to_settle();
        }
        match self.random.below(14) {
            0..4 => self.create(),
            4..6 => self.change(),
            6..8 => {
                let Some((name, _)) = self.some() else { return Ok(()) };
                let root = self.root;
                self.solo.with(|c| c.unlink(root, name.as_bytes()))?;
                self.names.remove(&name);
                self.note();
                Ok(())
            }
            8..10 => self.rename_or_link(),
            10..12 => self.directory(),
            12 if !self.held.is_empty() => {
                let file = self.held.swap_remove(0);
                self.solo.with(|c| c.close(file))
            }
            _ => self.sync(),
        }
    }

    /// Makes all so far durable; sometimes it marks the device clean.
    fn sync(&mut self) -> Result<(), Errno> {
        let root = self.root;
        // A sync of the root waits for its last change; this one waits for all.
        let name = self.path();
        self.solo.with(|c| c.mkdir(root, name.as_bytes()))?;
        self.directories.push(format!("{name}/"));
        self.note();
        let made = self.solo.with(|c| c.open(root, name.as_bytes(), flag::READ))?;
        self.solo.with(|c| c.sync(made))?;
        self.solo.with(|c| c.close(made))?;
        if self.settles && self.random.chance(1, 4) {
            // Busy if a removed file is open.
            let _ = self.solo.with(|c| c.settle(root));
        }
        let events = self.solo.disk.as_ref().unwrap().trace.as_ref().unwrap().len();
        self.synced.push((events, self.states.len() - 1));
        Ok(())
    }
}

/// Makes and removes a directory so many times, durably.
fn warm_up(solo: &mut Solo, root: u64, times: u64) -> Result<(), Errno> {
    for _ in 0..times {
        solo.with(|c| c.mkdir(root, b"warm"))?;
        let made = solo.with(|c| c.open(root, b"warm", flag::READ))?;
        solo.with(|c| c.sync(made))?;
        solo.with(|c| c.close(made))?;
        solo.with(|c| c.rmdir(root, b"warm"))?;
    }
    solo.with(|c| c.sync(root))
}

/// Makes a trace of about so many requests.
pub fn record(seed: u64, requests: u64) -> Trace {
    let block = [1024, 4096, 2048][(seed % 3) as usize];
    let image = make(block, 2048 * block as u64 / 1024, &["-N", "512"]);
    let mut solo = Solo::on_disk(image, seed, 0).mount();
    let root = solo.root();
    let mut random = Prng::new(seed ^ 0x5eed);
    let warm = seed % 4 == 1;
    if warm {
        // The log is somewhere in its first rounds, and never empty.
        warm_up(&mut solo, root, random.below(150)).unwrap();
    }
    let image = solo.disk.as_mut().unwrap().begin_trace();
    let (files, names, held, states) = Default::default();
    let (directories, synced) = (vec![String::new()], vec![(0, 0)]);
    let mut load = Load {
        solo,
        random,
        block,
        root,
        files,
        names,
        directories,
        held,
        states,
        synced,
        settles: !warm,
    };
    load.note();
    for _ in 0..requests {
        // Names may be taken, and space may run out.
        match load.step() {
            Ok(()) | Err(Errno::Exist | Errno::Notdir | Errno::Isdir | Errno::Nospc) => {}
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    load.sync().unwrap();
    let Load { mut solo, states, synced, .. } = load;
    let events = solo.disk.take().unwrap().trace.unwrap();
    Trace { block, image, events, states, synced }
}

/// Which sectors of the writes after the last flush are there: by the write's number in the trace,
/// and the sector's in the write.
type Landed<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

impl Trace {
    /// Returns the device after a cut when `done` events had completed.
    pub fn cut(&self, done: usize, landed: Landed<'_>) -> Vec<u8> {
        let is_flush = |event: &Done| matches!(event, Done::Flush);
        let flushed = self.events[..done].iter().rposition(is_flush).unwrap_or(0);
        let after = self.events[done..].iter().position(is_flush);
        let end = after.map_or(self.events.len(), |after| done + after);
        let mut image = self.image.clone();
        for (number, event) in self.events[..end].iter().enumerate() {
            let Done::Write(at, data) = event else { continue };
            for (sector, piece) in data.chunks(SECTOR).enumerate() {
                if number < flushed || landed(number, sector) {
                    put(&mut image, at + sector * SECTOR, piece);
                }
            }
        }
        image
    }

    /// Returns the first state that may be found after a cut there.
    fn least(&self, done: usize) -> usize {
        let past = self.synced.iter().take_while(|(events, _)| *events <= done);
        past.last().map_or(0, |(_, state)| *state)
    }

    /// Checks what a mount finds on a device after a cut. Returns the device after an unmount.
    pub fn check(&self, image: Vec<u8>, done: usize, seed: u64) -> Result<Vec<u8>, String> {
        let mut solo = Solo::on_disk(image, seed, 0).mount();
        if let Some(why) = solo.ext2().read_only() {
            return Err(format!("it is read-only: {why:?}"));
        }
        let found = tree(&mut solo);
        let least = self.least(done);
        if !self.states[least..].contains(&found) {
            let older = self.states.iter().rposition(|state| *state == found);
            return Err(format!("state {older:?} is found, after a sync at {least}"));
        }
        Ok(solo.unmount())
    }

    /// Checks also that e2fsck finds nothing afterwards, and that its own replay finds the same.
    fn check_all(&self, image: Vec<u8>, done: usize, seed: u64) -> Result<(), String> {
        let other = Image::of(&image);
        let after = self.check(replay_cut(image, seed), done, seed)?;
        let (code, said) = Image::of(&after).check("-fn");
        if code != 0 {
            return Err(format!("e2fsck finds after the replay: {said}"));
        }
        let (code, said) = other.check("-fy");
        let mut ours = Solo::on_disk(after, seed, 0).mount();
        let mut theirs = Solo::on_disk(other.bytes(), seed, 0).mount();
        if code > 1 || tree(&mut ours) != tree(&mut theirs) {
            return Err(format!("e2fsck's replay has another result: {said}"));
        }
        Ok(())
    }

    /// Returns the number of events, and of sectors of a write.
    fn writes(&self) -> impl Iterator<Item = (usize, usize)> {
        let sectors = |event: &Done| match event {
            Done::Write(_, data) => data.len() / SECTOR,
            Done::Flush => 0,
        };
        self.events.iter().map(sectors).enumerate()
    }
}

/// Cuts the power during a replay a few times. Returns the device after that.
fn replay_cut(mut image: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed ^ 0xc07);
    for round in 0..random.below(4) {
        let mut solo = Solo::on_disk(image, seed ^ round << 32, 0);
        solo.disk.as_mut().unwrap().cut = Some(random.below(60));
        let root = solo.root();
        let stat = abi::fs::Request::new(abi::fs::Op::Stat, root);
        solo.ask_until_cut(stat, &mut []);
        image = solo.disk.take().unwrap().cut();
    }
    image
}

/// Cuts a trace at every write, torn at every sector, with the other writes since the last flush
/// there or not; every `nth` cut is checked by e2fsck, too. Returns the number of cuts.
fn cut_everywhere(trace: &Trace, nth: u64) -> Result<u64, String> {
    let mut cuts = 0;
    for (at, sectors) in trace.writes() {
        for (torn, others) in (0..=sectors).flat_map(|torn| [(torn, false), (torn, true)]) {
            let image = trace.cut(at, &mut |number, sector| match number.cmp(&at) {
                std::cmp::Ordering::Less => others,
                std::cmp::Ordering::Equal => sector < torn,
                std::cmp::Ordering::Greater => false,
            });
            let result = match cuts % nth {
                0 => trace.check_all(image, at, cuts),
                _ => trace.check(image, at, cuts).map(|_| ()),
            };
            result.map_err(|why| format!("event {at}, {torn} of {sectors}, {others}: {why}"))?;
            cuts += 1;
        }
    }
    Ok(cuts)
}

/// Returns a device after a cut somewhere, with any sectors of the writes since the last flush
/// there, and the number of completed events.
pub fn any_cut(trace: &Trace, seed: u64) -> (usize, Vec<u8>) {
    let at = Prng::new(seed).below(trace.events.len() as u64 + 1) as usize;
    (at, cut_at(trace, at, seed))
}

/// Returns a device after a cut when so many events had completed.
pub fn cut_at(trace: &Trace, at: usize, seed: u64) -> Vec<u8> {
    let mut random = Prng::new(seed ^ 0xa7);
    let (chance, whole) = (random.below(9), random.chance(1, 2));
    let mut last = (usize::MAX, false);
    trace.cut(at, &mut |number, _| {
        if !whole || last.0 != number {
            last = (number, random.chance(chance, 8));
        }
        last.1
    })
}

/// Makes such a cut. Checks what a mount finds, what e2fsck finds then, and e2fsck's own replay.
fn cut_anywhere(trace: &Trace, seed: u64) -> Result<(), String> {
    let (at, image) = any_cut(trace, seed);
    trace.check_all(image, at, seed).map_err(|why| format!("cut {seed}, event {at}: {why}"))
}

#[test]
fn cuts_at_every_sector_of_short_traces_lose_nothing_that_was_synced() {
    for seed in 0..4 {
        let trace = record(seed, 20);
        let cuts = cut_everywhere(&trace, 197).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        println!("seed {seed}: {cuts} cuts in {} events", trace.events.len());
    }
}

/// Cuts per trace of a longer run.
const CUTS: u64 = 10;

#[test]
fn cuts_anywhere_in_longer_traces_lose_nothing_that_was_synced() {
    for seed in 0..8 {
        let trace = record(seed, 120);
        for cut in 0..6 {
            cut_anywhere(&trace, cut).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }
}

/// Makes cuts up to the next multiple of 10,000, on all cores. Their number is in a file that the
/// environment names, so an interrupted run continues, and each run has other seeds.
#[test]
#[ignore = "nightly: see host/pen/src/test.rs"]
fn ten_thousand_cuts_lose_nothing_that_was_synced() {
    const GOAL: u64 = 10_000;
    let file = std::env::var_os("PEN_EXT2_CUTS").map(std::path::PathBuf::from).unwrap();
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let done = known.trim().parse::<u64>().unwrap_or(0);
    let goal = (done / GOAL + 1) * GOAL;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    for first in (done..goal).step_by((CUTS * cores) as usize) {
        let run = |seed: u64| {
            let trace = record(seed, 40 + seed % 160);
            for cut in 0..CUTS {
                let result = cut_anywhere(&trace, seed ^ cut << 32);
                result.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            }
        };
        let seeds = (0..cores).map(|core| 1000 + first / CUTS + core);
        std::thread::scope(|scope| seeds.for_each(|seed| drop(scope.spawn(move || run(seed)))));
        std::fs::write(&file, format!("{}\n", (first + CUTS * cores).min(goal))).unwrap();
    }
    println!("{goal} cuts in all, {} in this run", goal - done);
}

#[test]
fn a_clean_image_is_marked_clean() {
    let trace = record(5, 30);
    let done = trace.events.len();
    let image = trace.cut(done, &mut |_, _| true);
    assert_clean(&trace.check(image, done, 1).unwrap(), "unmounted");
}
