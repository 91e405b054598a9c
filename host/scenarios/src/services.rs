//! Services: the same results on every kernel, in every mode.

use super::machine::demand;
use super::peers::wait_for;
use super::{Failure, PATIENCE, Rig, statics};
use abi::soc::state;
use fs::Vfs;
use fs::exercise::{PIECE, exercise_in};
use share::{Answer, Event, Outbox, Service, Token};
use std::time::{Duration, Instant};

/// Time for which it is off.
const NAP_MS: u64 = 40;
/// A kernel with something to do rests for less.
const RESTS: Duration = Duration::from_secs(2);
/// Number of random operations of an exercise.
pub const OPERATIONS: u64 = 2000;

/// Returns the expected result of an exercise, computed by running the service here.
fn expected(seed: u64) -> String {
    let mut service = Vfs::start(1);
    let mut now = 0;
    let mut ask = |request: abi::fs::Request, bulk: &mut [u8]| {
        now += 1;
        let event = Event::Request { token: Token::default(), request: &request, bulk };
        match service.step(now, event, &mut Outbox::new()) {
            Answer::Done(reply) => reply,
            _ => abi::fs::Reply::error(abi::fs::Errno::Io),
        }
    };
    let digest = exercise_in(PIECE, seed, OPERATIONS, &mut ask).unwrap_or_default();
    let (asked, refused) = (digest.asked, digest.refused);
    format!("seed {seed}: {asked} requests, {refused} of them refused")
        + &format!(", digest {:016x}", digest.hash)
}

/// Runs an exercise by `command`, and compares its result with the one computed here.
pub fn exercised(rig: &mut Rig, on: &str, seed: u64) -> Result<(), Failure> {
    let text = rig.ask("main", &format!("{on}exercise {seed} {OPERATIONS}"), PATIENCE)?;
    let expected = expected(seed);
    let (asked, digest) = expected.split_once(", digest").unwrap_or_default();
    match text.contains(asked) && text.contains(&format!("digest{digest}")) {
        true => Ok(()),
        false => Err(Failure::Wrong(format!("{text}\nexpected: {expected}"))),
    }
}

/// Returns a service's line of the monitor's `services`, by words.
pub fn line_of(rig: &mut Rig, on: &str, service: &str) -> Result<Vec<String>, Failure> {
    let said = rig.ask("main", &format!("{on}services"), PATIENCE)?;
    let lines = said.lines().map(|line| line.split_whitespace().map(str::to_string).collect());
    let found =
        lines.into_iter().find(|words: &Vec<String>| words.first().is_some_and(|it| it == service));
    found.ok_or(Failure::Wrong(said))
}

/// One kernel: files, a pipe, and random operations with the host's results.
pub fn alone(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "services", "independent")?;
    demand(rig, "fs write note one line of text", "")?;
    demand(rig, "fs cat note", "one line of text")?;
    demand(rig, "fs cat missing", "no such file or directory")?;
    busy(rig, &[""])
}

/// A pipe and random operations on each kernel, alternately.
fn busy(rig: &mut Rig, kernels: &[&str]) -> Result<(), Failure> {
    for on in kernels {
        let whole = "50000 of 50000 bytes came as they were sent";
        demand(rig, &format!("{on}pipe 50000"), whole)?;
    }
    (1..=3).try_for_each(|seed| kernels.iter().try_for_each(|on| exercised(rig, on, seed)))
}

/// Two kernels and one service: each reads what the other writes, and both get the same results.
pub fn together(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "fs mkdir place", "")?;
    demand(rig, "on shadow fs write place/note from the other kernel", "")?;
    demand(rig, "fs cat place/note", "from the other kernel")?;
    demand(rig, "fs append place/note and more", "")?;
    demand(rig, "on shadow fs cat place/note", "and more")?;
    demand(rig, "fs rmdir place", "the directory is not empty")?;
    busy(rig, &["", "on shadow "])
}

/// The same with one state in memory shared by both kernels.
pub fn shared(rig: &mut Rig) -> Result<(), Failure> {
    together(rig)?;
    demand(rig, "services", "shadowed")?;
    demand(rig, "on shadow services", "shadowed")?;
    whole(rig)?;
    statics::none(rig)
}

