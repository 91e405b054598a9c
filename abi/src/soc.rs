//! Memory shared with the soc: the chip page, each domain's page, device registers.
//!
//! Every field is a `u64` with one writer, accessed by aligned 64-bit loads and stores. A request
//! is written as its fields, a full barrier, its sequence number, and a doorbell.

use crate::boot::{MAX_CORES, MAX_DOMAINS};
use crate::hang::Wait;
use crate::lock::LOCKS;
use crate::power::PowerSample;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// State of a domain, as the soc sees it.
pub mod state {
    /// Powered off, with a resume address kept for the next wake; or never powered on.
    pub const OFF: u64 = 0;
    /// Released from reset; its kernel has not sent READY yet.
    pub const BOOTING: u64 = 1;
    pub const RUNNING: u64 = 2;
    /// Stopped without a reset; all its state is kept.
    pub const INACTIVE: u64 = 3;
    /// Fenced after a crash. The next state is BOOTING with a new epoch, or it stays dead.
    pub const DEAD: u64 = 4;
    /// Fenced and powered off without a resume address. As with DEAD, dirty lines of its caches are
    /// lost; but any domain may wake it.
    pub const COLD: u64 = 5;
    /// Its own kernel has put it to rest: it holds no page of the shared block and no lock, and is
    /// stopped or about to be. All its state is kept; a WAKE returns it to RUNNING.
    pub const RESTING: u64 = 6;

    /// Returns whether this epoch of the domain has ended.
    pub const fn is_over(state: u64) -> bool {
        matches!(state, DEAD | COLD)
    }

    /// Returns whether the domain has left the shared block, with its memory kept.
    pub const fn has_left(state: u64) -> bool {
        matches!(state, OFF | RESTING)
    }

    /// Returns whether the domain is stopped with its threads, so that a doorbell does not reach
    /// it.
    pub const fn is_stopped(state: u64) -> bool {
        matches!(state, OFF | INACTIVE | RESTING)
    }

    /// Returns whether the domain does nothing until it is woken.
    pub const fn is_asleep(state: u64) -> bool {
        is_stopped(state) || state == COLD
    }

    /// Name in messages.
    pub const fn name(state: u64) -> &'static str {
        match state {
            OFF => "off",
            BOOTING => "booting",
            RUNNING => "running",
            INACTIVE => "inactive",
            DEAD => "dead",
            COLD => "cold",
            RESTING => "resting",
            _ => "unknown",
        }
    }
}

/// Packs the state and the epoch of a domain: `epoch << 8 | state`.
pub const fn pack_state(epoch: u64, state: u64) -> u64 {
    epoch << 8 | state
}

/// Undoes [`pack_state`]: `(epoch, state)`.
pub const fn unpack_state(word: u64) -> (u64, u64) {
    (word >> 8, word & 0xff)
}

/// A domain in the chip page, written by the soc.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct DomainStatus {
    /// [`pack_state`].
    pub state: u64,
    /// Sequence number of the last request that was answered.
    pub answered: u64,
    pub error: u64,
    /// Value of that answer.
    pub value: u64,
    /// soc time, in ns, when that answer was written.
    pub time: u64,
    /// Number of times that this domain was killed or crashed.
    pub deaths: u64,
    /// Number of times that this domain started to run: boots, and wakes from INACTIVE and OFF.
    /// Incremented before it runs. A change means that the domain's local counter has stopped for a
    /// while or restarted.
    pub wakes: u64,
    /// The soc's last demand ([`crate::hang::pack_demand`]).
    pub demand: u64,
}

/// The chip page, written by the soc only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ChipPage {
    pub domains: [DomainStatus; MAX_DOMAINS],
    /// Per domain: its last epoch that ended although the domain had not left the shared block, so
    /// that pages may be lost; 0 if none. Written before the state that says so.
    pub losses: [u64; MAX_DOMAINS],
    /// [`DomainPage::settled`] of the last domain that has left. Written before that state.
    pub settled: u64,
}

/// Requests to the soc; [`DomainPage::command`].
pub mod command {
    /// No operation. Used to calibrate clocks by the `time` of the answer.
    pub const TIME: u64 = 1;
    /// The kernel serves messages: its state becomes RUNNING.
    pub const READY: u64 = 2;
    /// Stop domain `arg0`, which may be the caller, without a reset.
    pub const INACTIVE: u64 = 3;
    /// Power off domain `arg0`. If it is the caller, `arg1` is the entry of its next, warm boot; 0:
    /// that boot is cold.
    pub const OFF: u64 = 4;
    /// Wake domain `arg0` from INACTIVE, RESTING, OFF, COLD or DEAD. No effect if it is running.
    pub const WAKE: u64 = 5;
    /// Power off the board.
    pub const SHUTDOWN: u64 = 6;
    /// The calling kernel has panicked: fence it (state DEAD), and boot it again if `arg0` is 1.
    pub const PANIC: u64 = 7;
    /// Return the energy in nJ that domain `arg0` has used since the board was started.
    /// [`super::error::ABSENT`] where energy is not measured: outside the lab, and in some of its
    /// modes.
    pub const ENERGY: u64 = 8;
    /// Power the board off and on: memory is cleared, every domain boots cold with its first epoch,
    /// disks keep their contents. [`super::error::ABSENT`] in a run that must be reproducible.
    pub const REBOOT: u64 = 9;
    /// The caller is about to rest: its state becomes RESTING. A WAKE, a doorbell of a device in
    /// the set of vectors `arg1`, or chip time `arg0` (in ns; `u64::MAX`: none) make it RUNNING.
    pub const REST: u64 = 10;
    /// Stop the caller, which is RESTING, until it is woken; answered then.
    /// [`super::error::STATE`]: it has been woken since its REST.
    pub const SLEEP: u64 = 11;
}

