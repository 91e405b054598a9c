//! The registers of a virtio device, and its opening as a state machine that never waits.
//!
//! ```text
//!            reset            acknowledge, driver       features           queues, driver_ok
//!   Closed --------> Reset ----------------> Driver ----------> Features ----------> Starting
//!     ^               ^  |                                         |                     |
//!     | Device event  |  +-- an answer is missing for 5 s, or says no: any of them       |
//!     |               |  v                                                               v
//!   Failed <----------|--+       needs a reset, or another kernel wrote `sequence`      Open
//!                     +------------------------------------------------------------------+
//! ```
//! To write registers, the driver stores the fields and then `sequence`, and rings the device's
//! doorbell at the soc. The write is complete when `acknowledged` equals `sequence`. Each step that
//! finds it complete continues; until then the driver looks again every [`POLL`].

use abi::soc::{DeviceRegisters, MAX_QUEUES, QueueRegisters};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use share::Device;

/// Virtio status bits (virtio 1.3, 2.1).
mod status {
    pub const ACKNOWLEDGE: u64 = 1;
    pub const DRIVER: u64 = 2;
    pub const DRIVER_OK: u64 = 4;
    pub const FEATURES_OK: u64 = 8;
    pub const NEEDS_RESET: u64 = 64;

    /// The values of the register in the order of an opening.
    pub const OPENING: [u64; 4] = [
        0,
        ACKNOWLEDGE | DRIVER,
        ACKNOWLEDGE | DRIVER | FEATURES_OK,
        ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK,
    ];
}

/// VIRTIO_F_VERSION_1. Devices without it are not supported.
pub const VERSION_1: u64 = 1 << 32;
/// Time between two looks for the soc's acknowledgement, in ns.
pub const POLL: u64 = 100_000;
/// Time without an acknowledgement after which the device counts as silent, in ns.
pub const PATIENCE: u64 = 5_000_000_000;
/// Maximum number of openings in a row in which no request completes.
const ATTEMPTS: u32 = 8;

/// What a driver needs of its device.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The virtio device id.
    pub id: u64,
    /// Size of the device's memory.
    pub memory: usize,
    /// Features that are accepted if the device has them.
    pub features: u64,
}

/// Why a device could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The soc did not acknowledge a write in time.
    Silent,
    /// It is a device of another kind.
    WrongDevice(u64),
    /// It lacks required features.
    Features,
    /// Its queues are smaller than ours.
    QueueTooSmall,
    /// Its memory, as given in the board file, is too small.
    Memory,
    /// It needs a reset after each opening.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Reset,
    Driver,
    Features,
    Starting,
    Open,
    Failed(Problem),
}

/// What [`Transport::advance`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The soc has not acknowledged yet.
    Waiting,
    /// The device is reset and has agreed. It touches none of its memory until the driver has
    /// placed its queues with [`Transport::start`].
    PlaceQueues,
    /// The device is open from now on.
    Opened,
    /// It has been open.
    Open,
    Failed,
}

/// The registers of a device, as the executing kernel reaches them.
pub struct Registers<'a>(pub &'a Device<'a>);

impl Registers<'_> {
    pub fn load(&self, field: usize) -> u64 {
        self.0.words.load(self.0.registers + field)
    }

    pub fn store(&self, field: usize, value: u64) {
        self.0.words.store(self.0.registers + field, value);
    }

    pub fn device_id(&self) -> u64 {
        self.load(offset_of!(DeviceRegisters, device_id))
    }

    /// Returns how often the device has raised its interrupt. What it had completed by then is seen
    /// after this.
    pub fn interrupts(&self) -> u64 {
        let interrupts = self.load(offset_of!(DeviceRegisters, interrupts));
        self.0.words.barrier(); // completions are visible before the count
        interrupts
    }

    /// Says that the completions of that many interrupts were collected.
    pub fn set_handled(&self, interrupts: u64) {
        self.store(offset_of!(DeviceRegisters, handled), interrupts);
    }

    pub fn sequence(&self) -> u64 {
        self.load(offset_of!(DeviceRegisters, sequence))
    }

    /// Writes step `step` of an opening to the status register, and announces all registers under
    /// `sequence`.
    pub fn announce(&self, step: usize, sequence: u64) {
        self.store(offset_of!(DeviceRegisters, status), status::OPENING[step]);
        self.0.words.barrier(); // the fields are visible before the sequence number
        self.store(offset_of!(DeviceRegisters, sequence), sequence);
        self.notify();
    }

    /// Returns whether what was announced under `sequence` has taken effect.
    pub fn has_acknowledged(&self, sequence: u64) -> bool {
        let done = self.load(offset_of!(DeviceRegisters, acknowledged)) == sequence;
        self.0.words.barrier(); // what the soc wrote before acknowledging is read after this
        done
    }

    /// Rings the device, so that it looks at its registers and queues.
    pub fn notify(&self) {
        self.0.words.barrier(); // what it is to see is visible before the doorbell
        (self.0.ring)(self.0.kick);
    }

    /// Accepts those of the device's features that are in `wanted`. `None` if it is too old.
    pub fn accept(&self, wanted: u64) -> Option<u64> {
        let offered = self.load(offset_of!(DeviceRegisters, device_features));
        let accepted = offered & (wanted | VERSION_1);
        self.store(offset_of!(DeviceRegisters, driver_features), accepted);
        (accepted & VERSION_1 != 0).then_some(accepted)
    }

    pub fn has_agreed(&self) -> bool {
        self.load(offset_of!(DeviceRegisters, device_status)) & status::FEATURES_OK != 0
    }

    /// Places the queues, in the order of their numbers; one of size 0, or without a place, is not
    /// used. Returns false if the device cannot have such large ones.
    pub fn place(&self, queues: &[QueueRegisters]) -> bool {
        let most = self.load(offset_of!(DeviceRegisters, queue_max));
        for index in 0..MAX_QUEUES {
            let at = offset_of!(DeviceRegisters, queues) + index * size_of::<QueueRegisters>();
            let place = queues.get(index).copied().unwrap_or_default();
            self.store(at + offset_of!(QueueRegisters, descriptors), place.descriptors);
            self.store(at + offset_of!(QueueRegisters, driver), place.driver);
            self.store(at + offset_of!(QueueRegisters, device), place.device);
            self.store(at + offset_of!(QueueRegisters, size), place.size);
        }
        queues.iter().all(|place| place.size <= most)
    }

    fn needs_reset(&self) -> bool {
        self.load(offset_of!(DeviceRegisters, device_status)) & status::NEEDS_RESET != 0
    }

    /// Returns a word of the configuration space.
    pub fn config(&self, word: usize) -> u64 {
        self.load(offset_of!(DeviceRegisters, config) + 8 * word)
    }
}