/// How a life ends.
#[derive(Clone, Copy)]
pub enum Ends {
    Killed,
    /// Another kernel powers it off and on.
    Cold,
}

impl Ends {
    fn carry_out(self, rig: &mut Rig) -> Result<(), Failure> {
        match self {
            Ends::Killed => rig.kill("shadow"),
            Ends::Cold => {
                demand(rig, "domain cold shadow", "next boot cold")?;
                demand(rig, "domain on shadow", "woken").map(|_| ())
            }
        }
    }
}

/// Under load from both kernels the weak one's life ends, sometimes inside a step or with the only
/// copy of a page: the service restarts, reports it, and no caller gets a wrong result.
pub fn loses(rig: &mut Rig, ends: Ends, times: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    let mut lost = 0;
    // With the sanitizer, each round takes ten seconds or more.
    for round in 0..if rig.watched { times / 4 } else { times } {
        demand(rig, "fs write note still here", "")?;
        demand(rig, &format!("aside exercise {} {OPERATIONS}", 1000 + round), "begun")?;
        demand(rig, &format!("on shadow aside exercise {} {OPERATIONS}", 2000 + round), "begun")?;
        std::thread::sleep(Duration::from_millis(10 + round * 37 % 200));
        ends.carry_out(rig)?;
        let before = epoch;
        epoch = wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
        lost += u64::from(!rig.ask("main", "fs ls", PATIENCE)?.contains("note"));
        exercised(rig, "", round)?;
        exercised(rig, "on shadow ", round)?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    // The kernel that finds the damage starts the service again, and logs it.
    let restarts = |text: &str| text.matches("fs: restarts").count() as u64;
    let board = rig.instance.board()?;
    let logged = board.domains.iter().map(|domain| restarts(&rig.early_log(&domain.name)));
    let said = restarts(rig.transcript()) + logged.sum::<u64>();
    if lost > said || times >= 100 && lost == 0 {
        let text = format!("it restarted {lost} times, and logged that {said} times");
        return Err(Failure::Wrong(text));
    }
    Ok(())
}

/// A kernel that is powered off hands over its pages and wakes no other kernel: files are
/// unchanged.
pub fn sleeps(rig: &mut Rig, times: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "fs write note still here", "")?;
    for round in 0..times {
        let after =
            if round % 2 == 0 { ("off", state::OFF) } else { ("inactive", state::INACTIVE) };
        wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
        exercised(rig, "on shadow ", round)?;
        demand(rig, &format!("domain {} shadow", after.0), "domain shadow: ")?;
        if after.0 == "off" {
            demand(rig, "fs cat note", "still here")?;
            exercised(rig, "", round)?;
            wait_for(rig, "slept on", |_, now| now == after.1)?;
        }
        demand(rig, "domain on shadow", "woken")?;
        demand(rig, "on shadow fs cat note", "still here")?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    demand(rig, "services", "shadowed             1,").map(|_| ())
}

/// The strong kernel, which has the devices and is the home of the pages, is powered off during
/// operations of both; the weak one continues and wakes it.
pub fn strong_sleeps(rig: &mut Rig, times: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    demand(rig, "fs write note still here", "")?;
    for round in 0..times {
        let exercises = begin_both(rig, round)?;
        demand(rig, &format!("on shadow aside domain off main {NAP_MS}"), "begun")?;
        came_back(rig, round as usize + 1)?;
        exercises.into_iter().try_for_each(|exercise| ended(rig, exercise))?;
        demand(rig, "fs cat note", "still here")?;
        demand(rig, "on shadow fs cat note", "still here")?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    demand(rig, "services", "shadowed             1,").map(|_| ())
}

/// Each kernel in turn is stopped at any point, during operations of both: the other one wakes it
/// as soon as it waits for its pages or its lock.
pub fn stopped(rig: &mut Rig, times: u64) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    let board = rig.instance.board()?;
    let (mut stopped, mut woken) = (0, 0);
    for round in 0..times {
        let [main, shadow] = begin_both(rig, round)?;
        let (at, other) = if round % 2 == 0 { (shadow, main) } else { (main, shadow) };
        let state_of = |rig: &Rig| rig.instance.states(&board)[usize::from(at == shadow)].1;
        std::thread::sleep(Duration::from_millis(round * 37 % 100));
        let is_stopped = stop(rig, at.0, state_of)?;
        ended(rig, other)?;
        stopped += u64::from(is_stopped);
        woken += u64::from(is_stopped && state_of(rig) != state::INACTIVE);
        rig.power(at.0, "wake")?;
        ended(rig, at)?;
        whole(rig)?;
        rig.counted.add(1, "rounds");
    }
    match woken > stopped / 2 {
        true => Ok(()),
        false => Err(Failure::Wrong(format!("the other kernel woke only {woken} of {stopped}"))),
    }
}

/// Makes a kernel INACTIVE. The soc refuses that while the kernel rests, so it is tried again until
/// the kernel is awake. Returns false if it rests on: its exercise was over before.
fn stop(rig: &Rig, kernel: &str, state_of: impl Fn(&Rig) -> u64) -> Result<bool, Failure> {
    let start = Instant::now();
    loop {
        match rig.power(kernel, "inactive") {
            Err(Failure::Wrong(_)) if start.elapsed() < RESTS => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Failure::Wrong(_)) if state_of(rig) == state::RESTING => return Ok(false),
            result => return result.map(|()| true),
        }
    }
}

