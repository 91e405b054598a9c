//! A disk with a write cache. It completes I/Os in random order after random delays, may lose any
//! sector of any unflushed write in a power cut, and may fail.

use crate::common::{Solo, token};
use abi::fs::{Errno, Reply, Request};
use base::prng::Prng;
use fs::Vfs;
use fs::any::AnyFs;
use fs::ext2::{Ext2, Io, What};
use fs::filesystem::Stop;
use fs::model::Limits;

/// An I/O, with the data of a write.
pub struct Asked {
    pub io: Io,
    pub data: Box<[u8]>,
}

pub struct Disk {
    /// What survives a power cut.
    pub durable: Vec<u8>,
    /// What reads return.
    pub seen: Vec<u8>,
    /// Completed writes that are not flushed.
    cached: Vec<(usize, Box<[u8]>)>,
    /// I/Os not completed yet.
    pub queue: Vec<Asked>,
    pub random: Prng,
    /// Of a thousand I/Os, how many fail: reads, writes.
    pub failing: (u64, u64),
    /// The offset of a byte that cannot be read.
    pub broken: Option<usize>,
    /// Number of reads done.
    pub reads: u64,
    /// The power fails after so many completed I/Os.
    pub cut: Option<u64>,
    pub answered: u64,
    /// Completes flushes without flushing.
    pub lies: bool,
    /// What completed, in order, if it is to be remembered.
    pub trace: Option<Vec<Done>>,
}

/// The piece of a write that is atomic.
pub const SECTOR: usize = 512;

/// A completed change.
#[derive(Clone)]
pub enum Done {
    Write(usize, Box<[u8]>),
    Flush,
}

/// Puts a piece into an image.
pub fn put(image: &mut [u8], at: usize, piece: &[u8]) {
    image[at..at + piece.len()].copy_from_slice(piece);
}

impl Disk {
    pub fn new(image: Vec<u8>, seed: u64) -> Disk {
        Disk {
            trace: None,
            durable: image.clone(),
            seen: image,
            cached: Vec::new(),
            queue: Vec::new(),
            random: Prng::new(seed),
            failing: (0, 0),
            broken: None,
            reads: 0,
            cut: None,
            answered: 0,
            lies: false,
        }
    }

    /// Starts to remember what completes, beginning with what is not flushed. Returns what is.
    pub fn begin_trace(&mut self) -> Vec<u8> {
        let cached = self.cached.iter().map(|(at, data)| Done::Write(*at, data.clone()));
        self.trace = Some(cached.collect());
        self.durable.clone()
    }

    /// Completes one of the I/Os, chosen at random.
    pub fn work(&mut self) -> Option<(u64, bool, Vec<u8>)> {
        if self.queue.is_empty() || self.cut == Some(self.answered) {
            return None;
        }
        self.answered += 1;
        let at = self.random.below(self.queue.len() as u64) as usize;
        let Asked { io, data } = self.queue.swap_remove(at);
        let (reads, writes) = self.failing;
        let from = io.at as usize;
        match io.what {
            What::Read(length) => {
                let there = self.seen.get(from..from + length).map(<[u8]>::to_vec);
                self.reads += 1;
                let broken = self.broken.is_some_and(|at| (from..from + length).contains(&at));
                let good = !self.random.chance(reads, 1000) && !broken && there.is_some();
                Some((io.id, good, there.unwrap_or_default()))
            }
            _ if self.random.chance(writes, 1000) => Some((io.id, false, Vec::new())),
            What::Write(_) => {
                put(&mut self.seen, from, &data);
                self.trace.iter_mut().for_each(|it| it.push(Done::Write(from, data.clone())));
                self.cached.push((from, data));
                Some((io.id, true, Vec::new()))
            }
            What::Flush if self.lies => Some((io.id, true, Vec::new())),
            What::Flush => {
                for (from, data) in self.cached.drain(..) {
                    put(&mut self.durable, from, &data);
                }
                self.trace.iter_mut().for_each(|it| it.push(Done::Flush));
                Some((io.id, true, Vec::new()))
            }
        }
    }

