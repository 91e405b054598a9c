//! Judges the history of a run: does some order explain what all callers were answered?
//!
//! A dead kernel's calls that were not answered may have taken effect or not; so may those that the
//! service did not answer, until they failed. When a kernel dies, a service may lose its state. The
//! other kernels learn of a death at some later moment.

use crate::history::{self, Entry, Kind};
use crate::report::{Count, Counts};
use linear::{Call, Failure, Spec, check, files, lives, processes};
use std::collections::BTreeMap;
use zerocopy::{FromBytes, IntoBytes};

/// Steps of a search after which a history counts as too long.
const STEPS: u64 = 60_000;
/// Callers of deaths and of losses start here.
const FATE: u32 = 1 << 28;

/// Judges both histories. Counts the calls of those that were explained.
pub fn judge(counts: &Counts) -> Result<(), String> {
    let entries = history::all();
    let of_files = calls(&entries, Kind::Files, file_ask, file_reply, |life| match life {
        Some((kernel, epoch)) => lives::Ask::Died { kernel, life: epoch - 1 },
        None => lives::Ask::Restarted,
    });
    let start = lives::World::new(1, fs::vfs::BUDGET);
    explain(&lives::Lives, start, &of_files, counts, Count::FilesExplained)?;
    let mut of_table = calls(&entries, Kind::Table, table_ask, table_reply, |life| match life {
        Some(life) => processes::Ask::Died(life),
        None => processes::Ask::Restarted,
    });
    processes::split(&mut of_table);
    let start = processes::Table::default();
    explain(&processes::Processes, start, &of_table, counts, Count::ProcessesExplained)
}

fn explain<S: Spec>(
    spec: &S,
    start: S::State,
    history: &[Call<S::Ask, S::Reply>],
    counts: &Counts,
    what: Count,
) -> Result<(), String>
where
    S::Ask: std::fmt::Debug,
    S::Reply: std::fmt::Debug,
{
    match check(spec, start, history, STEPS) {
        Ok(_) => {
            counts.add(what, history.iter().filter(|call| call.reply.is_some()).count() as u64);
            Ok(())
        }
        Err(Failure::TooMuch) => {
            counts.add(Count::TooLong, 1);
            Ok(())
        }
        Err(failure) => Err(failure.describe(history)),
    }
}

/// Turns entries of one service into calls. `fate` makes a death, or a loss, into a request.
fn calls<A, R>(
    entries: &[Entry],
    service: Kind,
    ask: impl Fn(&Entry) -> A,
    reply: impl Fn(&Entry, &Entry) -> R,
    fate: impl Fn(Option<(u8, u16)>) -> A,
) -> Vec<Call<A, R>> {
    let (mut history, mut places) = (Vec::new(), BTreeMap::new());
    for (entry, time) in entries.iter().zip(0..) {
        let mut begin = |who, ask| {
            history.push(Call { who, ask, reply: None, invoked: time, returned: u64::MAX });
        };
        match entry.kind {
            Kind::Died => {
                begin(FATE + 2 * time as u32, fate(Some(entry.life)));
                begin(FATE + 2 * time as u32 + 1, fate(None));
            }
            Kind::Returned | Kind::Failed => {
                let Some((at, begun)) = places.remove(&entry.call) else { continue };
                let call: &mut Call<A, R> = &mut history[at];
                call.returned = time;
                if entry.kind == Kind::Returned {
                    call.reply = Some(reply(begun, entry));
                }
            }
            kind if kind == service => {
                begin(entry.caller, ask(entry));
                places.insert(entry.call, (history.len() - 1, entry));
            }
            _ => {}
        }
    }
    history
}

fn read<T: FromBytes>(bytes: &[u8]) -> T {
    let Ok(value) = T::read_from_bytes(bytes) else { panic!("{} bytes of a value", bytes.len()) };
    value
}

fn file_ask(entry: &Entry) -> lives::Ask {
    let [request, bulk] = &entry.pieces;
    let ask = files::Ask { request: read(request), bulk: bulk.clone() };
    // Epochs begin with 1.
    lives::Ask::Request { kernel: entry.life.0, life: entry.life.1 - 1, ask }
}

fn file_reply(_: &Entry, entry: &Entry) -> files::Got {
    let [reply, filled] = &entry.pieces;
    files::Got { reply: read(reply), filled: filled.clone() }
}

fn table_ask(entry: &Entry) -> processes::Ask {
    let request: abi::process::Request = read(&entry.pieces[0]);
    let (caller, life) = (entry.caller, entry.life);
    match request.op == abi::process::Op::Next as u16 {
        true => processes::Ask::Next { caller, life, is_settled: entry.is_settled },
        false => processes::Ask::Request { caller, life, request },
    }
}

fn table_reply(begun: &Entry, entry: &Entry) -> processes::Got {
    let request: abi::process::Request = read(&begun.pieces[0]);
    let [reply, filled] = &entry.pieces;
    let lists = request.op == abi::process::Op::List as u16;
    let records = filled.chunks_exact(size_of::<abi::process::Listed>());
    let listed = records.filter(|_| lists).map(read).collect();
    processes::Got { reply: read(reply), listed }
}

/// Returns the bytes of a request or a reply.
pub fn bytes<T: IntoBytes + zerocopy::Immutable>(value: &T) -> &[u8] {
    value.as_bytes()
}
