//! `pen place`: where a program of a board would start, and why. Nothing is started.

use crate::transfer::Stream;
use abi::host::Kind;
use abi::program::FOLDER;
use anyhow::{Context, bail};
use workbench::instance::Instance;

/// `pen place`
#[derive(clap::Args)]
pub struct Line {
    /// Name of a program that the board has, or its path there.
    pub program: String,
    /// Explain the choice: what is known of each kernel, which of them each rule leaves.
    #[arg(long)]
    pub explain: bool,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// `pen place`: prints the name of the kernel.
pub fn place(instance: &Instance, line: &Line) -> anyhow::Result<()> {
    let answer = ask(Stream::open(instance)?, &line.program)?;
    if line.explain {
        print!("{}", answer.explanation);
    }
    match answer.kernel {
        Some(_) if line.explain => Ok(()),
        Some(kernel) => {
            println!("{kernel}");
            Ok(())
        }
        None => bail!("{} cannot start: {}", line.program, result(&answer.explanation)),
    }
}

/// A board's answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The kernel's name; `None` if the program could not start anywhere.
    pub kernel: Option<String>,
    /// For people; the last line is the result.
    pub explanation: String,
}

/// Asks a board where the program called `program` would start.
pub fn ask(mut stream: Stream, program: &str) -> anyhow::Result<Answer> {
    let path = match program.contains('/') {
        true => program.to_string(),
        false => format!("/{FOLDER}/{program}"),
    };
    stream.send(Kind::Place, path.as_bytes())?;
    let mut text = vec![];
    loop {
        match stream.receive().with_context(|| path.clone())? {
            (Kind::Data, data) => text.extend(data),
            (Kind::End, name) => {
                let kernel = String::from_utf8(name)?;
                return Ok(Answer {
                    kernel: (!kernel.is_empty()).then_some(kernel),
                    explanation: String::from_utf8(text)?,
                });
            }
            (kind, _) => bail!("the board answered {kind:?} to a question about a program"),
        }
    }
}

/// Returns the reason in the last line of an explanation.
fn result(explanation: &str) -> &str {
    let last = explanation.lines().last().unwrap_or_default().trim();
    last.strip_prefix("Nowhere: ").unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::host::Frame;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;
    use zerocopy::{FromBytes, IntoBytes};

    /// Asks a board that answers with these frames. Returns what was asked, and the answer.
    fn played(frames: &[(Kind, &str)], program: &str) -> (String, anyhow::Result<Answer>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let frames: Vec<_> = frames.iter().map(|(kind, text)| (*kind, text.to_string())).collect();
        let board = std::thread::spawn(move || {
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            reader.read_line(&mut String::new()).unwrap();
            theirs.write_all(b"OK 1\n").unwrap();
            let mut head = [0; size_of::<Frame>()];
            reader.read_exact(&mut head).unwrap();
            let (kind, bytes) = Frame::read_from_bytes(&head).unwrap().parse().unwrap();
            assert_eq!(kind, Kind::Place);
            let mut path = vec![0; bytes];
            reader.read_exact(&mut path).unwrap();
            for (kind, text) in frames {
                theirs.write_all(Frame::new(kind, text.len()).as_bytes()).unwrap();
                theirs.write_all(text.as_bytes()).unwrap();
            }
            String::from_utf8(path).unwrap()
        });
        let answer = Stream::on(ours, "it").and_then(|stream| ask(stream, program));
        (board.join().unwrap(), answer)
    }

    #[test]
    fn a_board_is_asked_for_a_name_or_a_path() {
        let frames = [(Kind::Data, "  one\n"), (Kind::Data, "  So main"), (Kind::End, "main")];
        let (path, answer) = played(&frames, "scan");
        let explanation = "  one\n  So main".to_string();
        assert_eq!(path, "/bin/scan");
        assert_eq!(answer.unwrap(), Answer { kernel: Some("main".to_string()), explanation });
        assert_eq!(played(&frames, "/data/scan").0, "/data/scan");
    }

    #[test]
    fn a_program_that_cannot_start_has_a_reason() {
        let text = "  main: x\n  Nowhere: it requires the platform weak.\n";
        let answer = played(&[(Kind::Data, text), (Kind::End, "")], "scan").1.unwrap();
        assert_eq!(answer.kernel, None);
        assert_eq!(result(&answer.explanation), "it requires the platform weak.");
    }

    #[test]
    fn failures_and_nonsense_are_errors() {
        let failed = played(&[(Kind::Failed, "there is no such program")], "scan").1;
        let why = format!("{:#}", failed.unwrap_err());
        assert!(why.contains("/bin/scan") && why.contains("there is no such program"), "{why}");
        assert!(played(&[(Kind::Done, "")], "scan").1.is_err());
        assert!(played(&[], "scan").1.is_err());
    }
}