/// A kernel, and the seed of its exercise.
type Exercise = (&'static str, u64);

/// Both kernels run an exercise concurrently.
fn begin_both(rig: &mut Rig, round: u64) -> Result<[Exercise; 2], Failure> {
    let (here, there) = (1000 + 2 * round, 1001 + 2 * round);
    demand(rig, &format!("aside exercise {here} {OPERATIONS}"), "begun")?;
    demand(rig, &format!("on shadow aside exercise {there} {OPERATIONS}"), "begun")?;
    Ok([("main", here), ("shadow", there)])
}

/// Waits until it has ended, with the right results.
pub fn ended(rig: &Rig, (kernel, seed): Exercise) -> Result<(), Failure> {
    let expected = expected(seed);
    let digest = expected.rsplit(", ").next().unwrap_or_default();
    rig.said_aside(kernel, &format!("exercise {seed} {OPERATIONS}"), digest, 1).map(|_| ())
}

/// Waits until main was powered off and came back so many times.
pub fn came_back(rig: &Rig, times: usize) -> Result<(), Failure> {
    logged(rig, "main", "back from off", times)
}

/// Waits until a kernel's early log has a text so many times.
pub fn logged(rig: &Rig, kernel: &str, text: &str, times: usize) -> Result<(), Failure> {
    let start = Instant::now();
    while rig.early_log(kernel).matches(text).count() < times {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong(format!("{kernel} did not log {text:?} {times} times")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// No kernel maps a page against the protocol.
pub(super) fn whole(rig: &mut Rig) -> Result<(), Failure> {
    let audit = |on: &str| demand(rig, &format!("{on}audit"), "the invariant holds").map(|_| ());
    ["", "on shadow "].into_iter().try_for_each(audit)
}

/// A kernel that dies with open handles and a half-written pipe leaves the service intact.
pub fn survives(rig: &mut Rig) -> Result<(), Failure> {
    rig.expect("main> ", PATIENCE)?;
    demand(rig, "fs write note still here", "")?;
    let kept = rig.ask("main", "threads", PATIENCE)?.matches(" handler").count();
    let mut epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    for round in 0..5 {
        // It ends, even if the restarted kernel begins it.
        rig.send("on shadow pipe 4000000")?;
        std::thread::sleep(Duration::from_millis(20 + round * 13));
        rig.kill("shadow")?;
        rig.expect("main> ", PATIENCE)?;
        let before = epoch;
        epoch = wait_for(rig, "came back", |now, state| now > before && state == state::RUNNING)?;
        demand(rig, "fs cat note", "still here")?;
        demand(rig, "on shadow fs cat note", "still here")?;
    }
    exercised(rig, "", 4)?;
    // Five handlers of this kernel read from pipes of the dead one: they have ended. One more than
    // at the start may remain: a request of the weak kernel's process service always waits here,
    // and the core that it waits on also keeps its idle handlers.
    let start = Instant::now();
    while rig.ask("main", "threads", PATIENCE)?.matches(" handler").count() > kept + 1 {
        if start.elapsed() > PATIENCE {
            return Err(Failure::Wrong("a handler still waits for a dead kernel".to_string()));
        }
    }
    Ok(())
}
