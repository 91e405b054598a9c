//! The services of this kernel: each in the mode that the board chose for it, asked in one way.
//!
//! ```text
//!   ask --> here: the step, unpreempted --> Done(reply)
//!    |        |                         \-> Parked: sleeps until somebody's step wakes its token,
//!    |        |                             or a second is over; then asks again
//!    |        +--> what the step woke: threads here, notices to other kernels
//!    +--> there: the same by message, `share::codec`
//! ```
//! A service's timer is kept by the kernel that executed the step which asked for it:
//! [`Services::keep`] executes the step when it is time, or a little early.
//!
//! A wake can be lost with the kernel that sent it, or without memory; that costs a second. Who
//! listens ([`Served::listen`]) is woken once more by the service instead.

mod caller;
mod frames;
mod keeping;
mod patience;
mod served;

use crate::node::Node;
use crate::peers::{Ask, CallFailure};
use crate::platform::Platform;
use ::processes::Processes;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::id::{DomainId, Epoch};
pub use caller::Caller;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use frames::SharedFrames;
#[cfg(feature = "trials")]
pub use frames::kind as frames_kind;
#[cfg(feature = "trials")]
pub use keeping::Keeping;
use kernel_msg::endpoint::peer_epoch;
use kernel_msg::{Refusal, Request};
use kernel_sched::{MAX_THREADS, ThreadId, WaitQueue};
pub use patience::Patience;
pub use served::Served;
#[cfg(feature = "trials")]
pub use served::shared_keeping;
use share::{Mailboxes, Mode, Outbox, Service, Token, codec};
use zerocopy::{FromBytes, IntoBytes};

/// Why a service did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceFailure {
    /// It does not run: its memory was not to be had at boot, or the kernel is just starting.
    Absent,
    /// Its kernel did not answer.
    Home(CallFailure),
    /// Its kernel answered nonsense.
    Nonsense,
    /// While it executed the request, its state was lost with a kernel that died, or its step went
    /// astray (`crate::twins`).
    Restarted,
}

impl ServiceFailure {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            ServiceFailure::Absent => "the service does not run here; `services` says why",
            ServiceFailure::Home(why) => why.text(),
            ServiceFailure::Restarted => {
                "the service began anew, nothing is left of it: a kernel died with a part of it, \
                 or its step went astray, as the log says"
            }
            ServiceFailure::Nonsense => "the service's kernel answered what makes no sense",
        }
    }
}

/// All services.
pub struct Services {
    /// Files.
    pub fs: Served<fs::Vfs>,
    /// Sockets.
    pub net: Served<net::Net>,
    /// The DMA engine's driver.
    pub dma: Served<dma::Dma>,
    /// The process table.
    pub processes: Box<Served<Processes>>,
    /// Frames, where the board shares them.
    pub frames: Option<Served<SharedFrames>>,
    /// Whoever is parked waits in here.
    parked: WaitQueue,
    /// Something for [`Services::keep`] to look at.
    changed: WaitQueue,
    /// Epoch of each kernel, as far as the services have been told.
    known: Vec<AtomicU64>,
    sequence: AtomicU64,
    /// Of each thread, the last of its tokens that was woken: a wake may come before who is parked
    /// sleeps, and a thread that waits for something else meanwhile would forget it.
    woken: Box<[AtomicU32; MAX_THREADS]>,
    /// How often everybody was woken.
    all_woken: AtomicU64,
    given: Mailboxes,
}

/// The place of who asked, among this kernel's threads.
fn place_of(token: Token) -> usize {
    ThreadId::from_token(token.thread).index() % MAX_THREADS
}

/// A line of `services`.
pub struct Line {
    /// Name.
    pub name: &'static str,
    /// Does it run in this kernel?
    pub usage: Option<share::instance::Usage>,
    /// Requests executed here, sent away, executed for other kernels, parked.
    pub counts: [u64; 4],
}

impl Services {
    /// Of a kernel that is being assembled; starts those that run here.
    pub fn new(blob: &'static abi::boot::Blob, me: DomainId) -> Services {
        Services {
            fs: Served::new(blob, me, |_| None),
            net: Served::new(blob, me, |_| None),
            dma: Served::new(blob, me, |platform| platform.devices.dma_device(platform)),
            processes: Box::new(Served::new(blob, me, |_| None)),
            frames: shares_frames(blob).then(|| Served::new(blob, me, |_| None)),
            parked: WaitQueue::new(),
            changed: WaitQueue::new(),
            known: blob.domains().iter().map(|_| AtomicU64::new(0)).collect(),
            sequence: AtomicU64::new(1),
            woken: Box::new([const { AtomicU32::new(0) }; MAX_THREADS]),
            all_woken: AtomicU64::new(0),
            given: Mailboxes::new(MAX_THREADS),
        }
    }

