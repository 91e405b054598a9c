//! Light threads: threads of a process that run on the weak kernel, with the same memory and
//! descriptors, while all normal threads of the process are blocked (`docs/howto/light-thread.md`).
//!
//! For programs with threads that `./pen apps` builds (`threads = true`): the C library that it
//! links them with creates the threads. A program that calls this module and has another library
//! does not link: `penumbra_next_thread_is_light` is missing. Other programs do not need it.

use crate::ffi;

/// Makes the calling thread's next `std::thread::spawn` create a light thread.
///
/// It applies to one creation, whether that succeeds or not. Without a weak kernel that can run it,
/// the thread is a normal one; so it is on a host.
///
/// ```ignore
/// penumbra::light::next_thread();
/// let task = std::thread::spawn(|| 6 * 7);
/// // Main blocks, so the light thread may run.
/// assert_eq!(task.join().unwrap(), 42);
/// ```
pub fn next_thread() {
    ffi::next_thread_is_light();
}
