//! `uname` and `arch`: the system, and the kernel that runs the program.

use crate::options::Options;
use crate::{Answer, put};
use penumbra::process;

/// The facts to print.
#[derive(Clone, Debug, PartialEq, Eq)]
struct System {
    name: String,
    /// The board's name.
    board: String,
    release: String,
    /// The kernel and its life.
    version: String,
    isa: String,
}

impl System {
    /// Parses `Penumbra RELEASE KERNEL ISA on BOARD, life N`.
    fn parse(text: &str) -> Option<System> {
        let (what, life) = text.trim_end().split_once(", ")?;
        let words: Vec<&str> = what.split_whitespace().collect();
        let [name, release, kernel, isa, "on", board] = words[..] else { return None };
        let [name, board, release, isa] = [name, board, release, isa].map(String::from);
        Some(System { name, board, release, version: format!("kernel {kernel}, {life}"), isa })
    }

    /// Returns the facts about the kernel that runs this program.
    fn own() -> Result<System, String> {
        let me = process::identity().map_err(|error| error.to_string())?;
        let path = format!("/proc/{}/version", me.kernel);
        let version = read(&path)?;
        System::parse(&version).ok_or(format!("{path} makes no sense: {}", version.trim_end()))
    }

    /// Returns the parts that the letters select, in POSIX's order.
    fn told(&self, letters: &str) -> String {
        let all = [
            ('s', self.name.as_str()),
            ('n', self.board.as_str()),
            ('r', self.release.as_str()),
            ('v', self.version.as_str()),
            ('m', self.isa.as_str()),
            ('p', self.isa.as_str()),
            ('i', self.isa.as_str()),
            ('o', self.name.as_str()),
        ];
        let wanted = |letter: char| match letter {
            // Like GNU's, omits what equals the machine.
            'p' | 'i' => letters.contains(letter),
            _ => letters.contains(['a', letter]),
        };
        let parts: Vec<&str> =
            all.iter().filter(|(letter, _)| wanted(*letter)).map(|(_, part)| *part).collect();
        parts.join(" ") + "\n"
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

/// Returns the letters of the options, long ones included.
fn letters(words: &[String]) -> Result<String, String> {
    let short = |word: &String| {
        match word.as_str() {
            "--all" => "-a",
            "--kernel-name" => "-s",
            "--nodename" => "-n",
            "--kernel-release" => "-r",
            "--kernel-version" => "-v",
            "--machine" => "-m",
            "--processor" => "-p",
            "--hardware-platform" => "-i",
            "--operating-system" => "-o",
            other => other,
        }
        .to_string()
    };
    let options = Options::of(&words.iter().map(short).collect::<Vec<_>>(), "", true)?;
    if let Some(word) = options.rest.first() {
        return Err(format!("{word}: it takes options only"));
    }
    let letters: String = options.all.iter().map(|(letter, _)| letter).collect();
    match letters.chars().find(|letter| !"asnrvmpio".contains(*letter)) {
        Some(letter) => Err(format!("-{letter}: no such option")),
        None if letters.is_empty() => Ok("s".to_string()),
        None => Ok(letters),
    }
}

/// `uname`
pub fn uname(arguments: &[String]) -> Answer {
    let letters = letters(arguments)?;
    put(&System::own()?.told(&letters))
}

/// `arch`: the same as `uname -m`.
pub fn arch(_: &[String]) -> Answer {
    put(&System::own()?.told("m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "Penumbra 0.1.0 shadow riscv64 on duo, life 2\n";

    #[test]
    fn parts_come_in_posix_order() {
        let system = System::parse(VERSION).unwrap();
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            letters(&words).map(|letters| system.told(&letters))
        };
        assert_eq!(of(&[]).unwrap(), "Penumbra\n");
        let all = "Penumbra duo 0.1.0 kernel shadow, life 2 riscv64 Penumbra\n";
        assert_eq!(of(&["-a"]).unwrap(), all);
        assert_eq!(of(&["--all"]).unwrap(), all);
        assert_eq!(of(&["-ms"]).unwrap(), "Penumbra riscv64\n");
        assert_eq!(of(&["-n", "-p"]).unwrap(), "duo riscv64\n");
        assert!(of(&["-x"]).is_err() && of(&["word"]).is_err() && of(&["--none"]).is_err());
    }

    #[test]
    fn texts_of_another_form_are_none() {
        for text in ["", "Penumbra", "Penumbra 0.1.0 main on duo, life 1", "a b c d of e, life 1"] {
            assert_eq!(System::parse(text), None, "{text}");
        }
    }
}
