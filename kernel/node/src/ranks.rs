//! The ranks of the kernel's locks, including those of the crates that build on this one. A core
//! takes locks in ascending order of rank, and holds no leaf lock while it waits for another core
//! or domain. Debug builds check both. `kernel_process` and `kernel_engine`
//! have the ranks 56, 57 and 60. The ranks of `kernel_mem` and `kernel_sched` start at 100,
//! so their locks are taken after all of these but the early log.

use arch::lock::Rank;

/// The registers that are saved while the domain is off.
pub const POWER: Rank = Rank::new(10, "power");
/// The block table.
pub const BLOCKS: Rank = Rank::new(12, "block table");
/// A service, during a step. The order is the same in all kernels, so it also holds between them.
pub const SERVICE: Rank = Rank::new(14, "service");
/// A device driver.
pub const DEVICE: Rank = Rank::new(20, "device");
/// Requests to the soc; held until it answers.
pub const SOC: Rank = Rank::new(30, "soc");
/// A core's buffer for messages.
pub const SCRATCH: Rank = Rank::leaf(36, "message buffer");
/// The turn to take and execute a message of a peer's stream.
pub const STREAM: Rank = Rank::leaf(38, "stream, incoming");
/// The driver of the coherence protocol.
pub const COHERENCE: Rank = Rank::leaf(39, "coherence");
/// The names of this kernel, and of channels that its programs serve.
pub const NAMES: Rank = Rank::leaf(37, "names of this kernel");
/// Calls from a peer.
pub const INCOMING: Rank = Rank::leaf(40, "link, incoming");
/// Ends of channels.
pub const CHANNELS: Rank = Rank::leaf(41, "channels");
/// Calls to a peer.
pub const OUTGOING: Rank = Rank::leaf(42, "link, outgoing");
/// The handler threads of a core and their queue.
pub const POOL: Rank = Rank::leaf(44, "handler pool");
/// A core's attending word.
/// Input of programs that the host started, and the host's folders.
pub const FEEDS: Rank = Rank::new(41, "feeders");
/// Handles of the console's terminal.
pub const TERMINAL: Rank = Rank::leaf(37, "terminal");
/// Processes of this kernel.
pub const PROCESSES: Rank = Rank::new(45, "processes");
/// The cache of loaded programs.
pub const PROGRAMS: Rank = Rank::new(43, "programs");
/// Unused stacks of programs.
pub const STACKS: Rank = Rank::new(42, "stacks");
/// Backtraces of programs that trapped.
pub const TRACES: Rank = Rank::new(53, "traces");
/// The estimate of this domain's energy.
pub const METER: Rank = Rank::leaf(55, "power meter");
/// State of test commands.
pub const TEST: Rank = Rank::new(48, "test");
/// The balloon's manager.
pub const BALLOON: Rank = Rank::leaf(47, "balloon");
/// Memory of a process that two kernels use in turn.
pub const LENT: Rank = Rank::new(46, "lent memory");
/// The frames of all such memory.
pub const LENT_FRAMES: Rank = Rank::new(48, "coherent frames");
/// The list of processes with light threads.
pub const TURNS: Rank = Rank::leaf(61, "turns");
/// The turn of a process with light threads.
pub const TURN: Rank = Rank::leaf(62, "turn");
/// Movable pages.
pub const MOVABLE: Rank = Rank::new(49, "movable pages");
/// The page table.
pub const PAGE_TABLE: Rank = Rank::new(50, "page table");
/// The account of memory that is promised to programs.
pub const PROMISES: Rank = Rank::new(51, "promises");
/// The initiator of a TLB shootdown.
pub const SHOOTDOWN: Rank = Rank::new(52, "shootdown");
/// The homes of services.
pub const HOMES: Rank = Rank::leaf(64, "homes");
/// Pages of bulk memory.
pub const BULK: Rank = Rank::leaf(63, "bulk memory");
/// What windows are charged to.
pub const WINDOWS: Rank = Rank::leaf(65, "charges of windows");
/// A private pipe.
pub const PIPES: Rank = Rank::leaf(41, "private pipe");
/// Ends of private pipes of other kernels.
pub const FAR_PIPES: Rank = Rank::leaf(41, "far ends of pipes");
/// The threads of a process.
pub const THREADS: Rank = Rank::new(58, "threads");
/// The threads of a process that wait at an address.
pub const WAITERS: Rank = Rank::new(59, "waiters");
/// The early log.
pub const EARLY: Rank = Rank::leaf(250, "early log");
