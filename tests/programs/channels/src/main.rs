//! A test program: channels with the SDK. It prints a line for each check, or what went wrong.
//!
//! ```text
//!   alone                    one process with both ends: order, closing, carried ends, waiting
//!   parent KERNEL PROGRAM    pings `PROGRAM serve` on that kernel
//!   gives KERNEL PROGRAM     gives a channel to `PROGRAM takes` there, and talks over it
//!   pieces KERNEL PROGRAM    sends blocks to `PROGRAM returns` there, and gets them back
//!   leaves KERNEL PROGRAM    pings `PROGRAM leave` there, which ends without an answer
//!   waits KERNEL PROGRAM     pings `PROGRAM hold` there, and waits until its kernel dies
//!   names KERNEL PROGRAM     serves a name for `PROGRAM finds` there
//!   finds                    finds what `names` serves
//!   named NAME               serves a name until it is killed
//!   serve, takes, returns, leave, hold    the other process, with its end at descriptor 20
//! ```
//! `channels-c` has the same words, `names` and `named` excepted.

mod alone;
mod contracts;
mod pieces;
mod serving;

use contracts::{echo_v1, give_v1, ping_v1};
use penumbra::channel::{Channel, Door, Error, connect, connect_when_served};
use penumbra::{Child, Command, End, Errno};
use std::process::ExitCode;
use std::time::Duration;

/// Where a child has its end.
const HERE: u32 = 20;
const PINGS: u64 = 3;

/// What went wrong.
#[derive(Debug)]
pub enum Wrong {
    /// A conversation.
    Talk(Error),
    /// Something that should be otherwise.
    Other(String),
}

impl From<Error> for Wrong {
    fn from(why: Error) -> Wrong {
        Wrong::Talk(why)
    }
}

impl From<penumbra::Errno> for Wrong {
    fn from(why: penumbra::Errno) -> Wrong {
        Wrong::Talk(Error::System(why))
    }
}

/// Fails unless it is so.
pub fn must(is_so: bool, what: &str) -> Result<(), Wrong> {
    if is_so { Ok(()) } else { Err(Wrong::Other(what.to_string())) }
}

/// Starts `program word` on a kernel with this end.
pub fn start_child(end: Channel, kernel: &str, program: &str, word: &str) -> Result<Child, Wrong> {
    let kernel = kernel.parse().map_err(|_| Wrong::Other("no kernel".to_string()))?;
    let command = Command::new(&format!("/bin/{program}")).arg(word).kernel(kernel);
    Ok(command.file(end.descriptor(), HERE).spawn()?)
}

/// Starts `program word` on a kernel with the server's end of a new channel. Returns the other end.
fn with_child(
    contract: &[u8],
    kernel: &str,
    program: &str,
    word: &str,
) -> Result<(Channel, Child), Wrong> {
    let (client, server) = Channel::pair(contract)?;
    let child = start_child(server, kernel, program, word)?;
    Ok((client, child))
}

pub fn ended_well(child: &Child) -> Result<(), Wrong> {
    let end = child.wait()?.end;
    must(end == End::Exit(0), &format!("the child ended with {end:?}"))
}

fn parent(kernel: &str, program: &str) -> Result<(), Wrong> {
    use ping_v1::{client, message};
    let (channel, child) = with_child(ping_v1::CONTRACT, kernel, program, "serve")?;
    let mut idle = client::start(channel);
    for sequence in 1..=PINGS {
        let client::received::Asked::Pong { message, next } =
            idle.call_ping(&message::Ping { sequence })?;
        must(message.sequence == sequence, "the pong of another ping")?;
        println!("ping {sequence} of {PINGS}");
        idle = next;
    }
    idle.send_bye(&message::Bye {})?.close();
    ended_well(&child)
}

fn gives(kernel: &str, program: &str) -> Result<(), Wrong> {
    let (channel, child) = with_child(give_v1::CONTRACT, kernel, program, "takes")?;
    let (mine, served) = Channel::pair(echo_v1::CONTRACT)?;
    let given =
        give_v1::client::start(channel).send_give(&give_v1::message::Give {}, served.into_end())?;
    // Asked before the other process has taken the channel: the message is there when it does.
    echoes(mine)?;
    let give_v1::client::received::Given::Taken { next, .. } = given.receive()?;
    next.close();
    ended_well(&child)
}

/// Asks for some echoes.
fn echoes(channel: Channel) -> Result<(), Wrong> {
    use echo_v1::{client, message};
    let mut idle = client::start(channel);
    for round in 1..=PINGS {
        let data = [round as u8; 64];
        let client::received::Asked::Answer { message, next } =
            idle.call_ask(&message::Ask { data })?;
        must(message.data == data, "another echo")?;
        println!("echo {round} of {PINGS}");
        idle = next;
    }
    idle.close();
    Ok(())
}

