//! The file service's model as a specification.
//!
//! Contract: a history of requests to one file service (with one file system, initially empty)
//! whose replies some order explains. Times are not compared; handle numbers are those of the
//! service; listings are compared, as sets, if they came in one piece.

use crate::check::Spec;
use abi::fs::{Op, Reply, Request, reply_flag};
use fs::client::unpack;
use fs::model::Model;

/// A request with its bulk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The request.
    pub request: Request,
    /// The bulk as sent.
    pub bulk: Vec<u8>,
}

/// A reply with the bulk that it filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// The reply.
    pub reply: Reply,
    /// The first [`Reply::filled`] bytes of the bulk.
    pub filled: Vec<u8>,
}

/// The specification.
pub struct Files;

impl Spec for Files {
    type State = Model;
    type Ask = Ask;
    type Reply = Got;

    fn accept(&self, state: &Model, ask: &Ask, reply: Option<&Got>) -> Option<Model> {
        if ask.request.op == Op::Readdir as u16 {
            return accept_list(state, &ask.request, reply).then(|| state.clone());
        }
        let mut behind = state.clone();
        let mut bulk = ask.bulk.clone();
        let right = behind.answer(0, ask.request, &mut bulk)?;
        let Some(got) = reply else { return Some(behind) };
        for (model, service) in [(right.handle, got.reply.handle), (right.other, got.reply.other)] {
            if is_handle(ask.request.op) && model != 0 {
                behind.rename_handle(model, service);
            }
        }
        let filled = &bulk[..right.filled as usize];
        (plain(right, ask.request.op) == plain(got.reply, ask.request.op) && filled == got.filled)
            .then_some(behind)
    }

    fn only_looks(&self, ask: &Ask, got: &Got) -> bool {
        only_looks(&ask.request, &got.reply)
    }
}

/// Returns whether a request with this reply leaves files and pipes as they are.
pub(crate) fn only_looks(request: &Request, reply: &Reply) -> bool {
    let looks = [Op::Stat, Op::StatPath, Op::Readdir, Op::Poll];
    reply.error != 0 || looks.iter().any(|op| *op as u16 == request.op)
}

fn is_handle(op: u16) -> bool {
    [Op::Root, Op::Open, Op::Dup, Op::Pipe].iter().any(|o| *o as u16 == op)
}

/// Returns a reply without the values that the service chooses.
fn plain(reply: Reply, op: u16) -> Reply {
    let mut reply = reply;
    (reply.stat.node, reply.stat.device) = (0, 0);
    (reply.stat.accessed, reply.stat.modified, reply.stat.changed) = (0, 0, 0);
    if is_handle(op) {
        (reply.handle, reply.other) = (0, 0);
    }
    reply
}

fn accept_list(state: &Model, request: &Request, reply: Option<&Got>) -> bool {
    let right = state.list(request.handle);
    let Some(got) = reply else { return true };
    let Ok(right) = right else { return right.err() == Some(got.reply.errno()) };
    let whole = got.reply.flags & reply_flag::END != 0 && request.offset == 0;
    let mut found: Vec<(Vec<u8>, u8)> =
        unpack(&got.filled).into_iter().map(|entry| (entry.name, entry.kind)).collect();
    found.sort();
    let right = right.into_iter().map(|(name, _, kind)| (name, kind));
    got.reply.error == 0 && (!whole || found.into_iter().eq(right))
}
