//! Reading, writing and positions.

use crate::common::*;
use abi::fs::Op;
use kernel_process::Stop;
use kernel_process::wasi::{fdflags, rights};

const SPIPE: u16 = 70;

#[test]
fn data_written_from_a_list_is_read_into_a_list() {
    let mut program = Program::new();
    let fd = program.file("file", b"");
    program.put(BUFFER, b"one two three");
    let [list, count] = program.list(&[(BUFFER, 4), (BUFFER, 0), (BUFFER + 4, 4), (BUFFER + 8, 5)]);
    program.asked(Op::Write);
    program.ok("fd_write", &[fd, list, count, RESULT]);
    assert_eq!((program.u32(RESULT), program.asked(Op::Write)), (13, 1));
    program.ok("fd_seek", &[fd, 0, 0, RESULT]);
    let (a, b) = (BUFFER + 101, BUFFER + 203);
    let [list, count] = program.list(&[(a, 5), (b, 100)]);
    program.ok("fd_read", &[fd, list, count, RESULT]);
    assert_eq!(program.u32(RESULT), 13);
    assert_eq!((program.get(a, 5), program.get(b, 8)), (&b"one t"[..], &b"wo three"[..]));
    assert_eq!(program.get(b + 8, 2), [0xee; 2]);
    program.ok("fd_close", &[fd]);
    program.end();
}

/// Found by libFuzzer: data read over the list redirected the rest of the transfer.
#[test]
fn a_read_that_overwrites_its_list_uses_the_original() {
    for large in [4, 100_000] {
        let mut program = Program::new();
        let mut data = vec![b'x'; 16 + large as usize + 9];
        // As a list entry: 9 bytes at another address.
        data[8..12].copy_from_slice(&(PATH as u32).to_le_bytes());
        data[12..16].copy_from_slice(&9u32.to_le_bytes());
        let fd = program.file("file", &data);
        program.put(PATH, &[0xee; 16]);
        let [list, count] = program.list(&[(LIST, 16), (BUFFER, large), (BUFFER + large, 9)]);
        program.ok("fd_pread", &[fd, list, count, 0, RESULT]);
        assert_eq!(u64::from(program.u32(RESULT)), 16 + large + 9);
        assert_eq!(program.get(LIST, 16), &data[..16]);
        assert_eq!(program.get(BUFFER, large as usize + 9), &data[16..]);
        assert_eq!(program.get(PATH, 16), [0xee; 16]);
        program.ok("fd_close", &[fd]);
        program.end();
    }
}

#[test]
fn large_buffers_are_transferred_completely() {
    for most in [usize::MAX, 3900] {
        let mut program = Program::new();
        program.world.most = most;
        let fd = program.file("file", b"");
        let data: Vec<u8> = (0..150_000u32).map(|i| (i / 7) as u8).collect();
        program.put(BUFFER, &data);
        let [list, count] = program.list(&[(BUFFER, 100_000), (BUFFER + 100_000, 50_000)]);
        program.ok("fd_write", &[fd, list, count, RESULT]);
        assert_eq!(program.u32(RESULT), 150_000);
        program.ok("fd_seek", &[fd, 1, 0, RESULT]);
        program.memory[BUFFER as usize..].fill(0);
        let [list, count] = program.list(&[(BUFFER, 70_000), (BUFFER + 70_000, 90_000)]);
        program.ok("fd_read", &[fd, list, count, RESULT]);
        assert_eq!(program.u32(RESULT), 149_999);
        assert_eq!(program.get(BUFFER, 149_999), &data[1..]);
    }
}

#[test]
fn a_small_write_is_one_request() {
    let mut program = Program::new();
    assert_eq!(program.write(1, b"x"), Ok(1));
    assert_eq!(program.world.requests, [Op::Write as u16]);
    let output = program.output;
    let mut byte = [0; 4];
    assert_eq!(program.world.with(|c| c.read(output, &mut byte)), Ok(1));
    assert_eq!(byte[0], b'x');
}

