//! A shadowed service that breaks the rules of shadowable.md on purpose: its state contains a
//! function pointer, a trait object and a waker, which point into the image of the kernel that put
//! them there. The monitor's `twins` lets another kernel call them.
//!
//! The service is in no board's list. It uses the last index of services, and pages at the end of
//! the shared block.

use abi::boot::MAX_SERVICES;
use abi::soc::command;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use arch::cpu::ISA;
use arch::lock::Once;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use kernel_node::arenas;
use kernel_node::memory::CoreHeap;
use kernel_platform::Platform;
use kernel_platform::coherence::Coherence;
use kernel_services::hangs;
use kernel_services::kernel;
use kernel_services::services::{ArenaGuard, ServiceFailure, shared_arena};
use share::shareable::Unchecked;
use share::{Answer, Effects, Event, Instance, Outbox, Service, Token};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Want {
    /// Store pointers into this kernel's image.
    Plant,
    /// Call the function.
    Function,
    /// Call the object's method.
    Object,
    /// Clone the waker, wake the clone, and drop it.
    Waker,
    /// Drop everything.
    Clear,
    /// Call a function that only the image of one ISA has.
    Only,
    /// Call two functions that have the same name.
    Same,
    /// Call the function as often as the argument says, and return the time in ns.
    Many,
    /// Never return: an index in [`HANGS`].
    Hang,
}

/// The operations, by number, with their words on the monitor.
pub const WANTS: [(&str, Want); 9] = [
    ("plant", Want::Plant),
    ("function", Want::Function),
    ("object", Want::Object),
    ("waker", Want::Waker),
    ("clear", Want::Clear),
    ("only", Want::Only),
    ("same", Want::Same),
    ("many", Want::Many),
    ("hang", Want::Hang),
];

/// Ways in which a step can hang, with their words on the monitor.
pub const HANGS: [(&str, fn()); 5] = [
    ("step", spin),
    ("masked", spin_masked),
    ("wait", wait),
    ("request", wait_for_soc),
    ("fault", fault),
];

fn spin() {
    loop {
        core::hint::spin_loop();
    }
}

fn spin_masked() {
    arch::cpu::irqs_off();
    spin();
}

fn wait() {
    arch::attend::until(|| false);
}

/// As if the soc never answered a request, for which a core waits with interrupts masked.
fn wait_for_soc() {
    arch::cpu::irqs_off();
    if let Some(kernel) = kernel::get() {
        kernel.soc.request_unanswered(command::TIME, 0, 0);
    }
    wait();
}

/// In the fault on a page that another kernel has; returns if this kernel has it.
fn fault() {
    let Some(coherence) = kernel::get().and_then(|kernel| kernel.coherence.as_ref()) else {
        return;
    };
    hangs::HANGS_IN_FAULT.store(true, Ordering::Relaxed);
    let words = arenas::spare(coherence.base(), base::addr::PAGE);
    words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    hangs::HANGS_IN_FAULT.store(false, Ordering::Relaxed);
}

/// Returns the argument, followed by a digit for the ISA of the code that ran.
#[inline(never)]
fn mark(argument: u64) -> u64 {
    core::hint::black_box(argument) * 10 + u64::from(ISA)
}

#[inline(never)]
fn only<const OF: u32>(argument: u64) -> u64 {
    mark(argument) + u64::from(OF)
}

/// Returns two functions with the same name.
fn same() -> [fn(u64) -> u64; 2] {
    let first = {
        #[inline(never)]
        fn same(argument: u64) -> u64 {
            mark(argument) + 3
        }
        same
    };
    let second = {
        #[inline(never)]
        fn same(argument: u64) -> u64 {
            mark(argument) + 5
        }
        same
    };
    [first, second]
}

trait Shape: Send {
    fn area(&self) -> u64;
}

/// Its side is allocated, so that dropping it requires a call, too.
struct Square(Box<u64>);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        mark(*self.0 * *self.0)
    }
}

/// Another shape, so that the compiler cannot know which one it is.
struct Line(u64);

impl Shape for Line {
    #[inline(never)]
    fn area(&self) -> u64 {
        mark(self.0) - mark(self.0)
    }
}

/// A waker that counts its wakes, weighted by the ISA of the code that ran.
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(u64::from(ISA), Ordering::Relaxed);
    }
}

/// Values that no state of a service may contain.
struct Shelf {
    function: fn(u64) -> u64,
    only: fn(u64) -> u64,
    same: [fn(u64) -> u64; 2],
    object: Box<dyn Shape>,
    waker: Waker,
    bell: Arc<Bell>,
}

