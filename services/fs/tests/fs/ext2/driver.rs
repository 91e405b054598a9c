//! The drivers of a disk, one in each of some kernels: they take I/Os by requests, carry data in
//! pieces, may die with the I/Os they took or when they are woken, and may miss a wake.

use super::disk::{Asked, Disk};
use crate::common::Solo;
use abi::fs::{Errno, Op, Reply, Request, flag, io};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::any::AnyFs;
use fs::ext2::{Ext2, Io, What};
use share::{Answer, Event, Service, Token};
use std::collections::BTreeMap;

/// The kernel of the first driver.
const FIRST: u8 = 2;
/// The number of their disk.
pub const DISK: u64 = 1;

/// A driver thread. The one of kernel 0 does not die: the callers are there.
struct Driver {
    kernel: DomainId,
    epoch: u16,
    listens: bool,
    in_vain: bool,
    /// It misses all wakes.
    is_deaf: bool,
}

impl Driver {
    fn new(kernel: u8) -> Driver {
        let kernel = DomainId(kernel);
        Driver { kernel, epoch: 1, listens: false, in_vain: false, is_deaf: false }
    }

    fn token(&self) -> Token {
        Token::new(self.kernel, Epoch(self.epoch), 9, 1)
    }
}

pub struct Drivers {
    all: Vec<Driver>,
    /// Which driver took an I/O that is not completed.
    taken: BTreeMap<u64, usize>,
    random: Prng,
    /// Maximum I/Os of each at a time, and bytes of a message.
    pub most: usize,
    pub room: usize,
    /// Of a thousand: how many wakes they miss, and how many results they die before reporting.
    pub troubles: (u64, u64),
    /// Of a thousand wakes, how many kill.
    pub deadly: u64,
    /// Number of deaths, and of I/Os that each driver took.
    pub deaths: u64,
    pub took: Vec<u64>,
}

impl Drivers {
    pub fn new(seed: u64) -> Drivers {
        Drivers {
            all: vec![Driver::new(FIRST)],
            taken: BTreeMap::new(),
            random: Prng::new(seed ^ 0x1234),
            most: 1,
            room: 3992,
            troubles: (0, 0),
            deadly: 0,
            deaths: 0,
            took: vec![0],
        }
    }

    /// Adds a driver in another kernel.
    pub fn join(&mut self, kernel: u8) {
        self.all.push(Driver::new(kernel));
        self.took.push(0);
    }

    /// Lets the driver of this kernel miss all wakes.
    pub fn deafen(&mut self, kernel: u8) {
        let found = self.all.iter_mut().find(|it| it.kernel.0 == kernel);
        found.unwrap().is_deaf = true;
    }

    /// Chooses one of the drivers that do not wait for work and could take some.
    fn choose(&mut self) -> Option<usize> {
        let busy = |at: usize| self.taken.values().filter(|by| **by == at).count() >= self.most;
        let is_free = |at: &usize| !self.all[*at].listens && !busy(*at);
        let free: Vec<usize> = (0..self.all.len()).filter(is_free).collect();
        match free.len() {
            0 | 1 => free.first().copied(),
            some => Some(free[self.random.below(some as u64) as usize]),
        }
    }
}

impl Solo {
    /// The same as [`Solo::on_disk`], with a driver that uses requests.
    pub fn served(image: Vec<u8>, seed: u64) -> Solo {
        let fs = AnyFs::Ext2(Box::new(Ext2::new(0, false)));
        let vfs = Vfs::with_root_on(3, DISK, fs);
        let (disk, drivers) = (Some(Disk::new(image, seed)), Some(Drivers::new(seed)));
        Solo { disk, drivers, vfs, ..Solo::new(0) }
    }

