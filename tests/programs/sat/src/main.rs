//! A SAT solver. `./pen test servers.index` runs it.
//!
//! ```text
//!   sat FILE                  solves the formula in a DIMACS file
//!   sat --serve [NAME]        serves solver.v1 by NAME, by default `solver`
//!   sat --ask FILE [NAME]     lets that service solve
//! ```
//! Its output and exit codes are those of solvers: `s SATISFIABLE` with literals, and 10, or
//! `s UNSATISFIABLE`, and 20. After an error it is 1.

mod service;

use sat::dimacs::Formula;
use sat::solve::solve;
use std::process::ExitCode;

/// The name of the service, if none is given.
const NAME: &str = "solver";
const USAGE: &str = "usage: sat FILE | sat --serve [NAME] | sat --ask FILE [NAME]";
/// Maximum size of a formula for the service: the block of its message.
const MOST_BYTES: usize = 4 << 20;
/// Maximum length of a line of literals.
const COLUMNS: usize = 78;
const SATISFIABLE: u8 = 10;
const UNSATISFIABLE: u8 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--serve"] => serve(NAME),
        ["--serve", name] => serve(name),
        ["--ask", file] => ask(file, NAME),
        ["--ask", file, name] => ask(file, name),
        [file] if !file.starts_with('-') => solve_here(file),
        _ => Err(USAGE.to_string()),
    };
    done.unwrap_or_else(|why| {
        eprintln!("sat: {why}");
        ExitCode::FAILURE
    })
}

fn serve(name: &str) -> Result<ExitCode, String> {
    service::serve(name).map_err(|why| format!("{name}: {why}"))?;
    Ok(ExitCode::SUCCESS)
}

fn solve_here(file: &str) -> Result<ExitCode, String> {
    let formula = Formula::read(&read(file)?).map_err(|why| format!("{file}: {why}"))?;
    Ok(print(solve(&formula)))
}

fn ask(file: &str, name: &str) -> Result<ExitCode, String> {
    let text = read(file)?;
    if text.len() > MOST_BYTES {
        return Err(format!("{file}: {} bytes; a service takes {MOST_BYTES}", text.len()));
    }
    service::ask(name, text).map(print).map_err(|why| format!("{file}: {why}"))
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|why| format!("{file}: {why}"))
}

fn print(answer: Option<Vec<i32>>) -> ExitCode {
    let Some(values) = answer else {
        println!("s UNSATISFIABLE");
        return ExitCode::from(UNSATISFIABLE);
    };
    println!("s SATISFIABLE");
    let mut line = "v".to_string();
    for literal in values.iter().chain(&[0]).map(i32::to_string) {
        if line.len() + 1 + literal.len() > COLUMNS {
            println!("{line}");
            line = "v".to_string();
        }
        line.push(' ');
        line.push_str(&literal);
    }
    println!("{line}");
    ExitCode::from(SATISFIABLE)
}
