//! A driver of a disk, as in a kernel: it takes I/Os by requests, carries data in pieces, may die
//! with the I/Os it took, and may miss a wake.

use super::disk::{Asked, Disk};
use crate::common::Solo;
use abi::fs::{Errno, Op, Reply, Request, flag, io};
use base::id::{DomainId, Epoch};
use base::prng::Prng;
use fs::Vfs;
use fs::any::AnyFs;
use fs::ext2::{Ext2, Io, What};
use share::{Answer, Event, Service, Token};

/// The kernel of the driver.
const KERNEL: DomainId = DomainId(2);
/// The number of its disk.
pub const DISK: u64 = 1;

pub struct Driver {
    epoch: u16,
    listens: bool,
    in_vain: bool,
    random: Prng,
    /// Maximum I/Os at a time, and bytes of a message.
    pub most: usize,
    pub room: usize,
    /// Of a thousand: how many wakes it misses, and how many results it dies before reporting.
    pub troubles: (u64, u64),
}

impl Driver {
    pub fn new(seed: u64) -> Driver {
        let random = Prng::new(seed ^ 0x1234);
        let (listens, in_vain) = (false, false);
        Driver { epoch: 1, listens, in_vain, random, most: 1, room: 3992, troubles: (0, 0) }
    }

    fn token(&self) -> Token {
        Token::new(KERNEL, Epoch(self.epoch), 9, 1)
    }
}

impl Solo {
    /// The same as [`Solo::on_disk`], with a driver that uses requests.
    pub fn served(image: Vec<u8>, seed: u64) -> Solo {
        let fs = AnyFs::Ext2(Box::new(Ext2::new(0, false)));
        let vfs = Vfs::with_root_on(3, DISK, fs);
        let (disk, driver) = (Some(Disk::new(image, seed)), Some(Driver::new(seed)));
        Solo { disk, driver, vfs, ..Solo::new(0) }
    }

    fn ask_as_driver(&mut self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        let token = self.driver.as_ref()?.token();
        let event = Event::Request { token, request, bulk };
        match self.vfs.step(self.now, event, &mut self.woken) {
            Answer::Done(reply) => Some(reply),
            Answer::Parked => None,
            Answer::NoReply => panic!("no reply"),
        }
    }

    /// Removes the driver's wakes from those of the step.
    pub fn hear(&mut self) {
        let Some(driver) = &mut self.driver else { return };
        let token = driver.token();
        let before = self.woken.0.len();
        self.woken.0.retain(|woken| *woken != token);
        if self.woken.0.len() != before {
            assert!(driver.listens, "woken, but does not wait");
            driver.in_vain = driver.random.chance(driver.troubles.0, 1000);
            driver.listens = driver.in_vain;
        }
    }

    pub fn is_called_in_vain(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.in_vain)
    }

    /// Takes the I/Os that there are.
    pub fn listen(&mut self) {
        loop {
            self.hear();
            let (Some(driver), Some(disk)) = (&self.driver, &self.disk) else { return };
            if driver.listens || disk.queue.len() >= driver.most {
                return;
            }
            let mut bulk = vec![0; driver.room];
            let Some(reply) = self.ask_as_driver(Request::new(Op::NextIo, DISK), &mut bulk) else {
                self.driver.as_mut().unwrap().listens = true;
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
                What::Write(_) => self.gather(&reply, bulk),
                _ => Box::default(),
            };
            let io = Io { id: reply.handle, at: reply.value, what };
            self.disk.as_mut().unwrap().queue.push(Asked { io, data });
        }
    }

    fn gather(&mut self, reply: &Reply, mut data: Vec<u8>) -> Box<[u8]> {
        while data.len() < reply.other as usize {
            let offset = data.len() as u64;
            let request =
                Request { second: reply.handle, offset, ..Request::new(Op::NextIo, DISK) };
            let mut bulk = vec![0; self.driver.as_ref().unwrap().room];
            let more = self.ask_as_driver(request, &mut bulk).unwrap();
            assert_ne!(more.filled, 0);
            data.extend(&bulk[..more.filled as usize]);
        }
        data.into()
    }

    /// Reports the result of an I/O, or dies before that.
    pub fn tell_done(&mut self, number: u64, good: bool, data: &[u8]) {
        let driver = self.driver.as_mut().unwrap();
        if driver.random.chance(driver.troubles.1, 1000) {
            return self.die();
        }
        let (room, mut done) = (driver.room, 0);
        loop {
            let mut piece = data[done..].iter().copied().take(room).collect::<Vec<_>>();
            let request = Request {
                flags: if good { flag::GOOD } else { 0 },
                offset: done as u64,
                length: piece.len() as u64,
                ..Request::new(Op::IoDone, number)
            };
            let reply = self.ask_as_driver(request, &mut piece).unwrap();
            assert_eq!(reply.errno(), Errno::Success);
            done += piece.len();
            if !good || done == data.len() {
                return;
            }
            assert_eq!(reply.value, done as u64);
        }
    }

    /// The driver's kernel dies with the I/Os it took, some of which are done, and restarts.
    fn die(&mut self) {
        let (driver, disk) = (self.driver.as_mut().unwrap(), self.disk.as_mut().unwrap());
        let some = driver.random.below(disk.queue.len() as u64 + 1);
        for _ in 0..some {
            disk.work();
        }
        disk.queue.clear();
        let epoch = Epoch(driver.epoch);
        (driver.epoch, driver.listens, driver.in_vain) = (epoch.0 + 1, false, false);
        self.tell(Event::Gone(KERNEL, epoch));
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
