//! A private pipe behaves like a pipe of the service, whatever is requested and whenever it leaves.

use crate::common::{Solo, token};
use abi::fs::{Errno, Op, Reply, Request, flag};
use abi::quota::Quota;
use base::id::{DomainId, Epoch, Life};
use base::prng::Prng;
use fs::private::{Answer, PrivatePipe, home, is_private, place};
use fs::vfs::pipe::CAPACITY;
use share::Event;

/// Index of the pipe in these tests, and the kernel that has it.
const PLACE: usize = 77;
const ME: Life = Life { kernel: DomainId(2), epoch: Epoch(300) };

/// A kernel with one private pipe, and its file service.
struct Kernel {
    solo: Solo,
    pipe: PrivatePipe,
    left: u32,
}

impl Kernel {
    fn new() -> (Kernel, [u64; 2]) {
        let mut pipe = PrivatePipe::new();
        let made = pipe.open(ME, PLACE, 0, Quota::default());
        let kernel = Kernel { solo: Solo::new(1 << 20), pipe, left: 0 };
        (kernel, [made.handle, made.other])
    }

    /// Handles a request as a kernel does; `None` if it would wait.
    fn ask(&mut self, request: Request, bulk: &mut [u8]) -> Option<Reply> {
        loop {
            match self.pipe.ask(&request, bulk) {
                Answer::Done(reply) | Answer::Changed(reply) => return Some(reply),
                Answer::Waits => return None,
                Answer::Elsewhere(handle) => {
                    return asked(&mut self.solo, Request { handle, ..request }, bulk);
                }
                Answer::Leave => self.leave(request.handle, true),
            }
        }
    }

    fn leave(&mut self, handle: u64, works: bool) {
        let Some(mut parcel) = self.pipe.leave(handle) else { return };
        assert_eq!(self.pipe.ask(&Request::new(Op::Stat, handle), &mut []), Answer::Waits);
        let outcome = if works {
            let (reader, writer) = self.solo.with(|c| c.pipe(0)).unwrap();
            let bytes = parcel.bytes().to_vec();
            assert_eq!(self.solo.with(|c| c.write(writer, &bytes)), Ok(bytes.len()));
            for (handle, flags) in [reader, writer].into_iter().zip(parcel.flags) {
                let flags = flags & !(flag::READ | flag::WRITE);
                self.solo.ask(Request { flags, ..Request::new(Op::SetFlags, handle) }, &mut []);
            }
            self.left += 1;
            Ok([reader, writer])
        } else {
            Err(parcel)
        };
        for handle in self.pipe.left(outcome).into_iter().flatten() {
            self.solo.with(|c| c.close(handle)).unwrap();
        }
    }
}

/// Sends a request, and cancels it if it would wait.
fn asked(solo: &mut Solo, request: Request, bulk: &mut [u8]) -> Option<Reply> {
    let asker = token(0, 1);
    let reply = solo.ask_as(asker, request, bulk);
    if reply.is_none() {
        solo.tell(Event::Cancel(asker));
    }
    reply
}

/// Returns a random request of a program about an end.
fn random_request(random: &mut Prng, handle: u64) -> Request {
    let length = [0, 1, 100, 4096, 5000, 20_000][random.below(6) as usize];
    let flags = [0, 0, 0, flag::AT, 1 << 15][random.below(5) as usize];
    match random.below(12) {
        0..4 => Request { length, flags, ..Request::new(Op::Read, handle) },
        4..8 => Request { length, flags, ..Request::new(Op::Write, handle) },
        8 => Request::new(Op::Stat, handle),
        9 => {
            let flags = [0, flag::NONBLOCK, flag::APPEND, flag::READ][random.below(4) as usize];
            Request { flags, ..Request::new(Op::SetFlags, handle) }
        }
        10 => Request::new(Op::Dup, handle),
        _ if random.chance(1, 20) => {
            let other = [Op::Seek, Op::Sync, Op::Statfs, Op::Readdir][random.below(4) as usize];
            Request::new(other, handle)
        }
        _ => Request::new(Op::Close, handle),
    }
}

