//! A test program: windows with the SDK. It prints a line for each check, or what went wrong.
//!
//! ```text
//!   alone                    one process with both ends: limits, errors, and what remains
//!   writes KERNEL PROGRAM    fills a window again and again for `PROGRAM reads` on that kernel
//!   copies KERNEL            the same once for `copied` there, which takes no windows
//!   leaves KERNEL            gives a window to `stays` there, and ends its own part of it
//!   outlives KERNEL          reads a window of `holds` there until its kernel dies
//!   reads, copied, stays, holds    the other process, with its end at descriptor 20
//! ```

mod alone;
#[allow(dead_code, reason = "the program uses a part of it")]
#[rustfmt::skip]
mod stream_v1;

use penumbra::channel::{Channel, Error, Side, Window};
use penumbra::{Child, Command, End, Errno};
use std::process::ExitCode;
use std::time::Duration;
use stream_v1::message::{Enough, Filled, Memory, Read};
use stream_v1::{client, server};

/// Where a child has its end.
const HERE: u32 = 20;
/// Bytes of the windows, and of a part.
const LENGTH: usize = 256 << 10;
const PART: usize = 24 << 10;
const ROUNDS: u64 = 40;
const CHUNK: usize = 4096;

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

impl From<Errno> for Wrong {
    fn from(why: Errno) -> Wrong {
        Wrong::Talk(Error::System(why))
    }
}

/// Fails unless it is so.
pub fn must(is_so: bool, what: &str) -> Result<(), Wrong> {
    if is_so { Ok(()) } else { Err(Wrong::Other(what.to_string())) }
}

/// Starts `program word` on a kernel. Returns the client's end of a channel with it.
fn with_child(kernel: &str, program: &str, word: &str) -> Result<(Channel, Child), Wrong> {
    let (client, server) = Channel::pair(stream_v1::CONTRACT)?;
    let kernel = kernel.parse().map_err(|_| Wrong::Other("no kernel".to_string()))?;
    let command = Command::new(&format!("/bin/{program}")).arg(word).kernel(kernel);
    let child = command.file(server.descriptor(), HERE).spawn()?;
    Ok((client, child))
}

fn ended_well(child: &Child) -> Result<(), Wrong> {
    let end = child.wait()?.end;
    must(end == End::Exit(0), &format!("the child ended with {end:?}"))
}

/// Fills a part with words that no other round or place has. Returns their sum.
pub fn fill(window: &Window, round: u64, at: usize, length: usize) -> u64 {
    let mut sum = 0u64;
    for start in (at..at + length).step_by(CHUNK) {
        let mut chunk = [0; CHUNK];
        let chunk = &mut chunk[..CHUNK.min(at + length - start)];
        for (number, word) in chunk.chunks_exact_mut(8).enumerate() {
            let place = (start + number * 8) as u64;
            let value = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place;
            word.copy_from_slice(&value.to_le_bytes());
            sum = sum.wrapping_add(value);
        }
        window.write(start, chunk);
    }
    sum
}

