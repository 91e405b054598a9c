//! The guest's general registers. Found when the virtual CPU appears, read in its callbacks.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Callbacks that read registers say so when they are registered.
pub const READ: c_int = 1;

/// `GArray` and `GByteArray`: what of them is public.
#[repr(C)]
struct Array {
    data: *mut c_void,
    length: c_uint,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
struct Descriptor {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

unsafe extern "C" {
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut c_void, to: *mut Array) -> c_int;
    fn g_array_free(array: *mut Array, all: c_int) -> *mut c_void;
    fn g_byte_array_new() -> *mut Array;
    fn g_byte_array_free(array: *mut Array, all: c_int) -> *mut c_void;
}

/// Handles of AArch64's x0 to x30.
#[derive(Debug)]
pub struct Registers(Vec<*mut c_void>);

// SAFETY: handles are numbers that QEMU hands out, good in the virtual CPU's thread, where alone
// callbacks run.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    /// Finds them; called when the virtual CPU appears. None on other targets.
    pub fn find() -> Registers {
        let mut found = [std::ptr::null_mut(); 31];
        // SAFETY: QEMU's list is ours until it is freed; its names are constant strings.
        unsafe {
            let list = qemu_plugin_get_registers();
            if list.is_null() {
                return Registers(Vec::new());
            }
            let (data, length) = ((*list).data.cast::<Descriptor>(), (*list).length as usize);
            for descriptor in (0..length).map(|i| &*data.add(i)) {
                let name = CStr::from_ptr(descriptor.name).to_str().unwrap_or_default();
                let number = name.strip_prefix('x').and_then(|n| n.parse::<usize>().ok());
                if let Some(place) = number.and_then(|n| found.get_mut(n)) {
                    *place = descriptor.handle;
                }
            }
            g_array_free(list, 1);
        }
        Registers(found.to_vec())
    }

    /// What register `number` holds; in a callback that was registered with [`READ`].
    pub fn read(&self, number: usize) -> Option<u64> {
        let handle = *self.0.get(number).filter(|handle| !handle.is_null())?;
        // SAFETY: QEMU appends the register's bytes to an array of ours, which is freed here.
        unsafe {
            let array = g_byte_array_new();
            let bytes = qemu_plugin_read_register(handle, array);
            let whole = bytes == 8 && (*array).length == 8;
            let value = whole.then(|| (*array).data.cast::<u64>().read_unaligned());
            g_byte_array_free(array, 1);
            value
        }
    }
}
