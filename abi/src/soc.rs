//! Words shared with the soc: the chip page, each domain's page, device registers.
//!
//! One writer a word. Everything is a `u64` word, loaded and stored whole and aligned; a request is
//! its fields first, then its sequence number, with a full barrier between, and a doorbell behind.

use crate::boot::{MAX_CORES, MAX_DOMAINS};

/// Bytes of a line that nothing else shares.
pub const LINE: usize = 64;

/// State of a domain as the soc sees it.
pub mod state {
    /// No power; where it goes on when it is woken is kept. Or it never had power.
    pub const OFF: u64 = 0;
    /// Released from reset; its kernel has not reported yet.
    pub const BOOTING: u64 = 1;
    /// Its kernel serves messages.
    pub const RUNNING: u64 = 2;
    /// Stopped without reset; everything is kept.
    pub const INACTIVE: u64 = 3;
    /// Fenced after a crash; comes back as BOOTING under a new epoch, or never.
    pub const DEAD: u64 = 4;
    /// Fenced and without power, and nowhere to go on: what its caches alone knew is lost, as if it
    /// were DEAD, but whoever needs it may wake it.
    pub const COLD: u64 = 5;

    /// Has this life of the domain ended? Then its next one is another epoch.
    pub const fn is_over(state: u64) -> bool {
        matches!(state, DEAD | COLD)
    }

    /// For people.
    pub const fn name(state: u64) -> &'static str {
        match state {
            OFF => "off",
            BOOTING => "booting",
            RUNNING => "running",
            INACTIVE => "inactive",
            DEAD => "dead",
            COLD => "cold",
            _ => "unknown",
        }
    }
}

/// A domain's state and epoch in one word: `epoch << 8 | state`.
pub const fn pack_state(epoch: u64, state: u64) -> u64 {
    epoch << 8 | state
}

/// Takes [`pack_state`] apart: `(epoch, state)`.
pub const fn unpack_state(word: u64) -> (u64, u64) {
    (word >> 8, word & 0xff)
}

/// One domain in the chip page, written by the soc.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct DomainStatus {
    /// [`pack_state`].
    pub state: u64,
    /// Sequence number of the last request answered.
    pub answered: u64,
    /// 0, or one of [`error`].
    pub error: u64,
    /// The answer's value.
    pub value: u64,
    /// soc time, in ns, when that answer was written.
    pub time: u64,
    /// Times this domain was killed or crashed.
    pub deaths: u64,
    /// Times this domain began to run: boots, and wakes from INACTIVE and OFF. Counted before it
    /// runs; when this has changed, its local counter has stood still or begun anew.
    pub wakes: u64,
    /// Spare.
    pub spare: u64,
}

/// Written by the soc only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ChipPage {
    /// A line a domain.
    pub domains: [DomainStatus; MAX_DOMAINS],
}

/// What a domain can ask of the soc; the number goes into [`DomainPage::command`].
pub mod command {
    /// Nothing; the answer's `time` is the point. For clock calibration.
    pub const TIME: u64 = 1;
    /// This kernel serves messages now: state becomes RUNNING.
    pub const READY: u64 = 2;
    /// Stop domain `arg0` without reset (itself included).
    pub const INACTIVE: u64 = 3;
    /// Power domain `arg0` off; when it is the caller, `arg1` is its warm entry (0: next boot is
    /// cold).
    pub const OFF: u64 = 4;
    /// Wake domain `arg0`, from INACTIVE, OFF or DEAD; done at once when it runs.
    pub const WAKE: u64 = 5;
    /// Power the whole board off.
    pub const SHUTDOWN: u64 = 6;
    /// The kernel of the caller has panicked: fence it (state DEAD); `arg0` 1: boot it again.
    pub const PANIC: u64 = 7;
    /// Energy that domain `arg0` has used since the board's start, in nJ: the answer's value.
    /// [`super::error::ABSENT`] where nobody measures it: outside of the lab, in some modes of it.
    pub const ENERGY: u64 = 8;
    /// Power the whole board off and on again: memory is empty, every domain boots cold under its
    /// first epoch, what is on disks stays. [`super::error::ABSENT`] where a run must repeat.
    pub const REBOOT: u64 = 9;
}

