//! The memory that each function may write: its results, as defined by WASI and
//! `docs/reference/abi.md`.

use super::MEMORY;
use std::ops::Range;

/// Ranges of memory.
pub type Ranges = Vec<Range<usize>>;

/// Returns the ranges that a call of `name` with these arguments may change.
pub fn of(name: &str, numbers: &[u64], memory: &[u8]) -> Ranges {
    let all = match name {
        "args_get" => vec![(0, 2 * 4), (1, 6)],
        "environ_get" => vec![(0, 4), (1, 4)],
        "args_sizes_get" | "environ_sizes_get" => vec![(0, 4), (1, 4)],
        "clock_res_get" | "fd_tell" | "fd_prestat_get" => vec![(1, 8)],
        "clock_time_get" => vec![(2, 8)],
        "fd_fdstat_get" => vec![(1, 24)],
        "fd_filestat_get" => vec![(1, 64)],
        "fd_prestat_dir_name" => vec![(1, numbers[2])],
        "fd_pread" | "fd_pwrite" => vec![(4, 4)],
        "fd_read" | "fd_write" => vec![(3, 4)],
        "fd_readdir" => vec![(1, numbers[2]), (4, 4)],
        "fd_seek" => vec![(3, 8)],
        "path_filestat_get" => vec![(4, 64)],
        "path_open" => vec![(8, 4)],
        "path_readlink" => vec![(3, numbers[4]), (5, 4)],
        "poll_oneoff" => vec![(1, numbers[2].saturating_mul(32)), (3, 4)],
        "random_get" => vec![(0, numbers[1])],
        "sock_accept" => vec![(2, 4)],
        "sock_recv" => vec![(4, 4), (5, 2)],
        "sock_send" => vec![(4, 4)],
        "send_to" => vec![(5, 4)],
        "accept" => vec![(2, 28), (3, 4)],
        "recv_from" => vec![(4, 28), (5, 4), (6, 2)],
        "local_address" | "peer_address" => vec![(1, 28)],
        "get_option" => vec![(2, 4)],
        "socket" => vec![(3, 4)],
        "spawn" | "dup" => vec![(1, 4)],
        "wait" => vec![(2, 32)],
        "self" => vec![(0, 16)],
        "list" => vec![(1, numbers[2]), (3, 4)],
        "pipe" => vec![(0, 8)],
        "channel" => vec![(2, 8)],
        "name_serve" => vec![(4, 4)],
        "name_connect" => vec![(5, 4)],
        "channel_receive" => vec![(1, 32)],
        "channel_call" => vec![(2, 32)],
        _ => vec![],
    };
    let mut ranges: Ranges =
        all.into_iter().map(|(number, bytes)| clipped(numbers[number], bytes)).collect();
    if ["fd_read", "fd_pread", "sock_recv", "recv_from"].contains(&name) {
        ranges.extend(pieces(numbers[1], numbers[2], memory));
    }
    if let Some(number) = ["channel_receive", "channel_call"].iter().position(|it| *it == name) {
        // The room of the message that is received.
        ranges.extend(pieces(numbers[number + 1], 1, memory));
    }
    ranges
}

fn clipped(at: u64, bytes: u64) -> Range<usize> {
    let end = at.saturating_add(bytes).min(MEMORY as u64);
    at.min(end) as usize..end as usize
}

/// Returns the ranges of a list of buffers, as far as it is valid.
fn pieces(list: u64, count: u64, memory: &[u8]) -> Ranges {
    let rest = memory.get(list as usize..).unwrap_or(&[]);
    let word = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().unwrap()));
    let entries = rest.chunks_exact(8).take(count as usize);
    entries.map(|entry| clipped(word(&entry[..4]), word(&entry[4..]))).collect()
}