    /// Returns the contents after a power cut: each unflushed or pending write is there or not.
    pub fn cut(mut self) -> Vec<u8> {
        let asked = self.queue.drain(..).map(|asked| (asked.io.at as usize, asked.data));
        let maybe: Vec<_> = self.cached.drain(..).chain(asked).collect();
        // How many are there differs from cut to cut, from none to all.
        let chance = self.random.below(5);
        for (from, data) in maybe {
            for (from, sector) in (from..).step_by(SECTOR).zip(data.chunks(SECTOR)) {
                if self.random.chance(chance, 4) {
                    put(&mut self.durable, from, sector);
                }
            }
        }
        self.durable
    }
}

impl Solo {
    /// Creates a service with the image as root.
    pub fn on_disk(image: Vec<u8>, seed: u64, cache: usize) -> Solo {
        let vfs = Vfs::with_root(3, AnyFs::Ext2(Box::new(Ext2::new(cache, false))));
        Solo { disk: Some(Disk::new(image, seed)), vfs, ..Solo::new(0) }
    }

    /// The same with the memory limit of a kernel.
    pub fn in_a_kernel(image: Vec<u8>, seed: u64) -> Solo {
        let memory = fs::ext2::memory(&image[1024..2048]).unwrap();
        let root = AnyFs::Ext2(Box::new(Ext2::within(memory, false)));
        Solo { vfs: Vfs::with_root(3, root), ..Solo::on_disk(image, seed, 0) }
    }

    fn submit(&mut self) {
        if self.drivers.is_some() {
            return self.listen();
        }
        let Some(disk) = &mut self.disk else { return };
        for _ in 0..200 {
            let Some((mount, io)) = self.vfs.next_io() else { break };
            let bytes = if let What::Write(bytes) = io.what { bytes } else { 0 };
            let mut data = vec![0; bytes].into_boxed_slice();
            assert_eq!(self.vfs.outgoing(mount, io.id, 0, &mut data), bytes);
            disk.queue.push(Asked { io, data });
        }
        self.vfs.wake_tidied(&mut self.woken);
    }

    /// Completes one I/O. Returns false if there is none and no caller has been woken.
    pub fn pump(&mut self) -> bool {
        self.submit();
        let Some(disk) = &mut self.disk else { return false };
        let Some((id, good, data)) = disk.work() else { return !self.woken.0.is_empty() };
        if self.drivers.is_some() {
            self.tell_done(id, good, &data);
        } else {
            self.vfs.io_done(0, id, good, &data, &mut self.woken);
        }
        true
    }

    /// Sends a request; an error if the power fails meanwhile.
    pub fn ask_until_cut(&mut self, request: Request, bulk: &mut [u8]) -> Reply {
        loop {
            if let Some(reply) = self.ask_as(token(0, 1), request, bulk) {
                self.drift();
                return reply;
            }
            while self.take_woken().is_empty() {
                if !self.pump() {
                    if self.is_called_in_vain() {
                        self.now += 1_000_000_000;
                        break;
                    }
                    assert!(self.is_cut(), "{request:?} waits for nothing");
                    return Reply::error(Errno::Io);
                }
            }
        }
    }

    pub fn is_cut(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.cut == Some(disk.answered))
    }

    /// Lets the disk complete a few I/Os.
    pub fn drift(&mut self) {
        if self.disk.is_none() {
            return;
        }
        self.submit();
        for _ in 0..self.disk.as_mut().unwrap().random.below(4) {
            self.pump();
        }
    }

    pub fn ext2(&mut self) -> &mut Ext2 {
        match self.vfs.mounted(0) {
            Some(AnyFs::Ext2(fs)) => fs,
            _ => panic!("no ext2"),
        }
    }

    /// Waits for the mount.
    pub fn mount(mut self) -> Solo {
        let root = self.root();
        self.with(|c| c.stat(root)).unwrap();
        self.with(|c| c.close(root)).unwrap();
        self
    }

    pub fn limits(&mut self) -> Limits {
        let (largest, last, grain) = self.ext2().limits();
        Limits { largest, last, grain, allocated: 65_536 }
    }

    /// Unmounts the file system. Returns the contents of the disk.
    pub fn unmount(mut self) -> Vec<u8> {
        if self.drivers.is_some() {
            self.settle();
        }
        loop {
            match self.ext2().settle() {
                Ok(()) => break,
                Err(Stop::Wait(_)) | Err(Stop::Failed(Errno::Io)) => {
                    self.pump();
                }
                Err(stop) => panic!("{stop:?}"),
            }
        }
        let disk = self.disk.take().unwrap();
        assert!(disk.cached.is_empty() && disk.durable == disk.seen);
        disk.durable
    }
}
