//! Where mails are kept: each is a file in a folder, which is there as a whole or not at all.
//!
//! ```text
//!   DATA -> FOLDER/tmp/NAME, written and synced -> FOLDER/new/NAME -> "250 OK"
//! ```
//! A mail that was acknowledged is on the disk. It begins with the envelope (`Return-Path`, and
//! `Delivered-To` for each recipient); the rest is as the client sent it.

use mailin::response::{INTERNAL_ERROR, NO_MAILBOX, NO_STORAGE, OK, START_DATA};
use mailin::{Handler, Response};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest mail, in bytes.
const LARGEST: usize = 4 << 20;
/// Most recipients of a mail.
const RECIPIENTS: usize = 100;

/// A folder of mails.
pub struct Spool {
    folder: PathBuf,
    /// The part after `@` of those that have mail here.
    pub domain: String,
    /// Mails so far.
    count: Cell<u64>,
}

impl Spool {
    /// Makes the folder, if it is not there.
    pub fn new(folder: &str, domain: &str) -> std::io::Result<Spool> {
        let folder = PathBuf::from(folder);
        std::fs::create_dir_all(folder.join("tmp"))?;
        std::fs::create_dir_all(folder.join("new"))?;
        Ok(Spool { folder, domain: domain.to_string(), count: Cell::new(0) })
    }

    fn begin(&self) -> std::io::Result<Mail> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        loop {
            let number = self.count.get();
            self.count.set(number + 1);
            let name = format!("{seconds}.{number}");
            let written = self.folder.join("tmp").join(&name);
            match File::create_new(&written) {
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    let kept = self.folder.join("new").join(&name);
                    return Ok(Mail { file: BufWriter::new(made?), written, kept, bytes: 0 });
                }
            }
        }
    }
}

/// A mail that is being received. What is not kept is removed.
struct Mail {
    file: BufWriter<File>,
    written: PathBuf,
    kept: PathBuf,
    bytes: usize,
}

impl Mail {
    fn add(&mut self, data: &[u8]) -> std::io::Result<()> {
        self.bytes += data.len();
        match self.bytes <= LARGEST {
            true => self.file.write_all(data),
            false => Err(ErrorKind::FileTooLarge.into()),
        }
    }

    fn keep(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.written, &self.kept)
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // One that was kept is not there any more; one that cannot be removed harms nothing.
        let _ = std::fs::remove_file(&self.written);
    }
}

/// What a session asks for each mail.
pub struct Delivery {
    spool: Rc<Spool>,
    recipients: usize,
    /// What a failure leaves is answered at the end of the data: the client listens then.
    mail: Result<Option<Mail>, ErrorKind>,
}

impl Delivery {
    /// For one session.
    pub const fn new(spool: Rc<Spool>) -> Delivery {
        Delivery { spool, recipients: 0, mail: Ok(None) }
    }

    fn begin(&self, from: &str, to: &[String]) -> std::io::Result<Mail> {
        let mut mail = self.spool.begin()?;
        mail.add(format!("Return-Path: <{from}>\r\n").as_bytes())?;
        to.iter().try_for_each(|to| mail.add(format!("Delivered-To: {to}\r\n").as_bytes()))?;
        Ok(mail)
    }
}

impl Handler for Delivery {
    fn mail(&mut self, _: std::net::IpAddr, _: &str, _: &str) -> Response {
        self.recipients = 0;
        OK
    }

    fn rcpt(&mut self, to: &str) -> Response {
        self.recipients += 1;
        let is_ours = to.rsplit_once('@').is_some_and(|(_, domain)| domain == self.spool.domain);
        if is_ours && self.recipients <= RECIPIENTS { OK } else { NO_MAILBOX }
    }

    fn data_start(&mut self, _: &str, from: &str, _: bool, to: &[String]) -> Response {
        match self.begin(from, to) {
            Ok(mail) => {
                self.mail = Ok(Some(mail));
                START_DATA
            }
            Err(_) => INTERNAL_ERROR,
        }
    }

    fn data(&mut self, data: &[u8]) -> std::io::Result<()> {
        if let Ok(Some(mail)) = &mut self.mail
            && let Err(why) = mail.add(data)
        {
            self.mail = Err(why.kind());
        }
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        let kept = match std::mem::replace(&mut self.mail, Ok(None)) {
            Ok(Some(mut mail)) => mail.keep().map_err(|why| why.kind()),
            Ok(None) => Err(ErrorKind::NotFound),
            Err(why) => Err(why),
        };
        match kept {
            Ok(()) => OK,
            Err(ErrorKind::FileTooLarge) => NO_STORAGE,
            Err(_) => INTERNAL_ERROR,
        }
    }
}
