//! The program that keeps mails, as this one sees it.
//!
//! Contract: a mail is answered "250 OK" only after that program has said that it is kept. If it is
//! not there, or ends meanwhile, the client has to try again; it is looked for again with the
//! next mail.

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

/// Where mails go.
pub struct Store {
    /// The part after `@` of those that have mail here.
    pub domain: String,
    /// The conversation, while there is none to wait for in it.
    conversation: RefCell<Option<Idle>>,
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

impl Store {
    /// For the mails of a domain.
    pub fn new(domain: &str) -> Store {
        let domain = domain.to_string();
        Store { domain, conversation: RefCell::new(None), received: Cell::new(0) }
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

    /// Gives a mail away. Returns why it is not kept.
    pub fn keep(&self, mail: Vec<u8>) -> Result<(), Response> {
        use client::received::Given::{Failed, Infected, Kept};
        let not_kept = |words: &[u8]| said(451, "Not kept", words);
        let given = self.give(mail).map_err(|why| not_kept(why.to_string().as_bytes()))?;
        let (answer, next) = match given {
            Kept { next, .. } => (Ok(()), next),
            Infected { message, next } => {
                (Err(said(554, "A virus is in it", message.virus.as_slice())), next)
            }
            Failed { message, next } => (Err(not_kept(message.why.as_slice())), next),
        };
        self.conversation.replace(Some(next));
        answer
    }

    fn give(&self, mail: Vec<u8>) -> Result<client::received::Given<Channel>, Error> {
        let conversation = match self.conversation.take().filter(|it| !is_over(it)) {
            Some(conversation) => conversation,
            None => client::start(connect(NAME, CONTRACT)?),
        };
        conversation.call_mail(&message::Mail {}, mail.into())
    }
}
