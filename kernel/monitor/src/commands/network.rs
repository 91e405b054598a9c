//! Commands that show the interface to the outside, and all sockets.

use super::{Command, Failure, Outcome, Session};
use abi::net::{Address, Entry, Errno, Interface, Link, OUTSIDE, Op, Reply, Request, SOCKETS};
use abi::net::{State, v4};
use core::fmt::{self, Write};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::{FromZeros, IntoBytes};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "network",
        arguments: "",
        help: "the interface to the outside, and how many sockets there are",
        run: network,
    },
    Command { name: "sockets", arguments: "", help: "all sockets", run: sockets },
];

/// Sockets that are listed in one request: they fit a message between kernels.
const AT_ONCE: usize = 64;

/// An address, or none.
struct Known(IpAddr);

impl fmt::Display for Known {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_unspecified() { out.write_str("none") } else { self.0.fmt(out) }
    }
}

/// Returns an address of the service's.
fn ip(address: Address) -> IpAddr {
    Ipv6Addr::from(address).to_canonical()
}

fn ask(session: &Session, request: Request, bulk: &mut [u8]) -> Result<Reply, Failure> {
    let net = &session.kernel.services.net;
    match net.ask(session, request, bulk) {
        Ok(reply) if reply.errno() == Errno::Success => Ok(reply),
        Ok(_) => Err(Failure::Failed("the network service has refused the request")),
        Err(why) => Err(Failure::Failed(why.text())),
    }
}

fn network(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let mut shown = Interface::new_zeroed();
    ask(session, Request::new(Op::Interface, 0), shown.as_mut_bytes())?;
    let link = match Link::from_code(shown.link) {
        Some(Link::Up) => "up",
        Some(Link::Down) => "down: no network is attached to the device",
        Some(Link::Opening) => "down: the device is absent, or being opened",
        Some(Link::Failed) => "down: the device could not be opened",
        Some(Link::None) | None => "down: the board file gives it no address",
    };
    writeln!(out, "  link      {link}")?;
    let Interface { addresses, mac: [a, b, c, d, e, f], .. } = shown;
    if shown.mtu != 0 {
        writeln!(
            out,
            "  mac       {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}, mtu {}",
            shown.mtu
        )?;
    }
    let [own, gateway, names] =
        [addresses.v4, addresses.gateway_v4, addresses.names_v4].map(|it| ip(v4(it)));
    family(out, (own, addresses.prefix_v4), gateway, names)?;
    let [own, gateway, names] = [addresses.v6, addresses.gateway_v6, addresses.names_v6].map(ip);
    family(out, (own, addresses.prefix_v6), gateway, names)?;
    let Interface { received, sent, dropped, sockets, outside, .. } = shown;
    writeln!(out, "  frames    {received} in, {sent} out, {dropped} dropped")?;
    writeln!(out, "  sockets   {sockets} of {SOCKETS}, {outside} of {OUTSIDE} outside")?;
    Ok(())
}

/// Shows the addresses of one family, unless there are none.
fn family(
    out: &mut dyn Write,
    (own, prefix): (IpAddr, u8),
    gateway: IpAddr,
    names: IpAddr,
) -> fmt::Result {
    if own.is_unspecified() {
        return Ok(());
    }
    writeln!(out, "  address   {own}/{prefix}")?;
    writeln!(out, "  gateway   {}", Known(gateway))?;
    writeln!(out, "  names     {}", Known(names))
}

fn sockets(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    writeln!(
        out,
        "  {:<6}{:<12}{:<23}{:<23}{:>8}{:>8}  tree",
        "", "state", "local", "peer", "receive", "send"
    )?;
    let mut place = 0;
    loop {
        let mut entries = [Entry::new_zeroed(); AT_ONCE];
        let request = Request { value: place, ..Request::new(Op::List, 0) };
        let reply = ask(session, request, entries.as_mut_bytes())?;
        let count = reply.filled as usize / size_of::<Entry>();
        entries.iter().take(count).try_for_each(|entry| line(out, entry))?;
        match u32::try_from(reply.value) {
            Ok(next) if next > place => place = next,
            _ => return Ok(()),
        }
    }
}

/// Writes what is known of a socket, by its handle: its kind and its addresses.
pub fn endpoints(session: &Session, out: &mut dyn Write, handle: u64) -> fmt::Result {
    let about = |op| ask(session, Request::new(op, handle), &mut []).ok();
    // Closed since the caller has listed it, or the service does not answer.
    let Some(own) = about(Op::State) else { return out.write_str("-\n") };
    let endpoint = |reply: Reply| SocketAddr::new(ip(reply.address), reply.port);
    let kind = if own.state == State::Datagrams as u16 { "udp" } else { "tcp" };
    write!(out, "{kind} {}", endpoint(own))?;
    match about(Op::Peer) {
        Some(peer) => writeln!(out, " {}", endpoint(peer)),
        None => out.write_str("\n"),
    }
}

fn line(out: &mut dyn Write, entry: &Entry) -> fmt::Result {
    let kind = if entry.is_stream != 0 { "tcp" } else { "udp" };
    let state = match State::from_code(entry.state) {
        Some(State::Datagrams) | None => "",
        Some(State::Fresh) => "fresh",
        Some(State::Listening) => "listening",
        Some(State::Connecting) => "connecting",
        Some(State::Connected) => "connected",
        Some(State::Shut) => "shut",
        Some(State::Ending) => "ending",
        Some(State::Ended) => "ended",
        Some(State::Reset) => "reset",
    };
    let endpoint = |address, port| SocketAddr::new(ip(address), port);
    let (own, peer) =
        (endpoint(entry.local, entry.local_port), endpoint(entry.peer, entry.peer_port));
    let Entry { receive, send, tree, .. } = entry;
    writeln!(out, "  {kind:<6}{state:<12}{own:<23}{peer:<23}{receive:>8}{send:>8}  {tree}")
}
