//! Checks which functions exception handlers can reach: follows the calls in a kernel's machine
//! code from the roots in `tests/reach.toml`, and reports forbidden ones.
//!
//! A function whose address is taken counts as called, even if the address is in a
//! compiler-generated table. An indirect call, which may go to a function from elsewhere, is
//! followed where the file lists its targets, and is a finding anywhere else. A function that the
//! file names but the kernel does not contain is a finding too, so the check cannot pass vacuously.

use super::Verdict;
use anyhow::Context;
use board::Isa;
use builds::calls::{Edge, calls};
use builds::image::{self, Code};
use builds::kernels::{self, Profile};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tree::place::Place;

/// `tests/reach.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    /// Roots, by name.
    roots: Vec<String>,
    /// Functions that must not be reached: a part of the name, and the reason.
    forbidden: BTreeMap<String, String>,
    /// Functions that are not followed: a part of the name, and the reason.
    ends: BTreeMap<String, String>,
    /// Functions with indirect calls, and their targets.
    through: BTreeMap<String, Vec<String>>,
}

/// Checks the kernels of both ISAs.
pub fn check(place: &Place) -> anyhow::Result<Verdict> {
    let path = place.root.join("tests/reach.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let rules: Rules = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let (mut findings, mut counts) = (Vec::new(), Vec::new());
    for built in kernels::build(place, &[Isa::Aarch64, Isa::Riscv64], Profile::Kernel)? {
        let code = image::code(&std::fs::read(&built.kernel)?)?;
        let (found, reached) = Walk::new(&rules, built.isa, &code).all();
        findings.extend(found.into_iter().map(|it| format!("{}: {it}", built.isa.name())));
        counts.push(format!("{reached} functions on {}", built.isa.name()));
    }
    if findings.is_empty() {
        println!("reach: {}", counts.join(", "));
    }
    Ok(findings.into())
}

/// A walk over the calls of one kernel.
struct Walk<'a> {
    rules: &'a Rules,
    isa: Isa,
    code: &'a Code,
    /// The caller through which each function was reached first.
    from: BTreeMap<usize, Option<usize>>,
    queue: VecDeque<usize>,
    findings: Vec<String>,
    used: BTreeSet<&'a str>,
}

/// Returns the first of `rules` that is a part of `name`.
fn part<'a, T>(rules: &'a BTreeMap<String, T>, name: &str) -> Option<(&'a str, &'a T)> {
    rules.iter().find(|(part, _)| name.contains(*part)).map(|(part, rule)| (part.as_str(), rule))
}

impl<'a> Walk<'a> {
    fn new(rules: &'a Rules, isa: Isa, code: &'a Code) -> Self {
        let (from, queue, findings) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        Walk { rules, isa, code, from, queue, findings, used: BTreeSet::new() }
    }

    /// Returns the findings, and the number of functions visited.
    fn all(mut self) -> (Vec<String>, usize) {
        for root in &self.rules.roots {
            self.reach_by_name(root, None);
        }
        while let Some(at) = self.queue.pop_front() {
            self.follow(at);
        }
        for name in self.rules.through.keys().filter(|name| !self.used.contains(name.as_str())) {
            self.findings.push(format!("`{name}` calls nothing through a register: remove it"));
        }
        (self.findings, self.from.len())
    }

    fn reach_by_name(&mut self, name: &str, by: Option<usize>) {
        let found: Vec<usize> = (0..self.code.functions.len())
            .filter(|&at| self.code.functions[at].name == name)
            .collect();
        if found.is_empty() {
            self.findings.push(format!("there is no function `{name}`"));
        }
        found.into_iter().for_each(|at| self.reach(at, by));
    }

    fn reach(&mut self, at: usize, by: Option<usize>) {
        if self.from.contains_key(&at) {
            return;
        }
        self.from.insert(at, by);
        let name = &self.code.functions[at].name;
        if let Some((_, why)) = part(&self.rules.forbidden, name) {
            self.findings.push(format!("{} is reached, and {why}", self.way(at)));
        } else if part(&self.rules.ends, name).is_none() {
            self.queue.push_back(at);
        }
    }

