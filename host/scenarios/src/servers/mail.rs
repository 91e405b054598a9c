//! A mail server in three programs that talk over channels: SMTP by the crate `mailin`, a store,
//! and a virus scanner, which wants to be on another kernel. swaks and nc are its clients.

use super::{Serving, Started, TERMINATED, begin, nc, needs, serves, terminate};
use crate::disk::{content, off_and_clean};
use crate::host::{pattern, pull, push};
use crate::peers::wait_for;
use crate::programs::{LOST, wrong};
use crate::threads::put;
use crate::{Failure, PATIENCE, Rig};
use abi::soc::state;
use deploy::exec::{Captured, Line};
use deploy::record::Recording;
use records::record::{Line as Recorded, Record, Talk, parse};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tree::place::Place;

/// Programs of apps/corpus.toml: SMTP, which starts with a listener; what keeps mails; what looks
/// for viruses.
const FRONT: &str = "mail";
const STORE: &str = "mail-store";
const SCANNER: &str = "mail-scan";
const PORT: u16 = 25;
const DOMAIN: &str = "chip.example";
const SENDER: &str = "ada@host.example";
/// Where mails are.
const FOLDER: &str = "/mail";
/// Mails at the same time.
const CLIENTS: usize = 8;
/// Mails that SMTP gives to the store, for each kernel: one too early, [`letters`], and the virus.
const GIVEN: u64 = 1 + 2 + CLIENTS as u64 + 1;
/// All but the first one come to the scanner.
const SCANNED: u64 = GIVEN - 1;
/// The run of the record of channels, and its file's name.
const RECORD: &str = "servers.mail";
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

    /// Sends a mail with this body, which must be refused with these words.
    fn is_refused(&self, name: &str, body: &str, words: &str) -> Result<(), Failure> {
        let to = format!("ada@{DOMAIN}");
        let output = self.begin(name, &letter(name, body), &[&to])?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        match !output.status.success() && said.contains(words) {
            true => Ok(()),
            false => Err(wrong(name, said)),
        }
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

/// The three programs of the mail server.
struct Office {
    store: Started,
    scanner: Started,
    front: Serving,
    mailer: Mailer,
}

/// A virus that is none, in two parts: no scanner of a host shall find it here.
const EICAR: [&str; 2] =
    ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR", "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"];
const VIRUS: &str = "Eicar-Test-Signature";
/// Other signatures.
const OTHERS: usize = 500;
const SIGNATURES: &str = "/signatures";

/// Returns a file of signatures, the virus among them.
fn signatures() -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let bytes = pattern(9, OTHERS * 24);
    let others = bytes.chunks(24).zip(0..).map(|(it, n)| format!("Other.{n}:0:*:{}\n", hex(it)));
    let others: String = others.collect();
    format!("{others}{VIRUS}:0:*:{}\n", hex(EICAR.concat().as_bytes()))
}

/// Installs the three programs, with signatures.
fn install(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["swaks", "nc"])?;
    begin(rig, None)?;
    [FRONT, STORE, SCANNER].iter().try_for_each(|program| put(rig, program))?;
    let pushed = push(&rig.instance, signatures().as_bytes(), SIGNATURES);
    pushed.map(|_| ()).map_err(|why| wrong("push", why))
}

impl Office {
    /// Starts all with the store and SMTP on a kernel. The scanner chooses its own: another one, as
    /// its manifest says. Until it runs, no mail is kept.
    fn open(rig: &mut Rig, kernel: &str) -> Result<Office, Failure> {
        let store = serves(rig, Line::on(kernel, STORE, &[FOLDER]), "mail/store")?;
        let front = Serving::start(rig, kernel, FRONT, &[DOMAIN], PORT)?;
        let folder = rig.instance.path("sent");
        std::fs::create_dir_all(&folder)?;
        let mailer = Mailer { port: front.host_port, folder };
        mailer.is_refused("early", "too early", "451 Not kept: no virus scanner runs")?;
        let line = Line::anywhere(SCANNER, &[SIGNATURES]);
        let scanner = serves(rig, line, "mail/scan")?;
        if scanner.1 == kernel {
            return Err(wrong("the scanner runs where mails are stored", kernel));
        }
        Ok(Office { store, scanner, front, mailer })
    }

    fn close(self, rig: &mut Rig) -> Result<(), Failure> {
        ended(self.front.end(rig)?, "")?;
        for (program, (running, kernel), out) in [
            (STORE, self.store, String::new()),
            (SCANNER, self.scanner, format!("{} signatures\n", OTHERS + 1)),
        ] {
            terminate(rig, &kernel, program)?;
            ended(running.end()?, &out)?;
        }
        Ok(())
    }
}

fn ended(found: Captured, out: &str) -> Result<(), Failure> {
    let is_right = found.code == TERMINATED && found.out == out.as_bytes() && found.err.is_empty();
    if is_right { Ok(()) } else { Err(wrong("a program of the mail server", found)) }
}

