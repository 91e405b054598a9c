//! Mails between clients, scanners and the disk.
//!
//! Contract: each mail that is given is answered, once. Nothing here waits for one client or one
//! scanner while another one could be served.

use crate::scanners::{Refused, Scanners, Verdict};
use crate::spool::{Spool, Written};
use mail_contracts::mail_store_v1::{CONTRACT, message, server};
use penumbra::Errno;
use penumbra::channel::{Bytes, Channel, Door, Error};
use penumbra::ready::{self, Interest};
use std::collections::VecDeque;

/// Clients at the same time: `mail` is one for each mail that it has, of at most 32. Further ones
/// wait at the door.
const MOST: usize = 32;
/// How often a mail is given to a scanner: one that ends scanners must not end all.
const TRIES: u32 = 2;

type Client = server::Idle<Channel>;

/// A mail that is not answered yet.
struct Job {
    mail: Written,
    client: server::Given<Channel>,
    tries: u32,
}

/// All that there is to do.
pub struct Server {
    door: Door<'static>,
    spool: Spool,
    scanners: Scanners<Job>,
    /// Those that have no mail here.
    clients: Vec<Client>,
    /// Mails for which no scanner has had time.
    waiting: VecDeque<Job>,
}

fn failed(client: server::Given<Channel>, why: &str) -> Option<Client> {
    client.send_failed(&message::Failed { why: Bytes::cut(why.as_bytes()) }).ok()
}

impl Server {
    /// Serves a name, with the scanners that serve others.
    pub fn open(name: &str, spool: Spool, scanners: Vec<String>) -> Result<Server, Errno> {
        let (door, scanners) = (Door::open(name, CONTRACT)?, Scanners::new(scanners));
        Ok(Server { door, spool, scanners, clients: Vec::new(), waiting: VecDeque::new() })
    }

    /// Serves for ever.
    pub fn serve(mut self) -> Result<(), Error> {
        loop {
            let (clients, scanners) = (self.clients.len(), self.scanners.busy().count());
            let ready = self.wait()?;
            for (client, index) in std::mem::take(&mut self.clients).into_iter().zip(0..) {
                match ready.contains(&index) {
                    true => self.take_mail(client),
                    false => self.clients.push(client),
                }
            }
            // After the clients: one that is answered becomes one, and `ready` says nothing of it.
            for (job, verdict) in self.scanners.verdicts(|it| ready.contains(&(clients + it))) {
                self.conclude(job, verdict);
            }
            if ready.contains(&(clients + scanners)) {
                self.accept()?;
            }
            self.give_to_scanners();
        }
    }

    /// Waits for clients, then for busy scanners, then at the door.
    fn wait(&self) -> Result<Vec<usize>, Error> {
        let clients = self.clients.iter().map(server::Idle::transport);
        let channels = clients.chain(self.scanners.busy());
        let mut what: Vec<Interest<'_>> = channels.map(|it| Interest::Read(it.file())).collect();
        if self.clients.len() + self.waiting.len() < MOST {
            what.push(Interest::Read(self.door.file()));
        }
        Ok(ready::wait(&what, None)?)
    }

    fn accept(&mut self) -> Result<(), Error> {
        match self.door.accept() {
            Ok(channel) => self.clients.push(server::start(channel)),
            // It left before it was accepted.
            Err(Error::Broken) => {}
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Takes a mail from a client, or lets the client go.
    fn take_mail(&mut self, client: Client) {
        let Ok(server::received::Idle::Mail { block, next, .. }) = client.receive() else { return };
        match self.spool.write(&block) {
            Ok(mail) => self.waiting.push_back(Job { mail, client: next, tries: 0 }),
            Err(why) => self.clients.extend(failed(next, &format!("it cannot be written: {why}"))),
        }
    }

    /// Gives mails to scanners that have none.
    fn give_to_scanners(&mut self) {
        while !self.scanners.are_all_busy()
            && let Some(job) = self.waiting.pop_front()
        {
            let data = match job.mail.read() {
                Ok(data) => data,
                Err(why) => {
                    self.clients.extend(failed(job.client, &format!("it cannot be read: {why}")));
                    continue;
                }
            };
            match self.scanners.give(&data, Job { tries: job.tries + 1, ..job }) {
                Ok(()) => {}
                Err(Refused { job, are_busy: true }) => {
                    self.waiting.push_front(Job { tries: job.tries - 1, ..job });
                    return;
                }
                Err(Refused { job, are_busy: false }) => {
                    self.clients.extend(failed(job.client, "no virus scanner runs"));
                }
            }
        }
    }

    /// Does what a scanner says; without a word of it, lets another one look.
    fn conclude(&mut self, job: Job, verdict: Option<Verdict>) {
        let Job { mail, client, tries } = job;
        let client = match verdict {
            None if tries < TRIES => return self.waiting.push_front(Job { mail, client, tries }),
            None => failed(client, "the virus scanner ended"),
            Some(Verdict::Infected(virus)) => {
                client.send_infected(&message::Infected { virus: Bytes::cut(&virus) }).ok()
            }
            Some(Verdict::Clean) => match mail.keep() {
                Ok(()) => client.send_kept(&message::Kept {}).ok(),
                Err(why) => failed(client, &format!("it cannot be kept: {why}")),
            },
        };
        self.clients.extend(client);
    }
}
