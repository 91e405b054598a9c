//! Redirections: files, duplicates, here-documents.

use crate::ast::{Redirect, Target};
use crate::shell::{Shell, Slot, Stop};
use crate::system::System;
use penumbra::{Errno, Kind, Open};
use std::rc::Rc;

/// Bytes that a pipe accepts before any of them is read.
const PIPE: usize = 4096;
/// Device that discards output.
const NOWHERE: &str = "/dev/null";
/// Descriptors in scripts are below this.
const NUMBERS: u32 = 10;

impl<S: System> Shell<S> {
    /// Applies redirections in order. Returns false if one failed; the error was reported.
    pub(crate) fn redirect(&mut self, redirects: &[Redirect]) -> Result<bool, Stop> {
        for redirect in redirects {
            let number = redirect.descriptor();
            if number >= NUMBERS && !self.slots.contains_key(&number) {
                self.say(&format!("{number}: descriptors are below {NUMBERS}"));
                return Ok(false);
            }
            if !self.redirect_one(number, &redirect.target)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn redirect_one(&mut self, number: u32, target: &Target) -> Result<bool, Stop> {
        let write = Open { write: true, create: true, ..Open::default() };
        let (word, how) = match target {
            Target::Read(word) => (word, Open::READ),
            Target::Write { word, clobber } => {
                let keep = self.state.options.has('C') && !clobber;
                return self.overwrite(number, word, keep);
            }
            Target::Append(word) => (word, Open { append: true, ..write }),
            Target::ReadWrite(word) => (word, Open { read: true, ..write }),
            Target::Copy { word, .. } => {
                let from = self.expand_one(word)?;
                return Ok(self.copy(number, &from));
            }
            Target::Here { text, .. } => {
                let text = match text.get() {
                    Some(word) => self.expand_one(word)?,
                    None => String::new(),
                };
                let file = self.hand_over(text.as_bytes());
                return Ok(file.is_some_and(|file| self.put_at(number, file)));
            }
        };
        let path = self.expand_one(word)?;
        Ok(self.open_at(number, &path, how))
    }

    fn overwrite(
        &mut self,
        number: u32,
        word: &crate::ast::Word,
        keep: bool,
    ) -> Result<bool, Stop> {
        let path = self.expand_one(word)?;
        let there = crate::path::absolute(&self.state.folder, &path);
        let file = |s: crate::system::Stat| s.kind == Kind::File;
        if keep && self.system.stat(&there, true).is_ok_and(file) {
            self.say(&format!("{path}: it exists"));
            return Ok(false);
        }
        let how = Open { write: true, create: true, truncate: true, ..Open::default() };
        Ok(self.open_at(number, &path, how))
    }

    fn open_at(&mut self, number: u32, path: &str, how: Open) -> bool {
        let full = crate::path::absolute(&self.state.folder, path);
        let mut opened = self.system.open(&full, how);
        // Without that device, use an empty file, or one that is never read.
        if full == NOWHERE && opened.is_err() {
            opened = match how.read {
                true => self.empty(),
                false => self.spool(),
            };
        }
        match opened {
            Ok(file) => self.put_at(number, Rc::new(file)),
            Err(error) => {
                self.say(&format!("{path}: {error}"));
                false
            }
        }
    }

    fn put_at(&mut self, number: u32, file: Rc<S::File>) -> bool {
        self.slots.insert(number, Slot::File(file));
        true
    }

    /// `N>&FROM`
    fn copy(&mut self, number: u32, from: &str) -> bool {
        if from == "-" {
            self.slots.remove(&number);
            return true;
        }
        let slot = from.parse::<u32>().ok().and_then(|n| self.slots.get(&n)).cloned();
        match slot {
            Some(slot) => {
                self.slots.insert(number, slot);
                true
            }
            None => {
                self.say(&format!("{from}: {}", Errno::BADF));
                false
            }
        }
    }

    /// Returns a file from which `bytes` can be read: a pipe that holds them, or a file without a
    /// name.
    pub(crate) fn hand_over(&mut self, bytes: &[u8]) -> Option<Rc<S::File>> {
        let made = if bytes.len() <= PIPE { self.filled(bytes) } else { self.spooled(bytes) };
        match made {
            Ok(file) => Some(Rc::new(file)),
            Err(error) => {
                self.say(&format!("cannot store the input of a command: {error}"));
                None
            }
        }
    }

    fn filled(&mut self, bytes: &[u8]) -> Result<S::File, Errno> {
        let (read, write) = self.system.pipe()?;
        self.write_all(&write, bytes)?;
        Ok(read)
    }

    /// Returns an empty file.
    pub(crate) fn empty(&mut self) -> Result<S::File, Errno> {
        self.filled(&[])
    }

    fn temporary(&mut self) -> String {
        self.counter = self.counter.wrapping_add(1);
        let folder = self.state.variables.get("TMPDIR").unwrap_or("/tmp");
        let (pid, _) = self.system.identity();
        format!("{}/.sh-{pid}-{}", folder.trim_end_matches('/'), self.counter)
    }

    /// Returns a file for output that is never read.
    fn spool(&mut self) -> Result<S::File, Errno> {
        let path = self.temporary();
        let how = Open { write: true, create: true, truncate: true, ..Open::default() };
        let file = self.system.open(&path, how)?;
        self.system.remove(&path)?;
        Ok(file)
    }

    fn spooled(&mut self, bytes: &[u8]) -> Result<S::File, Errno> {
        let path = self.temporary();
        let how = Open { write: true, create: true, truncate: true, ..Open::default() };
        let file = self.system.open(&path, how)?;
        let written = self.write_all(&file, bytes);
        let read = self.system.open(&path, Open::READ);
        // The open file outlives its name.
        self.system.remove(&path)?;
        written?;
        read
    }
}
