//! The commands about what programs hold: ends of channels, and descriptors of all kinds.
//!
//! Contract: text is written outside of all locks. Lines are words at fixed positions, as tools of
//! the shell read them (`lsof`, `top`); only the detail of a descriptor is free text.

use super::network::endpoints;
use super::{Command, Failure, Outcome, Session, hex};
use core::fmt::{self, Write};
use kernel_node::print::Text;
use kernel_platform::channels::{Life, Listed, Place, Side, Totals};
use kernel_programs::processes::descriptors::{self, Kind, Open};
use kernel_programs::programs::windows;

/// Most bytes of the name of a channel, or of a place. No kernel has so long a name.
const WORD: usize = 64;

pub const COMMANDS: &[Command] = &[
    Command {
        name: "channels",
        arguments: "",
        help: "the ends of channels on this kernel: contract, place, peer, messages, holder",
        run: channels,
    },
    Command {
        name: "descriptors",
        arguments: "",
        help: "what the processes of this kernel have open",
        run: open,
    },
];

/// The names of kernels, by their numbers.
pub(super) type Names<'a> = &'a dyn Fn(usize) -> &'static str;

fn channels(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let channels = &session.kernel.channels;
    head(out, &channels.totals(), windows::census())?;
    let names = |kernel| session.kernel.name_of(kernel);
    channels.list().try_for_each(|end| line(out, &end, &names))?;
    Ok(())
}

fn head(out: &mut dyn Write, totals: &Totals, (windows, shared): (usize, u64)) -> fmt::Result {
    let Totals { ends, most, free_cells, blocks: (blocks, bytes), sent } = totals;
    writeln!(out, "  ends      {ends} of {most}")?;
    writeln!(out, "  messages  {sent} sent")?;
    writeln!(out, "  cells     {free_cells} free")?;
    writeln!(out, "  blocks    {blocks} kept, {bytes} B")?;
    writeln!(out, "  windows   {windows} shared, {shared} B")?;
    writeln!(
        out,
        "  {:<16} {:<6} {:<32} level {:<15} {:<8} {:<6} {:>9} {:>9} {:>6}  tree",
        "channel", "side", "contract", "place", "peer", "state", "sent", "received", "unread"
    )
}

/// Writes a word, and spaces up to the next column.
fn column(
    out: &mut dyn Write,
    width: usize,
    write: &dyn Fn(&mut dyn Write) -> fmt::Result,
) -> fmt::Result {
    let mut word = Text::<WORD>::new();
    write(&mut word)?;
    let word = core::str::from_utf8(word.as_bytes()).unwrap_or("?");
    write!(out, "{word:<width$} ")
}

fn line(out: &mut dyn Write, listed: &Listed, names: Names<'_>) -> fmt::Result {
    let end = &listed.end;
    out.write_str("  ")?;
    column(out, 16, &|out| channel(out, listed, names))?;
    write!(out, "{:<6} ", side(listed))?;
    hex(out, &listed.contract)?;
    write!(out, " {:>5} ", end.level)?;
    column(out, 15, &|out| place(out, end.place, names))?;
    write!(out, "{:<8} {:<6} ", names(end.peer.kernel.index()), state(listed))?;
    write!(out, "{:>9} {:>9} {:>6}  ", end.sent, end.received, end.unread)?;
    match listed.tree {
        0 => writeln!(out, "-"),
        tree => writeln!(out, "{tree}"),
    }
}

fn place(out: &mut dyn Write, place: Place, names: Names<'_>) -> fmt::Result {
    match place {
        Place::Held { descriptors } => write!(out, "held:{descriptors}"),
        Place::Carried => out.write_str("carried"),
        Place::Handed { to, .. } => write!(out, "handed:{}", names(to.kernel.index())),
        Place::Away(to) => write!(out, "away:{}", names(to.kernel.index())),
        Place::Closed => out.write_str("closed"),
    }
}

/// Writes the name of a channel: the kernel that created it, its epoch, and the channel's number.
pub(super) fn channel(
    out: &mut dyn Write,
    Listed { end, .. }: &Listed,
    names: Names<'_>,
) -> fmt::Result {
    let Life { kernel, epoch } = end.creator;
    write!(out, "{}.{}.{}", names(kernel.index()), epoch.0, end.number)
}

/// The side of an end; of a door, whether it is the program's or the kernel's.
pub(super) fn side(listed: &Listed) -> &'static str {
    match (listed.is_door(), listed.end.side) {
        (true, Side::First) => "kernel",
        (true, Side::Second) => "door",
        (false, Side::First) => "client",
        (false, Side::Second) => "server",
    }
}

/// What the end knows of the conversation.
fn state(Listed { end, .. }: &Listed) -> &'static str {
    match (end.is_broken, end.is_closed) {
        (true, _) => "broken",
        (false, true) => "closed",
        (false, false) => "open",
    }
}

fn open(session: &Session, out: &mut dyn Write, _: &[&str]) -> Outcome {
    let all = descriptors::all().ok_or(Failure::Failed("no memory for the list"))?;
    writeln!(out, "  {:>5} {:>5}  {:<9} detail", "pid", "fd", "kind")?;
    for Open { pid, number, kind } in &all {
        write!(out, "  {pid:>5} {number:>5}  ")?;
        describe(session, out, kind)?;
    }
    Ok(())
}