/// Result of a request.
pub mod error {
    pub const NONE: u64 = 0;
    pub const INVALID: u64 = 1;
    /// The domain's state does not permit it.
    pub const STATE: u64 = 2;
    /// The emulator did not respond; see the log of the soc.
    pub const PLATFORM: u64 = 3;
    /// This board does not support it.
    pub const ABSENT: u64 = 4;
}

/// The page of one domain, written by that domain only. A domain has one request to the soc at a
/// time, so there is no queue that could be full.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct DomainPage {
    /// One of [`command`].
    pub command: u64,
    pub arg0: u64,
    pub arg1: u64,
    /// Incremented, written last. The request is pending until `answered` reaches it.
    pub sequence: u64,
    /// Requested frequency in MHz, effective at once; 0: the nominal frequency.
    pub frequency_mhz: u64,
    /// 1: gate the clock while a core waits, which saves power and delays the wake-up. Effective at
    /// once.
    pub gate_idle: u64,
    /// Scratch words for self-tests: this domain writes them, others poll.
    pub play: [u64; 3],
    /// Per core: 1 while it is in kernel code and polls, 0 if it needs a doorbell.
    pub attending: [u64; MAX_CORES],
    /// This domain's words of the locks between domains ([`crate::lock::LockWord`]). They outlive
    /// the domain.
    pub locks: [u64; LOCKS],
    /// Per core: its report of a wait that takes too long.
    pub waits: [Wait; MAX_CORES],
    /// The answer to [`DomainStatus::demand`] ([`crate::hang::pack_answer`]).
    pub answer: u64,
    /// 1: the doorbells of devices that domains share end the present rest of this domain.
    pub listens: u64,
    /// The sum of [`ChipPage::losses`] that this domain knew when it last left the shared block;
    /// `u64::MAX` if it did not know all of them.
    pub settled: u64,
    /// Number of processes of this domain that have had light threads on another one. Without them
    /// it need not be woken when that one has died.
    pub lights: u64,
    pub power: PowerSample,
    /// Earliest time for which a timer of a shared service ends the present rest of this domain;
    /// `u64::MAX`: none does.
    pub kept_timer: u64,
    /// Per service of [`crate::service::ALL`]: the time of its timer that this domain left to
    /// others when it began its present rest; `u64::MAX` if it left none.
    pub left_timers: [u64; SERVICES],
    /// The homes of shadowed services, as this domain knows them ([`crate::homes::Homes`]).
    pub homes: u64,
    pub rest: [u64; 512 - 15 - 4 * MAX_CORES - LOCKS - SERVICES - size_of::<PowerSample>() / 8],
}

const SERVICES: usize = crate::service::ALL.len();

impl DomainPage {
    /// Returns what the word at an index becomes when the soc fences the domain: 0, as after reset,
    /// but in a word of a lock the attempt ends.
    pub const fn fenced(word: usize, value: u64) -> u64 {
        let first = core::mem::offset_of!(DomainPage, locks) / 8;
        if word < first || word >= first + LOCKS {
            return 0;
        }
        crate::lock::LockWord(value).fenced().0
    }
}

/// Maximum queues of a virtio device.
pub const MAX_QUEUES: usize = 4;

/// Location of a virtqueue, written by the driver.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueRegisters {
    /// Number of entries; 0 disables the queue.
    pub size: u64,
    pub descriptors: u64,
    pub driver: u64,
    pub device: u64,
}

/// Register block of a virtio device, 4 KiB. Accesses do not trap on this chip, so the driver
/// stores the registers, then `sequence`, and rings the device's doorbell at the soc; the change
/// has taken effect when `acknowledged` reaches `sequence`. A queue notification is the doorbell
/// alone.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Debug)]
pub struct DeviceRegisters {
    // Written by the driver.
    /// Incremented with every change of the registers below.
    pub sequence: u64,
    /// virtio device status set by the driver; 0 resets the device.
    pub status: u64,
    /// Features that the driver accepted.
    pub driver_features: u64,
    /// Console: number of bytes of input that readers were given since the board was started. At a
    /// reset, the device has the input after those again.
    pub taken: u64,
    /// What `interrupts` was when the driver last looked for completions, in any kernel.
    pub handled: u64,
    /// Disk: the newest life of the file service that the driver has had a request of, since the
    /// board was started; 0: none. It outlives the driver's state.
    pub life: u64,
    pub spare: [u64; 2],
    pub queues: [QueueRegisters; MAX_QUEUES],
    pub rest0: [u64; 256 - 8 - 4 * MAX_QUEUES],
    // Written by the soc.
    /// Last `sequence` that has taken effect.
    pub acknowledged: u64,
    /// virtio device id: 1 net, 2 block, 3 console, 4 rng, 19 vsock.
    pub device_id: u64,
    pub device_features: u64,
    /// Device status as the device sees it; may include DEVICE_NEEDS_RESET.
    pub device_status: u64,
    /// Maximum entries of a queue.
    pub queue_max: u64,
    /// Incremented with every used buffer or configuration change that is signalled.
    pub interrupts: u64,
    pub generation: u64,
    pub spare1: u64,
    /// Configuration space, little endian.
    pub config: [u64; 32],
    pub rest1: [u64; 256 - 8 - 32],
}

const _: () = assert!(size_of::<DomainStatus>() == 64);
const _: () = assert!(size_of::<ChipPage>() <= 4096);
const _: () = assert!(size_of::<DomainPage>() == 4096);
const _: () = assert!(size_of::<DeviceRegisters>() == 4096);
