//! An indexer and a SAT solver, kept apart by one line of the indexer's manifest. What both say is
//! compared with what the host finds out by simpler means.

use super::{Started, TERMINATED, serves, terminate};
use crate::disk::{begin_as_root, done, off_and_clean};
use crate::host::{pattern, pull, push};
use crate::programs::{Running, pid_of, wrong};
use crate::threads::{put, put_with};
use crate::{Failure, Rig};
use deploy::exec::{Captured, Line, begun};
use deploy::place::ask;
use deploy::transfer::Stream;
use offload::{clauses, dimacs, texts};
use std::collections::BTreeMap;

/// Programs of apps/corpus.toml.
const SOLVER: &str = "sat";
const INDEXER: &str = "index";
/// The name that the solver serves.
const NAME: &str = "solver";
const FOLDER: &str = "/corpus";
const INDEX: &str = "/corpus.index";
const FILES: usize = 40;
const WORDS: usize = 300;
const SEED: u64 = 5;
const VARIABLES: u32 = 120;
const CLAUSES: usize = 504;
const FORMULA: &str = "/formula";
const PIGEONS: &str = "/pigeons";
/// Exit codes of solvers.
const SATISFIABLE: u8 = 10;
const UNSATISFIABLE: u8 = 20;
/// Most files that a search prints.
const MOST: usize = 20;
/// Rare and frequent words, several, capitals, and words that begin alike.
const QUESTIONS: [&str; 5] =
    ["zanzanba", "bababa", "NABAFI, sofigor quifiba", "vefi* bababa", "den*"];

/// A path and what the file has.
type Text = (String, String);
type Clause = [i32; 3];

/// The indexer starts where the solver does not run, on each kernel in turn.
pub fn index(rig: &mut Rig) -> Result<(), Failure> {
    let (texts, clauses) = install(rig)?;
    mistakes(rig)?;
    both(rig, ("main", "shadow"), &texts, &clauses)?;
    both(rig, ("shadow", "main"), &texts, &clauses)?;
    let [one, other] = ["main", "shadow"].map(|it| pull(&rig.instance, &format!("{INDEX}.{it}")));
    if one.is_err() || one != other {
        return Err(wrong("the indexes of both kernels", (one.is_ok(), other.is_ok())));
    }
    refused(rig)?;
    off_and_clean(rig)
}

/// Both compute at the same time: the solver on `kernel`, the indexer on the `other` one.
fn both(
    rig: &mut Rig,
    (kernel, other): (&str, &str),
    texts: &[Text],
    clauses: &[Clause],
) -> Result<(), Failure> {
    let solver = serves(rig, Line::on(kernel, SOLVER, &["--serve"]), NAME)?;
    let asked = Line::on(other, SOLVER, &["--ask", FORMULA]);
    let asked = Running::of(&rig.instance, asked, b"");
    let path = format!("{INDEX}.{kernel}");
    let made = Line::anywhere(INDEXER, &["add", &path, FOLDER]);
    let made = Running::of(&rig.instance, made, b"");
    satisfies(&asked.end()?, clauses)?;
    says(made.end()?, 0, &about(texts), "")?;
    finds(rig, &path, texts)?;
    is_apart(rig, kernel, other, &path)?;
    let asked = run(rig, SOLVER, &["--ask", PIGEONS])?;
    says(asked, UNSATISFIABLE, "s UNSATISFIABLE\n", "")?;
    let asked = run(rig, SOLVER, &["--ask", "/bad"])?;
    says(asked, 1, "", "sat: /bad: line 3: \"x\" is no number\n")?;
    close(rig, solver)
}

/// Installs both, with their inputs. Returns the texts, by path, and the clauses.
fn install(rig: &mut Rig) -> Result<(Vec<Text>, Vec<Clause>), Failure> {
    begin_as_root(rig, 4096, None)?;
    [SOLVER, INDEXER].iter().try_for_each(|program| put(rig, program))?;
    done(rig, "fs mkdir corpus")?;
    let texts = texts(SEED, FILES, WORDS).map(|(name, text)| (format!("{FOLDER}/{name}"), text));
    let texts: Vec<Text> = texts.collect();
    let clauses = clauses(SEED, VARIABLES, CLAUSES);
    let formula = dimacs(VARIABLES, &clauses);
    let pigeons = pigeons();
    let others = [
        (FORMULA, formula.as_str()),
        (PIGEONS, &pigeons),
        ("/bad", "c a mistake\np cnf 2 1\n1 x 0\n"),
    ];
    let all = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).chain(others);
    for (path, text) in all {
        push(&rig.instance, text.as_bytes(), path).map_err(|why| wrong(path, why))?;
    }
    Ok((texts, clauses))
}

