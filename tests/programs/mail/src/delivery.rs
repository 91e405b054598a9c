//! What a session asks for each mail. A mail is collected in memory and given to the [`Store`] at
//! its end. It begins with the envelope (`Return-Path`, and `Delivered-To` for each recipient); the
//! rest is as the client sent it.
//!
//! A session must have its response at once, but what becomes of a mail is known later. And after a
//! refusal at the end of a mail, mailin 0.6 takes all that follows for data. So it gets an "OK" for
//! each, and the mail's [`Outcome`] is left to the [`Connection`](crate::connection::Connection),
//! which sends an answer of its own.

use crate::store::{Given, Store};
use mailin::response::{NO_MAILBOX, NO_STORAGE, OK, OUT_OF_SPACE, START_DATA};
use mailin::{Handler, Response};
use std::cell::Cell;
use std::rc::Rc;

/// Largest mail, in bytes: a message of the contract has no more.
const LARGEST: usize = 4 << 20;
/// Most recipients of a mail.
const RECIPIENTS: usize = 100;

/// The mail of one session.
pub struct Delivery {
    store: Rc<Store>,
    recipients: usize,
    /// What a failure leaves is answered at the end of the data: the client listens then.
    mail: Result<Vec<u8>, Response>,
    outcome: Outcome,
}

/// What became of a mail whose end has come: it was given to the store, or a client gets this
/// answer.
pub type Outcome = Rc<Cell<Option<Result<Given, Response>>>>;

impl Delivery {
    /// For one session.
    pub const fn new(store: Rc<Store>, outcome: Outcome) -> Delivery {
        Delivery { store, recipients: 0, mail: Ok(Vec::new()), outcome }
    }

    fn add(&mut self, data: &[u8]) {
        let Ok(mail) = &mut self.mail else { return };
        let refusal = match mail.len() + data.len() > LARGEST {
            true => NO_STORAGE,
            false if self.store.has_room(data.len()) => return mail.extend_from_slice(data),
            false => OUT_OF_SPACE,
        };
        let _ = self.take();
        self.mail = Err(refusal);
    }

    /// Takes what was collected.
    fn take(&mut self) -> Result<Vec<u8>, Response> {
        let mail = std::mem::replace(&mut self.mail, Ok(Vec::new()));
        self.store.forget(mail.as_ref().map_or(0, Vec::len));
        mail
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let _ = self.take();
    }
}

impl Handler for Delivery {
    fn mail(&mut self, _: std::net::IpAddr, _: &str, _: &str) -> Response {
        self.recipients = 0;
        OK
    }

    fn rcpt(&mut self, to: &str) -> Response {
        self.recipients += 1;
        let is_ours = to.rsplit_once('@').is_some_and(|(_, domain)| domain == self.store.domain);
        if is_ours && self.recipients <= RECIPIENTS { OK } else { NO_MAILBOX }
    }

    fn data_start(&mut self, _: &str, from: &str, _: bool, to: &[String]) -> Response {
        let _ = self.take();
        self.add(format!("Return-Path: <{from}>\r\n").as_bytes());
        to.iter().for_each(|to| self.add(format!("Delivered-To: {to}\r\n").as_bytes()));
        START_DATA
    }

    fn data(&mut self, data: &[u8]) -> std::io::Result<()> {
        self.add(data);
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        let given = self.take().and_then(|mail| self.store.give(mail));
        self.outcome.set(Some(given));
        OK
    }
}
