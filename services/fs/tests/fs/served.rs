//! Served file systems: replies match what the server does, also when it fails.

use crate::common::{Woken, token};
use abi::fs::{Dirent, Errno, Op, Reply, Request, Stat, flag, kind, source};
use abi::served::{DATA, Job, ROOM, Task, given};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::any::AnyFs;
use fs::client::{Client, unpack};
use fs::exercise::exercise_in;
use fs::filesystem::{FileSystem, Make, Stop, Times};
use fs::ramfs::RamFs;
use fs::served::{ASKERS, DEADLINE, DEEP, JOBS, MEMORY, Served};
use share::{Answer, Event, Service, Token};
use zerocopy::{FromBytes, IntoBytes};

/// The server: thread 9 of kernel 1.
pub fn server() -> Token {
    token(1, 9)
}

pub type Said = Result<(u64, Vec<u8>), Errno>;

/// A ramfs that a server serves.
struct Ram {
    fs: RamFs,
    jobs: u64,
}

impl Ram {
    fn stat(&mut self, node: u64) -> Result<Stat, Stop> {
        // Held forever, because a client may have it open.
        self.fs.hold(node)?;
        self.fs.stat(node)
    }

    fn list(&mut self, job: &Job) -> Result<(u64, Vec<u8>), Stop> {
        let mut data = Vec::new();
        let end = self.fs.list(job.node, job.offset, &mut |entry| {
            if data.len() + size_of::<Dirent>() + entry.name.len() > job.length as usize {
                return false;
            }
            let (next, name) = (entry.cookie + 1, entry.name.len() as u32);
            let kind = entry.kind.code();
            let head = Dirent { next, node: entry.node, name, kind, reserved: [0; 3] };
            data.extend_from_slice(head.as_bytes());
            data.extend_from_slice(entry.name);
            true
        })?;
        Ok((end.into(), data))
    }

    fn perform(&mut self, job: &Job, bulk: &[u8]) -> Result<(u64, Vec<u8>), Stop> {
        let Job { node, second, offset, length, now, .. } = *job;
        let (name, other) = bulk.split_at(job.name.into());
        let nothing = |()| (0, Vec::new());
        self.jobs += 1;
        match Task::from_code(job.task).unwrap() {
            Task::Lookup => {
                let node = self.fs.lookup(node, name)?;
                Ok((0, self.stat(node)?.as_bytes().to_vec()))
            }
            Task::Stat => Ok((0, self.fs.stat(node)?.as_bytes().to_vec())),
            Task::Parent => Ok((self.fs.parent(node)?, Vec::new())),
            Task::ReadLink => {
                let mut text = Vec::new();
                self.fs.read_link(node, &mut text)?;
                Ok((0, text))
            }
            Task::List => self.list(job),
            Task::Read => {
                let mut data = vec![0; length as usize];
                let bytes = self.fs.read(node, offset, &mut data)?;
                data.truncate(bytes);
                Ok((0, data))
            }
            Task::Write => Ok((self.fs.write(node, offset, other, now)? as u64, Vec::new())),
            Task::SetSize => self.fs.set_size(node, length, now).map(nothing),
            Task::Allocate => Ok((self.fs.allocate(node, offset, length, now)?, Vec::new())),
            Task::SetTimes => {
                let one = |flag, time| (job.flags & flag != 0).then_some(time);
                let accessed = one(given::ACCESSED, job.accessed);
                let modified = one(given::MODIFIED, job.modified);
                self.fs.set_times(node, Times { accessed, modified }, now).map(nothing)
            }
            Task::Make => {
                let what = match job.flags as u8 {
                    kind::DIRECTORY => Make::Directory,
                    kind::FILE => Make::File,
                    _ => Make::Link(other),
                };
                let node = self.fs.make(node, name, what, now)?;
                Ok((0, self.stat(node)?.as_bytes().to_vec()))
            }
            Task::Link => self.fs.link(node, name, second, now).map(nothing),
            Task::Unlink => self.fs.unlink(node, name, now).map(nothing),
            Task::Rmdir => self.fs.rmdir(node, name, now).map(nothing),
            Task::Rename => self.fs.rename(node, name, second, other, now).map(nothing),
            Task::Sync => self.fs.sync(node, job.flags != 0, 0).map(|_| nothing(())),
            Task::Space => {
                let space = self.fs.space()?;
                Ok((space.total, space.free.to_le_bytes().to_vec()))
            }
        }
    }

