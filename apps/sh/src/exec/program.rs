//! Programs: finding, starting and waiting for them; collecting their output.

use crate::shell::{Run, Shell, Sink, Slot, Stop};
use crate::system::{Program, System};
use penumbra::process::signal;
use penumbra::{End, Errno, Kind, Open};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Names that other programs serve: lines of `NAME PROGRAM`.
const APPLETS: &str = "/bin/.applets";
/// The program that serves a name without one on its line.
const SERVER: &str = "coreutils";
/// The program that runs scripts.
pub(crate) const SHELL: &str = "/bin/sh";
/// Maximum size of that list in bytes.
const APPLETS_BYTES: usize = 64 * 1024;
/// Descriptors where programs look for preopened directories.
const PREOPENS: std::ops::Range<u32> = 3..5;

/// A program that did not start: its status. The reason was reported.
pub(crate) struct NotStarted(pub u32);

/// Pipes from programs to sinks of the shell.
pub(crate) struct Plumbing<F> {
    pipes: Vec<(Sink, Rc<F>, F)>,
    /// Group of all programs started; `None`: the shell's.
    pub group: Option<u32>,
    /// Whether they run in the foreground.
    ahead: bool,
}

impl<F> Plumbing<F> {
    /// For programs that the shell waits for.
    pub fn new(own_group: bool) -> Plumbing<F> {
        Plumbing { pipes: Vec::new(), group: own_group.then_some(0), ahead: true }
    }

    /// For background programs.
    pub fn behind(own_group: bool) -> Plumbing<F> {
        Plumbing { ahead: false, ..Plumbing::new(own_group) }
    }
}

/// Descriptors of a program, and their files.
type Given<F> = Vec<(u32, Rc<F>)>;

/// What the first bytes of a file indicate.
enum Script {
    /// A script, run by a program with these arguments before the file's name.
    By(String, Vec<String>),
    /// Not text.
    No,
}

impl<S: System> Shell<S> {
    /// Runs a program and waits for it.
    pub(crate) fn program(&mut self, words: &[String], assigns: &[(String, String)]) -> Run {
        let mut plumbing = Plumbing::new(self.state.options.has('m'));
        let started = self.launch(words, assigns, &mut plumbing);
        self.drain(plumbing);
        match started {
            Ok(pid) => Ok(self.await_program(pid)),
            Err(NotStarted(status)) => Ok(status),
        }
    }

