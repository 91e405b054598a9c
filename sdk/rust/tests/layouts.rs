//! The SDK's layouts match the system's: sizes, offsets, constants.

use core::mem::offset_of;
use penumbra::channel::Side;
use penumbra::layout;
use zerocopy::IntoBytes;

macro_rules! same {
    ($ours:ty, $theirs:ty: $($field:ident),*) => {
        assert_eq!(size_of::<$ours>(), size_of::<$theirs>());
        assert_eq!(align_of::<$ours>(), align_of::<$theirs>());
        $(assert_eq!(
            offset_of!($ours, $field),
            offset_of!($theirs, $field),
            concat!(stringify!($ours), ".", stringify!($field))
        );)*
    };
}

#[test]
fn fields_lie_where_the_system_has_them() {
    same!(layout::Spawn, abi::program::Spawn:
        path, arguments, environment, files, directory, kernel, group, flags, memory,
        descriptors, reserved);
    same!(layout::InheritedFile, abi::program::InheritedFile: descriptor, becomes, preopen);
    same!(layout::Ended, abi::program::Ended: pid, kind, status, reserved, cpu, memory);
    same!(layout::SocketAddress, abi::program::SocketAddress: family, port, flow, address, scope);
    same!(layout::ChannelMessage, abi::channel::ChannelMessage:
        bytes, block, ends, tag, flags, reserved);
    same!(layout::Identity, abi::program::Identity: pid, parent, group, kernel);
    same!(layout::Listed, abi::process::Listed:
        pid, parent, group, kernel, state, kind, status, began, cpu, memory, messages, name);
}

#[test]
fn numbers_are_the_same() {
    assert_eq!(layout::ANY_KERNEL, abi::program::ANY_KERNEL);
    assert_eq!(layout::NEW_GROUP, u32::from(abi::process::flag::NEW_GROUP));
    assert_eq!(layout::INET, abi::program::family::INET);
    assert_eq!(layout::option::ERROR, u32::from(abi::net::option::ERROR));
    assert_eq!(layout::option::NODELAY, u32::from(abi::net::option::NODELAY));
    assert_eq!(layout::shut::READ, abi::net::shut::READ);
    assert_eq!(layout::shut::WRITE, abi::net::shut::WRITE);
    assert_eq!(layout::NO_END, abi::channel::NO_END);
    assert_eq!(layout::LOST_END, abi::channel::LOST_END);
    assert_eq!(layout::NO_WAIT, abi::channel::NO_WAIT);
    assert_eq!(layout::AWAIT, abi::channel::AWAIT);
    assert_eq!(layout::HAS_BLOCK, abi::channel::HAS_BLOCK);
    assert_eq!(layout::WINDOW, abi::channel::WINDOW);
    assert_eq!(layout::WINDOWS, abi::channel::WINDOWS);
    assert_eq!(layout::PASSES, abi::channel::PASSES);
    assert_eq!(Side::Client as u32, abi::channel::side::CLIENT);
    assert_eq!(Side::Server as u32, abi::channel::side::SERVER);
    assert_eq!(layout::NAME, abi::process::NAME);
    assert_eq!(layout::FILES, abi::program::BEGIN_FILES);
    assert_eq!(layout::ARGUMENTS, abi::program::ARGUMENTS);
    let signals = [
        (penumbra::process::signal::INT, abi::process::signal::INT),
        (penumbra::process::signal::KILL, abi::process::signal::KILL),
        (penumbra::process::signal::PIPE, abi::process::signal::PIPE),
        (penumbra::process::signal::TERM, abi::process::signal::TERM),
        (penumbra::process::signal::LAST, abi::process::signal::LAST),
    ];
    signals.iter().for_each(|(ours, theirs)| assert_eq!(*ours, u32::from(*theirs)));
}

#[test]
fn errors_have_the_numbers_of_wasi() {
    use abi::process::Errno as Theirs;
    use penumbra::Errno;
    let pairs = [
        (Errno::TOOBIG, Theirs::Toobig),
        (Errno::ACCES, Theirs::Acces),
        (Errno::AGAIN, Theirs::Again),
        (Errno::BADF, Theirs::Badf),
        (Errno::CHILD, Theirs::Child),
        (Errno::FAULT, Theirs::Fault),
        (Errno::HOSTUNREACH, Theirs::Hostunreach),
        (Errno::INTR, Theirs::Intr),
        (Errno::INVAL, Theirs::Inval),
        (Errno::IO, Theirs::Io),
        (Errno::MFILE, Theirs::Mfile),
        (Errno::NODEV, Theirs::Nodev),
        (Errno::NOENT, Theirs::Noent),
        (Errno::NOEXEC, Theirs::Noexec),
        (Errno::NOMEM, Theirs::Nomem),
        (Errno::NOSYS, Theirs::Nosys),
        (Errno::PERM, Theirs::Perm),
        (Errno::SRCH, Theirs::Srch),
        (Errno::STALE, Theirs::Restarted),
    ];
    pairs.iter().for_each(|(ours, theirs)| assert_eq!(ours.number(), theirs.wasi()));
}

#[test]
fn errors_of_sockets_have_the_numbers_of_wasi() {
    use abi::net::Errno as Theirs;
    use penumbra::Errno;
    let pairs = [
        (Errno::ADDRINUSE, Theirs::Addrinuse),
        (Errno::ADDRNOTAVAIL, Theirs::Addrnotavail),
        (Errno::AGAIN, Theirs::Again),
        (Errno::CONNREFUSED, Theirs::Connrefused),
        (Errno::CONNRESET, Theirs::Connreset),
        (Errno::DESTADDRREQ, Theirs::Destaddrreq),
        (Errno::INPROGRESS, Theirs::Inprogress),
        (Errno::ISCONN, Theirs::Isconn),
        (Errno::MSGSIZE, Theirs::Msgsize),
        (Errno::NETUNREACH, Theirs::Netunreach),
        (Errno::NFILE, Theirs::Nfile),
        (Errno::NOBUFS, Theirs::Nobufs),
        (Errno::NOPROTOOPT, Theirs::Noprotoopt),
        (Errno::NOTCONN, Theirs::Notconn),
        (Errno::PIPE, Theirs::Pipe),
        (Errno::STALE, Theirs::Restarted),
    ];
    pairs.iter().for_each(|(ours, theirs)| assert_eq!(ours.number(), theirs.wasi()));
}

#[test]
fn ends_and_traps_are_understood() {
    use abi::process::End;
    use abi::program::trap;
    let ends = [End::Exit as u32, End::Signal as u32, End::Trap as u32, End::Lost as u32];
    assert_eq!(ends, [1, 2, 3, 4]);
    let traps = [trap::STACK, trap::MEMORY, trap::TABLE, trap::UNREACHABLE, trap::NUMBER];
    assert_eq!(traps, [1, 2, 3, 4, 5]);
    let listed = abi::process::Listed { pid: 7, ..Default::default() };
    assert_eq!(listed.as_bytes()[..4], [7, 0, 0, 0]);
}
