//! The program that keeps mails, as this one sees it.
//!
//! Contract: a mail is answered "250 OK" only after that program has said that it is kept. If it is
//! not there, or ends meanwhile, or the kernel has no room for the mail, the client has to try
//! again; it is looked for again with the next mail. Each mail that is being kept has a
//! conversation of its own, so that none waits for another one.

use mail_contracts::mail_store_v1::{CONTRACT, client, message};
use mailin::Response;
use penumbra::channel::{Channel, Error, connect};
use penumbra::ready::{self, Interest};
use std::cell::{Cell, RefCell};

/// The name that it serves.
const NAME: &str = "mail/store";
/// Bytes of all mails that are being received.
const MOST_RECEIVED: usize = 16 << 20;

type Idle = client::Idle<Channel>;

/// A conversation in which a mail was given.
pub type Given = client::Given<Channel>;

/// Where mails go.
pub struct Store {
    /// The part after `@` of those that have mail here.
    pub domain: String,
    /// Conversations in which no mail is given.
    idle: RefCell<Vec<Idle>>,
    /// Bytes of mails that are being received.
    received: Cell<usize>,
}

/// Returns whether the other side has ended.
fn is_over(conversation: &Idle) -> bool {
    let end = [Interest::Read(conversation.transport().file())];
    ready::wait(&end, Some(0)).is_ok_and(|ready| !ready.is_empty())
}

/// Returns an answer with words of another program.
fn said(code: u16, what: &str, words: &[u8]) -> Response {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let words: String = words.iter().filter(|it| is_text(it)).map(|it| char::from(*it)).collect();
    Response::custom(code, format!("{what}: {words}"))
}

fn not_kept(words: &[u8]) -> Response {
    said(451, "Not kept", words)
}

impl Store {
    /// For the mails of a domain.
    pub fn new(domain: &str) -> Store {
        let domain = domain.to_string();
        Store { domain, idle: RefCell::new(Vec::new()), received: Cell::new(0) }
    }

    /// Counts bytes of a mail that is being received. Returns whether there is room for them.
    pub fn has_room(&self, bytes: usize) -> bool {
        let sum = self.received.get() + bytes;
        if sum <= MOST_RECEIVED {
            self.received.set(sum);
        }
        sum <= MOST_RECEIVED
    }

    /// Counts bytes no more.
    pub fn forget(&self, bytes: usize) {
        self.received.set(self.received.get() - bytes);
    }

    /// Gives a mail away. Returns why that is not possible.
    pub fn give(&self, mail: Vec<u8>) -> Result<Given, Response> {
        self.send(mail).map_err(|why| not_kept(why.to_string().as_bytes()))
    }

    fn send(&self, mail: Vec<u8>) -> Result<Given, Error> {
        let mut before = std::iter::from_fn(|| self.idle.borrow_mut().pop());
        let conversation = match before.find(|it| !is_over(it)) {
            Some(conversation) => conversation,
            None => client::start(connect(NAME, CONTRACT)?),
        };
        conversation.send_mail(&message::Mail {}, mail.into())
    }

    /// Receives what became of a mail; waits for that. Returns why it is not kept.
    pub fn verdict(&self, given: Given) -> Result<(), Response> {
        use client::received::Given::{Failed, Infected, Kept};
        let received = given.receive().map_err(|why| not_kept(why.to_string().as_bytes()))?;
        let (answer, next) = match received {
            Kept { next, .. } => (Ok(()), next),
            Infected { message, next } => {
                (Err(said(554, "A virus is in it", message.virus.as_slice())), next)
            }
            Failed { message, next } => (Err(not_kept(message.why.as_slice())), next),
        };
        self.idle.borrow_mut().push(next);
        answer
    }
}
