//! A simulated system: files, pipes and processes in memory. A process runs to its end when its
//! result or its output is needed, so every run is the same.

mod files;
mod programs;

use files::{Handle, Node};
use penumbra::process::signal;
use penumbra::{End, Ended, Errno, Kind, Open};
use sh::{Program, Shell, Stat, System};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

enum Process {
    Pending(Box<programs::Process>),
    Running,
    Ended(End),
}

/// The whole system.
#[derive(Default)]
pub struct World {
    nodes: BTreeMap<String, Node>,
    processes: BTreeMap<u32, Process>,
    next: u32,
    clock: u64,
}

/// One shell's view of it.
#[derive(Clone)]
pub struct Fake {
    world: Rc<RefCell<World>>,
    pid: u32,
}

/// Result of a script.
pub struct Outcome {
    pub out: String,
    pub err: String,
    pub code: u32,
}

/// Runs a script in a new world.
pub fn run(script: &str, arguments: &[&str], input: &str) -> Outcome {
    Fake::new().run(script, arguments, input)
}

impl Fake {
    /// Creates a world with some directories and programs.
    pub fn new() -> Fake {
        let mut world = World { next: 101, ..World::default() };
        for folder in ["/", "/bin", "/tmp", "/data"] {
            world.nodes.insert(folder.to_string(), Node::Folder);
        }
        let fake = Fake { world: Rc::new(RefCell::new(world)), pid: 100 };
        fake.put("/bin/.applets", b"upper\nlower coreutils\n");
        fake
    }

    /// Creates a file.
    pub fn put(&self, path: &str, data: &[u8]) {
        let node = Node::File(Rc::new(RefCell::new(data.to_vec())));
        self.world.borrow_mut().nodes.insert(path.to_string(), node);
    }

    /// Creates a shell in this world that reads `input`. Returns it and the handles of its output.
    pub fn shell(&self, arguments: &[&str], input: &str) -> (Shell<Fake>, [Handle; 2]) {
        let (read, write) = files::pipe();
        write.write(input.as_bytes()).expect("a pipe takes all");
        let (out_read, out) = files::pipe();
        let (err_read, err) = files::pipe();
        let arguments = arguments.iter().map(|a| a.to_string()).collect();
        let environment = [("HOME", "/data"), ("PWD", "/data")];
        let environment = environment.map(|(n, v)| (n.to_string(), v.to_string()));
        let files = vec![(0, read), (1, out), (2, err)];
        let shell = Shell::new(self.clone(), "sh", arguments, files, environment);
        (shell, [out_read, err_read])
    }

    /// Runs a script in this world.
    pub fn run(&self, script: &str, arguments: &[&str], input: &str) -> Outcome {
        let (mut shell, [out, err]) = self.shell(arguments, input);
        let code = shell.run(script);
        self.settle();
        Outcome { out: out.text(), err: err.text(), code }
    }

    /// Runs all pending processes.
    fn settle(&self) {
        while self.run_one(|_| true) {}
    }

    /// Runs the first pending process that matches.
    fn run_one(&self, fits: impl Fn(&(u32, &programs::Process)) -> bool) -> bool {
        let mut world = self.world.borrow_mut();
        let next = world.processes.iter().find_map(|(pid, process)| match process {
            Process::Pending(process) if fits(&(*pid, process)) => Some(*pid),
            _ => None,
        });
        let Some(pid) = next else { return false };
        let Some(Process::Pending(process)) = world.processes.insert(pid, Process::Running) else {
            return false;
        };
        drop(world);
        let end = process.run();
        self.world.borrow_mut().processes.insert(pid, Process::Ended(end));
        true
    }

    /// Runs processes until a read of `file` does not wait.
    pub fn feed(&self, file: &Handle) {
        while file.waits() {
            let writes = |process: &programs::Process| {
                process.files.values().any(|theirs| theirs.writes_to(file))
            };
            if !self.run_one(|(_, process)| writes(process)) {
                return;
            }
        }
    }
}

impl System for Fake {
    type File = Handle;

    fn open(&mut self, path: &str, how: Open) -> Result<Handle, Errno> {
        files::open(&mut self.world.borrow_mut().nodes, path, how)
    }

    fn pipe(&mut self) -> Result<(Handle, Handle), Errno> {
        Ok(files::pipe())
    }

