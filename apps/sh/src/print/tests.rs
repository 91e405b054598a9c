//! Printed text parses to the same tree, and no input panics.

use super::list;
use crate::lex::Aliases;
use crate::parse::Parser;
use std::rc::Rc;

/// Parses and prints a text; `None` if it is not a valid script.
fn printed(text: &str) -> Option<String> {
    let mut parser = Parser::new(text, Aliases::default());
    let mut all = Vec::new();
    while let Some(mut line) = parser.command_line().ok()? {
        all.append(&mut line);
    }
    Some(list(&all))
}

/// Returns the scripts of the test cases.
fn scripts() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut scripts = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let blocks = text.split("#### ").skip(1);
        scripts.extend(blocks.filter_map(|block| {
            let (_, rest) = block.split_once('\n')?;
            Some(rest.split_once("---- ")?.0.to_string())
        }));
    }
    assert!(scripts.len() > 200);
    scripts
}

fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 1u64;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^= z >> 27;
        (z % below as u64) as usize
    }
}

#[test]
fn what_is_printed_means_the_same() {
    for script in scripts() {
        let Some(once) = printed(&script) else { continue };
        let twice = printed(&once).unwrap_or_else(|| panic!("{script}\nprinted:\n{once}"));
        assert_eq!(once, twice, "{script}");
    }
}

#[test]
fn odd_texts_are_printed_so_that_they_are_read_again() {
    let odd = [
        "a=$'x\\ny' \"$`echo`\" '$'\"$\"a$ \\$ \"\\\\n\" ${x#'}'} \"${x:-'}\"'\"",
        "\"${x:-\"a b\"}\" ${x:-\"$(echo ')')\"} $(( (1+2)*${x:-3} )) `a \\`b\\``",
        "> if then; x=1 > f if; 2>&1 3<&- a; for in in in; do in; done",
        "cat <<E1 <<-'E2' | tr\n$x \\$ `a` \"q\" EOF\nEOF\nE1\n\ta $b\n\tE2\necho",
        "! ! a && time b | c & case (in) in; esac",
        "case x in (esac) a;; (a|b) ;; *) b;& c) esac",
        "f() { a; } >&2; f() (b); f() if a; then b; fi",
        "while a; do b; done < x | until c; do d; done &",
        "$(a <<E\nx\nE\n) \"$(b # )\n)\"",
        "a \\\n b; 'x'\"y\"z; ~ ~/a x=~:~/b; a#b; {a,b} }a",
    ];
    for text in odd {
        let Some(once) = printed(text) else { continue };
        assert_eq!(printed(&once).as_ref(), Some(&once), "{text}");
    }
}

#[test]
fn pieces_of_scripts_in_any_order_do_no_harm() {
    let (scripts, mut number) = (scripts(), numbers());
    let (mut good, mut rounds) = (0, 0);
    while rounds < 20_000 {
        rounds += 1;
        let mut text = String::new();
        for _ in 0..1 + number(4) {
            let chars: Vec<char> = scripts[number(scripts.len())].chars().collect();
            let from = number(chars.len() + 1);
            let length = number(40);
            text.extend(chars.iter().skip(from).take(length));
        }
        let Some(once) = printed(&text) else { continue };
        good += 1;
        assert_eq!(printed(&once).as_ref(), Some(&once), "{text:?}");
    }
    assert!(good > 1000, "{good}");
}

#[test]
fn any_characters_do_no_harm() {
    const SPECIAL: &[u8] = b"$$(((())){}{}``\"\"''\\\\##<<<>>|&&;;\n\n \t=-+?:%@*!~[]abif1x";
    let mut number = numbers();
    for round in 0..60_000 {
        let bytes: Vec<u8> = (0..number(48))
            .map(|_| match round % 3 {
                0 => number(256) as u8,
                _ => SPECIAL[number(SPECIAL.len())],
            })
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        if let Some(once) = printed(&text) {
            assert_eq!(printed(&once).as_ref(), Some(&once), "{text:?}");
        }
    }
}

#[test]
fn what_is_deep_is_refused() {
    let openers = [
        "(",
        "{ ",
        "$(",
        "\"$(",
        "${x:-",
        "\"${x:-",
        "if ",
        "while ",
        "`",
        "$((",
        "f() {\n",
        "case x in x) ",
        "for x in y; do ",
        "! ",
        "a | (",
        "<<E $(",
        "\"`\\`",
    ];
    for opener in openers {
        let _ = printed(&opener.repeat(100_000));
        let closers: String = opener
            .chars()
            .filter_map(|c| match c {
                '(' => Some(')'),
                '{' => Some('}'),
                '"' => Some('"'),
                _ => None,
            })
            .collect();
        let _ = printed(&(opener.repeat(2000) + "a" + &closers.repeat(2000)));
    }
}

#[test]
fn aliases_of_aliases_end() {
    let aliases = [("a", "b"), ("b", "a c"), ("c", "a; b; c"), ("d", "d d")];
    let aliases = aliases.map(|(n, t)| (n.to_string(), t.to_string()));
    let aliases: Aliases = Rc::new(aliases.into_iter().collect());
    for text in ["a", "b; a; c", "c | c", "d", "if a; then c; fi"] {
        let mut parser = Parser::new(text, aliases.clone());
        assert!(parser.command_line().unwrap().is_some());
    }
}
