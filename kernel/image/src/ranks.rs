//! The order of the image's locks, outermost first. Debug builds check it at every lock. The locks
//! of mem and sched come behind all of these (their ranks start at 100).

use arch::lock::Rank;

/// The saved core, across the power-off.
pub const POWER: Rank = Rank::new(10, "power");
/// A service's step. All kernels have the same order, so it holds across them.
pub const SERVICE: Rank = Rank::new(14, "service");
/// Device drivers.
pub const DEVICE: Rank = Rank::new(20, "device");
/// Requests to the soc; held across its answer.
pub const SOC: Rank = Rank::new(30, "soc");
/// Buffers for messages, one a core.
pub const SCRATCH: Rank = Rank::leaf(38, "message buffer");
/// The coherence protocol.
pub const COHERENCE: Rank = Rank::leaf(39, "coherence");
/// A message link's incoming side.
pub const INCOMING: Rank = Rank::leaf(40, "link, incoming");
/// A message link's outgoing side.
pub const OUTGOING: Rank = Rank::leaf(42, "link, outgoing");
/// Handler threads.
pub const POOL: Rank = Rank::leaf(44, "handler pool");
/// Whether a core attends.
pub const ATTENDANCE: Rank = Rank::leaf(46, "attendance");
/// Who brings programs their input.
pub const FEEDS: Rank = Rank::new(41, "feeders");
/// Ends of the console's terminal.
pub const TERMINAL: Rank = Rank::leaf(37, "terminal");
/// Processes of this kernel.
pub const PROCESSES: Rank = Rank::new(45, "processes");
/// Programs that are kept.
pub const PROGRAMS: Rank = Rank::new(43, "programs");
/// Stacks of programs that nobody uses.
pub const STACKS: Rank = Rank::new(42, "stacks");
/// Where programs trapped.
pub const TRACES: Rank = Rank::new(53, "traces");
/// For commands of tests.
#[cfg(feature = "trials")]
pub const TEST: Rank = Rank::new(48, "test");
/// The balloon's manager.
pub const BALLOON: Rank = Rank::leaf(47, "balloon");
/// Pages that may be moved.
pub const MOVABLE: Rank = Rank::new(49, "movable pages");
/// The page table.
pub const PAGE_TABLE: Rank = Rank::new(50, "page table");
/// Who promises memory to programs, one at a time.
pub const PROMISES: Rank = Rank::new(51, "promises");
/// Shootdowns, one at a time.
pub const SHOOTDOWN: Rank = Rank::new(52, "shootdown");
/// A pipe of this kernel's programs.
pub const PIPES: Rank = Rank::leaf(54, "private pipe");
/// Lines of the early log.
pub const EARLY: Rank = Rank::leaf(250, "early log");
