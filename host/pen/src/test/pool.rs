//! Runs several tests at a time: most of them wait most of the time. Results are printed in the
//! order of the list, and a line every ten seconds says what is running.

use super::lanes::Lanes;
use super::tally::Tally;
use anyhow::{Context, anyhow, ensure};
use labrun::kit::LeftOut;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};
use tree::counted::Counted;
use tree::interrupt;

/// Nothing is silent for longer.
const REMINDER: Duration = Duration::from_secs(10);

/// A test that is still to run.
pub struct Job<'a> {
    /// Its name.
    pub name: String,
    /// Its folder: made by the test, removed when it has passed.
    pub folder: PathBuf,
    /// Nothing else runs meanwhile.
    pub alone: bool,
    /// What it does. It counts what it has done, whether it passes or not.
    pub run: Box<Run<'a>>,
}

type Run<'a> = dyn FnOnce(&mut Counted) -> anyhow::Result<Passed> + Send + 'a;

/// What has passed.
pub enum Passed {
    /// The test itself.
    Itself,
    /// Several, each with its time.
    These(Vec<(String, Duration)>),
}

/// How a test went.
struct Ended {
    took: Duration,
    result: anyhow::Result<Passed>,
    counted: Counted,
}

/// What the workers tell.
enum Event {
    Begun(usize),
    Ended(usize, Ended),
}

/// Runs all `jobs`.
pub fn run(jobs: Vec<Job<'_>>, lanes: Lanes, tally: &mut Tally) -> anyhow::Result<()> {
    let jobs: Vec<_> = jobs.into_iter().filter(|job| !tally.is_done(&job.name)).collect();
    let told: Vec<(String, PathBuf)> =
        jobs.iter().map(|job| (job.name.clone(), job.folder.clone())).collect();
    let next = AtomicUsize::new(0);
    let slots: Vec<_> = jobs.into_iter().map(|job| std::sync::Mutex::new(Some(job))).collect();
    let machine = RwLock::new(());
    let (events, inbox) = channel();
    std::thread::scope(|scope| {
        for lane in 0..lanes.count() {
            let (slots, next, machine, events) = (&slots, &next, &machine, events.clone());
            scope.spawn(move || {
                lanes.enter(lane);
                work(slots, next, machine, &events);
            });
        }
        drop(events);
        tell(&told, inbox, tally)
    })?;
    ensure!(!interrupt::came(), "interrupted");
    Ok(())
}

type Slot<'a> = std::sync::Mutex<Option<Job<'a>>>;

