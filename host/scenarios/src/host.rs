//! Files between the host and a running board, by `pen push` and `pen pull`.

use super::machine::demand;
use super::programs::back;
use super::{Failure, PATIENCE, Rig};
use deploy::transfer::Stream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use workbench::instance::Instance;

/// Number of concurrent transfers.
const CLIENTS: u64 = 6;
/// More than the root file system can hold.
const TOO_LARGE: u64 = 20 << 20;

/// Returns the same bytes for the same seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let next = |it: &u64| Some(it.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99));
    std::iter::successors(Some(seed), next).map(|it| (it >> 56) as u8).take(length).collect()
}

/// Does what `pen push` does.
pub fn push(board: &Instance, from: impl std::io::Read, path: &str) -> Result<u64, String> {
    let done = Stream::open(board).and_then(|stream| stream.push(from, path));
    done.map_err(|e| e.to_string())
}

/// Does what `pen pull` does.
pub fn pull(board: &Instance, path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let done = Stream::open(board).and_then(|stream| stream.pull(path, &mut bytes));
    done.map(|_| bytes).map_err(|e| e.to_string())
}

/// Both kernels and the host find pushed files; a failed push leaves nothing.
pub fn files(rig: &mut Rig) -> Result<(), Failure> {
    let wrong = |what: &str, why: String| Failure::Wrong(format!("{what}: {why}"));
    // Before the kernel listens, too.
    let bytes = pattern(1, 300_000);
    push(&rig.instance, &bytes[..], "/first").map_err(|e| wrong("push", e))?;
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "fs stat first", "300000 bytes")?;
    demand(rig, "on shadow fs stat first", "300000 bytes")?;
    demand(rig, "on shadow fs write there and back", "")?;
    if pull(&rig.instance, "first").as_ref() != Ok(&bytes)
        || pull(&rig.instance, "there").as_deref() != Ok(b"and back\n")
    {
        return Err(Failure::Wrong("a pull failed, or returned other bytes".to_string()));
    }
    refused(rig, "no such file", pull(&rig.instance, "missing").err())?;
    refused(rig, "no such file", push(&rig.instance, &bytes[..], "no/where").err())?;
    let endless = std::io::Read::take(std::io::repeat(7), TOO_LARGE);
    refused(
        rig,
        "the file system in memory at / is full",
        push(&rig.instance, endless, "large").err(),
    )?;
    at_once(rig)?;
    same_name(rig)?;
    given_up(rig)
}

fn refused(rig: &mut Rig, why: &str, said: Option<String>) -> Result<(), Failure> {
    if !said.as_ref().is_some_and(|said| said.contains(why)) {
        return Err(Failure::Wrong(format!("{said:?} instead of {why}")));
    }
    nothing_half(rig)
}

/// Checks that no incomplete file exists.
fn nothing_half(rig: &mut Rig) -> Result<(), Failure> {
    let start = Instant::now();
    while rig.ask("main", "fs ls", PATIENCE)?.contains("~part") {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong("an incomplete file (~part) was not removed".to_string()));
        }
    }
    Ok(())
}

/// Several clients push and pull files at once.
pub(super) fn at_once(rig: &Rig) -> Result<(), Failure> {
    let board = &rig.instance;
    let one = |seed: u64| {
        let (bytes, path) = (pattern(seed, 50_000), format!("many{seed}"));
        push(board, &bytes[..], &path)?;
        if pull(board, &path)? == bytes { Ok(()) } else { Err(format!("{path} is not as pushed")) }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                scope.spawn({
                    let one = &one;
                    move || one(seed)
                })
            })
            .collect();
        let mut ended = all.into_iter().map(|it| it.join().unwrap_or(Err("panicked".into())));
        ended.try_for_each(|it| it.map_err(Failure::Wrong))
    })
}

/// Of two concurrent pushes of one name, one file exists, and is complete.
fn same_name(rig: &Rig) -> Result<(), Failure> {
    let board = &rig.instance;
    let [one, other] = [pattern(7, 200_000), pattern(8, 200_000)];
    let done = std::thread::scope(|scope| {
        let beside = scope.spawn(|| push(board, &one[..], "same"));
        push(board, &other[..], "same").and(beside.join().unwrap_or(Err("panicked".into())))
    });
    let found = done.and_then(|_| pull(board, "same")).map_err(Failure::Wrong)?;
    match found == one || found == other {
        true => Ok(()),
        false => Err(Failure::Wrong("the file is neither of the two pushed".to_string())),
    }
}

/// A source that fails in the middle.
struct Breaks(usize);

impl std::io::Read for Breaks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(into.len()).ok_or(std::io::ErrorKind::Other)?;
        Ok(into.len())
    }
}

/// A client that disconnects in the middle: the previous file stays.
fn given_up(rig: &mut Rig) -> Result<(), Failure> {
    if push(&rig.instance, Breaks(100_000), "first").is_ok() {
        return Err(Failure::Wrong("half a file was taken for a whole one".to_string()));
    }
    nothing_half(rig)?;
    demand(rig, "fs stat first", "300000 bytes").map(|_| ())
}

/// Streams are main's while it runs, also those that are opened while shadow starts: no client
/// notices that shadow dies.
pub fn others_die(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let (folder, over) = (rig.instance.folder.clone(), AtomicBool::new(false));
    let client = || {
        let board = Instance::at(folder.clone());
        while !over.load(Ordering::Relaxed) {
            match pull(&board, "missing").err() {
                // The file service may have lost its state with shadow.
                Some(said) if said.contains("no such file") || said.contains("restarted") => {}
                said => return Err(Failure::Wrong(format!("a client of main: {said:?}"))),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let died = (0..10).try_for_each(|_| {
            rig.kill("shadow")?;
            back(rig)?;
            // It listens for streams when it has a root file system.
            demand(rig, "on shadow fs ls", "").map(|_| ())
        });
        over.store(true, Ordering::Relaxed);
        let panicked = || Err(Failure::Wrong("a client panicked".to_string()));
        let mut ended = clients.into_iter().map(|it| it.join().unwrap_or_else(|_| panicked()));
        died.and_then(|()| ended.try_for_each(|it| it))
    })
}