impl Shelf {
    fn new(argument: u64) -> Shelf {
        let bell = Arc::new(Bell(AtomicU64::new(0)));
        let object: Box<dyn Shape> = match argument {
            0 => Box::new(Line(argument)),
            side => Box::new(Square(Box::new(side))),
        };
        let waker = Waker::from(bell.clone());
        Shelf { function: mark, only: only::<ISA>, same: same(), object, waker, bell }
    }

    fn wake(&self) -> u64 {
        let clone = self.waker.clone();
        clone.wake_by_ref();
        drop(clone);
        self.bell.0.load(Ordering::Relaxed)
    }

    fn many(&self, count: u64) -> u64 {
        let before = arch::time::soc_time();
        for argument in 0..count {
            core::hint::black_box((self.function)(argument));
        }
        arch::time::soc_time() - before
    }
}

/// The service's state.
#[derive(Default)]
pub struct Planted(Option<Unchecked<Shelf>>);

impl Service for Planted {
    /// An index in [`WANTS`], and an argument.
    type Request = [u64; 2];
    /// A value and 1, or 0 and 0 if nothing is planted.
    type Reply = [u64; 2];

    const NAME: &'static str = "planted";

    fn start(_: u32) -> Self {
        Planted::default()
    }

    fn sent(_: &[u64; 2], _: usize) -> usize {
        0
    }

    fn filled(_: &[u64; 2]) -> usize {
        0
    }

    fn step(
        &mut self,
        _: u64,
        event: Event<'_, [u64; 2]>,
        _: &mut dyn Effects,
    ) -> Answer<[u64; 2]> {
        let Event::Request { request: &[what, argument], .. } = event else {
            return Answer::NoReply;
        };
        let Some(&(_, want)) = WANTS.get(what as usize) else { return Answer::Done([0, 0]) };
        match want {
            Want::Plant => self.0 = Some(Unchecked(Shelf::new(argument))),
            Want::Clear => self.0 = None,
            Want::Hang => {
                if let Some((way, hang)) = HANGS.get(argument as usize) {
                    kernel_node::log!("hangs: {way}");
                    hang();
                }
            }
            _ => {}
        }
        let Some(Unchecked(shelf)) = &self.0 else { return Answer::Done([0, 0]) };
        let value = match want {
            Want::Plant | Want::Clear | Want::Hang => 0,
            Want::Function => (shelf.function)(argument),
            Want::Object => shelf.object.area(),
            Want::Waker => shelf.wake(),
            Want::Only => (shelf.only)(argument),
            Want::Same => (shelf.same[0])(argument) + (shelf.same[1])(argument),
            Want::Many => shelf.many(argument),
        };
        Answer::Done([value, 1])
    }
}

/// Offset and size of its arena, in the part of the shared block that is for self-tests.
const ARENA: (u64, u64) = (abi::boot::BLOCK - abi::service::SELF_TESTS, 8 * base::addr::PAGE);

/// The service, as this kernel executes it.
static PLANTED: Once<Instance<Planted, ArenaGuard, CoreHeap>> = Once::new();

fn instance(
    platform: &'static Platform,
    coherence: &'static Coherence,
) -> Option<&'static Instance<Planted, ArenaGuard, CoreHeap>> {
    if PLANTED.get().is_none() {
        let guard = shared_arena(platform, coherence, MAX_SERVICES - 1, ARENA)?;
        // Fails if another thread was faster; it has made the same.
        let _ = PLANTED.set(Instance::new(guard));
    }
    PLANTED.get()
}

/// Makes a request to the service. Returns `None` if nothing is planted.
pub fn ask(
    platform: &'static Platform,
    want: Want,
    argument: u64,
) -> Result<Option<u64>, ServiceFailure> {
    let coherence = platform.coherence.as_ref().ok_or(ServiceFailure::Absent)?;
    let instance = instance(platform, coherence).ok_or(ServiceFailure::Absent)?;
    let request = [want as u64, argument];
    let (now, mut outbox) = (arch::time::soc_time(), Outbox::new());
    let event = Event::Request { token: Token::default(), request: &request, bulk: &mut [] };
    let answer = platform.scheduler.unpreempted(|| instance.step(now, event, &mut outbox));
    let _ = coherence.released();
    match answer {
        Ok(Answer::Done([value, 1])) => Ok(Some(value)),
        Ok(_) => Ok(None),
        Err(why) => Err(why.into()),
    }
}
