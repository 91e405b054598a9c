//! `find`: evaluates an expression on each file of directory trees.
//!
//! POSIX's `find` without tests of permissions, owners and times other than modification; of GNU's
//! additions `-iname`, `-ipath`, `-empty`, `-mmin`, `-maxdepth`, `-mindepth`, `-print0`, `-delete`,
//! `-quit`, `-true` and `-false`. A directory is read completely before its entries are visited, in
//! its own order. The depth of a walk costs heap, not stack.

mod entry;
mod expression;
mod reader;

use crate::about::about;
use crate::begin::{ROOM, Ran, begin, bytes};
use crate::{Answer, NOBODY_READS};
use entry::Entry;
use expression::{Links, Node, Plan};
use penumbra::{End, Kind};
use std::ffi::OsString;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum depth of a walk: that of directories in the file service.
const DEPTH: usize = 1024;

/// A directory being walked.
struct Level {
    entry: Entry,
    /// Names not visited yet.
    names: std::vec::IntoIter<OsString>,
}

/// Why a walk stops early.
enum Halt {
    Quit,
    /// Output failed.
    Output(io::Error),
}

/// Runs a program. Returns whether it exited with code 0.
type Begin<'a> = &'a mut dyn FnMut(&[String]) -> Result<bool, String>;

/// A walk in progress.
struct Walk<'a, W> {
    plan: &'a Plan,
    out: W,
    /// Current time in ns.
    now: u64,
    /// Maximum bytes of a program's arguments.
    room: usize,
    begin: Begin<'a>,
    /// Paths collected for each of [`Plan::programs`].
    held: Vec<Vec<String>>,
    /// The entry just visited must not be descended into.
    pruned: bool,
    failed: bool,
}