    fn read(&mut self, file: &Handle, into: &mut [u8]) -> Result<usize, Errno> {
        self.feed(file);
        file.read(into)
    }

    fn write(&mut self, file: &Handle, data: &[u8]) -> Result<usize, Errno> {
        file.write(data)
    }

    fn step_back(&mut self, file: &Handle, by: usize) -> bool {
        file.step_back(by)
    }

    fn is_terminal(&mut self, _: &Handle) -> bool {
        false
    }

    fn stat(&mut self, path: &str, _: bool) -> Result<Stat, Errno> {
        let world = self.world.borrow();
        let node = files::find(&world.nodes, path)?;
        let (kind, size) = match node {
            Node::Folder => (Kind::Directory, 0),
            Node::File(data) => (Kind::File, data.borrow().len() as u64),
        };
        let name = path.bytes().fold(7, |hash, b| hash * 31 % 1_000_003 + u64::from(b));
        Ok(Stat { kind, size, modified: 0, node: (1, name) })
    }

    fn folder(&mut self, path: &str) -> Result<Vec<String>, Errno> {
        let world = self.world.borrow();
        let path = path.trim_end_matches('/');
        let inside = world.nodes.keys().filter_map(|name| {
            let rest = name.strip_prefix(path)?.strip_prefix('/')?;
            (!rest.is_empty() && !rest.contains('/')).then(|| rest.to_string())
        });
        let mut names: Vec<String> = inside.collect();
        if path == "/bin" {
            names.extend(programs::NAMES.iter().map(|n| format!("{n}.aarch64")));
        }
        Ok(names)
    }

    fn remove(&mut self, path: &str) -> Result<(), Errno> {
        self.world.borrow_mut().nodes.remove(path).map(|_| ()).ok_or(Errno::NOENT)
    }

    fn has_program(&mut self, path: &str) -> bool {
        programs::exists(path)
    }

    fn command_name<'a>(&self, file: &'a str) -> &'a str {
        file.strip_suffix(".aarch64").unwrap_or(file)
    }

    fn spawn(&mut self, program: &Program<'_, Handle>) -> Result<u32, Errno> {
        if self.world.borrow().nodes.contains_key(program.path) {
            return Err(Errno::NOEXEC);
        }
        if !programs::exists(program.path) {
            return Err(Errno::NOENT);
        }
        let pid = self.world.borrow().next;
        let process = programs::Process {
            name: program.path.trim_start_matches("/bin/").to_string(),
            arguments: program.arguments.to_vec(),
            environment: program.environment.to_vec(),
            files: program.files.iter().map(|(n, file)| (*n, file.another())).collect(),
            folder: program.folder.to_string(),
            system: Fake { world: self.world.clone(), pid },
        };
        let mut world = self.world.borrow_mut();
        world.next += 1;
        world.processes.insert(pid, Process::Pending(Box::new(process)));
        Ok(pid)
    }

    fn wait(&mut self, pid: u32, hang: bool) -> Result<Option<Ended>, Errno> {
        if hang {
            self.run_one(|(number, _)| *number == pid);
        }
        let mut world = self.world.borrow_mut();
        let end = match world.processes.get(&pid) {
            None => return Err(Errno::CHILD),
            Some(Process::Ended(end)) => *end,
            Some(_) => return Ok(None),
        };
        world.processes.remove(&pid);
        Ok(Some(Ended { pid, end, cpu: 1_000_000, memory: 65536 }))
    }

    fn kill(&mut self, pid: i32, number: u32) -> Result<(), Errno> {
        let mut world = self.world.borrow_mut();
        let process = world.processes.get_mut(&pid.unsigned_abs()).ok_or(Errno::SRCH)?;
        if number != signal::NONE && !matches!(process, Process::Ended(_)) {
            *process = Process::Ended(End::Signal(number));
        }
        Ok(())
    }

    fn identity(&self) -> (u32, u32) {
        (self.pid, 1)
    }

    fn now(&mut self) -> u64 {
        let mut world = self.world.borrow_mut();
        world.clock += 1_000_000;
        world.clock
    }

    fn random(&mut self) -> u64 {
        thread_local!(static SEED: Cell<u64> = const { Cell::new(1) });
        SEED.with(|seed| {
            seed.set(seed.get().wrapping_mul(6364136223846793005).wrapping_add(99));
            seed.get() >> 33
        })
    }
}
