//! Functions on sockets: those of WASI, and ours, with which a program makes and names them.
//!
//! Addresses are [`SocketAddress`]es of both families; the service has those of IPv4 as IPv6 maps
//! them. A socket's own family is that of the addresses that a program gets from it. A call that
//! waits is ended by a signal, as for files. A socket that must not wait answers `again`, and a
//! connect `inprogress`. What a program may reach is checked before a request is made
//! ([`crate::reach`]).

use crate::errno::{Done, Errno, Halt};
use crate::memory::GuestMemory;
use crate::object::Object;
use crate::process::Process;
use crate::system::{System, ask_net};
use crate::table::Descriptor;
use crate::transfer::{SocketChannel, Transfer, Until, Way};
use crate::wasi::{fdflags, filetype, riflags, rights};
use abi::net::{Address, BACKLOG, Op, Reply, Request, flag, to_v4, v4};
use abi::program::{DONTWAIT, SocketAddress, family};
use zerocopy::IntoBytes;

/// Bytes of an address.
const ADDRESS: u32 = size_of::<SocketAddress>() as u32;

/// An address and a port, as the service has them.
type Endpoint = (Address, u16);

/// Reads an address from the program's memory.
fn endpoint(memory: &GuestMemory<'_>, at: u32) -> Result<Endpoint, Errno> {
    let address: SocketAddress = memory.load(at)?;
    let [a, b, c, d, ..] = address.address;
    match address.family {
        family::INET => Ok((v4([a, b, c, d]), address.port)),
        family::INET6 => Ok((address.address, address.port)),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Writes the address of a reply to the program's memory; 0: nowhere.
fn store_address(memory: &mut GuestMemory<'_>, at: u32, reply: &Reply) -> Result<(), Errno> {
    if at == 0 {
        return Ok(());
    }
    let (mut family, mut bytes) = (family::INET6, reply.address);
    if reply.flags & flag::V6 == 0 {
        (family, bytes) = (family::INET, [0; 16]);
        bytes[..4].copy_from_slice(&to_v4(reply.address).unwrap_or_default());
    }
    let port = reply.port;
    let address = SocketAddress { family, port, address: bytes, ..SocketAddress::default() };
    memory.store(at, address.as_bytes())
}

fn check_address(memory: &GuestMemory<'_>, at: u32) -> Result<(), Errno> {
    if at == 0 { Ok(()) } else { memory.check(at, ADDRESS) }
}

/// Converts DONTWAIT to the service's flag.
fn must_not_wait(flags: u32) -> u16 {
    if flags & DONTWAIT != 0 { flag::NONBLOCK } else { 0 }
}

/// Returns `flags` if they are none but NONBLOCK.
fn only_nonblock(flags: u32) -> Result<u16, Errno> {
    let flags = u16::try_from(flags).map_err(|_| Errno::INVAL)?;
    if flags & !fdflags::NONBLOCK == 0 { Ok(flags) } else { Err(Errno::INVAL) }
}

impl Process {
    /// Returns the descriptor of a socket with these rights.
    fn socket_with(&self, fd: u32, rights: u64) -> Result<Descriptor, Errno> {
        let descriptor = self.table.get(fd)?;
        descriptor.socket()?;
        descriptor.with(rights)
    }

    /// Creates a socket.
    pub fn socket(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        family: u32,
        kind: u32,
        flags: u32,
        new: u32,
    ) -> Done {
        let v6 = match u16::try_from(family) {
            Ok(family::INET) => 0,
            Ok(family::INET6) => flag::V6,
            _ => return Err(Errno::AFNOSUPPORT.into()),
        };
        let (op, kind) = match u8::try_from(kind) {
            Ok(filetype::DATAGRAMS) => (Op::Udp, filetype::DATAGRAMS),
            Ok(filetype::STREAM) => (Op::Tcp, filetype::STREAM),
            _ => return Err(Errno::PROTONOSUPPORT.into()),
        };
        let flags = only_nonblock(flags)?;
        memory.check(new, 4)?;
        self.table.free(0)?;
        let request = Request { flags: v6, ..Request::new(op, 0) };
        let handle = ask_net(system, request, &mut [])?.handle;
        let number =
            self.enter_socket(system, Descriptor::of_socket(handle, kind, u64::MAX), flags)?;
        memory.store_u32(new, number)?;
        Ok(())
    }

    /// Installs the descriptor of a new socket, with these flags.
    fn enter_socket(
        &self,
        system: &mut dyn System,
        descriptor: Descriptor,
        flags: u16,
    ) -> Result<u32, Halt> {
        if flags != 0
            && let Err(why) = descriptor.object.set_flags(system, flags)
        {
            let _ = descriptor.object.close(system);
            return Err(why);
        }
        self.enter(system, descriptor)
    }

    /// Gives a socket a local address.
    pub fn bind(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        address: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        let (address, port) = endpoint(memory, address)?;
        self.reach.have(port)?;
        let request = Request { address, port, ..Request::new(Op::Bind, handle) };
        ask_net(system, request, &mut [])?;
        Ok(())
    }

    /// Opens a listener of a manifest as descriptor `number`, if the process may listen there.
    pub fn open_listener(&self, system: &mut dyn System, number: u32, port: u16) -> Done {
        self.reach.listen(port).map_err(|_| Errno::NOTCAPABLE)?;
        // It hears both families.
        let socket = Request { flags: flag::V6, ..Request::new(Op::Tcp, 0) };
        let handle = ask_net(system, socket, &mut [])?.handle;
        let request = Request { port, backlog: BACKLOG, ..Request::new(Op::Listen, handle) };
        if let Err(why) = ask_net(system, request, &mut []) {
            let _ = Object::Socket(handle).close(system);
            return Err(why);
        }
        self.give_object(system, number, Object::Socket(handle), (rights::SOCKET, 0), None)
    }

    /// Makes a stream socket accept connections, at any port if it has none.
    pub fn listen(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        backlog: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        let own = ask_net(system, Request::new(Op::State, handle), &mut [])?;
        self.reach.listen(own.port)?;
        let backlog = u16::try_from(backlog).unwrap_or(u16::MAX);
        ask_net(system, Request { backlog, ..Request::new(Op::Listen, handle) }, &mut [])?;
        Ok(())
    }

    /// Connects a stream; of a datagram socket it sets the only peer.
    pub fn connect(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        address: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        let (address, port) = endpoint(memory, address)?;
        self.reach.connect(address, port)?;
        let request = Request { address, port, ..Request::new(Op::Connect, handle) };
        ask_net(system, request, &mut [])?;
        Ok(())
    }

    pub fn sock_accept(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        flags: u32,
        accepted: u32,
    ) -> Done {
        self.accept(memory, system, fd, flags, 0, accepted)
    }

    /// Takes a connection, with the rights of the listener. Stores the peer's address.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn accept(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        flags: u32,
        address: u32,
        new: u32,
    ) -> Done {
        let listener = self.socket_with(fd, rights::SOCK_ACCEPT)?;
        let flags = only_nonblock(flags)?;
        check_address(memory, address)?;
        memory.check(new, 4)?;
        // Reserved: a connection that was accepted cannot be given back.
        let number = self.table.reserve()?;
        let accepted = self.accept_at(system, listener, flags, number);
        if accepted.is_err() {
            // Fails if the process has ended while another kernel had its turn.
            let _ = self.table.settle(number, None);
        }
        let reply = accepted?;
        store_address(memory, address, &reply)?;
        memory.store_u32(new, number)?;
        Ok(())
    }

    /// Waits for a connection, which becomes the descriptor of a reserved number.
    fn accept_at(
        &self,
        system: &mut dyn System,
        listener: Descriptor,
        flags: u16,
        number: u32,
    ) -> Result<Reply, Halt> {
        let reply = ask_net(system, Request::new(Op::Accept, listener.socket()?), &mut [])?;
        let descriptor = Descriptor::of_socket(reply.handle, filetype::STREAM, listener.rights);
        let set = if flags != 0 { descriptor.object.set_flags(system, flags) } else { Ok(()) };
        let done = set.and_then(|()| Ok(self.table.settle(number, Some(descriptor))?));
        if let Err(why) = done {
            // Fails only if the service has restarted.
            let _ = descriptor.object.close(system);
            return Err(why);
        }
        Ok(reply)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn sock_recv(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        flags: u32,
        received: u32,
        found: u32,
    ) -> Done {
        if flags & !riflags::ALL != 0 {
            return Err(Errno::INVAL.into());
        }
        self.recv_from(memory, system, fd, iovs, count, flags, 0, received, found)
    }

    /// Receives, and stores where a datagram came from.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn recv_from(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        flags: u32,
        address: u32,
        received: u32,
        found: u32,
    ) -> Done {
        let descriptor = self.socket_with(fd, rights::FD_READ)?;
        if flags & !(riflags::ALL | DONTWAIT) != 0 {
            return Err(Errno::INVAL.into());
        }
        check_address(memory, address)?;
        memory.check(received, 4)?;
        memory.check(found, 2)?;
        let channel = SocketChannel::new(Way::In, &descriptor)?;
        let mut transfer = Transfer { channel, until: Until::Once, system };
        let peek = if flags & riflags::PEEK != 0 { flag::PEEK } else { 0 };
        transfer.channel.request.flags |= peek | must_not_wait(flags);
        let is_stream = !transfer.channel.datagrams;
        if is_stream && flags & !DONTWAIT == riflags::WAITALL {
            transfer.until = Until::All;
        }
        let moved = transfer.run(memory, iovs, count)?;
        let reply = transfer.channel.reply;
        let is_cut = !is_stream && reply.value > u64::from(moved);
        let result = if is_cut { riflags::TRUNCATED } else { 0 };
        match is_stream {
            // The bytes are taken: without a peer, they have no address.
            true if address != 0 => {
                let _ = self.peer_address(memory, transfer.system, fd, address);
            }
            true => {}
            false => store_address(memory, address, &reply)?,
        }
        memory.store_u32(received, moved)?;
        memory.store_u16(found, result)?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "WASI's")]
    pub fn sock_send(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        flags: u32,
        sent: u32,
    ) -> Done {
        if flags != 0 {
            return Err(Errno::INVAL.into());
        }
        self.send_to(memory, system, fd, iovs, count, 0, 0, sent)
    }

    /// Sends to an address; 0: to the peer.
    #[allow(clippy::too_many_arguments, reason = "the import's")]
    pub fn send_to(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        iovs: u32,
        count: u32,
        flags: u32,
        address: u32,
        sent: u32,
    ) -> Done {
        let descriptor = self.socket_with(fd, rights::FD_WRITE)?;
        if flags & !DONTWAIT != 0 {
            return Err(Errno::INVAL.into());
        }
        memory.check(sent, 4)?;
        let channel = SocketChannel::new(Way::Out, &descriptor)?;
        let until = channel.until();
        let mut transfer = Transfer { channel, until, system };
        let request = &mut transfer.channel.request;
        request.flags |= must_not_wait(flags);
        if transfer.channel.datagrams && address != 0 {
            let (address, port) = endpoint(memory, address)?;
            self.reach.connect(address, port)?;
            (request.address, request.port) = (address, port);
        }
        let moved = transfer.run(memory, iovs, count)?;
        memory.store_u32(sent, moved)?;
        Ok(())
    }

    /// Closes directions of a stream.
    pub fn sock_shutdown(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        how: u32,
    ) -> Done {
        let handle = self.socket_with(fd, rights::SOCK_SHUTDOWN)?.socket()?;
        ask_net(system, Request { value: how, ..Request::new(Op::Shut, handle) }, &mut [])?;
        Ok(())
    }

    pub fn local_address(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        address: u32,
    ) -> Done {
        self.address(memory, system, fd, address, Op::State)
    }

    pub fn peer_address(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        address: u32,
    ) -> Done {
        self.address(memory, system, fd, address, Op::Peer)
    }

    fn address(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        address: u32,
        op: Op,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        memory.check(address, ADDRESS)?;
        let reply = ask_net(system, Request::new(op, handle), &mut [])?;
        store_address(memory, address, &reply)?;
        Ok(())
    }

    pub fn get_option(
        &self,
        memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        option: u32,
        value: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        memory.check(value, 4)?;
        let option = u16::try_from(option).unwrap_or(0);
        let request = Request { option, ..Request::new(Op::GetOption, handle) };
        let reply = ask_net(system, request, &mut [])?;
        memory.store_u32(value, reply.value as u32)?;
        Ok(())
    }

    pub fn set_option(
        &self,
        _memory: &mut GuestMemory<'_>,
        system: &mut dyn System,
        fd: u32,
        option: u32,
        value: u32,
    ) -> Done {
        let handle = self.table.get(fd)?.socket()?;
        let option = u16::try_from(option).unwrap_or(0);
        let request = Request { option, value, ..Request::new(Op::SetOption, handle) };
        ask_net(system, request, &mut [])?;
        Ok(())
    }
}