impl<W: Write> Walk<'_, W> {
    /// Walks all paths, then runs the programs with their remaining arguments.
    fn all(&mut self) -> io::Result<()> {
        let walked = self.plan.paths.iter().try_for_each(|path| self.from(path));
        if let Err(Halt::Output(error)) = walked {
            return Err(error);
        }
        for number in 0..self.held.len() {
            if let Err(Halt::Output(error)) = self.hand(number) {
                return Err(error);
            }
        }
        self.out.flush()
    }

    /// Walks one path.
    fn from(&mut self, path: &str) -> Result<(), Halt> {
        let mut levels = Vec::new();
        levels.extend(self.visit(PathBuf::from(path), &levels)?);
        while let Some(level) = levels.last_mut() {
            if let Some(name) = level.names.next() {
                let path = level.entry.path.join(name);
                levels.extend(self.visit(path, &levels)?);
            } else if let Some(level) = levels.pop()
                && self.plan.last
            {
                self.judge(&level.entry)?;
            }
        }
        Ok(())
    }

    /// Visits a file. Returns a level if it is a directory to descend into. `above` are its
    /// ancestors.
    fn visit(&mut self, path: PathBuf, above: &[Level]) -> Result<Option<Level>, Halt> {
        let depth = u32::try_from(above.len()).unwrap_or(u32::MAX);
        let follow = match self.plan.links {
            Links::None => false,
            Links::Named => depth == 0,
            Links::All => true,
        };
        let about = match about(&path.to_string_lossy(), follow) {
            Ok(about) => about,
            Err(why) => return Ok(self.complain(&path, why)),
        };
        let is_directory = about.kind == Kind::Directory;
        let is_loop = |level: &Level| level.entry.about.node == about.node;
        if is_directory && self.plan.links == Links::All && above.iter().any(is_loop) {
            return Ok(self.complain(&path, "a link to a directory that it lies in"));
        }
        let entry = Entry { path, depth, about };
        self.pruned = false;
        if !self.plan.last {
            self.judge(&entry)?;
        }
        let is_other = above.first().is_some_and(|l| l.entry.about.node.0 != about.node.0);
        let is_left = self.pruned || depth >= self.plan.most || self.plan.stay && is_other;
        if is_directory && !is_left {
            let names = self.names(&entry.path, above.len()).into_iter();
            return Ok(Some(Level { entry, names }));
        }
        if self.plan.last {
            self.judge(&entry)?;
        }
        Ok(None)
    }

    /// Returns the names in a directory.
    fn names(&mut self, path: &Path, depth: usize) -> Vec<OsString> {
        if depth >= DEPTH {
            self.complain::<()>(path, "too deep: what is in it is left out");
            return Vec::new();
        }
        let listed = std::fs::read_dir(path)
            .and_then(|all| all.map(|one| one.map(|one| one.file_name())).collect());
        listed.unwrap_or_else(|error| {
            self.complain::<()>(path, error);
            Vec::new()
        })
    }

    fn judge(&mut self, entry: &Entry) -> Result<(), Halt> {
        if entry.depth >= self.plan.least {
            self.holds(&self.plan.expression, entry)?;
        }
        Ok(())
    }

    /// Evaluates an expression, including its actions.
    fn holds(&mut self, node: &Node, entry: &Entry) -> Result<bool, Halt> {
        match node {
            Node::Not(node) => return Ok(!self.holds(node, entry)?),
            Node::And(nodes) => {
                for node in nodes {
                    if !self.holds(node, entry)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            Node::Or(nodes) => {
                for node in nodes {
                    if self.holds(node, entry)? {
                        return Ok(true);
                    }
                }
                return Ok(false);
            }
            Node::Prune => self.pruned = !self.plan.last,
            Node::Quit => return Err(Halt::Quit),
            Node::Print(end) => {
                let path = entry.path.as_os_str().as_encoded_bytes();
                self.out.write_all(path).map_err(Halt::Output)?;
                self.out.write_all(&[*end]).map_err(Halt::Output)?;
            }
            Node::Delete => return Ok(self.delete(entry)),
            Node::Empty => return Ok(self.is_empty(entry)),
            Node::Run(program) => return self.run(program, entry),
            Node::Gather(number) => self.gather(*number, entry)?,
            test => return Ok(entry.fits(test, self.now)),
        }
        Ok(true)
    }

    fn is_empty(&mut self, entry: &Entry) -> bool {
        match entry.about.kind {
            Kind::File => entry.about.size == 0,
            Kind::Directory => match std::fs::read_dir(&entry.path) {
                Ok(mut all) => all.next().is_none(),
                Err(error) => self.complain::<()>(&entry.path, error).is_some(),
            },
            _ => false,
        }
    }

    /// Deletes a file. `.` is never deleted.
    fn delete(&mut self, entry: &Entry) -> bool {
        let path = &entry.path;
        if path.as_os_str() == "." {
            return true;
        }
        let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let deleted =
            if is_directory { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        deleted.map_err(|error| self.complain::<()>(path, error)).is_ok()
    }

    /// Returns the path as an argument, which must be UTF-8.
    fn text<'e>(&mut self, entry: &'e Entry) -> Option<&'e str> {
        let text = entry.path.to_str();
        text.or_else(|| self.complain(&entry.path, "no UTF-8, which no program can be given"))
    }

    /// Runs a program with this path in place of each `{}`.
    fn run(&mut self, program: &[String], entry: &Entry) -> Result<bool, Halt> {
        let Some(path) = self.text(entry) else { return Ok(false) };
        let words: Vec<String> = program.iter().map(|word| word.replace("{}", path)).collect();
        self.begin(&words)
    }

    /// Adds a path to a program's arguments; runs the program first if the path does not fit.
    fn gather(&mut self, number: usize, entry: &Entry) -> Result<(), Halt> {
        let Some(path) = self.text(entry) else { return Ok(()) };
        let wanted = |walk: &Self| {
            let words = walk.plan.programs.get(number).into_iter().chain(walk.held.get(number));
            bytes(words.flatten()) + path.len() + 1
        };
        if wanted(self) > self.room {
            self.hand(number)?;
        }
        if wanted(self) > self.room {
            self.complain::<()>(&entry.path, "too long for a program");
        } else if let Some(held) = self.held.get_mut(number) {
            held.push(path.to_string());
        }
        Ok(())
    }

    /// Runs a program with the collected paths.
    fn hand(&mut self, number: usize) -> Result<(), Halt> {
        let held = self.held.get_mut(number).map(std::mem::take).unwrap_or_default();
        let Some(program) = self.plan.programs.get(number) else { return Ok(()) };
        if !held.is_empty() {
            let words: Vec<String> = program.iter().chain(&held).cloned().collect();
            self.failed |= !self.begin(&words)?;
        }
        Ok(())
    }

    /// Flushes our output first, so that it appears before the program's.
    fn begin(&mut self, words: &[String]) -> Result<bool, Halt> {
        self.out.flush().map_err(Halt::Output)?;
        Ok((self.begin)(words).unwrap_or_else(|why| {
            self.failed = true;
            eprintln!("find: {why}");
            false
        }))
    }

    /// Prints an error about a file and returns `None`.
    fn complain<T>(&mut self, path: &Path, why: impl std::fmt::Display) -> Option<T> {
        self.failed = true;
        eprintln!("find: {}: {why}", path.display());
        None
    }
}

/// Runs the plan. Returns the exit code.
fn walk(plan: &Plan, out: impl Write, room: usize, begin: Begin<'_>) -> Result<u32, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let held = vec![Vec::new(); plan.programs.len()];
    let mut walk = Walk { plan, out, now, room, begin, held, pruned: false, failed: false };
    match walk.all() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(NOBODY_READS),
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(u32::from(walk.failed)),
    }
}

/// `find`
pub fn find(arguments: &[String]) -> Answer {
    let plan = Plan::of(arguments)?;
    let variables: Vec<(String, String)> = std::env::vars().collect();
    let environment: usize = variables.iter().map(|(n, v)| n.len() + v.len() + 2).sum();
    let mut run = |words: &[String]| {
        let Some((program, rest)) = words.split_first() else { return Ok(false) };
        match begin(program, rest, &variables, |command| command)? {
            Ran::Ended(end) => Ok(end == End::Exit(0)),
            Ran::Not(why) => Err(format!("{program}: {why}")),
        }
    };
    let out = BufWriter::new(io::stdout().lock());
    walk(&plan, out, ROOM.saturating_sub(environment), &mut run)
}

#[cfg(test)]
mod tests;