#[test]
fn a_private_pipe_behaves_like_one_of_the_service() {
    let mut left = 0;
    for seed in 0..400 {
        let mut random = Prng::new(seed);
        let (mut kernel, ends) = Kernel::new();
        let mut other = Solo::new(1 << 20);
        let (reader, writer) = other.with(|c| c.pipe(0)).unwrap();
        let mut handles = vec![(ends[0], reader), (ends[1], writer)];
        for step in 0..300 {
            let Some(most) = handles.len().checked_sub(1) else { break };
            let (own, theirs) = handles[random.below(most as u64 + 1) as usize];
            if random.chance(1, 60) {
                kernel.leave(own, random.chance(1, 2));
            }
            let request = random_request(&mut random, own);
            let mut bulk = vec![step as u8; 20_000];
            let mut second = bulk.clone();
            let found = kernel.ask(request, &mut bulk);
            let wanted = asked(&mut other, Request { handle: theirs, ..request }, &mut second);
            let without = |reply: Option<Reply>| reply.map(|r| Reply { handle: 0, ..r });
            assert_eq!(without(found), without(wanted), "seed {seed}: {request:?}");
            assert_eq!(bulk, second, "seed {seed}: {request:?}");
            match (Op::from_code(request.op), found, wanted) {
                (Some(Op::Dup), Some(one), Some(two)) => handles.push((one.handle, two.handle)),
                (Some(Op::Close), ..) => handles.retain(|pair| pair.1 != theirs),
                _ => {}
            }
        }
        for (own, _) in handles {
            assert_eq!(kernel.ask(Request::new(Op::Close, own), &mut []).unwrap().error, 0);
        }
        assert!(kernel.pipe.is_free(), "seed {seed}");
        assert_eq!(kernel.solo.vfs.census(), (0, 0), "seed {seed}: nothing is left open");
        left += kernel.left;
    }
    assert!(left > 50, "{left} left");
}

#[test]
fn handles_of_closed_pipes_are_bad() {
    let (mut kernel, ends) = Kernel::new();
    assert!(ends.into_iter().all(|end| is_private(end) && place(end) == PLACE));
    assert!(ends.into_iter().all(|end| home(end) == ME));
    for end in ends {
        kernel.ask(Request::new(Op::Close, end), &mut []).unwrap();
    }
    let next = kernel.pipe.open(ME, PLACE, 0, Quota::default());
    for end in ends {
        assert_ne!(end, next.handle);
        for op in [Op::Close, Op::Dup, Op::Stat, Op::Read, Op::Poll] {
            assert_eq!(kernel.ask(Request::new(op, end), &mut []).unwrap().errno(), Errno::Badf);
        }
        assert!(kernel.pipe.leave(end).is_none());
    }
    let closed = kernel.ask(Request::new(Op::Close, next.other), &mut []).unwrap();
    assert_eq!(closed.error, 0);
    let again = kernel.ask(Request::new(Op::Write, next.other), &mut []).unwrap();
    assert_eq!(again.errno(), Errno::Badf, "only the read end is open");
}

#[test]
fn ends_closed_while_it_leaves_are_closed_in_the_service() {
    for works in [true, false] {
        let (mut kernel, [reader, writer]) = Kernel::new();
        let close = |pipe: &mut PrivatePipe, handle| {
            let answer = pipe.ask(&Request::new(Op::Close, handle), &mut []);
            assert_eq!(answer, Answer::Done(Reply::default()));
        };
        let mut full = vec![7; CAPACITY];
        let all = Request { length: full.len() as u64, ..Request::new(Op::Write, writer) };
        assert_eq!(kernel.ask(all, &mut full).unwrap().value, CAPACITY as u64);
        let mut parcel = kernel.pipe.leave(reader).unwrap();
        assert_eq!(parcel.bytes(), full);
        close(&mut kernel.pipe, writer);
        close(&mut kernel.pipe, reader);
        let outcome = if works { Ok([5, 6]) } else { Err(parcel) };
        let wanted = if works { [Some(5), Some(6)] } else { [None; 2] };
        assert_eq!(kernel.pipe.left(outcome), wanted);
        assert!(kernel.pipe.is_free());
    }
}