    /// All of them, for people.
    pub fn lines(&self, platform: &'static Platform) -> Vec<Line> {
        let (fs, net) = (self.fs.line(platform), self.net.line(platform));
        let lines = [fs, net, self.dma.line(platform), self.processes.line(platform)];
        let frames = self.frames.as_ref().map(|frames| frames.line(platform));
        lines.into_iter().chain(frames).collect()
    }

    /// Starts what needs the other kernels.
    pub fn start(&self, platform: &'static Platform) {
        self.fs.share(platform);
        self.net.share(platform);
        self.dma.share(platform);
        self.processes.share(platform);
        self.frames.iter().for_each(|frames| frames.share(platform));
    }

    /// Has those that lost their state begin anew.
    pub fn look(&self, platform: &'static Platform) {
        self.fs.look(self, platform);
        self.net.look(self, platform);
        self.dma.look(self, platform);
        self.processes.look(self, platform);
        self.frames.iter().for_each(|frames| frames.look(self, platform));
    }

    /// A token for the caller's next request.
    fn token(&self, platform: &Platform) -> Token {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) as u32;
        let thread = platform.scheduler.current().token();
        Token::new(platform.me, platform.epoch, thread, sequence)
    }

    fn woken(&self, token: Token) -> &AtomicU32 {
        &self.woken[place_of(token)]
    }

    /// Before a request may be parked: wakes of before do not count. Answers what
    /// [`Services::sleep`] wants to know.
    fn expect_wake(&self, token: Token) -> u64 {
        self.woken(token).store(token.sequence.wrapping_sub(1), Ordering::Relaxed);
        self.all_woken.load(Ordering::Relaxed)
    }

    /// Sleeps until somebody wakes the caller's token, or has since [`Services::expect_wake`], or
    /// as long as it has patience. Only meanwhile may it be given anything: it is in no step.
    fn sleep(&self, platform: &Platform, token: Token, all_woken: u64, patience: &Patience<'_>) {
        self.given.open(place_of(token), token.sequence);
        platform.scheduler.wait_until(&self.parked, patience.next_look(), || {
            self.woken(token).load(Ordering::Relaxed) == token.sequence
                || self.all_woken.load(Ordering::Relaxed) != all_woken
                || patience.is_given_up()
        });
    }

    /// Gives bytes to who waits here under this token, if it does.
    fn give(&self, node: &Node, token: Token, bytes: &[u8]) -> bool {
        let is_ours = token.kernel() == node.me && token.epoch() == node.epoch;
        is_ours && self.given.put(place_of(token), token.sequence, bytes)
    }

    /// What the caller was given while it slept: how many bytes, now in `bulk`.
    fn take_given(&self, token: Token, bulk: &mut [u8]) -> Option<usize> {
        self.given.take(place_of(token), token.sequence, bulk, &arch::attend::Attending)
    }

    fn wake_all(&self, platform: &Platform) {
        self.all_woken.fetch_add(1, Ordering::Relaxed);
        self.parked.wake_all(&platform.scheduler);
    }

    /// Performs what a step asked for.
    fn perform(&self, platform: &Platform, outbox: &Outbox) {
        for &token in outbox.wakes() {
            self.wake(platform, token);
        }
        if outbox.wakes_all() {
            self.wake_all(platform);
            let all = Token::default();
            platform
                .peers
                .ids()
                .for_each(|peer| platform.peers.tell(peer, Ask::Wake, all.as_bytes()));
        }
    }

    fn wake(&self, platform: &Platform, token: Token) {
        if token.kernel() != platform.me {
            platform.peers.tell(token.kernel(), Ask::Wake, token.as_bytes());
        } else if token.epoch() == platform.epoch {
            // A late wake of what its thread asked before is none of what it asks now.
            let (before, now) = (token.sequence.wrapping_sub(1), token.sequence);
            let order = Ordering::Relaxed;
            let _ = self.woken(token).compare_exchange(before, now, order, order);
            platform.scheduler.wake(ThreadId::from_token(token.thread));
        }
    }

    /// Another kernel's step has woken a token of ours, or (an empty token) all. Any context.
    pub fn heard_wake(&self, platform: &Platform, payload: &[u8]) -> Result<usize, Refusal> {
        let token = Token::read_from_bytes(payload).map_err(|_| Refusal::Refused)?;
        match token == Token::default() {
            true => self.wake_all(platform),
            false if token.kernel() == platform.me => self.wake(platform, token),
            false => {}
        }
        Ok(0)
    }

    /// Executes another kernel's request.
    pub fn serve(
        &self,
        platform: &'static Platform,
        request: &Request,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refusal> {
        let index = codec::service(payload).ok_or(Refusal::Refused)?;
        match index {
            _ if index == self.fs.index() => self.fs.serve(self, platform, request.from, payload),
            _ if index == self.net.index() => self.net.serve(self, platform, request.from, payload),
            _ if index == self.dma.index() => self.dma.serve(self, platform, request.from, payload),
            _ if index == self.processes.index() => {
                self.processes.serve(self, platform, request.from, payload)
            }
            _ => Err(Refusal::NoSuchProc),
        }
    }

    /// The chip page may have changed. Any context.
    pub fn look_at_chip(&self, platform: &Platform) {
        self.changed.wake_all(&platform.scheduler);
    }

    /// A service wants its timer earlier than before.
    fn look_at_timers(&self, platform: &Platform) {
        self.changed.wake_all(&platform.scheduler);
    }

    /// When the first service wants its timer; `u64::MAX`: none does.
    fn timer(&self) -> u64 {
        let timers = [self.fs.timer(), self.net.timer(), self.dma.timer(), self.processes.timer()];
        timers.into_iter().min().unwrap_or(u64::MAX)
    }

    /// Tells the services of kernels that died, and that the time has come which they asked for;
    /// for ever.
    pub fn keep(&self, platform: &'static Platform) {
        loop {
            let (mut ended, timer) = (Vec::new(), self.timer());
            let deadline = (timer != u64::MAX).then_some(timer);
            platform.scheduler.wait_until(&self.changed, deadline, || {
                ended.extend(self.ended(platform));
                !ended.is_empty() || self.timer() != timer
            });
            if !ended.is_empty() {
                // What they were to answer or to wake is lost.
                self.wake_all(platform);
            }
            for (id, epoch) in ended {
                self.fs.gone(self, platform, (id, epoch));
                self.net.gone(self, platform, (id, epoch));
                self.dma.gone(self, platform, (id, epoch));
                self.processes.gone(self, platform, (id, epoch));
            }
            self.fs.look_at_timer(self, platform);
            self.net.look_at_timer(self, platform);
            self.dma.look_at_timer(self, platform);
            self.processes.look_at_timer(self, platform);
        }
    }

    /// Lives of other kernels that have ended since the last look.
    fn ended(&self, platform: &Platform) -> impl Iterator<Item = (DomainId, Epoch)> {
        let ids = (0..self.known.len() as u8).map(DomainId).filter(|&id| id != platform.me);
        let ended = ids.filter_map(|id| {
            let now = peer_epoch(platform.soc.state_word(id)).map_or(0, |epoch| epoch.0);
            let before = self.known[id.index()].swap(now.into(), Ordering::Relaxed) as u16;
            (before != 0 && before != now).then_some((id, Epoch(before)))
        });
        ended.collect::<Vec<_>>().into_iter()
    }
}

