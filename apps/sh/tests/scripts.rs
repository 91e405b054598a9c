//! Scripts with their expected output and exit code: `tests/cases/*.txt`.
//!
//! A case is a line `#### TITLE`, the script, a line `---- CODE`, and the output.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

use std::path::Path;

struct Case {
    title: String,
    script: String,
    code: u32,
    out: String,
}

fn cases(text: &str) -> Vec<Case> {
    let blocks = text.split("#### ").skip(1);
    let case = |block: &str| {
        let (title, rest) = block.split_once('\n').expect("a title is a line");
        let (script, rest) = rest.split_once("---- ").expect("an exit code follows each script");
        let (code, out) = rest.split_once('\n').expect("a code is a line");
        let code = code.trim().parse().expect("a code is a number");
        let (title, script, out) = (title.to_string(), script.to_string(), out.to_string());
        Case { title, script, code, out }
    };
    blocks.map(case).collect()
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let text = std::fs::read_to_string(path).expect("the cases are there");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in cases(&text) {
        eprintln!("{name}: {}", case.title);
        let outcome = world::run(&case.script, &["one", "two three"], "line 1\nline 2\n");
        count += 1;
        if outcome.out != case.out || outcome.code != case.code {
            wrong.push(format!(
                "{name}: {}\n{}expected {} {:?}\n   found {} {:?}\n  errors {:?}\n",
                case.title,
                case.script,
                case.code,
                case.out,
                outcome.code,
                outcome.out,
                outcome.err
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 10);
}

#[test]
fn words() {
    check("words.txt");
}

#[test]
fn commands() {
    check("commands.txt");
}

#[test]
fn programs() {
    check("programs.txt");
}

#[test]
fn builtins() {
    check("builtins.txt");
}

/// Random pieces of scripts: nothing panics, and the shell ends. Without loops and functions, which
/// need not end.
#[test]
fn pieces_of_scripts_in_any_order() {
    let names = ["words.txt", "commands.txt", "programs.txt", "builtins.txt"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let texts = names.map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    let all: Vec<Case> = texts.iter().flat_map(|text| cases(text)).collect();
    let mut state = 7u64;
    let mut number = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let (mut good, mut rounds) = (0, 0);
    while rounds < 4000 {
        let mut script = String::new();
        for _ in 0..1 + number(3) {
            let chars: Vec<char> = all[number(all.len())].script.chars().collect();
            let from = number(chars.len());
            script.extend(chars.iter().skip(from).take(number(60)));
        }
        if ["while", "until", "() ", "()\n", "()("].iter().any(|word| script.contains(word)) {
            continue;
        }
        rounds += 1;
        good += usize::from(world::run(&script, &["one", "two three"], "line 1\n").code == 0);
    }
    assert!(good > 500, "{good}");
}
