//! Measuring: under exact instruction counts, all benchmarks in one guest; in the lab, each
//! benchmark and frequency in a guest of its own, so that its result does not depend on the others.

use super::chip::{self, Chip};
use super::episode::Episode;
use super::guest::{
    Choice, Guest, GuestError, Images, Interrupt, SHELL, alone, command, last_lines,
};
use super::records::{self, Figure, Reader};
use super::seat::{Seat, USUAL};
use super::{BOARD, Folders, guest};
use anyhow::{Context, ensure};
use lab::marks;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::Receiver;
use tree::place::Place;
use tree::progress::Step;
use workbench::prepare;

/// Seconds that a guest in the lab idles after the work.
const IDLE: u32 = 5;

/// The common state of all guests of a command.
struct Bench<'a> {
    place: &'a Place,
    folders: &'a Folders,
    images: Images<'a>,
    interrupt: Interrupt,
}

/// `pen lab linux run`
pub fn run(
    place: &Place,
    folders: &Folders,
    images: Images<'_>,
    choice: &Choice,
) -> anyhow::Result<ExitCode> {
    if choice.case == SHELL {
        return guest::shell(&alone(&images, choice));
    }
    let bench = Bench { place, folders, images, interrupt: Interrupt::listen()? };
    if choice.icount {
        bench.count(choice)?
    } else {
        bench.series(choice)?
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one benchmark without a chip and one with it, each twice, at the lowest frequency.
pub fn repeats(place: &Place, folders: &Folders, images: Images<'_>) -> anyhow::Result<()> {
    let bench = Bench { place, folders, images, interrupt: Interrupt::listen()? };
    let (_sole, seats) = (bench.sole()?, bench.seats(&USUAL[..1], false)?);
    for (seat, name) in seats.iter().flat_map(|seat| [(seat, "call.null"), (seat, "dma.4k")]) {
        let first = bench.case(&Choice::default(), name, seat)?;
        let second = bench.case(&Choice::default(), name, seat)?;
        ensure!(first == second, "{name} differs from run to run:\n{first:?}\n{second:?}");
    }
    Ok(())
}

impl Bench<'_> {
    /// Locks against other measurements here, while the file is open.
    fn sole(&self) -> anyhow::Result<File> {
        let path = self.folders.base.join("lock");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        file.try_lock().map_err(|_| GuestError::Busy)?;
        Ok(file)
    }

    /// Returns seats at those frequencies.
    fn seats(&self, frequencies: &[u32], no_costs: bool) -> anyhow::Result<Vec<Seat>> {
        let board = self.place.root.join("boards").join(format!("{BOARD}.toml"));
        let board = board::read(&board)?;
        let plugin = prepare::plugin()?;
        let seat = |&mhz| Seat::new(&board, mhz, no_costs, plugin.clone());
        let seats = frequencies.iter().map(seat);
        Ok(seats.collect::<Result<Vec<_>, _>>()?)
    }

    /// Reads a guest's output to its end; passes on each figure as it comes.
    fn hear(
        &self,
        lines: &Receiver<String>,
        mut take: impl FnMut(&Figure) -> anyhow::Result<()>,
    ) -> anyhow::Result<Reader> {
        let (mut reader, mut said) = (Reader::default(), String::new());
        let ended = self.interrupt.lines(lines, &mut said, |line| match reader.line(line) {
            Some(figure) => take(&figure),
            None => Ok(()),
        });
        // The console helps to diagnose a failure; failing to write it is not an error.
        let _ = std::fs::write(self.folders.base.join("console.log"), &said);
        ended?;
        let last = last_lines(&said);
        reader.end().map_err(|why| GuestError::Bad { why, last })?;
        Ok(reader)
    }

    /// Measures with exact instruction counts.
    fn count(&self, choice: &Choice) -> anyhow::Result<()> {
        if choice.needs_chip() {
            return Err(GuestError::Time.into());
        }
        let step = Step::begin("Linux counts");
        let guest = Guest::start(&alone(&self.images, choice))?;
        let config = choice.config(&self.images);
        self.hear(&guest.lines, |figure| {
            println!("{}", records::counted(figure, &config)?);
            Ok(())
        })?;
        step.done();
        Ok(())
    }

    /// Returns the names of the selected benchmarks, as listed by the guest.
    fn cases(&self, choice: &Choice) -> anyhow::Result<Vec<String>> {
        let step = Step::begin("Linux lists its cases");
        let guest = Guest::start(&alone(&self.images, &Choice { list: true, ..choice.clone() }))?;
        let reader = self.hear(&guest.lines, |_| Ok(()))?;
        step.done();
        Ok(reader.cases)
    }

    /// Measures all selected benchmarks at all selected frequencies.
    fn series(&self, choice: &Choice) -> anyhow::Result<()> {
        let frequencies = if choice.mhz.is_empty() { &USUAL[..] } else { &choice.mhz };
        let (_sole, seats) = (self.sole()?, self.seats(frequencies, choice.no_costs)?);
        let cases = self.cases(choice)?;
        let title = choice.title();
        let path = self.place.target.join("lab").join(format!("{title}.jsonl"));
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        for (seat, mhz) in seats.iter().zip(frequencies) {
            let config = format!("{mhz} MHz; {}", choice.config(&self.images));
            let run = format!("{title}-{mhz}");
            let mut write = |records: &[_]| {
                records.iter().try_for_each(|record| -> anyhow::Result<()> {
                    Ok(writeln!(file, "{}", serde_json::to_string(record)?)?)
                })
            };
            write(&[records::head(title, &run, &seat.lab, choice.no_costs, &config)])?;
            let mut time = 0;
            for (i, name) in cases.iter().enumerate() {
                let number = format!("{} of {}", i + 1, cases.len());
                let step = Step::begin(&format!("Linux at {mhz} MHz, {name}, case {number}"));
                let (figure, episode) = self.case(choice, name, seat)?;
                step.done();
                write(&records::episode(&run, &figure, &episode))?;
                time += episode.whole().time;
                println!("{mhz:>5} MHz  {}", records::summary(&figure, &episode));
            }
            write(&[records::end(&run, time)])?;
        }
        println!("records: {}; `./pen report` makes a page of them", path.display());
        Ok(())
    }

    /// Measures one benchmark in a guest of its own.
    fn case(&self, choice: &Choice, name: &str, seat: &Seat) -> anyhow::Result<(Figure, Episode)> {
        let idle_after = choice.idle_after.or(Some(IDLE));
        let choice = Choice { case: name.to_string(), idle_after, ..choice.clone() };
        // Keep either one alive until this function ends.
        let (mut guest, mut chip) = (None, None);
        let (folder, lines) = if choice.needs_chip() {
            let line = |more: &str| command(&self.images, &choice, more);
            let chip = chip.insert(Chip::start(self.place, self.folders, seat, line)?);
            (chip::folder(self.folders), &chip.lines)
        } else {
            let folder = self.folders.base.join("alone");
            seat.lay(&folder)?;
            let mut line = alone(&self.images, &choice);
            line.extend(seat.words(&folder));
            (folder, &guest.insert(Guest::start(&line)?).lines)
        };
        let mut figure = None;
        self.hear(lines, |came| {
            figure = Some(came.clone());
            Ok(())
        })?;
        let marks = marks::read(&folder)?;
        let figure = figure.with_context(|| format!("the guest measured nothing for {name}"))?;
        Ok((figure, Episode::of(&marks, seat.domain())?))
    }
}