/// Bytes of the DMA driver: its arena's head, its state, and what the arena's tables need.
const DMA: u64 = 4 * base::addr::PAGE;
/// The service of the monitor's `twins`, which is on no board's list, and its bytes.
pub const PLANTED_NAME: &str = "planted";
const PLANTED: u64 = 8 * base::addr::PAGE;
/// Bytes at the end of the shared block for measurements.
pub const SPARE: u64 = base::addr::PAGE;

/// How much of the shared block each service with state gets: what its tables take when all are
/// full (docs/design/files.md, docs/design/net.md); files what is left of 13 MiB.
struct Shares([(&'static str, u64); 6]);

impl Shares {
    const FRAMES: &'static str = "frames";

    fn of(blob: &abi::boot::Blob) -> Shares {
        let frames = if shares_frames(blob) { frames::BYTES } else { 0 };
        Shares([
            (fs::Vfs::NAME, (13 << 20) - DMA - frames),
            (Processes::NAME, ::processes::service::ARENA as u64),
            (net::Net::NAME, (2 << 20) - PLANTED - SPARE),
            (dma::Dma::NAME, DMA),
            (PLANTED_NAME, PLANTED),
            (Shares::FRAMES, frames),
        ])
    }
}

/// Are frames a service that kernels share? Else each kernel has its own, and there is no service.
fn shares_frames(blob: &abi::boot::Blob) -> bool {
    chosen::<SharedFrames>(blob).1.is_shared()
}

/// Where in the shared block a service's memory begins, and its bytes.
pub fn share_of(blob: &abi::boot::Blob, service: &str) -> Option<(u64, u64)> {
    let Shares(all) = Shares::of(blob);
    let place = all.iter().position(|share| share.0 == service)?;
    let before = all[..place].iter().map(|share| share.1).sum();
    Some((before, all[place].1))
}

/// Whose memory the byte `offset` of the shared block is.
pub fn at(blob: &abi::boot::Blob, offset: u64) -> &'static str {
    let Shares(all) = Shares::of(blob);
    let mut end = 0;
    let holds = |share: &(&str, u64)| {
        end += share.1;
        offset < end
    };
    all.into_iter().find(holds).map_or("(spare)", |share| share.0)
}

/// The board's entry for a service: its index, and its mode.
fn chosen<S: Service>(blob: &abi::boot::Blob) -> (u32, Mode) {
    let named = |s: &&abi::boot::Service| abi::boot::text(&s.name) == S::NAME;
    let place = blob.services().iter().position(|s| named(&s));
    let mode = place.and_then(|at| Mode::from_blob(&blob.services()[at]));
    (place.map_or(u32::MAX, |at| at as u32), mode.unwrap_or(Mode::Independent))
}
