//! A kernel for one process: the real services, clocks, and randomness from a seed. A child starts,
//! has files, and ends when its parent waits for it.

use abi::fs::{Errno, Reply, Request, flag};
use abi::net;
use abi::process::{self, End, Op};
use abi::quota::Quota;
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::client::Client;
use kernel_process::ends::Ends;
use kernel_process::errno::Interrupted;
use kernel_process::polls::Polls;
use kernel_process::{Process, System, Wait};
use processes::Processes;
use processes::client::{Account, Client as Table, News};
use share::{Answer, Effects, Event, Service, Token};
use zerocopy::IntoBytes;

/// Contents of the files outside, and of nothing else.
pub const SECRET: &[u8] = b"a secret of the test";
/// The process's kernel. In the table the process is a child of the system.
const KERNEL: DomainId = DomainId(0);

struct Nobody;

impl Effects for Nobody {
    fn wake(&mut self, _token: Token) {}
    fn wake_all(&mut self) {}
    fn timer(&mut self, _at: u64) {}
}

/// Returns the token of a thread of the kernel.
fn token(thread: u64) -> Token {
    Token::new(KERNEL, Epoch(1), thread, 0)
}

/// Port of the listener that the process has.
pub const PORT: u16 = 5;

/// The kernel.
pub struct World {
    vfs: Vfs,
    net: ::net::Net,
    table: Processes,
    now: u64,
    prng: Prng,
    pid: u32,
    /// What the handles that are made now are charged to: the process's quota, or a child's.
    quota: Quota,
    /// Running children.
    children: Vec<u32>,
    /// The other ends of the process's streams, and the root.
    mine: Vec<u64>,
    /// Sockets of the process's peers.
    far: Vec<u64>,
    root: u64,
}

impl World {
    /// Creates files inside and outside `/jail`, and the process in the table.
    pub fn new() -> World {
        let mut world = World {
            vfs: Vfs::with_budget(3, 1 << 20),
            net: ::net::Net::start(1),
            table: Processes::start(1),
            now: 1_000_000,
            prng: Prng::new(1),
            pid: 0,
            quota: Quota::default(),
            children: vec![],
            mine: vec![],
            far: vec![],
            root: 0,
        };
        world.root = world.with(|client| client.root()).unwrap();
        let root = world.root;
        world.with(|client| {
            for (path, text) in [(&b"secret"[..], SECRET), (b"outside/x", SECRET)] {
                let _ = client.mkdir(root, b"outside");
                let file = client.open(root, path, flag::CREATE | flag::WRITE).unwrap();
                client.write_all(file, text).unwrap();
                client.close(file).unwrap();
            }
            client.mkdir(root, b"jail").unwrap();
            client.mkdir(root, b"jail/in").unwrap();
            let links: [(&[u8], &[u8]); 4] = [
                (b"../secret", b"jail/out"),
                (b"..", b"jail/up"),
                (b".", b"jail/self"),
                (b"in/a", b"jail/link"),
            ];
            for (text, path) in links {
                client.symlink(root, text, path).unwrap();
            }
        });
        world.enrol();
        world
    }

    /// Adds the process, started by the system, to the table.
    fn enrol(&mut self) {
        let beginning = kernel_process::begin::encode(&kernel_process::begin::Plan {
            path: b"/bin/it",
            ..Default::default()
        });
        let mut bulk = beginning.unwrap();
        let flags = process::flag::WATCHED;
        let length = bulk.len() as u32;
        let request = process::Request { flags, length, ..process::Request::new(Op::Spawn) };
        let reply = self.processes(request, &mut bulk).unwrap();
        assert_eq!(reply.error, 0);
        self.pid = reply.pid;
        self.children.clear();
    }

    /// Creates three streams for the process.
    pub fn streams(&mut self) -> [u64; 3] {
        [false, true, true].map(|writes| {
            let (read, write) = self.with(|client| client.pipe(0)).unwrap();
            self.mine.push(if writes { read } else { write });
            if writes { write } else { read }
        })
    }

    /// Returns a listener, and an end of a connection whose other end echoes.
    pub fn connection(&mut self) -> [u64; 2] {
        let mut ask = |request: net::Request, bulk: &mut [u8]| {
            let event = Event::Request { token: token(3), request: &request, bulk };
            match self.net.step(self.now, event, &mut Nobody) {
                Answer::Done(reply) => reply,
                _ => net::Reply::error(net::Errno::Again),
            }
        };
        let mut client = ::net::client::Client::hasty(&mut ask);
        let listener = client.listen(PORT, 8).unwrap();
        let (near, port) = (client.connect(PORT).unwrap(), PORT);
        let far = client.accept(listener).unwrap();
        client.send(far, &mut [b'-'; 100]).unwrap();
        // Further connections wait.
        let others = [client.connect(port).unwrap(), client.connect(port).unwrap()];
        self.far.extend(others);
        self.far.push(far);
        [listener, near]
    }