#[test]
fn access_at_an_offset_keeps_the_position() {
    let mut program = Program::new();
    let fd = program.file("file", b"0123456789");
    let [list, count] = program.list(&[(BUFFER, 3)]);
    program.ok("fd_pread", &[fd, list, count, 4, RESULT]);
    assert_eq!(program.get(BUFFER, 3), b"456");
    program.put(BUFFER, b"abc");
    program.ok("fd_pwrite", &[fd, list, count, 8, RESULT]);
    program.ok("fd_tell", &[fd, RESULT]);
    assert_eq!(program.u64(RESULT), 0);
    assert_eq!(program.read(fd, 100).unwrap(), b"01234567abc");
    assert_eq!(program.read(fd, 100).unwrap(), b"");
    assert_eq!(program.call("fd_pread", &[fd, list, count, u64::MAX, RESULT]), INVAL);
    assert_eq!(program.call("fd_pwrite", &[fd, list, count, 1 << 63, RESULT]), INVAL);
    assert_eq!(program.call("fd_pwrite", &[fd, list, count, (1 << 63) - 1, RESULT]), 22);
    assert_eq!(program.call("fd_pread", &[0, list, count, 0, RESULT]), SPIPE);
    assert_eq!(program.call("fd_pread", &[DIR, list, count, 0, RESULT]), 31);
}

#[test]
fn seek_works_from_all_origins_and_refuses_overflow() {
    let mut program = Program::new();
    let fd = program.file("file", b"0123456789");
    let back = |by: i64| by as u64;
    for (offset, whence, expected) in [
        (4, 0, Ok(4)),
        (back(-1), 1, Ok(3)),
        (back(-2), 2, Ok(8)),
        (1000, 1, Ok(1008)),
        (back(-2000), 1, Err(INVAL)),
        (back(-11), 2, Err(INVAL)),
        (0, 1, Ok(1008)),
        (0, 3, Err(INVAL)),
        (i64::MAX as u64, 1, Err(61)),
        (back(-1), 0, Err(INVAL)),
        (i64::MAX as u64, 0, Ok(i64::MAX as u64)),
        (1, 1, Err(61)),
        (i64::MAX as u64, 2, Err(61)),
    ] {
        let error = program.call("fd_seek", &[fd, offset, whence, RESULT]);
        let found = if error == 0 { Ok(program.u64(RESULT)) } else { Err(error) };
        assert_eq!(found, expected, "{offset:x} {whence}");
    }
    assert_eq!(program.call("fd_seek", &[0, 0, 0, RESULT]), SPIPE);
    assert_eq!(program.call("fd_tell", &[1, RESULT]), SPIPE);
    assert_eq!(program.call("fd_tell", &[DIR, RESULT]), 31);
    // Without a move, FD_TELL suffices.
    program.drop_rights(fd, rights::FD_SEEK, 0);
    program.ok("fd_seek", &[fd, 0, 1, RESULT]);
    assert_eq!(program.call("fd_seek", &[fd, 1, 1, RESULT]), NOTCAPABLE);
    assert_eq!(program.call("fd_seek", &[fd, 0, 0, RESULT]), NOTCAPABLE);
    program.drop_rights(fd, rights::FD_TELL, 0);
    assert_eq!(program.call("fd_tell", &[fd, RESULT]), NOTCAPABLE);
}

#[test]
fn append_writes_at_the_end_until_the_flag_is_cleared() {
    let mut program = Program::new();
    let base = (rights::FILE, 0);
    let flags = u64::from(fdflags::APPEND);
    let fd = program.open_as(DIR, 0, "file", CREAT, base, flags).unwrap();
    assert_eq!(program.flags(fd), (4, fdflags::APPEND));
    program.write(fd, b"aaaa").unwrap();
    program.ok("fd_seek", &[fd, 0, 0, RESULT]);
    program.write(fd, b"bb").unwrap();
    program.ok("fd_tell", &[fd, RESULT]);
    assert_eq!(program.u64(RESULT), 6);
    program.ok("fd_fdstat_set_flags", &[fd, 0]);
    program.ok("fd_seek", &[fd, 0, 0, RESULT]);
    program.write(fd, b"c").unwrap();
    program.ok("fd_seek", &[fd, 0, 0, RESULT]);
    assert_eq!(program.read(fd, 100).unwrap(), b"caaabb");
    assert_eq!(program.call("fd_fdstat_set_flags", &[fd, 32]), INVAL);
    program.drop_rights(fd, rights::FD_FDSTAT_SET_FLAGS, 0);
    assert_eq!(program.call("fd_fdstat_set_flags", &[fd, 0]), NOTCAPABLE);
}

