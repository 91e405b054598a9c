//! Output and exit code of each option.

use super::*;

const TEXT: &[u8] = b"one\nTwo one\nthree\n\xff four\n";

/// Returns the output and the exit code for a file with these bytes.
fn grep(arguments: &str, text: &[u8]) -> (String, u32) {
    let words: Vec<String> = arguments.split(' ').map(String::from).collect();
    let mut plan = Plan::of(&words).unwrap();
    let file = std::env::temp_dir().join(format!("grep-{}-{arguments}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    plan.files = vec![file.to_str().unwrap().to_string()];
    let mut out = Vec::new();
    let code = search(&plan, &mut out).unwrap();
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8_lossy(&out).replace(file.to_str().unwrap(), "FILE");
    (said, code)
}

#[test]
fn each_option_does_what_it_says() {
    for (arguments, expected, code) in [
        ("one", "one\nTwo one\n", 0),
        ("-n e$", "1:one\n2:Two one\n3:three\n", 0),
        ("-c e", "3\n", 0),
        ("-v e", "\u{fffd} four\n", 0),
        ("-i two", "Two one\n", 0),
        ("-x one", "one\n", 0),
        ("-w ne", "", 1),
        ("-l one", "FILE\n", 0),
        ("-L one", "", 1),
        ("-L never", "FILE\n", 0),
        ("-q one", "", 0),
        ("-q never", "", 1),
        ("-Hn three", "FILE:3:three\n", 0),
        ("-o [eo]n*", "on\ne\no\non\ne\ne\ne\no\n", 0),
        ("-m1 e", "one\n", 0),
        ("-e one -e three", "one\nTwo one\nthree\n", 0),
        ("-E ^(one|three)$", "one\nthree\n", 0),
        ("-F e$", "", 1),
        ("-c never", "0\n", 1),
    ] {
        assert_eq!(grep(arguments, TEXT), (expected.into(), code), "{arguments}");
    }
}

#[test]
fn binary_files_are_not_shown() {
    assert_eq!(grep("a", b"a\0b\n"), ("FILE: a binary file matches\n".into(), 0));
    assert_eq!(grep("-c a", b"a\0b\na"), ("2\n".into(), 0));
}

#[test]
fn what_is_wrong_is_code_2() {
    let code = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        crate::grep::grep(&words).unwrap()
    };
    assert_eq!(code(&[]), 2);
    assert_eq!(code(&["[", "-"]), 2);
    assert_eq!(code(&["-s", "a", "no such file"]), 2);
    assert_eq!(code(&["-Z", "a"]), 2);
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    assert_eq!(code(&["-s", "a", own]), 2);
    assert_eq!(code(&["-qr", "each_option_does_what_it_says", own]), 0);
    assert_eq!(
        code(&["-qs", "a", "no such file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]),
        0
    );
}
