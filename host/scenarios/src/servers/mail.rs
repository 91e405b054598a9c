//! A mail server of the crate `mailin`, with swaks and nc as its clients.

use super::{Serving, TERMINATED, begin, nc, needs};
use crate::disk::{content, off_and_clean};
use crate::host::{pattern, pull};
use crate::programs::wrong;
use crate::threads::put;
use crate::{Failure, PATIENCE, Rig};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program of apps/corpus.toml, which starts with a listener.
const PROGRAM: &str = "mail";
const PORT: u16 = 25;
const DOMAIN: &str = "chip.example";
const SENDER: &str = "ada@host.example";
/// Where mails are.
const FOLDER: &str = "/mail";
/// Mails at the same time.
const CLIENTS: usize = 8;
/// Exit code of swaks if no recipient is accepted.
const NO_RECIPIENT: i32 = 24;

/// swaks, with a folder of the run for the mails that it sends.
struct Mailer {
    port: u16,
    folder: PathBuf,
}

impl Mailer {
    /// Begins to send a mail with this text to recipients.
    fn begin(&self, name: &str, text: &str, to: &[&str]) -> Result<Child, Failure> {
        let file = self.folder.join(name);
        std::fs::write(&file, text)?;
        let mut swaks = Command::new("swaks");
        swaks.args(["--server", "127.0.0.1", "--port", &self.port.to_string()]);
        swaks.args(["--helo", "host.example", "--from", SENDER, "--to", &to.join(",")]);
        swaks.args(["--timeout", &format!("{}s", PATIENCE.as_secs())]);
        swaks.arg("--data").arg(format!("@{}", file.display()));
        swaks.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(swaks.spawn()?)
    }

    /// Sends a mail, which must be taken.
    fn send(&self, name: &str, text: &str, to: &[&str]) -> Result<(), Failure> {
        taken(self.begin(name, text, to)?)
    }
}

fn taken(swaks: Child) -> Result<(), Failure> {
    let output = swaks.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(wrong("swaks", String::from_utf8_lossy(&output.stdout))),
    }
}

/// Returns a mail with this body, without the end of its last line: swaks sends that.
fn letter(subject: &str, body: &str) -> String {
    format!("From: <{SENDER}>\nSubject: {subject}\n\n{body}")
}

/// Returns what the server keeps of a mail.
fn kept(text: &str, to: &[&str]) -> Vec<u8> {
    let to: String = to.iter().map(|to| format!("Delivered-To: {to}\n")).collect();
    format!("Return-Path: <{SENDER}>\n{to}{text}\n").replace('\n', "\r\n").into_bytes()
}

/// On each kernel in turn: mails of all sizes, many at the same time, and what is refused. Each
/// mail that was acknowledged is a file on the disk, also when the board is off.
pub fn mail(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["swaks", "nc"])?;
    begin(rig, None)?;
    put(rig, PROGRAM)?;
    let mut all = vec![];
    for kernel in ["main", "shadow"] {
        let serving = Serving::start(rig, kernel, PROGRAM, &[FOLDER, DOMAIN], PORT)?;
        let folder = rig.instance.path("sent");
        std::fs::create_dir_all(&folder)?;
        let mailer = Mailer { port: serving.host_port, folder };
        all.extend(letters(&mailer, kernel)?);
        refusals(&mailer)?;
        let found = serving.end(rig)?;
        if found.code != TERMINATED || !found.out.is_empty() || !found.err.is_empty() {
            return Err(wrong(&format!("{PROGRAM} on {kernel}"), found));
        }
    }
    let names = names(rig, "new")?;
    compare(&all, names.iter().map(|name| pull(&rig.instance, name)))?;
    if !self::names(rig, "tmp")?.is_empty() {
        return Err(wrong("mails that were not ended", self::names(rig, "tmp")?));
    }
    off_and_clean(rig)?;
    let contents = names.iter().map(|name| content(&rig.instance, name));
    compare(&all, contents.map(|found| found.map_err(|why| why.to_string())))
}

/// Sends mails. Returns what must be kept of them.
fn letters(mailer: &Mailer, kernel: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let [ada, bob] = ["ada", "bob"].map(|name| format!("{name}@{DOMAIN}"));
    let dots = letter(kernel, ".\n..\n.dots at the start of lines\nthe end.");
    mailer.send("dots", &dots, &[&ada])?;
    let bytes = pattern(3, 60_000);
    let body: Vec<String> = bytes.chunks(30).map(|line| format!("{line:02x?}")).collect();
    let large = letter(kernel, &body.join("\n"));
    mailer.send("large", &large, &[&ada, &bob])?;
    let mut all = vec![kept(&dots, &[&ada]), kept(&large, &[&ada, &bob])];
    let texts: Vec<String> =
        (0..CLIENTS).map(|number| letter(kernel, &number.to_string())).collect();
    let begun =
        texts.iter().zip(0..).map(|(text, n)| mailer.begin(&format!("mail-{n}"), text, &[&bob]));
    let begun: Vec<Child> = begun.collect::<Result<_, _>>()?;
    begun.into_iter().try_for_each(taken)?;
    all.extend(texts.iter().map(|text| kept(text, &[&bob])));
    Ok(all)
}

/// A mail for another domain, commands in a wrong order, and a client that leaves in the middle.
fn refusals(mailer: &Mailer) -> Result<(), Failure> {
    let other = mailer.begin("other", &letter("other", "text"), &["eve@other.example"])?;
    let output = other.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() != Some(NO_RECIPIENT) || !said.contains("550 ") {
        return Err(wrong("a mail for another domain", (output.status, said)));
    }
    let said = nc(mailer.port, "DATA\r\nHELO host.example\r\nDATA\r\nnonsense\r\nQUIT\r\n")?;
    let codes: Vec<&str> = said.lines().filter_map(|line| line.get(..3)).collect();
    if codes != ["220", "503", "250", "503", "500", "221"] {
        return Err(wrong("commands in a wrong order", said));
    }
    let begun = format!(
        "HELO host.example\r\nMAIL FROM:<{SENDER}>\r\nRCPT TO:<ada@{DOMAIN}>\r\nDATA\r\n\
         half a mail\r\n"
    );
    let said = nc(mailer.port, &begun)?;
    match said.lines().last() {
        Some(line) if line.starts_with("354 ") => Ok(()),
        _ => Err(wrong("a client that leaves", said)),
    }
}

/// Returns the paths of the files in a folder of the server.
fn names(rig: &mut Rig, folder: &str) -> Result<Vec<String>, Failure> {
    let said = rig.ask("main", &format!("fs ls mail/{folder}"), PATIENCE)?;
    let words = said.split_whitespace().filter(|word| {
        word.split_once('.').is_some_and(|(seconds, number)| {
            [seconds, number].iter().all(|it| it.parse::<u64>().is_ok())
        })
    });
    Ok(words.map(|name| format!("{FOLDER}/{folder}/{name}")).collect())
}

/// Compares the mails, in any order.
fn compare(
    wanted: &[Vec<u8>],
    found: impl Iterator<Item = Result<Vec<u8>, String>>,
) -> Result<(), Failure> {
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|why| wrong("a mail", why))?;
    let sorted = |mut all: Vec<Vec<u8>>| {
        all.sort();
        all
    };
    let (found, wanted) = (sorted(found), sorted(wanted.to_vec()));
    if found == wanted {
        return Ok(());
    }
    let other = found.iter().find(|mail| !wanted.contains(mail));
    let other = other.map(|mail| String::from_utf8_lossy(&mail[..mail.len().min(500)]));
    Err(wrong("mails", (found.len(), wanted.len(), other)))
}