    fn answer(&mut self, job: &Job, bulk: &[u8]) -> Said {
        self.perform(job, bulk).map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Wait(_) => panic!("a ramfs waits for nothing"),
        })
    }
}

/// The service with a served file system as root.
pub struct Board {
    pub vfs: Vfs,
    pub now: u64,
    pub woken: Woken,
    ram: Ram,
}

impl Board {
    pub fn new() -> Board {
        let vfs = Vfs::with_root(3, AnyFs::Served(Box::new(Served::new(1, 3))));
        let ram = Ram { fs: RamFs::new(8 << 20), jobs: 0 };
        Board { vfs, now: 1000, woken: Woken::default(), ram }
    }

    pub fn step(
        &mut self,
        again: bool,
        token: Token,
        request: Request,
        bulk: &mut [u8],
    ) -> Option<Reply> {
        self.now += 10;
        let event = match again {
            true => Event::Again { token, request: &request, bulk },
            false => Event::Request { token, request: &request, bulk },
        };
        match self.vfs.step(self.now, event, &mut self.woken) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => None,
            Answer::NoReply => panic!("a request got no reply"),
        }
    }

    /// Takes the next job, if there is one.
    pub fn take(&mut self) -> Option<(u64, Job, Vec<u8>)> {
        let mut room = vec![0; ROOM];
        let reply = self.step(false, server(), Request::new(Op::NextJob, 1), &mut room)?;
        assert_eq!(reply.error, 0);
        let (job, bulk) = Job::read_from_prefix(&room[..reply.filled as usize]).unwrap();
        assert_eq!(bulk.len(), usize::from(job.name + job.other) + written(&job));
        Some((reply.handle, job, bulk.to_vec()))
    }

    pub fn tell(&mut self, number: u64, said: Said) -> Errno {
        let (error, offset, mut data) = match said {
            Ok((value, data)) => (0, value, data),
            Err(why) => (why as u64, 0, Vec::new()),
        };
        let length = data.len() as u64;
        let request =
            Request { second: error, offset, length, ..Request::new(Op::JobDone, number) };
        self.step(false, server(), request, &mut data).unwrap().errno()
    }

    /// Does the next job. Returns whether there was one.
    pub fn serve(&mut self) -> bool {
        let Some((number, job, bulk)) = self.take() else { return false };
        let answer = self.ram.answer(&job, &bulk);
        assert_eq!(self.tell(number, answer), Errno::Success);
        true
    }

    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        let mut reply = self.step(false, token(0, 1), request, bulk);
        while reply.is_none() {
            self.woken.0.clear();
            assert!(self.serve(), "{request:?} waits for nothing");
            assert!(self.woken.0.contains(&token(0, 1)), "{request:?} is not woken");
            reply = self.step(true, token(0, 1), request, bulk);
        }
        reply.unwrap()
    }

    pub fn with<R>(&mut self, work: impl FnOnce(&mut Client<'_>) -> R) -> R {
        work(&mut Client(&mut |request, bulk| self.ask(request, bulk)))
    }

    pub fn root(&mut self) -> u64 {
        self.with(|client| client.root()).unwrap()
    }
}

/// Returns the number of data bytes after a job's names.
fn written(job: &Job) -> usize {
    if job.task == Task::Write as u16 { job.length as usize } else { 0 }
}

const NEW: u16 = flag::READ | flag::WRITE | flag::CREATE;