    /// Returns a handle of the directory that the process may use.
    pub fn jail(&mut self) -> u64 {
        let root = self.root;
        let flags = flag::READ | flag::DIRECTORY;
        self.with(|client| client.open(root, b"jail", flags)).unwrap()
    }

    /// Returns a handle of a file in it.
    pub fn file(&mut self) -> u64 {
        let root = self.root;
        let flags = flag::READ | flag::WRITE | flag::CREATE;
        self.with(|client| {
            let file = client.open(root, b"jail/a", flags)?;
            client.write_all(file, &[b'-'; 100]).map(|()| file)
        })
        .unwrap()
    }

    /// Returns a number for each thing outside that must not change.
    pub fn outside(&mut self) -> Vec<u64> {
        let root = self.root;
        let all: [&[u8]; 4] = [b".", b"secret", b"outside", b"outside/x"];
        let stats = all.map(|path| self.with(|client| client.stat_path(root, path, 0)).unwrap());
        let of = |stat: abi::fs::Stat| [stat.size, stat.modified, stat.changed, stat.node];
        stats.into_iter().flat_map(of).collect()
    }

    fn step(&mut self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        match self.vfs.step(
            self.now,
            Event::Request { token: token(1), request: &request, bulk },
            &mut Nobody,
        ) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => {
                self.vfs.step(self.now, Event::Cancel(token(1)), &mut Nobody);
                None
            }
            Answer::NoReply => panic!("a request was only heard"),
        }
    }

    fn with<T>(&mut self, what: impl FnOnce(&mut Client<'_>) -> T) -> T {
        let mut ask = |request: Request, bulk: &mut [u8]| {
            self.step(request, bulk).unwrap_or(Reply::error(Errno::Again))
        };
        what(&mut Client(&mut ask))
    }

    /// Sends the table a request. Returns `None` if it would wait.
    fn told<T>(
        &mut self,
        what: impl FnOnce(&mut Table<'_>) -> processes::client::Result<T>,
    ) -> Option<T> {
        let mut ask = |request: process::Request, bulk: &mut [u8]| {
            let event = Event::Request { token: token(2), request: &request, bulk };
            match self.table.step(self.now, event, &mut Nobody) {
                Answer::Done(reply) => reply,
                _ => {
                    self.table.step(self.now, Event::Cancel(token(2)), &mut Nobody);
                    process::Reply::error(process::Errno::Intr)
                }
            }
        };
        what(&mut Table(&mut ask)).ok()
    }

    /// Does what a kernel's listener does: starts and ends processes.
    fn listen(&mut self) {
        let mut room = vec![0; abi::program::BEGIN_BYTES];
        while let Some(news) = self.told(|table| table.next(&mut room)) {
            match news {
                News::Begin { pid, quota, bytes, .. } => self.begin(pid, quota, &room[..bytes]),
                News::Stop { pid, signal } => self.finish(pid, End::Signal, signal.into()),
                News::Group { .. } => {}
                News::Move { pid, .. } => {
                    self.told(|table| table.stay(pid, process::Errno::Notsup));
                }
            }
        }
    }

    /// Starts a child: it takes over its files and closes them, because it does nothing with them.
    fn begin(&mut self, pid: u32, quota: Quota, bytes: &[u8]) {
        let own = std::mem::replace(&mut self.quota, quota);
        let beginning = kernel_process::begin::decode(bytes).unwrap();
        let mut child = Process::new(super::DESCRIPTORS).unwrap();
        let how = match child.begin(self, &beginning, super::INSTALLED) {
            Ok(()) => {
                child.close_all(self);
                self.children.push(pid);
                Ok(4096)
            }
            Err(_) => Err(process::Errno::Badf),
        };
        self.told(|table| table.begun(pid, quota, how));
        let is_root = quota.branch.owner == 0;
        self.quota = if is_root { quota } else { own };
    }

    fn finish(&mut self, pid: u32, end: End, status: u32) {
        self.children.retain(|child| *child != pid);
        self.told(|table| table.ended(pid, end, status, Account::default()));
    }

    /// Checks that all resources are freed: no handle, no parked caller, no process.
    pub fn end(mut self) {
        self.listen();
        while let Some(pid) = self.children.pop() {
            self.finish(pid, End::Exit, 0);
        }
        let pid = self.pid;
        self.finish(pid, End::Exit, 0);
        self.told(|table| table.wait(0, pid as i32));
        assert_eq!(self.table.census(), (0, 0), "processes and waiting callers");
        let mut mine = std::mem::take(&mut self.mine);
        mine.push(self.root);
        for handle in mine {
            self.with(|client| client.close(handle)).unwrap();
        }
        for handle in std::mem::take(&mut self.far) {
            let request = net::Request::new(net::Op::Close, handle);
            assert_eq!(self.sockets(request, &mut []).map(|reply| reply.error), Ok(0));
        }
        assert_eq!(self.net.census(), [0, 0, 0, 0], "sockets and waiting callers");
        assert_eq!(self.vfs.census(), (0, 0), "handles and waiting callers");
        assert_eq!(self.vfs.accounts(), 0, "what handles are charged to");
    }
}

/// It has no channels.
impl Ends for World {}

impl System for World {
    fn files(&mut self, request: Request, bulk: &mut [u8]) -> Result<Reply, Interrupted> {
        self.step(request.with_quota(self.quota), bulk).ok_or(Interrupted)
    }

    fn root(&mut self) -> Result<Reply, Interrupted> {
        self.step(Request::new(abi::fs::Op::Root, 0), &mut []).ok_or(Interrupted)
    }

    fn files_until(
        &mut self,
        request: Request,
        bulk: &mut [u8],
        deadline: u64,
    ) -> Result<Option<Reply>, Interrupted> {
        let reply = self.step(request.with_quota(self.quota), bulk);
        if reply.is_none() {
            self.now = self.now.max(deadline.min(self.now + (1 << 40)));
        }
        Ok(reply)
    }

    fn sockets(
        &mut self,
        request: net::Request,
        bulk: &mut [u8],
    ) -> Result<net::Reply, Interrupted> {
        let event = Event::Request { token: token(1), request: &request, bulk };
        match self.net.step(self.now, event, &mut Nobody) {
            Answer::Done(reply) => Ok(reply),
            Answer::Parked => {
                self.net.step(self.now, Event::Cancel(token(1)), &mut Nobody);
                Err(Interrupted)
            }
            Answer::NoReply => panic!("a request was only heard"),
        }
    }

    fn poll(
        &mut self,
        Polls { files, sockets, .. }: &mut Polls,
        wait: Wait,
    ) -> Result<Result<u64, kernel_process::Errno>, Interrupted> {
        let mut count = 0;
        for piece in files.chunks_mut(net::POLLS) {
            let length = size_of_val(piece) as u64;
            let request = Request { length, ..Request::new(abi::fs::Op::Poll, 0) };
            count += self.files(request, piece.as_mut_bytes())?.value;
        }
        for piece in sockets.chunks_mut(net::POLLS) {
            let length = size_of_val(piece) as u32;
            let request = net::Request { length, ..net::Request::new(net::Op::Poll, 0) };
            count += self.sockets(request, piece.as_mut_bytes())?.value;
        }
        match wait {
            _ if count != 0 => {}
            Wait::Not => {}
            Wait::Until(deadline) => self.now = self.now.max(deadline.min(self.now + (1 << 40))),
            Wait::Endless => return Err(Interrupted),
        }
        Ok(Ok(count))
    }

    fn processes(
        &mut self,
        request: process::Request,
        bulk: &mut [u8],
    ) -> Result<process::Reply, Interrupted> {
        let mut event = Event::Request { token: token(1), request: &request, bulk };
        loop {
            let answer = self.table.step(self.now, event, &mut Nobody);
            if let Answer::Done(reply) = answer {
                self.listen();
                return Ok(reply);
            }
            let before = self.children.len();
            self.listen();
            // A waiting parent gets one child's end.
            if self.children.len() == before && !self.children.is_empty() {
                let pid = self.children.remove(0);
                self.finish(pid, End::Exit, 7);
            } else if self.children.len() == before && request.op != Op::Spawn as u16 {
                self.table.step(self.now, Event::Cancel(token(1)), &mut Nobody);
                return Err(Interrupted);
            }
            event = Event::Again { token: token(1), request: &request, bulk };
        }
    }

    fn place(
        &mut self,
        requested: u32,
        _directory: u64,
        path: &[u8],
    ) -> Result<Result<u16, process::Errno>, Interrupted> {
        assert!(!path.is_empty());
        let here = [0, abi::program::ANY_KERNEL].contains(&requested);
        Ok(if here { Ok(0) } else { Err(process::Errno::Hostunreach) })
    }

    fn monotonic(&mut self) -> u64 {
        self.now = self.now.saturating_add(1);
        self.now
    }

    fn realtime(&mut self) -> u64 {
        self.now.saturating_add(1 << 60)
    }

    fn cpu_time(&mut self) -> u64 {
        self.now / 2
    }

    fn random(&mut self, into: &mut [u8]) {
        into.fill_with(|| self.prng.next() as u8);
    }

    fn sleep_until(&mut self, deadline: u64) -> Result<(), Interrupted> {
        self.now = self.now.max(deadline);
        Ok(())
    }

    fn yield_now(&mut self) -> Result<(), Interrupted> {
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}
