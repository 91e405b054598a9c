//! Programs of the simulated system: some common tools, and some with special behaviour.

use super::Fake;
use super::files::Handle;
use penumbra::{End, Open};
use sh::{Shell, System};
use std::collections::BTreeMap;

pub const NAMES: &[&str] = &[
    "args",
    "cat",
    "coreutils",
    "die",
    "env",
    "err",
    "fds",
    "head",
    "mkdir",
    "rev",
    "rm",
    "seq",
    "sh",
    "sleep",
    "sort",
    "status",
    "tee",
    "touch",
    "tr",
    "where",
    "wc",
    "yes",
];

/// Returns whether there is a program at this path.
pub fn exists(path: &str) -> bool {
    path.strip_prefix("/bin/").is_some_and(|name| NAMES.contains(&name))
}

/// A pending process.
pub struct Process {
    pub name: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub files: BTreeMap<u32, Handle>,
    pub folder: String,
    pub system: Fake,
}

impl Process {
    pub fn run(mut self) -> End {
        let name = match self.name.as_str() {
            "coreutils" => self.arguments[0].clone(),
            name => name.to_string(),
        };
        let arguments = self.arguments.clone();
        let word = |n: usize| arguments.get(n).map_or("", String::as_str);
        let number = |n: usize| word(n).parse::<i64>().expect("a number");
        match name.as_str() {
            "sh" => return self.shell(),
            "status" => return End::Exit(word(1).parse().unwrap_or(0)),
            "die" => return End::Signal(word(1).parse().unwrap_or(9)),
            "args" => arguments[1..].iter().for_each(|a| self.write(1, &format!("<{a}>\n"))),
            "cat" => return self.cat(),
            "env" => {
                let mut lines: Vec<String> =
                    self.environment.iter().map(|(n, v)| format!("{n}={v}\n")).collect();
                lines.sort();
                self.write(1, &lines.concat());
            }
            "err" => self.write(2, &format!("{}\n", arguments[1..].join(" "))),
            "fds" => {
                let numbers: Vec<String> = self.files.keys().map(u32::to_string).collect();
                self.write(1, &format!("{}\n", numbers.join(" ")));
            }
            "head" => {
                let lines = word(1).trim_start_matches("-n").trim_start_matches('-');
                let lines: usize = lines.parse().or(word(2).parse()).unwrap_or(10);
                let input = self.input();
                let shown: String = input.split_inclusive('\n').take(lines).collect();
                self.write(1, &shown);
            }
            "rev" => {
                let reversed: String = self
                    .input()
                    .lines()
                    .map(|line| line.chars().rev().chain(['\n']).collect::<String>())
                    .collect();
                self.write(1, &reversed);
            }
            "seq" => {
                let (from, to) = match arguments.len() {
                    2 => (1, number(1)),
                    _ => (number(1), number(2)),
                };
                let lines: String = (from..=to).map(|n| format!("{n}\n")).collect();
                self.write(1, &lines);
            }
            "sort" => {
                let input = self.input();
                let mut lines: Vec<&str> = input.lines().collect();
                lines.sort_unstable();
                if word(1) == "-r" {
                    lines.reverse();
                }
                let sorted: String = lines.iter().map(|line| format!("{line}\n")).collect();
                self.write(1, &sorted);
            }
            "tee" => {
                let input = self.input();
                let path = self.path(word(1));
                self.system.put(&path, input.as_bytes());
                self.write(1, &input);
            }
            "touch" => {
                let path = self.path(word(1));
                self.system.put(&path, b"");
            }
            "mkdir" => {
                let path = self.path(word(1));
                self.system.world.borrow_mut().nodes.insert(path, super::Node::Folder);
            }
            "rm" => {
                let path = self.path(word(arguments.len() - 1));
                return End::Exit(u32::from(self.system.remove(&path).is_err()));
            }
            "tr" | "upper" => {
                let text = self.input().to_uppercase();
                self.write(1, &text);
            }
            "lower" => {
                let text = self.input().to_lowercase();
                self.write(1, &text);
            }
            "wc" => {
                let input = self.input();
                let count = if word(1) == "-c" { input.len() } else { input.matches('\n').count() };
                self.write(1, &format!("{count}\n"));
            }
            "where" => {
                let line = format!("{}\n", self.folder);
                self.write(1, &line);
            }
            "yes" => {
                let lines = "y\n".repeat(1000);
                self.write(1, &lines);
            }
            _ => {}
        }
        End::Exit(0)
    }

    fn path(&self, name: &str) -> String {
        if name.starts_with('/') { name.to_string() } else { format!("{}/{name}", self.folder) }
    }

    fn write(&mut self, number: u32, text: &str) {
        if let Some(file) = self.files.get(&number) {
            let _ = file.write(text.as_bytes());
        }
    }

    fn read_all(&mut self, number: u32) -> Vec<u8> {
        let mut all = Vec::new();
        let Some(file) = self.files.get(&number) else { return all };
        let mut room = [0; 512];
        while let Ok(bytes @ 1..) = self.system.clone().read(file, &mut room) {
            all.extend_from_slice(&room[..bytes]);
        }
        all
    }

    fn input(&mut self) -> String {
        String::from_utf8_lossy(&self.read_all(0)).into_owned()
    }

    fn cat(&mut self) -> End {
        if self.arguments.len() < 2 {
            let bytes = self.input();
            self.write(1, &bytes);
            return End::Exit(0);
        }
        for name in self.arguments.clone().into_iter().skip(1) {
            if name == "-" {
                let bytes = self.input();
                self.write(1, &bytes);
                continue;
            }
            let path = self.path(&name);
            let Ok(file) = self.system.open(&path, Open::READ) else {
                self.write(2, &format!("cat: {name}: no such file\n"));
                return End::Exit(1);
            };
            self.files.insert(99, file);
            let text = String::from_utf8_lossy(&self.read_all(99)).into_owned();
            self.write(1, &text);
        }
        End::Exit(0)
    }

    /// Runs a second shell: a part of a parent's script, a text, or a file.
    fn shell(mut self) -> End {
        let arguments = self.arguments.clone();
        let (text, name, rest) = match arguments.get(1).map(String::as_str) {
            Some("--resume") => {
                let text = self.read_all(arguments[2].parse().expect("a descriptor"));
                (String::from_utf8(text).expect("text"), "sh".to_string(), Vec::new())
            }
            Some("-c") => {
                let name = arguments.get(3).map_or("sh", String::as_str).to_string();
                let rest = arguments.iter().skip(4).cloned().collect();
                (arguments[2].clone(), name, rest)
            }
            Some(file) => {
                let path = self.path(file);
                let Ok(script) = self.system.open(&path, Open::READ) else {
                    return End::Exit(127);
                };
                self.files.insert(99, script);
                let text = String::from_utf8(self.read_all(99)).expect("text");
                (text, file.to_string(), arguments[2..].to_vec())
            }
            None => (self.input(), "sh".to_string(), Vec::new()),
        };
        self.files.remove(&99);
        self.files.remove(&10);
        let mut environment = self.environment;
        environment.retain(|(n, _)| n != "PWD");
        environment.push(("PWD".to_string(), self.folder));
        let files = self.files.into_iter().collect();
        let mut shell = Shell::new(self.system, &name, rest, files, environment);
        End::Exit(shell.run(&text))
    }
}