    /// Starts a program with the shell's descriptors.
    pub(crate) fn launch(
        &mut self,
        words: &[String],
        assigns: &[(String, String)],
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<u32, NotStarted> {
        let name = words.first().map_or("", String::as_str);
        let files = self.files(plumbing).map_err(|error| self.failed(name, error))?;
        let mut environment = self.state.variables.exported();
        for (name, value) in assigns {
            environment.retain(|(n, _)| n != name);
            environment.push((name.clone(), value.clone()));
        }
        let given = assigns.iter().find(|(n, _)| n == "PATH").map(|(_, path)| path.clone());
        let mut error = Errno::NOENT;
        for path in self.places(name, given) {
            match self.begin(&path, words, &environment, &files, plumbing) {
                Ok(pid) => return Ok(pid),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(other) => {
                    error = other;
                    break;
                }
            }
        }
        if error == Errno::NOENT && !name.contains('/') && self.serves(name).is_some() {
            let path = self.serves(name).unwrap_or_default();
            match self.begin(&path, words, &environment, &files, plumbing) {
                Ok(pid) => return Ok(pid),
                Err(other) => error = other,
            }
        }
        Err(self.failed(name, error))
    }

    fn failed(&mut self, name: &str, error: Errno) -> NotStarted {
        let (why, status) = match error {
            Errno::NOENT if !name.contains('/') => ("not found".to_string(), 127),
            Errno::NOENT | Errno::NOTDIR => (error.to_string(), 127),
            error => (error.to_string(), 126),
        };
        self.say(&format!("{name}: {why}"));
        NotStarted(status)
    }

    /// Returns the paths where a program of this name may be.
    pub(crate) fn places(&self, name: &str, path: Option<String>) -> Vec<String> {
        if name.is_empty() {
            return Vec::new();
        }
        if name.contains('/') {
            return vec![crate::path::absolute(&self.state.folder, name)];
        }
        let path = path.or_else(|| self.state.variables.get("PATH").map(str::to_string));
        path.unwrap_or_default()
            .split(':')
            .map(|folder| if folder.is_empty() { "." } else { folder })
            .map(|folder| crate::path::absolute(&self.state.folder, &format!("{folder}/{name}")))
            .collect()
    }

    /// Returns the program that serves a name.
    pub(crate) fn serves(&mut self, name: &str) -> Option<String> {
        if self.applets.is_none() {
            let text = self.read_file(APPLETS, APPLETS_BYTES).unwrap_or_default();
            self.applets = Some(applets(&String::from_utf8_lossy(&text)));
        }
        let program = self.applets.as_ref()?.get(name)?;
        Some(format!("/bin/{program}"))
    }

    /// Returns all names that other programs serve.
    pub(crate) fn served(&mut self) -> Vec<String> {
        let _ = self.serves("");
        self.applets.iter().flat_map(|applets| applets.keys().cloned()).collect()
    }

    /// Reads a file, at most `most` bytes.
    pub(crate) fn read_file(&mut self, path: &str, most: usize) -> Result<Vec<u8>, Errno> {
        let file = self.system.open(path, Open::READ)?;
        let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
        while bytes.len() < most {
            let read = self.system.read(&file, &mut room)?;
            if read == 0 {
                break;
            }
            bytes.extend_from_slice(room.get(..read).unwrap_or_default());
        }
        bytes.truncate(most);
        Ok(bytes)
    }

    /// Starts the file at `path`: a program, or a script with the interpreter that its first line
    /// names.
    fn begin(
        &mut self,
        path: &str,
        words: &[String],
        environment: &[(String, String)],
        files: &[(u32, Rc<S::File>)],
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<u32, Errno> {
        let folder = self.state.folder.clone();
        let mut program = Program {
            path,
            arguments: words,
            environment,
            files,
            folder: &folder,
            group: plumbing.group,
        };
        let started = match self.system.spawn(&program) {
            Err(error @ (Errno::NOENT | Errno::NOEXEC)) => match self.script(path) {
                Some(Script::By(by, mut arguments)) => {
                    arguments.push(path.to_string());
                    arguments.extend(words.iter().skip(1).cloned());
                    program.path = &by;
                    program.arguments = &arguments;
                    self.system.spawn(&program)
                }
                Some(Script::No) => Err(Errno::NOEXEC),
                None => Err(error),
            },
            started => started,
        };
        let pid = started?;
        self.lead(plumbing, pid);
        Ok(pid)
    }

    /// Makes the first program of a group its leader.
    pub(super) fn lead(&mut self, plumbing: &mut Plumbing<S::File>, pid: u32) {
        if plumbing.group == Some(0) {
            plumbing.group = Some(pid);
            if plumbing.ahead {
                self.system.foreground(pid);
            }
        }
    }

    /// Examines a file that is not a program.
    fn script(&mut self, path: &str) -> Option<Script> {
        match self.system.stat(path, true).ok()?.kind {
            Kind::File => {}
            _ => return Some(Script::No),
        }
        let head = self.read_file(path, 256).ok()?;
        if head.contains(&0) {
            return Some(Script::No);
        }
        let text = String::from_utf8_lossy(&head);
        let line = text.lines().next().unwrap_or_default();
        let mut words = line.strip_prefix("#!").unwrap_or("").split_whitespace();
        let by = words.next().unwrap_or(SHELL);
        let shell = matches!(crate::path::last(by), "sh" | "bash" | "dash");
        let by = if shell { SHELL.to_string() } else { by.to_string() };
        let mut arguments = vec![by.clone()];
        arguments.extend(words.map(str::to_string));
        Some(Script::By(by, arguments))
    }

    /// Returns the shell's descriptors as files; sinks become pipes.
    pub(crate) fn files(
        &mut self,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Given<S::File>, Errno> {
        let mut files = Vec::new();
        for (number, slot) in self.slots.clone() {
            let file = match slot {
                Slot::File(file) => file,
                Slot::Sink(sink) => self.pipe_to(&sink, plumbing)?,
            };
            if !PREOPENS.contains(&number) {
                files.push((number, file));
            }
        }
        Ok(files)
    }

    fn pipe_to(
        &mut self,
        sink: &Sink,
        plumbing: &mut Plumbing<S::File>,
    ) -> Result<Rc<S::File>, Errno> {
        if let Some((_, write, _)) = plumbing.pipes.iter().find(|(s, _, _)| Rc::ptr_eq(s, sink)) {
            return Ok(write.clone());
        }
        let (read, write) = self.system.pipe()?;
        let write = Rc::new(write);
        plumbing.pipes.push((sink.clone(), write.clone(), read));
        Ok(write)
    }

    /// Collects output until all writers have closed their ends.
    pub(crate) fn drain(&mut self, plumbing: Plumbing<S::File>) {
        let pipes: Vec<(Sink, S::File)> =
            plumbing.pipes.into_iter().map(|(sink, _, read)| (sink, read)).collect();
        for (sink, read) in pipes {
            self.collect(&read, &sink);
        }
    }

    /// Does the same later, for background programs.
    pub(crate) fn drain_later(&mut self, plumbing: Plumbing<S::File>) {
        self.undrained.extend(plumbing.pipes.into_iter().map(|(sink, _, read)| (read, sink)));
    }

    /// Collects the rest of what background commands write to `sink`.
    pub(crate) fn drain_rest(&mut self, sink: &Sink) {
        let all = std::mem::take(&mut self.undrained);
        let (now, later) = all.into_iter().partition(|(_, s)| Rc::ptr_eq(s, sink));
        self.undrained = later;
        let now: Vec<(S::File, Sink)> = now;
        for (read, sink) in now {
            self.collect(&read, &sink);
        }
    }

    fn collect(&mut self, read: &S::File, sink: &Sink) {
        let mut room = vec![0; 8192];
        while let Ok(bytes @ 1..) = self.system.read(read, &mut room) {
            sink.borrow_mut().extend_from_slice(room.get(..bytes).unwrap_or_default());
        }
    }

    /// Waits for a foreground program, and reports what ended it.
    pub(crate) fn await_program(&mut self, pid: u32) -> u32 {
        loop {
            match self.system.wait(pid, true) {
                Ok(Some(ended)) => {
                    self.jobs.cpu = self.jobs.cpu.saturating_add(ended.cpu);
                    self.say_end(pid, ended.end);
                    return ended.end.code();
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => {
                    self.say(&format!("cannot wait for {pid}: {error}"));
                    return 127;
                }
            }
        }
    }

    fn say_end(&mut self, pid: u32, end: End) {
        match end {
            End::Exit(_) | End::Signal(signal::INT | signal::PIPE) => {}
            End::Signal(number) => {
                let name = signal::NAMES.get(number as usize).unwrap_or(&"?");
                self.say(&format!("process {pid} ended by signal {number} ({name})"));
            }
            End::Trap(trap) => self.say(&format!("process {pid}: {}", trap.text())),
            End::Lost => self.say(&format!("process {pid}: its kernel died")),
        }
    }

    /// `exec`: a process cannot replace its program, so the program is run and its status becomes
    /// the shell's.
    pub(crate) fn replace(&mut self, words: &[String]) -> Run {
        let status = self.program(words, &[])?;
        Err(Stop::Exit(status))
    }
}

/// Parses lines of `NAME PROGRAM`, or only a name.
fn applets(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let Some(name) = words.next().filter(|name| !name.starts_with('#')) {
            found.insert(name.to_string(), words.next().unwrap_or(SERVER).to_string());
        }
    }
    found
}