#[test]
fn a_synchronous_descriptor_syncs_after_each_write() {
    let mut program = Program::new();
    let flags = u64::from(fdflags::DSYNC);
    let fd = program.open_as(DIR, 0, "file", CREAT, (rights::FILE, 0), flags).unwrap();
    assert_eq!(program.flags(fd).1, fdflags::DSYNC);
    program.asked(Op::Datasync);
    program.write(fd, b"x").unwrap();
    assert_eq!(program.asked(Op::Datasync), 1);
    program.ok("fd_fdstat_set_flags", &[fd, u64::from(fdflags::SYNC | fdflags::RSYNC)]);
    assert_eq!(program.flags(fd).1, fdflags::SYNC | fdflags::RSYNC);
    program.asked(Op::Sync);
    program.write(fd, b"x").unwrap();
    assert_eq!(program.asked(Op::Sync), 1);
    program.read(fd, 1).unwrap();
    assert_eq!(program.asked(Op::Sync), 1);
    program.ok("fd_fdstat_set_flags", &[fd, 0]);
    program.asked(Op::Sync);
    program.write(fd, b"x").unwrap();
    program.read(fd, 1).unwrap();
    assert_eq!(program.world.requests, [Op::Write as u16, Op::Read as u16]);
    program.ok("fd_sync", &[fd]);
    program.ok("fd_datasync", &[fd]);
    program.ok("fd_sync", &[DIR]);
    assert_eq!(program.call("fd_sync", &[1]), INVAL);
}

#[test]
fn a_read_from_a_pipe_waits_for_the_first_data_only() {
    let mut program = Program::new();
    let input = program.input;
    program
        .world
        .meanwhile
        .push_back(Box::new(move |c| assert_eq!(c.write(input, b"hello"), Ok(5))));
    let pieces = [(BUFFER, 3), (BUFFER + 100, 10), (BUFFER + 200, 20_000)];
    let [list, count] = program.list(&pieces);
    program.ok("fd_read", &[0, list, count, RESULT]);
    assert_eq!(program.u32(RESULT), 5);
    assert_eq!((program.get(BUFFER, 3), program.get(BUFFER + 100, 2)), (&b"hel"[..], &b"lo"[..]));
    // No other process writes, so the caller is interrupted.
    let numbers = [0, list, count, RESULT];
    assert_eq!(program.run("fd_read", &numbers), Err(Stop::Interrupted));
    program.world.with(|c| c.close(input)).unwrap();
    assert_eq!(program.read(0, 10).unwrap(), b"");
    let output = program.output;
    program.world.with(|c| c.close(output)).unwrap();
    assert_eq!(program.write(1, b"x"), Err(64));
}

#[test]
fn a_nonblocking_pipe_accepts_what_fits() {
    let mut program = Program::new();
    program.ok("fd_fdstat_set_flags", &[1, u64::from(fdflags::NONBLOCK)]);
    assert_eq!(program.flags(2), (6, fdflags::NONBLOCK));
    let [list, count] = program.list(&[(BUFFER, 10_000), (BUFFER, 10_000)]);
    program.ok("fd_write", &[1, list, count, RESULT]);
    assert_eq!(program.u32(RESULT), 16_384);
    assert_eq!(program.call("fd_write", &[1, list, count, RESULT]), 6);
    assert_eq!(program.write(0, b"x"), Err(NOTCAPABLE));
    assert_eq!(program.read(1, 1), Err(NOTCAPABLE));
}

