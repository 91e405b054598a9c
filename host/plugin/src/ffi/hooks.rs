//! Replaces QEMU's behaviour in two places: the value of its virtual clock, and the delivery of
//! doorbells. Each place is checked against the build that this code was written for; a different
//! one is rejected.

use super::api;
use std::ffi::{c_uint, c_void};

/// Offset of `get_virtual_clock` in `AccelOpsClass`.
const GET_CLOCK: usize = 0xc0;
/// Maximum offset of the load of that pointer in `cpus_get_virtual_clock`.
const LOOK: usize = 96;
/// Bytes of a `MemoryRegionOps`, rounded up.
const OPS: usize = 160;
/// Number of words of a `MemoryRegion` that are searched for its owner.
const REGION: usize = 32;
/// ivshmem's doorbell register.
const RING: u64 = 12;

/// The function that QEMU calls for a store to a device.
pub type Write = extern "C" fn(device: *mut c_void, at: u64, value: u64, size: c_uint);

/// Makes QEMU's virtual clock return the value of `clock`.
pub fn clock(clock: extern "C" fn() -> i64) -> Result<(), String> {
    let code = api::cpus_get_virtual_clock as *const u8;
    // SAFETY: the first bytes of a function of the running program, which is longer than this or
    // followed by others.
    let code = unsafe { std::slice::from_raw_parts(code, LOOK) };
    // mov DISP32(%rax), %rax; the displacement is the offset.
    let load = [0x48, 0x8b, 0x80, GET_CLOCK as u8, 0, 0, 0];
    if !code.windows(load.len()).any(|window| window == load) {
        return Err(format!(
            "this build of QEMU keeps its clock elsewhere than at {GET_CLOCK:#x}; \
             the lab knows QEMU 10.0.2 of Debian bookworm-backports"
        ));
    }
    // SAFETY: a lookup by a constant name.
    let class = unsafe { api::module_object_class_by_name(c"tcg-accel-ops".as_ptr()) };
    if class.is_null() {
        return Err("QEMU has no TCG here".to_owned());
    }
    // SAFETY: the class object has a function pointer there, as the code above shows; it is not
    // called before QEMU has set up its accelerator, and never written by QEMU for this one.
    unsafe { class.byte_add(GET_CLOCK).cast::<extern "C" fn() -> i64>().write(clock) };
    Ok(())
}

/// The doorbell device.
#[derive(Clone, Copy, Debug)]
pub struct Doorbell {
    device: *mut c_void,
    original: Write,
}

// SAFETY: the pointer is only passed on to QEMU's functions, under its big lock.
unsafe impl Send for Doorbell {}
// SAFETY: as above.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    /// Finds the device and makes its register block call `write`. `Ok(None)`: there is no such
    /// device.
    pub fn hook(write: Write) -> Result<Option<Doorbell>, String> {
        // SAFETY: lookups by constant names; QEMU copes with the absence of both.
        let device = unsafe {
            let kind = c"ivshmem-doorbell".as_ptr();
            api::object_resolve_path_type(c"".as_ptr(), kind, std::ptr::null_mut())
        };
        if device.is_null() {
            return Ok(None);
        }
        // SAFETY: as above, for a part of an object that is there.
        let region =
            unsafe { api::object_resolve_path_component(device, c"ivshmem-mmio[0]".as_ptr()) };
        if region.is_null() {
            return Err("QEMU's doorbell device has no register block".to_owned());
        }
        let place = ops_of(region.cast(), device)?;
        // SAFETY: `ops_of` found the pointer between the three that surround it; QEMU's table is
        // constant and longer than the copy reads together with what follows it in the program.
        unsafe {
            let ops = place.read();
            let copy: &'static mut [u8; OPS] = Box::leak(Box::new([0; OPS]));
            std::ptr::copy_nonoverlapping(ops.cast::<u8>(), copy.as_mut_ptr(), OPS);
            let table = copy.as_mut_ptr().cast::<Write>();
            // The second pointer of the table is `write`.
            let original = table.add(1).read_unaligned();
            table.add(1).write_unaligned(write);
            place.write(copy.as_ptr().cast());
            Ok(Some(Doorbell { device, original }))
        }
    }

    /// Passes a store on to QEMU.
    pub fn write(&self, device: *mut c_void, at: u64, value: u64, size: c_uint) {
        (self.original)(device, at, value, size);
    }

    /// Raises `vector` at the guest; the big lock is held.
    pub fn raise(&self, vector: usize) {
        // SAFETY: the device is the one that was found, and has every vector of the board.
        unsafe { api::msix_notify(self.device, vector as c_uint) };
    }
}

/// Returns the slot and the vector that a store to the register block rings.
pub fn ring_of(at: u64, value: u64) -> Option<(usize, usize)> {
    (at == RING).then_some(((value >> 16 & 0xffff) as usize, (value & 0xff) as usize))
}

/// Returns where a region holds its function table: between its owner (stored twice) and its opaque
/// pointer.
fn ops_of(region: *mut *mut c_void, device: *mut c_void) -> Result<*mut *const c_void, String> {
    for index in 0..REGION {
        // SAFETY: a `MemoryRegion` is longer than `REGION` + 4 words.
        let words: [*mut c_void; 4] =
            std::array::from_fn(|i| unsafe { region.add(index + i).read() });
        if words[0] == device && words[1] == device && words[3] == device {
            // SAFETY: within the same words.
            return Ok(unsafe { region.add(index + 2) }.cast());
        }
    }
    Err("this build of QEMU lays out its doorbell device in another way".to_owned())
}