/// Returns a formula for six pigeons, each in one of five holes, no two in the same.
fn pigeons() -> String {
    let at = |pigeon, hole| pigeon * 5 + hole + 1;
    let mut lines = vec![];
    for pigeon in 0..6 {
        let some: String = (0..5).map(|hole| format!("{} ", at(pigeon, hole))).collect();
        lines.push(format!("{some}0\n"));
        for (other, hole) in (0..pigeon).flat_map(|it| (0..5).map(move |hole| (it, hole))) {
            lines.push(format!("-{} -{} 0\n", at(pigeon, hole), at(other, hole)));
        }
    }
    format!("p cnf 30 {}\n{}", lines.len(), lines.concat())
}

/// What a user sees after a mistake, and before there is a service or an index.
fn mistakes(rig: &Rig) -> Result<(), Failure> {
    for (program, arguments, code, why) in [
        (SOLVER, &["/bad"][..], 1, "/bad: line 3: \"x\" is no number"),
        (
            SOLVER,
            &["--ask", FORMULA],
            1,
            "/formula: no solver serves the name solver; `sat --serve` does",
        ),
        (SOLVER, &["/none"], 1, "/none: No such file or directory (os error 44)"),
        (
            INDEXER,
            &["find", INDEX, "word"],
            2,
            "/corpus.index: there is no index; `index add /corpus.index FOLDER` makes one",
        ),
        (INDEXER, &["add", INDEX, "/none"], 2, "/none: No such file or directory (os error 44)"),
        (
            INDEXER,
            &["find", FORMULA, "word"],
            2,
            "/formula: this is no index, or a damaged one; `index add` makes it again",
        ),
    ] {
        says(run(rig, program, arguments)?, code, "", &format!("{program}: {why}\n"))?;
    }
    Ok(())
}

/// The board explains the choice, and does what it says.
fn is_apart(rig: &mut Rig, kernel: &str, other: &str, index: &str) -> Result<(), Failure> {
    let answer = Stream::open(&rig.instance).and_then(|stream| ask(stream, INDEXER));
    let answer = answer.map_err(|why| wrong("the question", format!("{why:#}")))?;
    let reason = format!("solver.v1: apart (-1); served on {kernel} by process ");
    if answer.kernel.as_deref() != Some(other) || !answer.explanation.contains(&reason) {
        return Err(wrong("where the indexer would start", answer));
    }
    // It waits for questions until it is disconnected.
    let line = Line::anywhere(INDEXER, &["find", index]);
    let running = begun(&rig.instance, &line).map_err(|why| wrong("exec", format!("{why:#}")))?;
    pid_of(rig, other, INDEXER)?;
    drop(running);
    Ok(())
}

/// Runs a program where its manifest says.
fn run(rig: &Rig, program: &str, arguments: &[&str]) -> Result<Captured, Failure> {
    Running::of(&rig.instance, Line::anywhere(program, arguments), b"").end()
}

fn says(found: Captured, code: u8, out: &str, err: &str) -> Result<(), Failure> {
    let wanted = Captured { code, out: out.into(), err: err.into() };
    if found == wanted { Ok(()) } else { Err(wrong(&format!("instead of {wanted:?}"), found)) }
}

/// Each clause has one of the literals that the solver prints.
fn satisfies(found: &Captured, clauses: &[Clause]) -> Result<(), Failure> {
    let out = String::from_utf8_lossy(&found.out);
    let lines = out.lines().filter_map(|line| line.strip_prefix("v "));
    let values: Vec<i32> = lines.flat_map(str::split_whitespace).flat_map(str::parse).collect();
    let has_one = |clause: &Clause| clause.iter().any(|literal| values.contains(literal));
    let is_consistent = values.iter().all(|it| *it == 0 || !values.contains(&-it));
    let is_right = out.starts_with("s SATISFIABLE\n") && clauses.iter().all(has_one);
    let count = VARIABLES as usize + 1;
    match is_right && is_consistent && values.len() == count && found.code == SATISFIABLE {
        true => Ok(()),
        false => Err(wrong("an answer of the solver", found)),
    }
}

/// Returns how often each word is in a text.
fn counted(text: &str) -> BTreeMap<&str, usize> {
    let mut words = BTreeMap::new();
    text.split_whitespace().for_each(|word| *words.entry(word).or_default() += 1);
    words
}

/// Returns what the indexer says about the texts.
fn about(texts: &[Text]) -> String {
    let all: String = texts.iter().map(|(_, text)| text.as_str()).collect();
    let different = counted(&all).len();
    format!("{FILES} files, {} words, {different} different ones\n", FILES * WORDS)
}

