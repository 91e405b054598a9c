//! `pen record`: which programs of a running board talk to which, as records for `pen report`. The
//! kernels' files `/proc/KERNEL/traffic` are read several times a second.
//!
//! Contract: only kernels that run are asked, so none is woken from its rest. What one of them says
//! stays when it has died.

use crate::contracts;
use crate::transfer::Stream;
use anyhow::{Context, bail};
use board::Board;
use records::record::{End, Mode, Record, Run};
use records::traffic::Traffic;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tree::interrupt;
use tree::place::Place;
use workbench::instance::Instance;

/// How often the kernels are asked.
const EVERY: Duration = Duration::from_millis(250);

/// `pen record`
#[derive(clap::Args)]
pub struct Line {
    /// For how long, in seconds; ctrl-c ends it earlier.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// The file of records. By default, target/lab/BOARD-channels.jsonl.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// Samples of a running board.
pub struct Recording {
    board: Board,
    traffic: Traffic,
}

impl Recording {
    /// Begins to record; what was before does not count.
    pub fn begin(instance: &Instance) -> anyhow::Result<Recording> {
        let mut recording = Recording { board: instance.board()?, traffic: Traffic::default() };
        recording.sample(instance)?;
        recording.traffic.begin();
        Ok(recording)
    }

    /// Asks the kernels that run. Fails if none of them answers.
    pub fn sample(&mut self, instance: &Instance) -> anyhow::Result<()> {
        let states = instance.states(&self.board);
        let running = self.board.domains.iter().zip(states);
        let running = running.filter(|(_, (_, state, _))| *state == abi::soc::state::RUNNING);
        let texts = running.map(|(domain, _)| read(instance, &domain.name));
        let (answers, failures): (Vec<_>, Vec<_>) = texts.partition(Result::is_ok);
        answers.iter().flatten().for_each(|text: &String| self.traffic.take(text));
        match failures.into_iter().find_map(Result::err) {
            // A kernel may die while it is asked; the others continue.
            Some(why) if answers.is_empty() => Err(why),
            _ => Ok(()),
        }
    }

    /// Returns what was sent so far.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Writes the records of a run to a file.
    pub fn write(&self, place: &Place, run: &str, path: &Path) -> anyhow::Result<()> {
        let names = contracts::names(&place.root);
        let head = Run {
            run: run.to_string(),
            scenario: run.to_string(),
            board: self.board.name.clone(),
            mode: Mode::Board,
            model: String::new(),
            costs: None,
            exact: false,
            repetition: 1,
            config: String::new(),
        };
        let end = End { run: run.to_string(), at_ns: self.traffic.length_ns() };
        let mut records = vec![Record::Run(head)];
        records.extend(self.traffic.records(run, &|hash| names.get(hash).cloned()));
        records.push(Record::End(end));
        let lines = records.iter().map(|record| serde_json::to_string(record).map(|it| it + "\n"));
        let text: String = lines.collect::<Result<_, _>>()?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

/// Asks a kernel.
fn read(instance: &Instance, kernel: &str) -> anyhow::Result<String> {
    let (path, mut text) = (format!("/proc/{kernel}/traffic"), vec![]);
    Stream::open(instance)?.pull(&path, &mut text).context(path)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// `pen record`
pub fn record(place: &Place, instance: &Instance, line: &Line) -> anyhow::Result<()> {
    interrupt::listen()?;
    let mut recording = Recording::begin(instance)?;
    let (start, length) = (Instant::now(), Duration::from_secs(line.seconds));
    println!("{}: recording for {} s; ctrl-c ends it", instance.name, line.seconds);
    while start.elapsed() < length && !interrupt::came() {
        std::thread::sleep(EVERY.min(length.saturating_sub(start.elapsed())));
        recording.sample(instance)?;
    }
    if recording.traffic.is_empty() {
        bail!(
            "{}: no program had a channel meanwhile; `/proc/KERNEL/channels` lists those that \
             there are",
            instance.name
        );
    }
    let name = format!("{}-channels", instance.name);
    let usual = || place.target.join("lab").join(format!("{name}.jsonl"));
    let path = line.output.clone().unwrap_or_else(usual);
    recording.write(place, &name, &path)?;
    for (kernel, missed) in recording.traffic.missed() {
        println!("{kernel} closed {missed} ends that no sample has");
    }
    println!("records: {}; `./pen report` makes a page of them", path.display());
    Ok(())
}