/// Why the soc refused a request.
pub mod error {
    /// Done.
    pub const NONE: u64 = 0;
    /// No such command or domain.
    pub const INVALID: u64 = 1;
    /// The domain is not in a state that allows it.
    pub const STATE: u64 = 2;
    /// The emulator did not answer; see the soc's log.
    pub const PLATFORM: u64 = 3;
    /// This board has no such thing.
    pub const ABSENT: u64 = 4;
}

/// Written by one domain only. One request at a time, so nothing can be full.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct DomainPage {
    /// One of [`command`].
    pub command: u64,
    /// First argument.
    pub arg0: u64,
    /// Second argument.
    pub arg1: u64,
    /// Counts up; written last. The request is open until `answered` reaches it.
    pub sequence: u64,
    /// The frequency that the domain asks for, in MHz; acts at the store. 0: its nominal one.
    pub frequency_mhz: u64,
    /// 1: the clock is gated while a core waits: less power, and a moment to wake. Acts at the
    /// store.
    pub gate_idle: u64,
    /// Words for self-tests: this domain writes, others poll.
    pub play: [u64; 3],
    /// Per core: 1 while it is in kernel code and polls, 0 when it must be rung.
    pub attending: [u64; MAX_CORES],
    /// Unused.
    pub rest: [u64; 512 - 9 - MAX_CORES],
}

/// Hardware spinlocks in the bank.
pub const SPINLOCKS: usize = 32;

/// One hardware spinlock: 0 free, else holder's domain index + 1.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Spinlock {
    /// Taken by swap in arch, freed by a store; the soc frees those of a dead domain.
    pub holder: u64,
    /// Unused.
    pub rest: [u64; 7],
}

/// Queues of one virtio device.
pub const MAX_QUEUES: usize = 4;

/// A virtqueue's place, written by the driver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueRegisters {
    /// Entries; 0 disables the queue.
    pub size: u64,
    /// Physical address of the descriptor table.
    pub descriptors: u64,
    /// Physical address of the available ring.
    pub driver: u64,
    /// Physical address of the used ring.
    pub device: u64,
}

/// Register block of a virtio device, 4 KiB. Registers cannot trap on this chip, so a write is
/// stores, then `sequence`, then the device's doorbell at the soc; it has happened when
/// `acknowledged` reaches `sequence`. A queue notification is the doorbell alone.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct DeviceRegisters {
    // Written by the driver.
    /// Counts up with every change below.
    pub sequence: u64,
    /// virtio device status as the driver set it; 0 resets.
    pub status: u64,
    /// Features the driver accepted.
    pub driver_features: u64,
    /// Spare.
    pub spare: [u64; 5],
    /// Queues.
    pub queues: [QueueRegisters; MAX_QUEUES],
    /// Unused.
    pub rest0: [u64; 256 - 8 - 4 * MAX_QUEUES],
    // Written by the soc.
    /// `sequence` as far as it was carried out.
    pub acknowledged: u64,
    /// virtio device id (3 console, 2 block, 4 rng).
    pub device_id: u64,
    /// Features offered.
    pub device_features: u64,
    /// Status as the device sees it (DEVICE_NEEDS_RESET may be added).
    pub device_status: u64,
    /// Most entries of a queue.
    pub queue_max: u64,
    /// Counts up whenever a used buffer or a configuration change was signalled.
    pub interrupts: u64,
    /// Generation of the configuration space.
    pub generation: u64,
    /// Spare.
    pub spare1: u64,
    /// Configuration space, little endian.
    pub config: [u64; 32],
    /// Unused.
    pub rest1: [u64; 256 - 8 - 32],
}

const _: () = assert!(size_of::<DomainStatus>() == 64);
const _: () = assert!(size_of::<ChipPage>() <= 4096);
const _: () = assert!(size_of::<DomainPage>() == 4096);
const _: () = assert!(size_of::<Spinlock>() == 64);
const _: () = assert!(size_of::<DeviceRegisters>() == 4096);
