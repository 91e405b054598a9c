//! All imports with the meaning of each argument, for generating calls with valid or almost valid
//! arguments.

/// An import, and its arguments:
///
/// ```text
///   D a directory   F a file         p a path   l its bytes      i pieces   n how many of them
///   o a result      b s a buffer, its bytes     q a subscription            S a Spawn
///   X a socket      a an address of a socket            h a result of two bytes
///   0 1 9 this number of 32 bits                Z 0 of 64 bits
/// ```
pub const IMPORTS: &[(&str, &str)] = &[
    ("args_get", "oo"),
    ("args_sizes_get", "oo"),
    ("environ_get", "oo"),
    ("environ_sizes_get", "oo"),
    ("clock_res_get", "1o"),
    ("clock_time_get", "1Zo"),
    ("fd_advise", "FZZ0"),
    ("fd_allocate", "FZZ"),
    ("fd_close", "F"),
    ("fd_datasync", "F"),
    ("fd_fdstat_get", "Fo"),
    ("fd_fdstat_set_flags", "F0"),
    ("fd_fdstat_set_rights", "FZZ"),
    ("fd_filestat_get", "Fo"),
    ("fd_filestat_set_size", "FZ"),
    ("fd_filestat_set_times", "FZZ0"),
    ("fd_pread", "FinZo"),
    ("fd_prestat_get", "Do"),
    ("fd_prestat_dir_name", "Dbs"),
    ("fd_pwrite", "FinZo"),
    ("fd_read", "Fino"),
    ("fd_readdir", "DbsZo"),
    ("fd_renumber", "FF"),
    ("fd_seek", "FZ0o"),
    ("fd_sync", "F"),
    ("fd_tell", "Fo"),
    ("fd_write", "Fino"),
    ("path_create_directory", "Dpl"),
    ("path_filestat_get", "D0plo"),
    ("path_filestat_set_times", "D0plZZ0"),
    ("path_link", "D0plDpl"),
    ("path_open", "D0pl0ZZ0o"),
    ("path_readlink", "Dplbso"),
    ("path_remove_directory", "Dpl"),
    ("path_rename", "DplDpl"),
    ("path_symlink", "plDpl"),
    ("path_unlink_file", "Dpl"),
    ("poll_oneoff", "qbno"),
    ("proc_exit", "0"),
    ("proc_raise", "0"),
    ("random_get", "bs"),
    ("sched_yield", ""),
    ("sock_accept", "X0o"),
    ("sock_recv", "Xin0oh"),
    ("sock_send", "Xin0o"),
    ("sock_shutdown", "X0"),
    ("spawn", "So"),
    ("wait", "01o"),
    ("kill", "90"),
    ("move", "00"),
    ("move_point", ""),
    ("group", "00"),
    ("self", "o"),
    ("list", "0bso"),
    ("pipe", "o"),
    ("dup", "Fo"),
    ("terminal", "F00"),
    ("socket", "160o"),
    ("bind", "Xa"),
    ("listen", "X1"),
    ("connect", "Xa"),
    ("accept", "X0oo"),
    ("send_to", "Xin0ao"),
    ("recv_from", "Xin0ooh"),
    ("local_address", "Xo"),
    ("peer_address", "Xo"),
    ("get_option", "X2o"),
    ("set_option", "X21"),
    ("channel", "bso"),
    ("channel_use", "Xbs1"),
    ("channel_send", "Xb"),
    ("channel_receive", "Xb1"),
    ("channel_call", "Xbb"),
    ("name_serve", "plbso"),
    ("name_connect", "plbs1o"),
    ("window_flush", "bs"),
    ("window_refresh", "bs"),
    ("window_close", "b"),
];

/// Imports that are not WASI's.
pub const OWN: [&str; 32] = [
    "spawn",
    "wait",
    "kill",
    "move",
    "move_point",
    "group",
    "self",
    "list",
    "pipe",
    "dup",
    "terminal",
    "socket",
    "bind",
    "listen",
    "connect",
    "accept",
    "send_to",
    "recv_from",
    "local_address",
    "peer_address",
    "get_option",
    "set_option",
    "channel",
    "channel_use",
    "channel_send",
    "channel_receive",
    "channel_call",
    "name_serve",
    "name_connect",
    "window_flush",
    "window_refresh",
    "window_close",
];

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_process::FUNCTIONS;
    use kernel_process::functions::Type;

    #[test]
    fn every_import_is_here_as_it_is() {
        assert_eq!(IMPORTS.len(), FUNCTIONS.len());
        for (function, (name, numbers)) in FUNCTIONS.iter().zip(IMPORTS) {
            assert_eq!((function.name, function.module == "penumbra"), (*name, OWN.contains(name)));
            let sizes = numbers.chars().map(|kind| if kind == 'Z' { Type::I64 } else { Type::I32 });
            assert!(sizes.eq(function.parameters.iter().copied()), "{name}");
        }
    }
}