/// On each kernel in turn: mails of all sizes, many at the same time, and what is refused, with a
/// scanner on the other kernel. Each mail that was acknowledged is a file on the disk, also when
/// the board is off.
pub fn mail(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    let failed = |why: anyhow::Error| wrong("the record of channels", format!("{why:#}"));
    let mut recording = Recording::begin(&rig.instance).map_err(failed)?;
    let mut all = vec![];
    for kernel in ["main", "shadow"] {
        let office = Office::open(rig, kernel)?;
        all.extend(letters(&office.mailer, kernel)?);
        refusals(&office.mailer)?;
        office.mailer.is_refused("virus", &EICAR.concat(), &infected())?;
        office.close(rig)?;
        // The programs have ended; their kernels still know what they have sent.
        recording.sample(&rig.instance).map_err(failed)?;
    }
    let place = Place::find()?;
    let file = place.target.join("lab").join(format!("{RECORD}.jsonl"));
    recording.write(&place, RECORD, &file).map_err(failed)?;
    talked(&std::fs::read_to_string(&file)?, all.iter().map(Vec::len).sum())?;
    let names = names(rig, "new")?;
    compare(&all, names.iter().map(|name| pull(&rig.instance, name)))?;
    if !self::names(rig, "tmp")?.is_empty() {
        return Err(wrong("mails that were not ended", self::names(rig, "tmp")?));
    }
    off_and_clean(rig)?;
    let contents = names.iter().map(|name| content(&rig.instance, name));
    compare(&all, contents.map(|found| found.map_err(|why| why.to_string())))
}

/// Checks the record: on each kernel SMTP has talked to the store, and that to the scanner on the
/// other kernel. `bytes` are those of all mails that are kept.
fn talked(text: &str, bytes: usize) -> Result<(), Failure> {
    let talks = text.lines().filter_map(|line| match parse(line) {
        Ok(Recorded::Record(Record::Talk(talk))) => Some(talk),
        _ => None,
    });
    let talks: Vec<Talk> = talks.collect();
    let messages = |(contract, client, on): (&str, &str, &str), (server, at): (&str, &str)| {
        let is_it = |talk: &&Talk| {
            (talk.contract.as_str(), talk.client.as_str(), talk.client_kernel.as_str())
                == (contract, client, on)
                && (talk.server.as_str(), talk.server_kernel.as_str()) == (server, at)
        };
        talks.iter().find(is_it).map(|talk| (talk.client_sent, talk.server_sent))
    };
    for (kernel, other) in [("main", "shadow"), ("shadow", "main")] {
        let mails = messages(("mail_store.v1", FRONT, kernel), (STORE, kernel));
        let scans = messages(("scan.v1", STORE, kernel), (SCANNER, other));
        if (mails, scans) != (Some((GIVEN, GIVEN)), Some((SCANNED, SCANNED))) {
            return Err(wrong("the arrows of the record", text));
        }
    }
    // Mails go to the store, and from there to the scanner; answers are short.
    let sum = |bytes: fn(&Talk) -> u64| talks.iter().map(bytes).sum::<u64>();
    let (there, back) = (sum(|talk| talk.client_bytes), sum(|talk| talk.server_bytes));
    match there >= 2 * bytes as u64 && (1..bytes as u64 / 10).contains(&back) {
        true => Ok(()),
        false => Err(wrong("the bytes of the record", text)),
    }
}

fn infected() -> String {
    format!("554 A virus is in it: {VIRUS}")
}

/// The kernel of the scanner dies: clients have to try again, until another scanner runs, on
/// whatever kernel. No mail passes without one.
pub fn mail_lost(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    let office = Office::open(rig, "main")?;
    let [ada, text] = [format!("ada@{DOMAIN}"), letter("before", "a mail")];
    office.mailer.send("before", &text, &[&ada])?;
    let epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    rig.kill("shadow")?;
    let lost = office.scanner.0.end()?;
    if lost.code != LOST {
        return Err(wrong("the scanner whose kernel died", lost));
    }
    office.mailer.is_refused("between", "no scanner", "451 Not kept: no virus scanner runs")?;
    let line = Line::on("main", SCANNER, &[SIGNATURES]);
    let scanner = serves(rig, line, "mail/scan")?;
    office.mailer.send("after", &text, &[&ada])?;
    office.mailer.is_refused("virus", &EICAR.concat(), &infected())?;
    wait_for(rig, "came back", |next, now| next == epoch + 1 && now == state::RUNNING)?;
    let office = Office { scanner, ..office };
    office.close(rig)?;
    let mails = [kept(&text, &[&ada]), kept(&text, &[&ada])];
    let names = names(rig, "new")?;
    compare(&mails, names.iter().map(|name| pull(&rig.instance, name)))
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