    fn follow(&mut self, at: usize) {
        let function = &self.code.functions[at];
        for edge in calls(self.isa, function.start, &function.code) {
            match edge {
                Edge::To(to) => match self.function_of(to) {
                    Some(to) => self.reach(to, Some(at)),
                    None => self.findings.push(format!("{} calls {to:#x}", self.way(at))),
                },
                Edge::Taken(address) => self.take(at, address),
                Edge::Loaded(slot) => {
                    if let Some(&address) = self.code.pointers.get(&slot) {
                        self.take(at, address);
                    }
                }
                Edge::Unknown(pc) => self.follow_register(at, pc),
            }
        }
    }

    /// Adds a function or a vtable. (The first words of a vtable are the drop function or null, the
    /// size and the alignment.)
    fn take(&mut self, at: usize, address: u64) {
        const BEFORE: u64 = 3;
        if let Some(to) = self.function_at(address) {
            return self.reach(to, Some(at));
        }
        let pointers = &self.code.pointers;
        let kept = |index: &u64| pointers.get(&address.wrapping_add(8 * index)).copied();
        let table = (0..).take_while(|index| *index < BEFORE || kept(index).is_some());
        for target in table.filter_map(|index| kept(&index)) {
            if let Some(to) = self.function_at(target) {
                self.reach(to, Some(at));
            }
        }
    }

    /// Returns the function that begins at an address.
    fn function_at(&self, address: u64) -> Option<usize> {
        self.function_of(address).filter(|&at| self.code.functions[at].start == address)
    }

    fn follow_register(&mut self, at: usize, pc: u64) {
        let name = &self.code.functions[at].name;
        let Some((part, targets)) = part(&self.rules.through, name) else {
            let way = self.way(at);
            return self.findings.push(format!("{way} calls through a register at {pc:#x}"));
        };
        if self.used.insert(part) {
            targets.iter().for_each(|target| self.reach_by_name(target, Some(at)));
        }
    }

    fn function_of(&self, address: u64) -> Option<usize> {
        let behind = self.code.functions.partition_point(|it| it.start <= address);
        let at = behind.checked_sub(1)?;
        let it = &self.code.functions[at];
        (address < it.start + it.code.len() as u64).then_some(at)
    }

    /// Returns the chain of callers of a function.
    fn way(&self, at: usize) -> String {
        let next = |at: &usize| self.from.get(at).copied().flatten();
        let way =
            std::iter::successors(Some(at), next).map(|at| self.code.functions[at].name.as_str());
        way.collect::<Vec<_>>().join(" <- ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of one word each: a call of the function that many words on, or an indirect call
    /// for 0.
    fn code(names: &[(&str, i32)]) -> Code {
        let one = |(index, &(name, by)): (usize, &(&str, i32))| {
            let call = 0x9400_0000 | (by as u32 & 0x03ff_ffff);
            let word = if by == 0 { 0xd63f_0100 } else { call };
            let (start, code) = (4 * index as u64, word.to_le_bytes().to_vec());
            image::Function { start, code, name: name.to_string() }
        };
        let functions = names.iter().enumerate().map(one).collect();
        Code { functions, pointers: BTreeMap::new() }
    }

    fn found(names: &[(&str, i32)], rules: &str) -> Vec<String> {
        let rules: Rules = toml::from_str(rules).unwrap();
        Walk::new(&rules, Isa::Aarch64, &code(names)).all().0
    }

    const RULES: &str = "roots = ['root']\nforbidden = { 'alloc' = 'it allocates' }\n\
                         ends = { 'panic' = 'the kernel ends' }\nthrough = {}\n";

    #[test]
    fn what_is_forbidden_is_found_with_the_way_there() {
        let names = [("root", 1), ("middle", 1), ("my::alloc", -2)];
        assert_eq!(
            found(&names, RULES),
            ["my::alloc <- middle <- root is reached, and it allocates"]
        );
        assert!(found(&[("root", 1), ("panic", 1), ("alloc", -2)], RULES).is_empty());
    }

    #[test]
    fn what_is_unknown_or_not_there_is_a_finding() {
        let names = [("root", 0), ("alloc", -1)];
        assert_eq!(found(&names, RULES), ["root calls through a register at 0x0"]);
        let known = RULES.replace("through = {}", "through = { 'root' = ['alloc'], 'other' = [] }");
        assert_eq!(found(&names, &known).len(), 2, "the allocation, and a rule without a use");
        assert_eq!(found(&[("other", 1)], RULES)[0], "there is no function `root`");
        assert_eq!(found(&[("root", 100)], RULES), ["root calls 0x190"]);
    }
}
