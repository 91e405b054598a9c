//! A home, its guest, the messages between them, and the file service to which the pipe may leave
//! at any time.

use abi::fs::{Errno, Op, Request};
use abi::quota::Quota;
use base::id::{DomainId, Epoch, Life};
use base::prng::Prng;
use fs::private::far::{Added, Closed, Far, Place, Room};
use fs::private::wire::{Ask, LONGEST, MOST, Message, Outcome};
use fs::private::{Answer, Moved, PrivatePipe, Released};
use fs::vfs::pipe::Pipe;
use std::collections::VecDeque;

pub const HOME: Life = Life { kernel: DomainId(0), epoch: Epoch(1) };
pub const GUEST: Life = Life { kernel: DomainId(1), epoch: Epoch(7) };
/// Handles of the file service.
const SERVED: [u64; 2] = [100, 101];
pub const READER: usize = 0;
pub const WRITER: usize = 1;

/// A pipe, its home, its guest, and what is between them.
pub struct World {
    pub random: Prng,
    pub pipe: PrivatePipe,
    pub far: Far,
    pub handles: [u64; 2],
    pub to_home: VecDeque<Vec<u8>>,
    pub to_guest: VecDeque<Vec<u8>>,
    /// Handles of programs at home, and here.
    pub local: [u32; 2],
    pub distant: [u32; 2],
    /// Uses that the home has counted, of handles that the guest has not added yet.
    pub adding: [u32; 2],
    /// The pipe of the service and its handles: the home's, and the guest's.
    pub served: Option<Pipe>,
    pub serves: [[bool; 2]; 2],
    /// Threads of the guest that have got the service's handle and not noted it yet.
    pub following: [u32; 2],
    /// What the guest has asked: reads of two threads, and a write of one.
    pub reads: Vec<u64>,
    pub writes: Vec<u64>,
    pub cancelled: Vec<u64>,
    /// How many bytes were written and read; the bytes count.
    pub written: u64,
    pub read: u64,
    pub is_over: bool,
    pub is_nonblocking: bool,
    pub answers: u32,
    pub left: u32,
}