    fn ask_as_driver(&mut self, at: usize, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let token = self.drivers.as_ref()?.all[at].token();
        let event = Event::Request { token, request: &request, bulk };
        self.woken.2 = Some(token.kernel);
        match self.vfs.step(self.now, event, &mut self.woken) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => None,
            Answer::NoReply => panic!("no reply"),
        }
    }

    /// Removes the drivers' wakes from those of the steps.
    pub fn hear(&mut self) {
        loop {
            let Some(drivers) = &mut self.drivers else { return };
            let at_of = |woken: &Token| drivers.all.iter().position(|it| it.token() == *woken);
            let Some(at) = self.woken.0.iter().find_map(at_of) else { return };
            let (driver, random) = (&mut drivers.all[at], &mut drivers.random);
            let token = driver.token();
            self.woken.0.retain(|woken| *woken != token);
            assert!(driver.listens, "woken, but does not wait");
            driver.in_vain = driver.is_deaf || random.chance(drivers.troubles.0, 1000);
            driver.listens = driver.in_vain;
            if drivers.deadly > 0 && token.kernel != 0 && random.chance(drivers.deadly, 1000) {
                self.die(at);
            }
        }
    }

    pub fn is_called_in_vain(&self) -> bool {
        let mut all = self.drivers.iter().flat_map(|drivers| &drivers.all);
        all.any(|driver| driver.in_vain)
    }

    /// Takes the I/Os that there are.
    pub fn listen(&mut self) {
        loop {
            self.hear();
            let (Some(drivers), Some(_)) = (&mut self.drivers, &self.disk) else { return };
            let Some(at) = drivers.choose() else { return };
            let mut bulk = vec![0; drivers.room];
            let next = Request::new(Op::NextIo, DISK);
            let Some(reply) = self.ask_as_driver(at, next, &mut bulk) else {
                self.drivers.as_mut().unwrap().all[at].listens = true;
                continue;
            };
            if reply.errno() == Errno::Noent {
                return; // it is not mounted yet
            }
            assert_eq!(reply.errno(), Errno::Success);
            bulk.truncate(reply.filled as usize);
            let what = match reply.flags {
                io::READ => What::Read(reply.other as usize),
                io::WRITE => What::Write(reply.other as usize),
                _ => What::Flush,
            };
            let data = match what {
                What::Write(_) => self.gather(at, &reply, bulk),
                _ => Box::default(),
            };
            let io = Io { id: reply.handle, at: reply.value, what };
            self.disk.as_mut().unwrap().queue.push(Asked { io, data });
            let drivers = self.drivers.as_mut().unwrap();
            assert_eq!(drivers.taken.insert(io.id, at), None, "taken twice");
            drivers.took[at] += 1;
        }
    }

    fn gather(&mut self, at: usize, reply: &Reply, mut data: Vec<u8>) -> Box<[u8]> {
        while data.len() < reply.other as usize {
            let offset = data.len() as u64;
            let request =
                Request { second: reply.handle, offset, ..Request::new(Op::NextIo, DISK) };
            let mut bulk = vec![0; self.drivers.as_ref().unwrap().room];
            let more = self.ask_as_driver(at, request, &mut bulk).unwrap();
            assert_ne!(more.filled, 0);
            data.extend(&bulk[..more.filled as usize]);
        }
        data.into()
    }

    /// Reports the result of an I/O, or dies before that.
    pub fn tell_done(&mut self, number: u64, good: bool, data: &[u8]) {
        let drivers = self.drivers.as_mut().unwrap();
        let at = drivers.taken.remove(&number).unwrap();
        let is_mortal = drivers.all[at].kernel.0 != 0;
        if is_mortal && drivers.random.chance(drivers.troubles.1, 1000) {
            return self.die(at);
        }
        let (room, mut done) = (drivers.room, 0);
        loop {
            let mut piece = data[done..].iter().copied().take(room).collect::<Vec<_>>();
            let request = Request {
                flags: if good { flag::GOOD } else { 0 },
                offset: done as u64,
                length: piece.len() as u64,
                ..Request::new(Op::IoDone, number)
            };
            let reply = self.ask_as_driver(at, request, &mut piece).unwrap();
            assert_eq!(reply.errno(), Errno::Success);
            done += piece.len();
            if !good || done == data.len() {
                return;
            }
            assert_eq!(reply.value, done as u64);
        }
    }

    /// A driver's kernel dies with the I/Os it took, some of which are done, and restarts.
    fn die(&mut self, at: usize) {
        let (drivers, disk) = (self.drivers.as_mut().unwrap(), self.disk.as_mut().unwrap());
        let all = std::mem::take(&mut disk.queue).into_iter();
        let (theirs, others) = all.partition(|asked| drivers.taken.get(&asked.io.id) == Some(&at));
        disk.queue = theirs;
        let some = drivers.random.below(disk.queue.len() as u64 + 1);
        for _ in 0..some {
            disk.work();
        }
        disk.queue = others;
        drivers.taken.retain(|_, by| *by != at);
        drivers.deaths += 1;
        let driver = &mut drivers.all[at];
        let (kernel, epoch) = (driver.kernel, Epoch(driver.epoch));
        (driver.epoch, driver.listens, driver.in_vain) = (epoch.0 + 1, false, false);
        self.woken.2 = Some(0);
        self.tell(Event::Gone(kernel, epoch));
    }

    /// Waits until everything is on the disk and it is marked clean.
    pub fn settle(&mut self) {
        let root = self.root();
        loop {
            match self.with(|c| c.settle(root)) {
                Ok(clean) => break assert!(clean),
                Err(error) => assert_eq!(error, Errno::Io),
            }
        }
        self.with(|c| c.close(root)).unwrap();
    }
}