/// The state of an opening.
#[derive(Debug)]
pub struct Transport {
    /// Soc time of the latest step.
    stepped: AtomicU64,
    stage: Stage,
    /// What this state has last written to the register of that name.
    sequence: u64,
    /// When the device counts as silent.
    deadline: u64,
    features: u64,
    /// Number of openings since a request was completed.
    attempts: u32,
}

impl Default for Transport {
    fn default() -> Transport {
        Transport::new()
    }
}

impl Transport {
    pub const fn new() -> Transport {
        Transport {
            stepped: AtomicU64::new(0),
            stage: Stage::Closed,
            sequence: 0,
            deadline: 0,
            features: 0,
            attempts: 0,
        }
    }

    /// Begins a step, with a store: a page that is read and then written would be fetched from
    /// another kernel twice.
    pub fn touch(&self, now: u64) {
        self.stepped.store(now, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    pub fn has_failed(&self) -> bool {
        matches!(self.stage, Stage::Failed(_))
    }

    /// Returns what this state has last written to the register of that name.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns why the device could not be opened.
    pub fn problem(&self) -> Option<Problem> {
        if let Stage::Failed(problem) = self.stage { Some(problem) } else { None }
    }

    /// Returns the features that driver and device have agreed on.
    pub fn features(&self) -> u64 {
        self.features
    }

    /// The device has said something: one that had failed is opened again.
    pub fn retry(&mut self) {
        if self.has_failed() {
            (self.stage, self.attempts) = (Stage::Closed, 0);
        }
    }

    /// The device has completed a request.
    pub fn works(&mut self) {
        self.attempts = 0;
    }

    /// Opens the device as far as it has acknowledged. To be called in each step, before the queues
    /// are looked at, and again after [`Progress::PlaceQueues`].
    pub fn advance(&mut self, now: u64, device: &Device<'_>, needs: &Needs) -> Progress {
        let registers = Registers(device);
        match self.stage {
            Stage::Failed(_) => return Progress::Failed,
            Stage::Closed if device.memory_size < needs.memory => {
                return self.fail(Problem::Memory);
            }
            Stage::Closed => self.reset(now, &registers),
            // A kernel that panics takes the console by force.
            _ if registers.sequence() != self.sequence => {
                self.reset(now, &registers);
                return Progress::Waiting;
            }
            Stage::Reset => {}
            _ if registers.needs_reset() => {
                if self.attempts == ATTEMPTS {
                    return self.fail(Problem::Broken);
                }
                self.attempts += 1;
                self.reset(now, &registers);
            }
            _ => {}
        }
        self.follow(now, &registers, needs)
    }

    /// Continues the opening while the soc has acknowledged.
    fn follow(&mut self, now: u64, registers: &Registers<'_>, needs: &Needs) -> Progress {
        while self.stage != Stage::Open {
            if !registers.has_acknowledged(self.sequence) {
                let late = now >= self.deadline;
                return if late { self.fail(Problem::Silent) } else { Progress::Waiting };
            }
            match self.stage {
                Stage::Reset => {
                    let found = registers.device_id();
                    if found != needs.id {
                        return self.fail(Problem::WrongDevice(found));
                    }
                    self.announce(now, registers, 1, Stage::Driver);
                }
                Stage::Driver => match registers.accept(needs.features) {
                    Some(features) => {
                        self.features = features;
                        self.announce(now, registers, 2, Stage::Features);
                    }
                    None => return self.fail(Problem::Features),
                },
                Stage::Features if registers.has_agreed() => return Progress::PlaceQueues,
                Stage::Features => return self.fail(Problem::Features),
                _ => {
                    self.stage = Stage::Open;
                    return Progress::Opened;
                }
            }
        }
        Progress::Open
    }

    /// Passes the queues to the device, after [`Progress::PlaceQueues`].
    pub fn start(&mut self, now: u64, device: &Device<'_>, queues: &[QueueRegisters]) {
        let registers = Registers(device);
        if registers.place(queues) {
            self.announce(now, &registers, 3, Stage::Starting);
        } else {
            self.fail(Problem::QueueTooSmall);
        }
    }

    fn reset(&mut self, now: u64, registers: &Registers<'_>) {
        self.sequence = registers.sequence();
        self.announce(now, registers, 0, Stage::Reset);
    }

    fn announce(&mut self, now: u64, registers: &Registers<'_>, step: usize, next: Stage) {
        self.sequence = self.sequence.wrapping_add(1);
        self.deadline = now.saturating_add(PATIENCE);
        self.stage = next;
        registers.announce(step, self.sequence);
    }

    fn fail(&mut self, problem: Problem) -> Progress {
        self.stage = Stage::Failed(problem);
        Progress::Failed
    }
}