#[test]
fn oversized_lists_and_bad_addresses_are_refused() {
    let mut program = Program::new();
    let fd = program.file("file", b"data");
    assert_eq!(program.call("fd_read", &[fd, LIST, 1025, RESULT]), INVAL);
    program.ok("fd_read", &[fd, LIST, 0, RESULT]);
    let end = MEMORY as u64;
    for pieces in
        [[(end - 1, 2), (0, 0)], [(BUFFER, 1), (end + 1, 0)], [(1 << 31, 1 << 31), (0, 1)]]
    {
        let [list, count] = program.list(&pieces);
        for name in ["fd_read", "fd_write"] {
            assert_eq!(program.call(name, &[fd, list, count, RESULT]), FAULT, "{pieces:x?}");
        }
    }
    assert_eq!(program.call("fd_read", &[fd, end - 4, 1, RESULT]), FAULT);
    assert_eq!(program.call("fd_read", &[fd, u64::from(u32::MAX), 1, RESULT]), FAULT);
    // The address of the count is checked first: nothing was read.
    let [list, count] = program.list(&[(BUFFER, 4)]);
    assert_eq!(program.call("fd_read", &[fd, list, count, end - 3]), FAULT);
    assert_eq!(program.read(fd, 10).unwrap(), b"data");
    // The total exceeds 32 bits.
    let all: Vec<_> = (0..1024).map(|_| (0, end)).collect();
    program.memory.resize(0x100_0000, 0);
    let wide: Vec<_> = all.iter().map(|_| (0, 0x100_0000)).collect();
    let [list, count] = program.list(&wide);
    assert_eq!(program.call("fd_read", &[fd, list, count, RESULT]), INVAL);
}

#[test]
fn reading_into_the_list_itself_is_harmless() {
    let mut program = Program::new();
    let fd = program.file("file", &[0xff; 9000]);
    let [list, count] = program.list(&[(LIST, 16), (BUFFER, 6000)]);
    let error = program.call("fd_read", &[fd, list, count, RESULT]);
    assert!(error == 0 || error == FAULT);
}

#[test]
fn files_are_extended_and_truncated() {
    let mut program = Program::new();
    let fd = program.file("file", b"");
    let size = |program: &mut Program| {
        program.ok("fd_filestat_get", &[fd, RESULT]);
        program.u64(RESULT + 32)
    };
    program.ok("fd_allocate", &[fd, 0, 1_000_000]);
    assert_eq!(size(&mut program), 1_000_000);
    program.ok("fd_allocate", &[fd, 10, 10]);
    assert_eq!(size(&mut program), 1_000_000);
    program.ok("fd_filestat_set_size", &[fd, 77]);
    assert_eq!(size(&mut program), 77);
    assert_eq!(program.call("fd_allocate", &[fd, 0, 0]), INVAL);
    assert_eq!(program.call("fd_allocate", &[fd, u64::MAX, 2]), 22);
    assert_eq!(program.call("fd_allocate", &[fd, 0, 1 << 40]), 51);
    assert_eq!(program.call("fd_filestat_set_size", &[fd, u64::MAX]), 22);
    assert_eq!(program.call("fd_filestat_set_size", &[DIR, 0]), 31);
    program.ok("fd_advise", &[fd, 0, 10, 5]);
    assert_eq!(program.call("fd_advise", &[fd, 0, 10, 6]), INVAL);
    assert_eq!(program.call("fd_advise", &[1, 0, 10, 0]), SPIPE);
    assert_eq!(program.call("fd_advise", &[DIR, 0, 10, 0]), 31);
}

#[test]
fn a_long_write_to_a_pipe_waits_until_all_is_read() {
    let mut program = Program::new();
    let output = program.output;
    for _ in 0..4 {
        program.world.meanwhile.push_back(Box::new(move |c| {
            assert!(c.read(output, &mut [0; 10_000]).is_ok());
        }));
    }
    assert_eq!(program.write(1, &[7; 50_000]), Ok(50_000));
    assert!(program.world.meanwhile.is_empty());
    let [list, count] = program.list(&[(BUFFER, 5000), (BUFFER, 5000)]);
    // Interrupted, it reports what it has written; then it has written nothing.
    let free = 16_384 - 10_000;
    assert_eq!(program.write(1, &[7; 60_000]), Ok(free));
    assert_eq!(program.run("fd_write", &[1, list, count, RESULT]), Err(Stop::Interrupted));
}