#[test]
fn a_served_ramfs_behaves_like_a_ramfs() {
    for seed in 1..6 {
        let mut board = Board::new();
        let served = &mut |request: Request, bulk: &mut [u8]| board.ask(request, bulk);
        let served = exercise_in(DATA as u64, seed, 800, served).unwrap();
        let (mut vfs, mut now) = (Vfs::with_budget(3, 8 << 20), 0);
        let plain = exercise_in(DATA as u64, seed, 800, &mut |request, bulk| {
            now += 10;
            let event = Event::Request { token: token(0, 1), request: &request, bulk };
            match vfs.step(now, event, &mut Woken::default()) {
                Answer::Done(reply) => reply,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(served, plain.unwrap(), "seed {seed}");
        assert_eq!(board.vfs.census(), (0, 0));
        assert!(board.ram.jobs > 800);
    }
}

#[test]
fn concurrent_callers_do_not_interfere() {
    let mut board = Board::new();
    let root = board.root();
    let mut random = Prng::new(5);
    // Ten threads create the same file. Exactly one succeeds; the others find it.
    for round in 0..40 {
        let name = format!("file-{round}").into_bytes();
        let exclusive = flag::WRITE | flag::CREATE | flag::EXCLUSIVE;
        let open =
            Request { name: name.len() as u16, flags: exclusive, ..Request::new(Op::Open, root) };
        let mut waiting: Vec<(u64, bool)> = (20..30).map(|thread| (thread, false)).collect();
        let (mut made, mut found) = (0, 0);
        while !waiting.is_empty() {
            if random.chance(1, 2) {
                board.serve();
            }
            let at = random.below(waiting.len() as u64) as usize;
            let (thread, again) = waiting[at];
            match board.step(again, token(0, thread), open, &mut name.clone()) {
                None => waiting[at].1 = true,
                Some(reply) => {
                    waiting.remove(at);
                    made += u64::from(reply.error == 0);
                    found += u64::from(reply.errno() == Errno::Exist);
                }
            }
        }
        assert_eq!((made, found), (1, 9));
    }
}

#[test]
fn a_missing_or_dead_server_is_an_io_error() {
    let mut board = Board::new();
    let root = board.root();
    let open = Request { name: 1, flags: flag::READ, ..Request::new(Op::Open, root) };
    // No server has come yet.
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    board.now += DEADLINE;
    assert_eq!(board.step(true, token(0, 1), open, &mut [b'a']).unwrap().errno(), Errno::Io);
    // A server takes a job and dies.
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    let (number, ..) = board.take().unwrap();
    assert_eq!(board.step(false, token(0, 2), open, &mut [b'b']), None);
    board.woken.0.clear();
    let gone = Event::Gone(DomainId(1), Epoch(1));
    board.vfs.step(board.now, gone, &mut board.woken);
    assert_eq!(board.woken.0.len(), 2);
    for thread in [1, 2] {
        let reply = board.step(true, token(0, thread), open, &mut [b'a' + thread as u8 - 1]);
        assert_eq!(reply.unwrap().errno(), Errno::Io);
    }
    let reply = board.step(false, token(0, 3), open, &mut [b'c']);
    assert_eq!(reply.unwrap().errno(), Errno::Io);
    assert_eq!(board.tell(number, Err(Errno::Noent)), Errno::Badf);
    // A server comes back.
    assert!(board.take().is_none());
    assert_eq!(board.with(|c| c.open(root, b"a", flag::READ)), Err(Errno::Noent));
    // A server that restarted has not done the jobs it took.
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    let (number, ..) = board.take().unwrap();
    let afresh = Request { flags: flag::RESTARTED, ..Request::new(Op::NextJob, 1) };
    assert_eq!(board.step(false, server(), afresh, &mut [0; ROOM]), None);
    let reply = board.step(true, token(0, 1), open, &mut [b'a']);
    assert_eq!(reply.unwrap().errno(), Errno::Io);
    assert_eq!(board.tell(number, Err(Errno::Noent)), Errno::Badf);
}

#[test]
fn a_restarting_driver_leaves_other_listeners_of_its_kernel() {
    let mut board = Board::new();
    let root = board.root();
    assert!(board.take().is_none(), "it waits");
    let driver = Token { thread: 99, ..server() };
    let afresh = Request { flags: flag::RESTARTED, ..Request::new(Op::NextIo, 1) };
    assert_eq!(board.step(false, driver, afresh, &mut []).unwrap().errno(), Errno::Noent);
    board.woken.0.clear();
    let open = Request { name: 1, flags: flag::READ, ..Request::new(Op::Open, root) };
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    assert_eq!(board.woken.0, [server()]);
}

#[test]
fn late_repeated_and_foreign_answers_are_refused() {
    let mut board = Board::new();
    let root = board.root();
    let open = Request { name: 1, flags: NEW, ..Request::new(Op::Open, root) };
    assert_eq!(board.step(false, token(0, 1), open, &mut [b'a']), None);
    let (number, job, bulk) = board.take().unwrap();
    let wrong = Request::new(Op::JobDone, number);
    let reply = board.step(false, token(0, 9), wrong, &mut []).unwrap();
    assert_eq!(reply.errno(), Errno::Badf);
    let answer = board.ram.answer(&job, &bulk);
    assert_eq!(board.tell(number, answer.clone()), Errno::Success);
    assert_eq!(board.tell(number, answer.clone()), Errno::Badf);
    // The answer for a caller that gave up is refused.
    assert_eq!(board.step(true, token(0, 1), open, &mut [b'a']), None);
    let (number, ..) = board.take().unwrap();
    board.vfs.step(board.now, Event::Cancel(token(0, 1)), &mut board.woken);
    assert_eq!(board.tell(number, answer), Errno::Badf);
    assert_eq!(board.vfs.census(), (1, 0));
}

#[test]
fn malformed_answers_are_errors() {
    let mut random = Prng::new(11);
    for round in 0..3000u64 {
        let mut board = Board::new();
        let root = board.root();
        let ops = [Op::Open, Op::StatPath, Op::Mkdir, Op::Readlink, Op::Readdir, Op::Unlink];
        let op = ops[random.below(ops.len() as u64) as usize];
        let flags = if op == Op::Open { flag::READ } else { 0 };
        let (name, length) = if op == Op::Readdir { (0, 2000) } else { (3, 0) };
        let request = Request { name, flags, length, ..Request::new(op, root) };
        let mut bulk = vec![b'x'; 2000];
        let mut reply = board.step(false, token(0, 1), request, &mut bulk);
        for _ in 0..50 {
            if reply.is_some() {
                break;
            }
            let (number, job, names) = board.take().unwrap();
            let sane = board.ram.answer(&job, &names);
            let answer = if random.chance(1, 3) { sane } else { nonsense(&mut random) };
            board.tell(number, answer);
            reply = board.step(true, token(0, 1), request, &mut bulk);
        }
        let reply = reply.unwrap_or_else(|| panic!("round {round}: {op:?} never ends"));
        assert!(reply.filled as usize <= bulk.len());
        if op == Op::Readdir && reply.error == 0 {
            let names = unpack(&bulk[..reply.filled as usize]);
            assert!(names.iter().all(|it| (1..=255).contains(&it.name.len())));
        }
        assert_eq!(board.vfs.census().1, 0);
    }
}

fn nonsense(random: &mut Prng) -> Said {
    let length = random.below(300) as usize;
    let mut data: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    if random.chance(1, 2) {
        let kind = [0, 3, 4, 7, 200][random.below(5) as usize];
        let stat = Stat { node: random.below(4), kind, links: 1, ..Stat::default() };
        data = stat.as_bytes().to_vec();
    }
    if random.chance(1, 4) { Err(Errno::Restarted) } else { Ok((random.next(), data)) }
}

#[test]
fn tables_are_bounded_and_waiting_callers_get_in() {
    let mut board = Board::new();
    let root = board.root();
    let open = Request { name: 1, flags: flag::READ, ..Request::new(Op::Open, root) };
    for thread in 0..2 * JOBS as u64 {
        assert_eq!(board.step(false, token(0, 100 + thread), open, &mut [b'a']), None);
    }
    let mut left: Vec<u64> = (0..2 * JOBS as u64).collect();
    for _ in 0..100 * JOBS {
        board.serve();
        let ended = |thread: &u64| {
            let reply = board.step(true, token(0, 100 + thread), open, &mut [b'a']);
            reply.is_none_or(|reply| reply.errno() != Errno::Noent)
        };
        left.retain(ended);
        if left.is_empty() {
            break;
        }
    }
    assert!(left.is_empty() && ASKERS < JOBS);
    assert_eq!(board.vfs.census().1, 0);
    // A path with more names than one request may look up.
    let mut above = root;
    for _ in 0..DEEP + 10 {
        board.with(|c| c.mkdir(above, b"d")).unwrap();
        above = board.with(|c| c.open(above, b"d", flag::READ)).unwrap();
    }
    let path = |names: usize| vec!["d"; names].join("/").into_bytes();
    assert!(board.with(|c| c.stat_path(root, &path(DEEP - 8), 0)).is_ok());
    let long = board.with(|c| c.stat_path(root, &path(DEEP + 8), 0));
    assert_eq!(long, Err(Errno::Nametoolong));
}

/// The answers of a server to a request that then needs none are forgotten, too.
#[test]
fn a_path_that_changes_meanwhile_leaves_no_answers() {
    let mut board = Board::new();
    board.vfs = Vfs::with_budget(3, 8 << 20);
    let root = board.root();
    board.with(|c| c.mkdir(root, b"served")).unwrap();
    board.with(|c| c.mount(root, b"served", source::SERVED + 1, MEMORY, 0)).unwrap();
    assert!(board.take().is_none());
    let path = |text: &[u8]| {
        (Request { name: text.len() as u16, ..Request::new(Op::StatPath, root) }, text.to_vec())
    };
    for thread in 0..ASKERS as u64 + 1 {
        board.with(|c| c.symlink(root, b"served", b"link")).unwrap();
        let (stat, mut bulk) = path(b"link/a");
        assert_eq!(board.step(false, token(0, 100 + thread), stat, &mut bulk), None);
        assert!(board.serve(), "caller {thread} waits for room");
        board.with(|c| c.unlink(root, b"link")).unwrap();
        let reply = board.step(true, token(0, 100 + thread), stat, &mut bulk).unwrap();
        assert_eq!(reply.errno(), Errno::Noent);
    }
}

/// Devices and a server mounted by requests, in a root that a disk may cover.
#[test]
fn shown_file_systems_appear_in_the_root() {
    let mut board = Board::new();
    board.vfs = Vfs::with_budget(3, 8 << 20);
    let root = board.root();
    board.with(|c| c.mkdir(root, b"dev")).unwrap();
    board.with(|c| c.mkdir(root, b"other")).unwrap();
    board.with(|c| c.mount_devices(root, b"dev", b"seed")).unwrap();
    assert_eq!(board.with(|c| c.mount_devices(root, b"dev", b"seed")), Err(Errno::Exist));
    assert_eq!(board.with(|c| c.mount_devices(root, b"a/b", b"seed")), Err(Errno::Inval));
    let shown = flag::SHOWN;
    board.with(|c| c.mount(root, b"proc", source::MEMORY, 65536, shown)).unwrap();
    board.with(|c| c.mkdir(root, b"proc/one")).unwrap();
    let number = source::SERVED + 1;
    assert_eq!(
        board.with(|c| c.mount(root, b"proc/one", number, MEMORY - 1, 0)),
        Err(Errno::Inval)
    );
    board.with(|c| c.mount(root, b"proc/one", number, MEMORY, 0)).unwrap();
    assert_eq!(board.with(|c| c.mount(root, b"other", number, MEMORY, 0)), Err(Errno::Busy));
    assert_eq!(board.with(|c| c.space(root)).unwrap().0, (8 << 20) - MEMORY);
    let names = |board: &mut Board, room| {
        let all = board.with(|c| c.list(root, room)).unwrap();
        all.into_iter().map(|it| String::from_utf8(it.name).unwrap()).collect::<Vec<_>>()
    };
    let expected = [".", "..", "other", "dev", "proc"];
    assert_eq!(names(&mut board, 2048), expected);
    assert_eq!(names(&mut board, 32), expected);
    let stat = board.with(|c| c.stat_path(root, b"dev/null", 0)).unwrap();
    assert_eq!(stat.kind, kind::CHARACTER);
    assert_eq!(board.with(|c| c.open(root, b"dev/console", flag::READ)), Err(Errno::Nosys));
    let zero = board.with(|c| c.open(root, b"dev/zero", NEW | flag::TRUNCATE)).unwrap();
    let mut bytes = [1; 300];
    assert_eq!(board.with(|c| c.read(zero, &mut bytes)), Ok(300));
    assert_eq!(bytes, [0; 300]);
    for path in [b"dev".as_slice(), b"proc"] {
        assert_eq!(board.with(|c| c.rmdir(root, path)), Err(Errno::Busy));
        assert_eq!(board.with(|c| c.mkdir(root, path)), Err(Errno::Exist));
        assert_eq!(board.with(|c| c.rename(root, b"other", root, path)), Err(Errno::Busy));
    }
    // The served file system is reachable, also through a link.
    let file = board.with(|c| c.open(root, b"proc/one/file", NEW)).unwrap();
    assert_eq!(board.with(|c| c.write(file, b"there")), Ok(5));
    board.with(|c| c.symlink(root, b"one/file", b"proc/file")).unwrap();
    let linked = board.with(|c| c.open(root, b"proc/file", flag::READ | flag::FOLLOW)).unwrap();
    assert_eq!(board.with(|c| c.read(linked, &mut bytes)), Ok(5));
    assert_eq!(&bytes[..5], b"there");
    let mounts = board.with(|c| c.mounts()).unwrap();
    let mounts: Vec<(u64, &[u8])> = mounts.iter().map(|(m, p)| (m.source, &p[..])).collect();
    let expected: [(u64, &[u8]); 4] =
        [(0, b""), (source::DEVICES, b"dev"), (0, b"proc"), (number, b"proc/one")];
    assert_eq!(mounts, expected);
}
