//! The last words of a kernel that panics, without any state.

use super::buffers::{BUFFER, BUFFERS, DEVICE_ID, MEMORY, transmit, transmit_queue_at};
use abi::soc::QueueRegisters;
use share::Device;
use virtio::queue::Queue;
use virtio::transport::Registers;

/// Maximum number of looks for acknowledgements of the soc, over all attempts.
const LOOKS: u32 = 1_000_000;
/// Step between the sequence numbers of last words. A driver's numbers differ by 1, so that neither
/// takes an acknowledgement of the other's for its own.
const STRIDE: u64 = 1 << 32;
/// Number of attempts, because another kernel's driver may open the device at the same time.
const ATTEMPTS: u32 = 3;

/// Resets the console device and prints as much of `text` as fits its buffers. Returns how many
/// bytes the device has got.
///
/// It looks for acknowledgements a bounded number of times. The drivers of all kernels notice
/// by the registers' `sequence` that the device is not theirs any more, and open it again.
pub fn last_words(device: &Device<'_>, text: &[u8]) -> usize {
    if device.memory_size < MEMORY || Registers(device).device_id() != DEVICE_ID {
        return 0;
    }
    (0..ATTEMPTS).find_map(|_| attempt(device, text)).unwrap_or(0)
}

fn attempt(device: &Device<'_>, text: &[u8]) -> Option<usize> {
    let registers = Registers(device);
    let mut looks = LOOKS / ATTEMPTS;
    let mut sequence = registers.sequence();
    let mut announce = |registers: &_, step| announce(registers, step, &mut sequence, &mut looks);
    announce(&registers, 0)?;
    announce(&registers, 1)?;
    registers.accept(0)?;
    announce(&registers, 2)?;
    // The device finds the text in its queue when it begins to look at it.
    let mut queue = Queue::new(&device.words, transmit_queue_at(device));
    let mut printed = 0;
    for (buffer, chunk) in text.chunks(BUFFER).take(BUFFERS).enumerate() {
        transmit(device, &mut queue, buffer, chunk)?;
        printed += chunk.len();
    }
    if !registers.place(&[QueueRegisters::default(), queue.place(device.window)]) {
        return None;
    }
    announce(&registers, 3)?;
    Some(printed)
}

/// Announces a step of the opening and looks for its acknowledgement. `None` if it does not come,
/// or if another kernel writes the registers.
fn announce(
    registers: &Registers<'_>,
    step: usize,
    sequence: &mut u64,
    looks: &mut u32,
) -> Option<()> {
    *sequence = sequence.wrapping_add(STRIDE);
    registers.announce(step, *sequence);
    while *looks > 0 {
        *looks -= 1;
        if registers.has_acknowledged(*sequence) {
            return (registers.sequence() == *sequence).then_some(());
        }
        core::hint::spin_loop();
    }
    None
}
