//! SQLite over a socket, with nc as its client.

use super::{Serving, TERMINATED, begin, nc, needs};
use crate::disk::{content, off_and_clean};
use crate::programs::wrong;
use crate::threads::put;
use crate::{Failure, Rig};
use std::process::Command;

/// A program of apps/corpus.toml, which starts with a listener.
const PROGRAM: &str = "store";
const PORT: u16 = 4000;
const FILE: &str = "/store.db";
/// Clients at the same time, and how often each adds one to the same number.
const CLIENTS: usize = 10;
const ADDS: usize = 20;
/// Rows of the table.
const ROWS: usize = 500;

/// On main, then on shadow with what main has stored: rows, errors, and many clients at the same
/// time. In the end Python's SQLite reads the file of the disk.
pub fn store(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["nc", "python3"])?;
    begin(rig, None)?;
    put(rig, PROGRAM)?;
    for (kernel, round) in [("main", 0), ("shadow", 1)] {
        let serving = Serving::start(rig, kernel, PROGRAM, &[FILE], PORT)?;
        if round == 0 {
            fill(serving.host_port)?;
        }
        rows(serving.host_port)?;
        adds(serving.host_port, round)?;
        let found = serving.end(rig)?;
        if found.code != TERMINATED || !found.out.is_empty() || !found.err.is_empty() {
            return Err(wrong(&format!("{PROGRAM} on {kernel}"), found));
        }
    }
    off_and_clean(rig)?;
    let file = rig.instance.path("store.db");
    std::fs::write(&file, content(&rig.instance, FILE)?)?;
    let script = "import sqlite3, sys\n\
                  base = sqlite3.connect(sys.argv[1])\n\
                  print(base.execute('pragma integrity_check').fetchone()[0],\n\
                  \x20     base.execute('select count(*) from words').fetchone()[0],\n\
                  \x20     base.execute('select value from numbers').fetchone()[0])\n";
    let output = Command::new("python3").args(["-c", script]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.trim() == format!("ok {ROWS} {}", 2 * CLIENTS * ADDS) {
        true => Ok(()),
        false => Err(wrong("the file of the disk", (said, output.stderr))),
    }
}

/// Sends lines, of which the last is `.quit`, and compares the answer.
fn answers(port: u16, lines: &[&str], wanted: &str) -> Result<(), Failure> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let said = nc(port, &format!("{text}.quit\n"))?;
    if said == wanted { Ok(()) } else { Err(wrong(&text, said)) }
}

fn fill(port: u16) -> Result<(), Failure> {
    let lines = [
        "create table words (key text primary key, value text); create table numbers (value);",
        "insert into numbers values (0)",
    ];
    answers(port, &lines, "ok\nok\n")?;
    let row = |at| format!("insert into words values ('key {at}', 'value {at}')");
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    let rows = format!("begin; {}; commit", rows.join("; "));
    // A line is a transaction already.
    answers(port, &[&rows], "error: not authorized\n")?;
    let row = |at| format!("('key {at}', 'value {at}')");
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    answers(port, &[&format!("insert into words values {}", rows.join(", "))], "ok\n")
}

fn rows(port: u16) -> Result<(), Failure> {
    let all: String = (0..ROWS).map(|at| format!("key {at}\tvalue {at}\n")).collect();
    let lines = [
        "select value from words where key = 'key 77'",
        "select * from words order by rowid",
        "insert into words values ('key 77', 'twice')",
        "select nonsense",
        "attach '/other.db' as other",
        "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n",
        "select count(*) from words",
    ];
    let wanted = format!(
        "value 77\nok\n{all}ok\nerror: UNIQUE constraint failed: words.key\n\
         error: no such column: nonsense\nerror: not authorized\nerror: too many rows\n{ROWS}\nok\n"
    );
    answers(port, &lines, &wanted)
}

/// Many clients at the same time, none of whose additions may be lost.
fn adds(port: u16, round: usize) -> Result<(), Failure> {
    let text = vec!["update numbers set value = value + 1"; ADDS];
    let wanted = "ok\n".repeat(ADDS);
    std::thread::scope(|scope| {
        let one = || answers(port, &text, &wanted);
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(one)).collect();
        all.into_iter().try_for_each(|it| it.join().expect("it does not panic"))
    })?;
    let sum = (round + 1) * CLIENTS * ADDS;
    answers(port, &["select value from numbers"], &format!("{sum}\nok\n"))
}