/// Writes the kind of a descriptor, and what is known of it without waiting for other programs.
fn describe(session: &Session, out: &mut dyn Write, kind: &Kind) -> fmt::Result {
    let (kind, name) = match kind {
        Kind::File => ("file", None),
        Kind::Directory(name) => ("directory", name.as_deref()),
        Kind::Pipe => ("pipe", None),
        Kind::Terminal => ("terminal", None),
        Kind::Device => ("device", None),
        Kind::Socket(handle) => {
            write!(out, "{:<9} ", "socket")?;
            return endpoints(session, out, *handle);
        }
        Kind::End(handle) => {
            write!(out, "{:<9} ", "end")?;
            return match session.kernel.channels.listed_end(*handle) {
                Some(listed) => end(out, &listed, &|kernel| session.kernel.name_of(kernel)),
                // Closed or sent since the list was made.
                None => out.write_str("-\n"),
            };
        }
    };
    match name {
        Some(name) => writeln!(out, "{kind:<9} {}", name.escape_ascii()),
        None => writeln!(out, "{kind:<9} -"),
    }
}

fn end(out: &mut dyn Write, listed: &Listed, names: Names<'_>) -> fmt::Result {
    channel(out, listed, names)?;
    write!(out, " {}", side(listed))?;
    if !listed.is_door() {
        out.write_str(", contract ")?;
        hex(out, &listed.contract[..4])?;
        write!(out, ", peer on {}", names(listed.end.peer.kernel.index()))?;
    }
    writeln!(out, ", {}", state(listed))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use alloc::string::String;
    use base::id::{DomainId, Epoch};
    use kernel_platform::channels::{ContractId, End, EndId};

    pub const NAMES: Names<'_> = &|kernel| ["main", "shadow"].get(kernel).copied().unwrap_or("?");

    pub fn listed() -> Listed {
        let life = |kernel| Life { kernel: DomainId(kernel), epoch: Epoch(3) };
        let end = End {
            id: EndId::of_word(0),
            creator: life(0),
            number: 17,
            side: Side::First,
            contract: ContractId([1; 2]),
            level: 1,
            place: Place::Held { descriptors: 2 },
            peer: life(1),
            is_closed: false,
            is_broken: false,
            sent: 5,
            received: 4,
            bytes: 70,
            unread: 1,
            owner: 70,
        };
        Listed { end, contract: [0xa5; 16], tree: 70 }
    }

    fn shown(listed: &Listed) -> String {
        let mut out = String::new();
        assert!(line(&mut out, listed, NAMES).is_ok());
        out
    }

    #[test]
    fn an_end_is_a_line_below_its_title() {
        let mut title = String::new();
        let totals = Totals { ends: 1, most: 128, free_cells: 9, blocks: (2, 70_000), sent: 6 };
        assert!(head(&mut title, &totals, (1, 8192)).is_ok());
        let expected = "  ends      1 of 128\n  messages  6 sent\n  cells     9 free\n  \
            blocks    2 kept, 70000 B\n  windows   1 shared, 8192 B\n  \
            channel          side   contract                         level place           \
            peer     state       sent  received unread  tree\n";
        assert_eq!(title, expected);
        assert_eq!(
            shown(&listed()),
            "  main.3.17        client a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5     1 held:2          \
             shadow   open           5         4      1  70\n"
        );
    }

    #[test]
    fn an_end_has_one_place_and_one_state() {
        let words = |change: &dyn Fn(&mut End), tree| {
            let mut listed = Listed { tree, ..listed() };
            change(&mut listed.end);
            let text = shown(&listed);
            let words: alloc::vec::Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words.len(), 11, "{text}");
            alloc::format!("{} {} {} {}", words[1], words[4], words[6], words[10])
        };
        let life = listed().end.peer;
        let away = words(&|end| end.place = Place::Away(life), 0);
        assert_eq!(away, "client away:shadow open -");
        let handed = |end: &mut End| end.place = Place::Handed { to: life, ticket: 9 };
        assert_eq!(words(&handed, 0), "client handed:shadow open -");
        let closed = |end: &mut End| (end.place, end.is_closed) = (Place::Closed, true);
        assert_eq!(words(&closed, 0), "client closed closed -");
        let broken = |end: &mut End| (end.is_broken, end.is_closed) = (true, true);
        assert_eq!(words(&broken, 7), "client held:2 broken 7");
        let carried = |end: &mut End| (end.place, end.side) = (Place::Carried, Side::Second);
        assert_eq!(words(&carried, 0), "server carried open -");
        let door = |end: &mut End| (end.contract, end.side) = (ContractId([0; 2]), Side::Second);
        assert_eq!(words(&door, 7), "door held:2 open 7");
    }

    #[test]
    fn a_descriptor_of_an_end_names_its_channel() {
        let text = |listed: &Listed| {
            let mut out = String::new();
            assert!(end(&mut out, listed, NAMES).is_ok());
            out
        };
        let client = "main.3.17 client, contract a5a5a5a5, peer on shadow, open\n";
        assert_eq!(text(&listed()), client);
        let mut door = listed();
        (door.end.contract, door.end.side) = (ContractId([0; 2]), Side::Second);
        assert_eq!(text(&door), "main.3.17 door, open\n");
    }
}