fn work(slots: &[Slot<'_>], next: &AtomicUsize, machine: &RwLock<()>, events: &Sender<Event>) {
    while !interrupt::came() {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = slots.get(index) else { return };
        let Some(job) = slot.lock().ok().and_then(|mut slot| slot.take()) else { return };
        // It guards nothing that a panic could leave half done.
        let _alone = job.alone.then(|| machine.write().unwrap_or_else(PoisonError::into_inner));
        let _shared = (!job.alone).then(|| machine.read().unwrap_or_else(PoisonError::into_inner));
        let start = Instant::now();
        // The receiver is gone after an error in `tell`: no caller reads the rest.
        if events.send(Event::Begun(index)).is_err() {
            return;
        }
        // A panic is a failure like any other, and boards go down as it unwinds.
        let mut counted = Counted::default();
        let run = || clear(&job.folder).and_then(|()| (job.run)(&mut counted));
        let result = catch_unwind(AssertUnwindSafe(run));
        let result = result.unwrap_or_else(|_| Err(anyhow!("it panicked; see above")));
        let ended = Ended { took: start.elapsed(), result, counted };
        if events.send(Event::Ended(index, ended)).is_err() {
            return;
        }
    }
}

/// Removes what an earlier run has left in a test's folder.
fn clear(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Says how each went, in their order.
fn tell(
    all: &[(String, PathBuf)],
    inbox: Receiver<Event>,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut running: BTreeMap<usize, Instant> = BTreeMap::new();
    let mut ended = BTreeMap::new();
    let (mut next, mut said) = (0, Instant::now());
    loop {
        match inbox.recv_timeout(REMINDER.saturating_sub(said.elapsed())) {
            Ok(Event::Begun(index)) => drop(running.insert(index, Instant::now())),
            Ok(Event::Ended(index, one)) => {
                running.remove(&index);
                // At once: results wait for those of tests before them, and may be interrupted.
                tally.counted(&all[index].0, one.took, &one.counted)?;
                ended.insert(index, one);
            }
            Err(RecvTimeoutError::Timeout) => {
                said = Instant::now();
                eprintln!("pen: {}", under_way(all, &running, ended.len() + next));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        while let Some(it) = ended.remove(&next) {
            one(&all[next], it, tally)?;
            (next, said) = (next + 1, Instant::now());
        }
    }
    // An interrupt leaves gaps in the order.
    for (index, it) in ended {
        one(&all[index], it, tally)?;
    }
    Ok(())
}

fn under_way(
    all: &[(String, PathBuf)],
    running: &BTreeMap<usize, Instant>,
    ended: usize,
) -> String {
    let names = running.iter().map(|(index, begun)| {
        format!("{} ({} s so far)", all[*index].0, begun.elapsed().as_secs())
    });
    let names: Vec<String> = names.collect();
    format!("{ended} of {}; running: {}", all.len(), names.join(", "))
}

/// Says how one went; the folder of a failed one is kept.
fn one(
    (name, folder): &(String, PathBuf),
    Ended { took, result, .. }: Ended,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let seconds = took.as_secs_f64();
    match result {
        // Nothing in it matches.
        Ok(Passed::These(parts)) if parts.is_empty() => {}
        Ok(passed) => {
            println!("{name:<40} ok      {seconds:>6.1} s");
            match passed {
                Passed::Itself => tally.passed(name, took),
                Passed::These(parts) => parts.iter().for_each(|part| tally.passed(&part.0, part.1)),
            }
            tally.done(name)?;
            clear(folder)?;
        }
        Err(why) if why.is::<LeftOut>() => {
            println!("{name:<40} {why}");
            clear(folder)?;
        }
        Err(why) => {
            println!("{name:<40} FAILED  {seconds:>6.1} s");
            println!("{why:#}\nits folder: {}", folder.display());
            tally.failed(name, took, &format!("{why:#}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::counts::Counts;
    use super::super::night::Night;
    use super::*;
    use anyhow::bail;
    use std::sync::Barrier;

    fn job<'a>(name: &str, run: impl FnOnce() -> anyhow::Result<Passed> + Send + 'a) -> Job<'a> {
        let folder = "no-such-folder".into();
        Job { name: name.into(), folder, alone: false, run: Box::new(|_| run()) }
    }

    #[test]
    fn two_run_at_a_time_and_failures_are_kept_in_order() {
        // Both must be there at once, in either order of their ends.
        let both = Barrier::new(2);
        let (late, meet) = (Duration::from_millis(50), || {
            both.wait();
        });
        let jobs = vec![
            job("first", || {
                meet();
                std::thread::sleep(late);
                bail!("one")
            }),
            job("second", || {
                meet();
                bail!("two")
            }),
            job("third", || Ok(Passed::Itself)),
        ];
        let mut tally = Tally::default();
        run(jobs, Lanes::Free(2), &mut tally).unwrap();
        assert_eq!(tally.failures(), ["first: one", "second: two"]);
        assert_eq!(tally.counts(), (1, 2));
    }

    #[test]
    fn a_night_counts_what_failed_tests_have_done_too() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let night = Night::begin(&at("night"), "one", false).unwrap();
        let mut tally = Tally::of(Some((night, Counts::begin(&at("counts"), false).unwrap())));
        let counting = |name, count: u64, is_good: bool| Job {
            run: Box::new(move |done: &mut Counted| {
                done.add(count, "cuts");
                ensure!(is_good, "it fails");
                Ok(Passed::Itself)
            }),
            ..job(name, || bail!("it is not run"))
        };
        tally.begin_stage("scenarios");
        let jobs = vec![counting("first", 5, false), counting("second", 7, true)];
        run(jobs, Lanes::Free(2), &mut tally).unwrap();
        tally.end_stage("scenarios", Duration::ZERO).unwrap();
        let text = std::fs::read_to_string(at("counts")).unwrap();
        let steps = text.lines().filter_map(|line| line.strip_prefix("step\t"));
        let steps = steps.map(|line| line.split('\t').collect::<Vec<_>>());
        // The third one is a time.
        let mut steps: Vec<_> = steps.map(|it| [it[0], it[1], it[3], it[4]].join(" ")).collect();
        steps.sort();
        assert_eq!(steps, ["first cuts 5 5", "scenarios tests 1 1", "second cuts 7 7"]);
    }

    #[test]
    fn a_panic_is_a_failure_and_the_others_run() {
        let jobs = vec![
            job("first", || std::panic::resume_unwind(Box::new("meant"))),
            job("second", || Ok(Passed::Itself)),
        ];
        let mut tally = Tally::default();
        run(jobs, Lanes::Free(1), &mut tally).unwrap();
        assert_eq!(tally.failures(), ["first: it panicked; see above"]);
        assert_eq!(tally.counts(), (1, 1));
    }

    #[test]
    fn a_test_begins_without_what_an_earlier_run_has_left() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old.disk"), "old").unwrap();
        let path = folder.path().to_path_buf();
        let look = {
            let path = path.clone();
            move || {
                ensure!(!path.exists(), "it is still there");
                std::fs::create_dir(path)?;
                Ok(Passed::Itself)
            }
        };
        let mut tally = Tally::default();
        let jobs = vec![Job { folder: path.clone(), ..job("one", look) }];
        run(jobs, Lanes::Free(1), &mut tally).unwrap();
        assert_eq!(tally.counts(), (1, 0), "{:?}", tally.failures());
        assert!(!path.exists());
    }

    #[test]
    fn a_lane_stays_on_one_processor() {
        let where_it_is = || {
            let set = rustix::thread::sched_getaffinity(None)?;
            ensure!(set.count() == 1, "{} processors", set.count());
            Ok(Passed::Itself)
        };
        let mut tally = Tally::default();
        run(vec![job("one", where_it_is)], Lanes::Own, &mut tally).unwrap();
        assert_eq!(tally.counts(), (1, 0), "{:?}", tally.failures());
    }

    #[test]
    fn nothing_runs_beside_a_test_that_runs_alone() {
        let now = AtomicUsize::new(0);
        let one = |alone: bool| {
            let now = &now;
            move || {
                let others = now.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                let left = now.fetch_sub(1, Ordering::SeqCst) - 1;
                ensure!(!alone || others + left == 0, "another one runs");
                Ok(Passed::Itself)
            }
        };
        let jobs =
            (0..9).map(|n| Job { alone: n % 3 == 1, ..job(&n.to_string(), one(n % 3 == 1)) });
        let mut tally = Tally::default();
        run(jobs.collect(), Lanes::Free(2), &mut tally).unwrap();
        assert_eq!(tally.counts(), (9, 0));
    }

    #[test]
    fn one_worker_runs_one_at_a_time() {
        let now = AtomicUsize::new(0);
        let alone = || {
            ensure!(now.fetch_add(1, Ordering::SeqCst) == 0, "another one runs");
            std::thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Passed::These(vec![("a".into(), Duration::ZERO), ("b".into(), Duration::ZERO)]))
        };
        let mut tally = Tally::default();
        run((0..5).map(|n| job(&n.to_string(), alone)).collect(), Lanes::Free(1), &mut tally)
            .unwrap();
        assert_eq!(tally.counts(), (10, 0));
    }
}
