//! What the errors of the process table mean to a user.

use abi::process::Errno;
use kernel_services::session::Failure;

/// Returns a text for the user about a move.
pub fn explain_move(why: Errno) -> Failure {
    Failure::Failed(match why {
        Errno::Again => "it is being started; try again",
        Errno::Noent => "its program was not installed for that kernel",
        Errno::Nomem => "there is no memory for it there, or to pass it on; it continues here",
        Errno::Nfile => {
            "its files cannot be open on two kernels: its tree has too many; it continues"
        }
        Errno::Intr => "it does not call the kernel, or it ends",
        Errno::Noexec => "its program on that kernel is another version; it continues here",
        why => return explain(why),
    })
}

/// Returns a text for the user.
pub fn explain(why: Errno) -> Failure {
    Failure::Failed(match why {
        Errno::Again => "all places for processes are taken; end some first (`ps`, `kill PID`)",
        Errno::Srch | Errno::Child => "there is no such process; `ps` lists them",
        Errno::Noent => "there is no such program; `pen install` puts one into /bin",
        Errno::Noexec => "not a program that runs here; the kernel's log says why",
        Errno::Nomem => "that kernel has no memory for it",
        Errno::Nfile => "no more files can be open; end some programs (`ps`, `kill PID`)",
        Errno::Mfile => "its limit of descriptors is below what it starts with",
        Errno::Notcapable => {
            "a directory of its manifest is not there; the kernel's log says which"
        }
        Errno::Toobig => {
            "its arguments and environment are too long: at most 128 KiB together, and 3 KiB where \
             another kernel has the process table"
        }
        Errno::Nodev => {
            "no kernel has the platform that its manifest requires; `place PROGRAM` in the monitor \
             says which"
        }
        Errno::Hostunreach => "that kernel does not run",
        Errno::Restarted => "the process table has restarted meanwhile; try again",
        Errno::Inval => "invalid argument",
        Errno::Perm => "not allowed",
        Errno::Nosys => "the kernels of this board share no memory by which a program could move",
        Errno::Busy => "it is on its way to another kernel",
        Errno::Notsup => "it cannot move while it runs; its manifest must say `movable = true`",
        _ => "refused",
    })
}