/// Searches in an index find what the host finds in the texts themselves.
fn finds(rig: &Rig, index: &str, texts: &[Text]) -> Result<(), Failure> {
    let mut answers = String::new();
    for question in QUESTIONS {
        let words: Vec<&str> = question.split_whitespace().collect();
        let wanted = search(texts, &words);
        says(run(rig, INDEXER, &[&["find", index], &words[..]].concat())?, 0, &wanted, "")?;
        answers.push_str(&format!("{wanted}\n"));
    }
    says(run(rig, INDEXER, &["find", index, "nowhere"])?, 1, "", "")?;
    let line = Line::anywhere(INDEXER, &["find", index]);
    let asked = Running::of(&rig.instance, line, format!("{}\n", QUESTIONS.join("\n")).as_bytes());
    says(asked.end()?, 0, &answers, "")
}

/// Reads every text for each word. All texts have the same length.
fn search(texts: &[Text], question: &[&str]) -> String {
    let counts: Vec<BTreeMap<&str, usize>> = texts.iter().map(|(_, it)| counted(it)).collect();
    let everything: BTreeMap<&str, usize> = counts.iter().flatten().map(|(w, _)| (*w, 0)).collect();
    let mut ranks = vec![0.0; texts.len()];
    for asked in question {
        let asked = asked.to_lowercase().replace(',', "");
        let is_asked = |word: &&&str| match asked.strip_suffix('*') {
            Some(start) => word.starts_with(start),
            None => **word == asked,
        };
        for word in everything.keys().filter(is_asked) {
            let have = counts.iter().filter(|it| it.contains_key(word)).count() as f64;
            let rarity = (1.0 + (texts.len() as f64 - have + 0.5) / (have + 0.5)).ln();
            for (rank, count) in ranks.iter_mut().zip(&counts) {
                let times = count.get(word).copied().unwrap_or_default() as f64;
                *rank += rarity * times * 2.2 / (times + 1.2);
            }
        }
    }
    let mut found: Vec<(f64, &str)> =
        ranks.into_iter().zip(texts.iter().map(|(path, _)| path.as_str())).collect();
    found.retain(|(rank, _)| *rank > 0.0);
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.iter().take(MOST).map(|(rank, path)| format!("{rank:.3} {path}\n")).collect()
}

fn close(rig: &mut Rig, (running, kernel): Started) -> Result<(), Failure> {
    terminate(rig, &kernel, SOLVER)?;
    says(running.end()?, TERMINATED, "", "")
}

/// A file that is no text is left out. An index that cannot be written leaves nothing: in a folder
/// that the program may only read, and on a disk that is full.
fn refused(rig: &mut Rig) -> Result<(), Failure> {
    done(rig, "fs mkdir few")?;
    for (path, bytes) in [("/few/text", &b"one two\n"[..]), ("/few/other", &[0xff; 9])] {
        push(&rig.instance, bytes, path).map_err(|why| wrong(path, why))?;
    }
    let left_out = "index: /few/other: left out, it is not UTF-8\n";
    let made = run(rig, INDEXER, &["add", "/few.index", "/few"])?;
    says(made, 0, "1 files, 2 words, 2 different ones\n", left_out)?;
    let manifest = rig.instance.path("reader.toml");
    std::fs::write(&manifest, "preopens = [\"/:r\"]")?;
    put_with(rig, INDEXER, Some(&manifest))?;
    let cannot = |why| format!("index: /new.index: it cannot be written: {why}\n");
    let made = run(rig, INDEXER, &["add", "/new.index", FOLDER])?;
    says(made, 2, "", &cannot("Capabilities insufficient (os error 76)"))?;
    put(rig, INDEXER)?;
    fill(rig)?;
    let made = run(rig, INDEXER, &["add", "/new.index", FOLDER])?;
    says(made, 2, "", &cannot("No space left on device (os error 51)"))?;
    for path in ["/new.index", "/new.index.new"] {
        if let Ok(bytes) = pull(&rig.instance, path) {
            return Err(wrong("what is left of an index", (path, bytes.len())));
        }
    }
    Ok(())
}

/// Fills the disk, but for less than a block.
fn fill(rig: &Rig) -> Result<(), Failure> {
    let mut number = 0;
    for size in [1 << 20, 64 << 10, 4 << 10] {
        let bytes = pattern(2, size);
        while push(&rig.instance, &bytes[..], &format!("/filler.{number}")).is_ok() {
            number += 1;
        }
    }
    match number {
        0 => Err(wrong("a full disk", number)),
        _ => Ok(()),
    }
}