fn content(from: u64, count: usize) -> Vec<u8> {
    (from..from + count as u64).map(|at| at as u8).collect()
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut pipe = PrivatePipe::new();
        let made = pipe.open(HOME, 3, 0, Quota::default());
        World {
            random: Prng::new(seed),
            pipe,
            far: Far::new(),
            handles: [made.handle, made.other],
            to_home: VecDeque::new(),
            to_guest: VecDeque::new(),
            local: [1, 1],
            distant: [0, 0],
            adding: [0, 0],
            served: None,
            serves: [[false; 2]; 2],
            following: [0; 2],
            reads: Vec::new(),
            writes: Vec::new(),
            cancelled: Vec::new(),
            written: 0,
            read: 0,
            is_over: false,
            is_nonblocking: false,
            answers: 0,
            left: 0,
        }
    }

    pub fn received(&mut self, bytes: &[u8]) {
        assert_eq!(bytes, content(self.read, bytes.len()), "in order, each once");
        self.read += bytes.len() as u64;
    }

    /// The home answers; a ring has room for a few messages.
    pub fn answer(&mut self) {
        let (room, sent) = (self.random.below(4) as usize, &mut self.to_guest);
        self.pipe.answer_guest(&mut |to, message| {
            assert_eq!(to, GUEST);
            let has_room = sent.len() < room + 1;
            if has_room {
                let mut bytes = [0; LONGEST];
                let length = message.put(&mut bytes);
                sent.push_back(bytes[..length].to_vec());
            }
            has_room
        });
    }

    pub fn tell_home(&mut self, message: &Message<'_>) {
        let mut bytes = [0; LONGEST];
        let length = message.put(&mut bytes);
        self.to_home.push_back(bytes[..length].to_vec());
    }

    /// The pipe leaves, if it is here.
    pub fn leave(&mut self, handle: u64) {
        let Some(mut parcel) = self.pipe.leave(handle) else { return };
        self.answer();
        if self.random.chance(1, 8) {
            let closed = self.pipe.left(Err(parcel));
            assert_eq!(closed, [None; 2]);
            return;
        }
        let mut served = Pipe::open();
        let bytes = parcel.bytes().to_vec();
        assert!(bytes.is_empty() || served.write(&bytes) == Ok(Some(bytes.len())));
        (self.served, self.serves[0], self.left) = (Some(served), [true; 2], self.left + 1);
        for closed in self.pipe.left(Ok(SERVED)).into_iter().flatten() {
            self.close_served(0, (closed - SERVED[0]) as usize);
        }
    }

    pub fn close_served(&mut self, kernel: usize, side: usize) {
        assert!(std::mem::replace(&mut self.serves[kernel][side], false));
        let is_open = self.serves[0][side] || self.serves[1][side];
        let pipe = self.served.as_mut().expect("it has left");
        if side == READER { pipe.reader = is_open } else { pipe.writer = is_open }
    }

    pub fn read_served(&mut self) {
        let mut room = vec![0; self.random.below(2000) as usize];
        let read = self.served.as_mut().expect("it has left").read(&mut room);
        self.is_over |= read == Some(0) && !room.is_empty();
        self.received(&room[..read.unwrap_or(0)]);
    }

    pub fn write_served(&mut self) {
        let bytes = content(self.written, self.random.below(2000) as usize);
        let written = self.served.as_mut().expect("it has left").write(&bytes);
        self.written += written.ok().flatten().unwrap_or(0) as u64;
    }

    pub fn is_asking(&self, side: usize) -> bool {
        !(if side == READER { &self.reads } else { &self.writes }).is_empty()
    }

    /// A program at home does something with an end.
    pub fn act_at_home(&mut self, side: usize) {
        if self.local[side] == 0 {
            return;
        }
        let handle = self.handles[side];
        match self.random.below(30) {
            0 if self.pipe.ask(&Request::new(Op::Dup, handle), &mut []).is_done() => {
                self.local[side] += 1;
            }
            1 | 2 => self.close_at_home(side),
            3 if self.random.chance(1, 10) => self.leave(handle),
            _ => self.transfer_at_home(side),
        }
    }

    pub fn close_at_home(&mut self, side: usize) {
        self.local[side] -= 1;
        match self.pipe.ask(&Request::new(Op::Close, self.handles[side]), &mut []) {
            Answer::Elsewhere(handle) => self.close_served(0, (handle - SERVED[0]) as usize),
            answer => assert!(answer.is_done(), "{answer:?}"),
        }
        if let Some(handle) = self.pipe.is_left_to_guest() {
            self.leave(handle);
        }
        self.answer();
    }

    pub fn transfer_at_home(&mut self, side: usize) {
        // One thread writes, and one reads.
        if self.is_asking(side) || side == READER && self.is_over {
            return;
        }
        let most = [1, 20, 60, if self.random.chance(1, 20) { 3000 } else { 100 }];
        let most = most[self.random.below(4) as usize];
        let length = self.random.below(most) as usize;
        let mut bulk = if side == WRITER { content(self.written, length) } else { vec![0; length] };
        let op = [Op::Read, Op::Write][side];
        let request = Request { length: length as u64, ..Request::new(op, self.handles[side]) };
        match self.pipe.transfer(&request, &mut bulk) {
            Moved::Bytes(done) if side == WRITER => self.written += done as u64,
            Moved::Bytes(done) => {
                self.is_over |= done == 0 && length != 0;
                self.received(&bulk[..done]);
            }
            Moved::Ask if side == WRITER => self.write_served(),
            Moved::Ask => self.read_served(),
            Moved::Waits => {}
            Moved::Failed(Errno::Again) => assert!(self.is_nonblocking),
            Moved::Failed(why) => assert_eq!(why, Errno::Pipe),
        }
        self.answer();
    }

    /// A program of the guest does something with an end.
    pub fn act_at_guest(&mut self, side: usize) {
        let handle = self.handles[side];
        // Children inherit it from a program at home.
        if self.local[side] != 0
            && self.random.chance(1, if self.distant[side] == 0 { 4 } else { 60 })
        {
            return self.pass(side);
        }
        if self.adding[side] != 0 && self.random.chance(1, 2) {
            return self.add(side);
        }
        if self.distant[side] == 0 {
            return;
        }
        match self.random.below(30) {
            0 => {
                assert!(self.far.dup(handle));
                self.distant[side] += 1;
            }
            // Reads may wait meanwhile.
            1 | 2 if side == READER || !self.is_asking(side) => {
                self.distant[side] -= 1;
                let closed = self.far.close(handle).expect("it was open");
                self.after(side, closed);
            }
            3 if self.random.chance(1, 10) => self.follow(side),
            4..8 if self.following[side] != 0 => self.has_followed(side),
            8..12 if side == READER => self.cancel(),
            _ => self.ask(side),
        }
    }

    pub fn cancel(&mut self) {
        let Some(&id) = self.reads.first().filter(|id| !self.cancelled.contains(id)) else {
            return;
        };
        self.cancelled.push(id);
        let handle = self.handles[READER];
        self.tell_home(&Message::Ask { id, handle, ask: Ask::Cancel });
    }

    /// What is left to do for an end of the guest.
    pub fn after(&mut self, side: usize, closed: Closed) {
        match closed {
            Closed::Home(_, uses) => self.tell_close(self.handles[side], uses),
            Closed::Service(own) => self.close_served(1, (own - SERVED[0]) as usize),
            Closed::Nothing => {}
        }
    }

    pub fn tell_close(&mut self, handle: u64, uses: u32) {
        self.tell_home(&Message::Ask { id: 0, handle, ask: Ask::Close(uses) });
    }

    pub fn pass(&mut self, side: usize) {
        let handle = self.handles[side];
        match self.pipe.offer(handle, GUEST) {
            Answer::Done(reply) => assert_eq!((reply.error, reply.handle), (0, handle)),
            Answer::Elsewhere(_) => return,
            other => panic!("{other:?}"),
        }
        let dup = self.pipe.ask_for_guest(GUEST, &Request::new(Op::Dup, handle));
        match dup {
            Answer::Elsewhere(_) => return,
            dup => assert!(dup.is_done(), "{dup:?}"),
        }
        self.adding[side] += 1;
    }

    pub fn add(&mut self, side: usize) {
        let handle = self.handles[side];
        self.adding[side] -= 1;
        match self.far.add(handle) {
            Added::Yes => {}
            Added::Moved => self.tell_close(handle, 1),
            Added::No => panic!("there is room"),
        }
        self.distant[side] += 1;
    }

    /// A thread of the guest has the pipe leave.
    pub fn follow(&mut self, side: usize) {
        let handle = self.handles[side];
        let is_home = |far: &Far| matches!(far.place(handle), Some(Place::Home(_)));
        while is_home(&self.far) {
            match self.pipe.ask_for_guest(GUEST, &Request::new(Op::Poll, handle)) {
                Answer::Leave => self.leave(handle),
                Answer::Elsewhere(own) => {
                    assert_eq!(own, SERVED[side]);
                    self.following[side] += 1;
                    return;
                }
                // Another thread has followed, and the home knows that already.
                Answer::Done(reply) if reply.errno() == Errno::Badf => {
                    assert!(!is_home(&self.far));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// It follows the pipe to the service.
    pub fn has_followed(&mut self, side: usize) {
        self.following[side] -= 1;
        let handle = self.handles[side];
        if !self.serves[0][side] {
            // The home has closed its handle: another thread has followed.
            assert!(!matches!(self.far.place(handle), Some(Place::Home(_))));
            return;
        }
        if let Some(uses) = self.far.moved(handle, SERVED[side]) {
            self.serves[1][side] = true;
            self.tell_close(handle, uses);
        }
    }

    pub fn ask(&mut self, side: usize) {
        let handle = self.handles[side];
        let count = if side == READER { self.reads.len() } else { 2 * self.writes.len() };
        if side == READER && self.is_over || count == 2 {
            return;
        }
        match self.far.place(handle) {
            Some(Place::Service(_)) if self.is_asking(side) => return,
            Some(Place::Service(_)) if side == READER => return self.read_served(),
            Some(Place::Service(_)) => return self.write_served(),
            _ => {}
        }
        let most = if self.random.chance(1, 10) { MOST as u64 } else { 80 };
        let length = self.random.below(most + 1) as usize;
        let bytes = content(self.written, length);
        let (room, ask) = match side {
            READER => (Room::Read(length as u32), Ask::Read(length as u32)),
            _ => (Room::Write(length as u32), Ask::Write(&bytes)),
        };
        let id = self.far.ask(handle, 5, room).expect("there is room");
        if side == READER {
            self.reads.push(id)
        } else {
            self.writes.push(id)
        }
        self.tell_home(&Message::Ask { id, handle, ask });
    }

    pub fn deliver_home(&mut self) {
        let Some(bytes) = self.to_home.pop_front() else { return };
        match Message::of(&bytes).expect("a message") {
            Message::Ask { handle, ask: Ask::Close(uses), .. } => {
                if self.pipe.release(GUEST, handle, uses) == Released::Over {
                    self.close_over();
                }
            }
            Message::Ask { id, handle, ask } => {
                self.pipe.hear(GUEST, id, handle, ask).expect("no fault");
            }
            Message::Answer { .. } => panic!("the guest answers nothing"),
        }
        self.answer();
    }

    pub fn close_over(&mut self) {
        for own in self.pipe.take_over().into_iter().flatten() {
            self.close_served(0, (own - SERVED[0]) as usize);
        }
    }

    pub fn deliver_guest(&mut self) {
        let Some(bytes) = self.to_guest.pop_front() else { return };
        let Some(Message::Answer { id, outcome, bytes }) = Message::of(&bytes) else {
            panic!("the home asks nothing");
        };
        assert_eq!(self.far.answered(HOME, id, outcome, bytes), Ok(Some(5)), "each once");
        self.take(id);
    }

    pub fn take(&mut self, id: u64) {
        let side = if self.reads.contains(&id) { READER } else { WRITER };
        let mut room = [0; MOST];
        let (outcome, closed) = self.far.take(id, &mut room).expect("it is answered");
        self.reads.retain(|known| *known != id);
        self.writes.retain(|known| *known != id);
        self.answers += 1;
        self.after(side, closed);
        match outcome {
            Outcome::Moved(count) if side == WRITER => self.written += u64::from(count),
            Outcome::Moved(count) => self.received(&room[..count as usize]),
            Outcome::Cancelled => assert!(self.cancelled.contains(&id)),
            Outcome::Failed(Errno::Pipe) => assert_eq!(side, WRITER),
            Outcome::Failed(Errno::Again) => assert!(self.is_nonblocking),
            // This use was over, because another thread has followed.
            Outcome::Failed(Errno::Badf) => {
                assert!(!matches!(self.far.place(self.handles[side]), Some(Place::Home(_))));
            }
            Outcome::Failed(why) => panic!("{why:?}"),
            Outcome::Elsewhere => self.follow(side),
        }
    }

    pub fn step(&mut self) {
        let side = self.random.below(2) as usize;
        match self.random.below(6) {
            0 | 1 => self.deliver_home(),
            2 | 3 => self.deliver_guest(),
            4 => self.act_at_home(side),
            _ => self.act_at_guest(side),
        }
    }

    /// Everything that is under way arrives.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            self.deliver_home();
            self.answer();
            self.deliver_guest();
            for side in [READER, WRITER] {
                (0..self.following[side]).for_each(|_| self.has_followed(side));
            }
        }
    }

    /// Nothing waits without a reason.
    pub fn assert_answered(&mut self) {
        assert!(self.writes.is_empty());
        if !self.reads.is_empty() {
            let handle = self.handles[READER];
            let Answer::Done(reply) = self.pipe.ask(&Request::new(Op::Stat, handle), &mut [])
            else {
                panic!("the pipe is at home");
            };
            let writers = self.local[WRITER] + self.distant[WRITER];
            assert!(reply.error == 0 && reply.stat.size == 0 && writers != 0, "{reply:?}");
        }
    }

    pub fn has_died(&mut self) {
        self.to_home.clear();
        self.to_guest.clear();
    }
}

pub trait IsDone {
    fn is_done(&self) -> bool;
}

impl IsDone for Answer {
    fn is_done(&self) -> bool {
        matches!(self, Answer::Done(reply) | Answer::Changed(reply) if reply.error == 0)
    }
}