/// Returns the sum of the words of a part.
pub fn sum(window: &Window, at: usize, length: usize) -> u64 {
    let mut sum = 0u64;
    for start in (at..at + length).step_by(CHUNK) {
        let mut chunk = [0; CHUNK];
        let chunk = &mut chunk[..CHUNK.min(at + length - start)];
        window.read(start, chunk);
        sum = chunk.chunks_exact(8).fold(sum, |sum, word| sum.wrapping_add(word_of(word)));
    }
    sum
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Sends a new window whose first part is filled.
fn begin(channel: Channel) -> Result<(Window, client::Reads<Channel>, u64), Wrong> {
    let window = Window::zeroed(LENGTH);
    let sum = fill(&window, 0, 0, PART);
    let length = PART as u32;
    let reads = client::start(channel).send_memory(&Memory { length }, (&window).into())?;
    Ok((window, reads, sum))
}

/// Waits until a part was read.
fn read(reads: client::Reads<Channel>, sum: u64) -> Result<client::Fills<Channel>, Wrong> {
    let client::received::Reads::Read { message, next } = reads.receive()?;
    must(message.sum == sum, &format!("another sum: {} of {sum}", message.sum))?;
    Ok(next)
}

fn writes(kernel: &str, program: &str) -> Result<(), Wrong> {
    let (channel, child) = with_child(kernel, program, "reads")?;
    let (window, mut reads, mut sum) = begin(channel)?;
    for round in 1..=ROUNDS {
        let fills = read(reads, sum)?;
        let at = (round as usize * 5 * 1024) % (LENGTH - PART);
        sum = fill(&window, round, at, PART);
        window.flush(at..at + PART)?;
        reads = fills.send_filled(&Filled { at: at as u32, length: PART as u32 })?;
    }
    read(reads, sum)?.send_enough(&Enough {})?.close();
    println!("written");
    ended_well(&child)
}

/// Returns the channel to the process that has started this one.
fn parent() -> Result<Channel, Wrong> {
    Ok(Channel::from_descriptor(HERE, stream_v1::CONTRACT, Side::Server)?)
}

/// Receives a window, and what was said of it.
fn receive(channel: Channel) -> Result<(Window, Memory, server::Reads<Channel>), Wrong> {
    let begin = server::start(channel.take_windows(true));
    let server::received::Begin::Memory { message, block, next } = begin.receive()?;
    let window = block.into_window();
    let window = window.map_err(|block| Wrong::Other(format!("a block of {}", block.len())))?;
    must(window.len() == LENGTH, "a window of another length")?;
    Ok((window, message, next))
}

fn reads() -> Result<(), Wrong> {
    let (window, Memory { length }, mut reads) = receive(parent()?)?;
    let mut part = Filled { at: 0, length };
    loop {
        let (at, length) = (part.at as usize, part.length as usize);
        window.refresh(at..at + length)?;
        let fills = reads.send_read(&Read { sum: sum(&window, at, length) })?;
        match fills.receive()? {
            server::received::Fills::Filled { message, next } => (part, reads) = (message, next),
            server::received::Fills::Enough { next, .. } => {
                next.close();
                return Ok(());
            }
        }
    }
}

fn copies(kernel: &str) -> Result<(), Wrong> {
    let (channel, child) = with_child(kernel, "windows", "copied")?;
    let (window, reads, sum) = begin(channel)?;
    let fills = read(reads, sum)?;
    // The window is this program's alone now, and stays what it is.
    fill(&window, 1, 0, PART);
    window.flush(0..PART)?;
    fills.send_enough(&Enough {})?.close();
    println!("copied");
    ended_well(&child)
}

/// Receives what is in the window as a block.
fn copied() -> Result<(), Wrong> {
    let server::received::Begin::Memory { message, block, next } =
        server::start(parent()?).receive()?;
    must(block.len() == LENGTH, "a block of another length")?;
    let words = block[..message.length as usize].chunks_exact(8);
    let sum = words.fold(0u64, |sum, word| sum.wrapping_add(word_of(word)));
    match next.send_read(&Read { sum })?.receive()? {
        server::received::Fills::Enough { next, .. } => next.close(),
        server::received::Fills::Filled { .. } => return must(false, "another part"),
    }
    Ok(())
}

/// The child has the window after this process has ended its part of it, and its end.
fn leaves(kernel: &str) -> Result<(), Wrong> {
    let (channel, child) = with_child(kernel, "windows", "stays")?;
    let (window, reads, sum) = begin(channel)?;
    let fills = read(reads, sum)?;
    let more = fill(&window, 7, PART, PART);
    window.flush(PART..2 * PART)?;
    drop(window);
    let at = PART as u32;
    read(fills.send_filled(&Filled { at, length: at })?, more)?.send_enough(&Enough {})?.close();
    println!("left");
    ended_well(&child)
}

fn stays() -> Result<(), Wrong> {
    let (window, _, reads) = receive(parent()?)?;
    let before = sum(&window, 0, PART);
    let fills = reads.send_read(&Read { sum: before })?;
    let server::received::Fills::Filled { next, .. } = fills.receive()? else {
        return must(false, "no other part");
    };
    window.refresh(0..2 * PART)?;
    must(sum(&window, 0, PART) == before, "what was there is gone")?;
    let sum = sum(&window, PART, PART);
    let server::received::Fills::Enough { next, .. } = next.send_read(&Read { sum })?.receive()?
    else {
        return must(false, "yet another part");
    };
    next.close();
    window.refresh(PART..2 * PART)?;
    must(self::sum(&window, PART, PART) == sum, "it is gone with the channel")
}

/// The parent has the server's end: the child on the kernel that dies has made the window.
fn outlives(kernel: &str) -> Result<(), Wrong> {
    let (client, server) = Channel::pair(stream_v1::CONTRACT)?;
    let kernel = kernel.parse().map_err(|_| Wrong::Other("no kernel".to_string()))?;
    let command = Command::new("/bin/windows").arg("holds").kernel(kernel);
    command.file(client.descriptor(), HERE).spawn()?;
    let (window, Memory { length }, _reads) = receive(server)?;
    let before = sum(&window, 0, length as usize);
    // The death can take this program's output.
    std::fs::write("/windows.read", "").map_err(|why| Wrong::Other(why.to_string()))?;
    loop {
        match window.refresh(0..length as usize) {
            Ok(()) => must(sum(&window, 0, length as usize) == before, "another sum")?,
            Err(Errno::CONNRESET) => break,
            // Its kernel is about to be declared dead.
            Err(Errno::IO) => {}
            Err(why) => return Err(why.into()),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    must(sum(&window, 0, length as usize) == before, "the last copy is gone")
}

fn holds() -> Result<(), Wrong> {
    let channel = Channel::from_descriptor(HERE, stream_v1::CONTRACT, Side::Client)?;
    let (_window, _reads, _) = begin(channel)?;
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn run(words: &[&str]) -> Result<(), Wrong> {
    match words {
        ["alone"] => alone::alone(),
        ["writes", kernel, program] => writes(kernel, program),
        ["copies", kernel] => copies(kernel),
        ["leaves", kernel] => leaves(kernel),
        ["outlives", kernel] => outlives(kernel),
        ["reads"] => reads(),
        ["copied"] => copied(),
        ["stays"] => stays(),
        ["holds"] => holds(),
        _ => Err(Wrong::Other(format!("no such words: {words:?}"))),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("windows: {why:?}");
            ExitCode::FAILURE
        }
    }
}
