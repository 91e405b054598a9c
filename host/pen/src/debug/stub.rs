//! gdb's remote protocol for memory without a running CPU: reads, and one set of registers.

use super::remains::{Frame, Memory};
use board::Isa;
use std::io::{BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Maximum bytes of a read; packets encode them in hexadecimal.
const MOST: usize = 0x400;

/// A server for one client.
pub struct Server {
    socket: PathBuf,
    thread: JoinHandle<()>,
}

impl Server {
    /// Waits until the client has disconnected; does not wait for a client that never connected.
    pub fn end(self) {
        // Unblocks the server's accept(), in case it still waits.
        let _ = UnixStream::connect(&self.socket);
        let _ = self.thread.join();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Serves one client at `socket`.
pub fn serve(socket: &Path, registers: String, memory: Memory) -> std::io::Result<Server> {
    // A killed server may have left its socket.
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    let thread = std::thread::spawn(move || {
        if let Ok((client, _)) = listener.accept() {
            // A client that disconnects ends the server, for whatever reason.
            let _ = talk(&client, |packet| answer(packet, &registers, &memory));
        }
    });
    Ok(Server { socket: socket.to_path_buf(), thread })
}

/// Answers packets until `answer` returns `None`, which sends a last "OK".
fn talk(client: &UnixStream, answer: impl Fn(&str) -> Option<String>) -> std::io::Result<()> {
    let (mut input, mut output) = (BufReader::new(client).bytes(), client);
    loop {
        let mut packet = String::new();
        // Acknowledgements and interrupts come between packets.
        while input.next().transpose()?.ok_or(std::io::ErrorKind::UnexpectedEof)? != b'$' {}
        loop {
            match input.next().transpose()?.ok_or(std::io::ErrorKind::UnexpectedEof)? {
                b'#' => break,
                byte => packet.push(char::from(byte)),
            }
        }
        input.nth(1).transpose()?;
        let said = answer(&packet);
        let text = said.as_deref().unwrap_or("OK");
        let sum = text.bytes().fold(0u8, u8::wrapping_add);
        write!(output, "+${text}#{sum:02x}")?;
        if said.is_none() {
            return Ok(());
        }
    }
}

fn answer(packet: &str, registers: &str, memory: &Memory) -> Option<String> {
    let known = match packet {
        "?" => "S05".to_string(),
        "g" => registers.to_string(),
        "qAttached" => "1".to_string(),
        "qC" => "QC1".to_string(),
        "qfThreadInfo" => "m1".to_string(),
        "qsThreadInfo" => "l".to_string(),
        _ if packet.starts_with("qSupported") => format!("PacketSize={:x}", 2 * MOST + 16),
        _ if packet.starts_with(['H', 'T']) => "OK".to_string(),
        _ if packet.starts_with('m') => read(packet, memory).unwrap_or("E01".to_string()),
        // It cannot run, so it stops at once.
        _ if packet.starts_with(['c', 's', 'C', 'S']) => "S05".to_string(),
        _ if packet.starts_with(['M', 'X', 'G', 'P']) => "E01".to_string(),
        _ if packet.starts_with(['D', 'k']) => return None,
        _ => String::new(),
    };
    Some(known)
}

fn read(packet: &str, memory: &Memory) -> Option<String> {
    let (address, length) = packet.strip_prefix('m')?.split_once(',')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let length = usize::from_str_radix(length, 16).ok()?.min(MOST);
    Some(memory.read(address, length)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns all registers of an ISA in gdb's order; unknown ones are marked as such.
pub fn registers(isa: Isa, frame: Frame) -> String {
    // Register numbers of ra, sp and fp; pc follows the last general register.
    let (count, ra, sp, fp) = match isa {
        Isa::Aarch64 => (32, 30, 31, 29),
        Isa::Riscv64 => (32, 1, 2, 8),
    };
    let mut known = vec![None; count];
    known[ra] = Some(frame.ra);
    known[sp] = Some(frame.sp);
    known[fp] = Some(frame.fp);
    known.push(Some(frame.pc));
    let hex = |value: u64| value.to_le_bytes().map(|byte| format!("{byte:02x}")).concat();
    known.into_iter().map(|it| it.map_or("x".repeat(16), hex)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_answered_in_order_until_the_client_detaches() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            talk(&ours, |packet| (packet != "D").then(|| format!("<{packet}>")))
        });
        theirs.write_all(b"+$g#67+$m10,4#xx$D#44").unwrap();
        server.join().unwrap().unwrap();
        let mut said = String::new();
        theirs.read_to_string(&mut said).unwrap();
        assert_eq!(said, "+$<g>#e1+$<m10,4>#a8+$OK#9a");
    }

    #[test]
    fn registers_are_in_the_order_of_gdb() {
        let frame = Frame { pc: 1, fp: 2, sp: 3, ra: 4 };
        for (isa, places) in [(Isa::Aarch64, [32, 29, 31, 30]), (Isa::Riscv64, [32, 8, 2, 1])] {
            let all = registers(isa, frame);
            assert_eq!(all.len(), 33 * 16);
            for (value, place) in (1..).zip(places) {
                assert_eq!(all[place * 16..][..16], format!("{value:02x}00000000000000"));
            }
            assert!(all.starts_with("xxxx"));
        }
    }
}
