//! Power cuts: what was synced is there afterwards, under a name that it has had since.
//!
//! Every file starts with a unique number, by which it is found under any name. Changes after the
//! last sync may be there or not, and removed files may still be there.

use super::tools::{Image, assert_clean, make};
use super::tree::tree;
use crate::common::Solo;
use abi::fs::{Errno, flag};
use base::prng::Prng;
use fs::client::Client;
use std::collections::BTreeMap;

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE | flag::EXCLUSIVE;
const BOTH: u16 = flag::READ | flag::WRITE;

/// What must be there of a file.
#[derive(Clone, Default)]
struct Synced {
    /// The bytes at the sync, and whether each has been written since.
    bytes: Vec<(u8, bool)>,
}

#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    names: u32,
    synced: Option<Synced>,
}

struct Load {
    solo: Solo,
    random: Prng,
    root: u64,
    files: BTreeMap<u64, File>,
    /// Files by path.
    names: BTreeMap<String, u64>,
    directories: Vec<String>,
    /// Paths that existed at a sync and were not removed since.
    durable: BTreeMap<String, u64>,
    next: u64,
}

impl Load {
    fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let solo = &mut self.solo;
        what(&mut Client(&mut |request, bulk| solo.ask_until_cut(request, bulk)))
    }

    fn some_file(&mut self) -> Option<(String, u64)> {
        let at = self.random.below(self.names.len().max(1) as u64) as usize;
        self.names.iter().nth(at).map(|(name, id)| (name.clone(), *id))
    }

    fn new_path(&mut self) -> String {
        let at = self.random.below(self.directories.len() as u64) as usize;
        format!("{}n{}", self.directories[at], self.random.below(300))
    }

    fn data(&mut self) -> Vec<u8> {
        let length = [10, 600, 3000, 20_000][self.random.below(4) as usize];
        let length = 1 + self.random.below(length) as usize;
        (0..length).map(|_| self.random.next() as u8).collect()
    }

    fn create(&mut self) -> Result<(), Errno> {
        let path = self.new_path();
        if self.names.contains_key(&path) || self.directories.contains(&format!("{path}/")) {
            return Ok(());
        }
        let root = self.root;
        let file = self.with(|c| c.open(root, path.as_bytes(), NEW))?;
        self.next += 1;
        let id = self.next;
        self.names.insert(path, id);
        self.files.insert(id, File { names: 1, ..File::default() });
        let data = [&id.to_le_bytes()[..], &self.data()].concat();
        self.put(file, id, 0, &data)?;
        if self.random.chance(1, 3) {
            self.sync(file, id)?;
        }
        self.with(|c| c.close(file))
    }

    fn put(&mut self, file: u64, id: u64, at: usize, data: &[u8]) -> Result<(), Errno> {
        // Some of it may be written even if the request fails.
        let one = self.files.get_mut(&id).unwrap();
        if let Some(synced) = &mut one.synced {
            synced.bytes.iter_mut().skip(at).take(data.len()).for_each(|(_, new)| *new = true);
        }
        let bytes = &mut one.bytes;
        bytes.resize(bytes.len().max(at + data.len()), 0);
        bytes[at..at + data.len()].copy_from_slice(data);
        let mut done = 0;
        while done < data.len() {
            done += self.with(|c| c.write_at(file, (at + done) as u64, &data[done..]))?;
        }
        Ok(())
    }

    fn sync(&mut self, file: u64, id: u64) -> Result<(), Errno> {
        self.with(|c| c.sync(file))?;
        let one = self.files.get_mut(&id).unwrap();
        let bytes = one.bytes.iter().map(|byte| (*byte, false)).collect();
        one.synced = Some(Synced { bytes });
        for (name, other) in &self.names {
            if *other == id {
                self.durable.insert(name.clone(), id);
            }
        }
        Ok(())
    }

    fn change(&mut self) -> Result<(), Errno> {
        let Some((name, id)) = self.some_file() else { return Ok(()) };
        let root = self.root;
        let file = self.with(|c| c.open(root, name.as_bytes(), BOTH))?;
        let length = self.files[&id].bytes.len();
        match self.random.below(4) {
            0 => {
                let size = 8 + self.random.below(length as u64 * 2) as usize;
                let one = self.files.get_mut(&id).unwrap();
                one.bytes.resize(size, 0);
                if let Some(synced) = &mut one.synced {
                    synced.bytes.truncate(size);
                }
                self.with(|c| c.set_size(file, size as u64))?;
            }
            1 => {
                let data = self.data();
                self.put(file, id, length, &data)?;
            }
            _ => {
                let (at, data) = (8 + self.random.below(length as u64) as usize, self.data());
                self.put(file, id, at, &data)?;
            }
        }
        if self.random.chance(1, 2) {
            self.sync(file, id)?;
        }
        self.with(|c| c.close(file))
    }

    /// A name is removed; with the last one, so is the file.
    fn forget(&mut self, name: &str, replaced: bool) {
        let Some(id) = self.names.remove(name) else { return };
        if !replaced {
            self.durable.remove(name);
        }
        let file = self.files.get_mut(&id).unwrap();
        file.names -= 1;
        if file.names == 0 {
            file.synced = None;
        }
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        let Some((name, _)) = self.some_file() else { return Ok(()) };
        self.forget(&name, false);
        let root = self.root;
        self.with(|c| c.unlink(root, name.as_bytes()))
    }

    fn two(&mut self, link: bool) -> Result<(), Errno> {
        let (Some((old, id)), Some((there, _))) = (self.some_file(), self.some_file()) else {
            return Ok(());
        };
        let over = !link && self.random.chance(1, 3);
        let new = if over { there } else { self.new_path() };
        let taken = self.names.get(&new).copied();
        if self.directories.contains(&format!("{new}/")) || taken == Some(id) {
            return Ok(());
        }
        if taken.is_some() && !over {
            return Ok(());
        }
        let root = self.root;
        if link {
            self.names.insert(new.clone(), id);
            self.files.get_mut(&id).unwrap().names += 1;
            return self.with(|c| c.link(root, old.as_bytes(), root, new.as_bytes()));
        }
        self.forget(&new, true);
        self.names.remove(&old);
        self.durable.remove(&old);
        self.names.insert(new.clone(), id);
        self.with(|c| c.rename(root, old.as_bytes(), root, new.as_bytes()))
    }

    fn directory(&mut self) -> Result<(), Errno> {
        let root = self.root;
        let at = self.random.below(self.directories.len() as u64) as usize;
        let one = self.directories[at].clone();
        match self.random.below(3) {
            0 => {
                let path = self.new_path();
                if self.names.contains_key(&path) || path.len() > 40 {
                    return Ok(());
                }
                if !self.directories.contains(&format!("{path}/")) {
                    self.directories.push(format!("{path}/"));
                    self.with(|c| c.mkdir(root, path.as_bytes()))?;
                }
                Ok(())
            }
            1 => {
                let inside = |path: &String| path.starts_with(&one) && *path != one;
                let empty = !self.names.keys().any(inside) && !self.directories.iter().any(inside);
                if one.is_empty() || !empty {
                    return Ok(());
                }
                self.directories.remove(at);
                self.with(|c| c.rmdir(root, one.trim_end_matches('/').as_bytes()))
            }
            _ => self.move_directory(&one),
        }
    }

    fn move_directory(&mut self, one: &str) -> Result<(), Errno> {
        let new = self.new_path() + "/";
        let taken =
            self.directories.contains(&new) || self.names.contains_key(&new[..new.len() - 1]);
        if one.is_empty() || taken || new.starts_with(one) || new.len() > 40 {
            return Ok(());
        }
        let moved = |path: &String| match path.strip_prefix(one) {
            Some(rest) => format!("{new}{rest}"),
            None => path.clone(),
        };
        self.directories = self.directories.iter().map(&moved).collect();
        self.durable.retain(|path, _| !path.starts_with(one));
        let names = std::mem::take(&mut self.names);
        self.names = names.into_iter().map(|(path, id)| (moved(&path), id)).collect();
        let (root, old) = (self.root, one.trim_end_matches('/').as_bytes());
        self.with(|c| c.rename(root, old, root, new.trim_end_matches('/').as_bytes()))
    }

    fn step(&mut self) -> Result<(), Errno> {
        match self.random.below(20) {
            0..5 => self.create(),
            5..9 => self.change(),
            9..11 => self.unlink(),
            11..15 => self.two(false),
            15..17 => self.two(true),
            _ => self.directory(),
        }
    }
}