/// The child breaks the contract, by its own end or by that of its kernel.
fn broken(kernel: &str, program: &str, word: &str) -> Result<(), Wrong> {
    use ping_v1::{client, message};
    let (channel, child) = with_child(ping_v1::CONTRACT, kernel, program, word)?;
    let asked = client::start(channel).send_ping(&message::Ping { sequence: 1 })?;
    if word == "hold" {
        println!("waiting");
    }
    let answer = asked.receive().map(|_| ());
    must(answer == Err(Error::Broken), &format!("not broken: {answer:?}"))?;
    // A death can take more: this program's output, and what is known of its child.
    if word == "hold" {
        return Ok(());
    }
    println!("broken");
    ended_well(&child)
}

const NAME: &str = "test/echo";

/// Serves two clients that come by name, one after the other.
fn names(kernel: &str, program: &str) -> Result<(), Wrong> {
    let kernel = kernel.parse().map_err(|_| Wrong::Other("no kernel".to_string()))?;
    let mut door = Door::open(NAME, echo_v1::CONTRACT)?;
    let again = Door::open(NAME, echo_v1::CONTRACT).err();
    must(again == Some(Errno::EXIST), &format!("a name is served twice: {again:?}"))?;
    refused()?;
    must(file().contains("program: "), &format!("the file says {}", file()))?;
    let command = Command::new(&format!("/bin/{program}")).arg("finds").kernel(kernel);
    let child = command.spawn()?;
    for _ in 0..2 {
        serving::echo(door.accept()?)?;
    }
    ended_well(&child)?;
    drop(door);
    // The kernel removes the name soon after.
    while connect(NAME, echo_v1::CONTRACT).err() != Some(Errno::NOENT) {
        std::thread::sleep(Duration::from_millis(10));
    }
    must(!file().contains("program: "), &format!("the file still says {}", file()))?;
    println!("gone");
    Ok(())
}

/// Returns the text of the name's file, or why there is none.
fn file() -> String {
    std::fs::read_to_string(format!("/name/{NAME}")).unwrap_or_else(|why| why.to_string())
}

/// These names cannot be served now: no names, above or below one that is served, the system's.
fn refused() -> Result<(), Wrong> {
    for (name, why) in [
        ("Test//", Errno::INVAL),
        ("test", Errno::ISDIR),
        ("test/echo/more", Errno::NOTDIR),
        ("kernel/x", Errno::PERM),
        ("kernel/main", Errno::PERM),
        ("service/x", Errno::PERM),
    ] {
        let found = Door::open(name, echo_v1::CONTRACT).err();
        must(found == Some(why), &format!("{name} is served: {found:?}"))?;
    }
    // A name of the system leads to no door: there is nothing to wait for.
    let none = [
        connect("kernel/main", echo_v1::CONTRACT).err(),
        connect_when_served("service/x", echo_v1::CONTRACT).err(),
    ];
    must(none == [Some(Errno::NXIO); 2], &format!("names of the system: {none:?}"))
}

/// Serves a name, and no client, until it is killed.
fn named(name: &str) -> Result<(), Wrong> {
    let mut door = Door::open(name, echo_v1::CONTRACT)?;
    loop {
        drop(door.accept()?);
    }
}

fn finds() -> Result<(), Wrong> {
    let none = connect("test/none", echo_v1::CONTRACT).err();
    must(none == Some(Errno::NOENT), &format!("no program serves it: {none:?}"))?;
    let other = connect(NAME, ping_v1::CONTRACT).err();
    must(other == Some(Errno::PROTOTYPE), &format!("by another contract: {other:?}"))?;
    echoes(connect(NAME, echo_v1::CONTRACT)?)?;
    echoes(connect_when_served(NAME, echo_v1::CONTRACT)?)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["alone"] => alone::all(),
        ["parent", kernel, program] => parent(kernel, program),
        ["gives", kernel, program] => gives(kernel, program),
        ["pieces", kernel, program] => pieces::pieces(kernel, program),
        ["leaves", kernel, program] => broken(kernel, program, "leave"),
        ["waits", kernel, program] => broken(kernel, program, "hold"),
        ["names", kernel, program] => names(kernel, program),
        ["finds"] => finds(),
        ["named", name] => named(name),
        ["serve"] => serving::serve(),
        ["takes"] => serving::takes(),
        ["returns"] => pieces::returns(),
        ["leave"] => serving::leave(),
        ["hold"] => serving::hold(),
        _ => Err(Wrong::Other("see the top of main.rs".to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("wrong: {why:?}");
            ExitCode::FAILURE
        }
    }
}