/// Returns whether the file holds what was synced.
fn is_kept(found: &[u8], synced: &Synced) -> bool {
    found.len() >= synced.bytes.len()
        && synced.bytes.iter().zip(found).all(|((was, written), is)| *written || was == is)
}

/// Runs random operations until a power cut. Returns the number of synced files, or what is wrong
/// afterwards.
pub fn cut(seed: u64, lies: bool, on: impl FnOnce(Vec<u8>, u64) -> Solo) -> Result<u64, String> {
    let block = [1024, 2048, 4096][(seed % 3) as usize];
    let image = make(block, 8192, if block == 1024 { &["-g", "2048"] } else { &[] });
    let mut solo = on(image, seed).mount();
    let mut random = Prng::new(seed ^ 0xabc);
    let disk = solo.disk.as_mut().unwrap();
    (disk.cut, disk.lies) = (Some(disk.answered + 20 + random.below(3000)), lies);
    let root = solo.root();
    let (files, names, durable) = Default::default();
    let directories = vec![String::new()];
    let mut load = Load { solo, random, root, files, names, directories, durable, next: 0 };
    for _ in 0..400 {
        match load.step() {
            Ok(()) if !load.solo.is_cut() => {}
            Ok(()) | Err(Errno::Io) => break,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
    let image = load.solo.disk.take().unwrap().cut();
    let mended = Image::of(&image);
    let mut after = Solo::on_disk(image, seed, 0).mount();
    let found = tree(&mut after);
    let (code, said) = Image::of(&after.unmount()).check("-fn");
    if code != 0 {
        return Err(format!("e2fsck finds after the replay: {said}"));
    }
    let (code, said) = mended.check("-fy");
    let mended = assert_clean(&mended.bytes(), &said).bytes();
    if code > 1 || tree(&mut Solo::on_disk(mended, seed, 0).mount()) != found {
        return Err(format!("e2fsck's replay has another result: {said}"));
    }
    let found: BTreeMap<_, _> =
        found.into_iter().filter_map(|(path, bytes)| Some((path, bytes?))).collect();
    for (id, file) in &load.files {
        let Some(synced) = &file.synced else { continue };
        let mut same = found.values().filter(|bytes| bytes.starts_with(&id.to_le_bytes()));
        if !same.any(|bytes| is_kept(bytes, synced)) {
            return Err(format!("file {id} is lost; {said}"));
        }
    }
    if let Some(name) = load.durable.keys().find(|name| !found.contains_key(*name)) {
        return Err(format!("no file has the name {name}; {said}"));
    }
    Ok(load.files.values().filter(|file| file.synced.is_some()).count() as u64)
}

fn alone(image: Vec<u8>, seed: u64) -> Solo {
    Solo::on_disk(image, seed, 0)
}

fn cuts(seeds: std::ops::Range<u64>) {
    let mut synced = 0;
    for seed in seeds.clone() {
        synced += cut(seed, false, alone).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    println!("{synced} synced files in {seeds:?}");
    assert!(synced > seeds.end - seeds.start);
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    cuts(0..20);
}

#[test]
#[ignore = "nightly"]
fn what_was_synced_survives_two_hundred_power_cuts() {
    cuts(1000..1200);
}

#[test]
fn a_disk_that_lies_about_flushes_is_noticed() {
    let noticed = |seed| {
        let caught = std::panic::catch_unwind(|| cut(seed, true, alone));
        !matches!(caught, Ok(Ok(_)))
    };
    assert!((0..20).any(noticed));
}
