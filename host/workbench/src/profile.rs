//! The profile of a run in the lab: the counts of its blocks ([`lab::profile`]), summed by the
//! functions of the kernels' images. The sum over a domain's functions is what the domain has used.

use crate::symbols::Image;
use anyhow::Context;
use lab::clock::UNITS;
use lab::model::{Domain, Lab, Memory};
use lab::profile::{self, Counted};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Number of functions of a domain that [`show`] prints.
const SHOWN: usize = 40;
/// Code of all programs: the sealed images that a kernel has loaded have no symbols here.
pub const PROGRAMS: &str = "[programs]";
/// Code of the stub, and firmware of the emulator.
const STUB: &str = "[stub]";
/// Code of the kernel between its functions.
const UNNAMED: &str = "[no function]";

/// What a function has used in all its executions, callees left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its full name, without a hash; in brackets what is no function of the kernel.
    pub name: String,
    /// Executions of its first block: calls, if nothing in the function jumps back there. 0 for
    /// what is no function.
    pub calls: u64,
    /// Instructions.
    pub instructions: u64,
    /// Units of the clock.
    pub units: u64,
}

/// The profile of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The domain's name.
    pub domain: String,
    /// Its functions, the most expensive first.
    pub functions: Vec<Function>,
}

impl Profile {
    /// Returns the instructions of all functions.
    pub fn instructions(&self) -> u64 {
        self.functions.iter().map(|function| function.instructions).sum()
    }

    /// Returns the units of all functions.
    pub fn units(&self) -> u64 {
        self.functions.iter().map(|function| function.units).sum()
    }
}

/// The counts of each domain at one time. The default is the start of the run.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<Vec<Counted>>);

impl Counts {
    /// Reads the present counts. Those of a domain that runs may be of different times.
    pub fn read(folder: &Path) -> anyhow::Result<Counts> {
        let lab = Lab::read(folder)?;
        let of = |domain: &Domain| Ok(profile::read(folder, &domain.name)?);
        Ok(Counts(lab.domains.iter().map(of).collect::<anyhow::Result<_>>()?))
    }

    /// Returns the counts of the domain with this index since `earlier`.
    fn since(&self, earlier: &Counts, domain: usize) -> Vec<Counted> {
        let mut counts = self.0.get(domain).cloned().unwrap_or_default();
        let before = earlier.0.get(domain).into_iter().flatten();
        for (count, before) in counts.iter_mut().zip(before) {
            count.executions = count.executions.saturating_sub(before.executions);
            count.accesses = count.accesses.saturating_sub(before.accesses);
        }
        counts
    }
}

/// Returns the profile of each domain of the run in `folder` since `earlier`.
pub fn since(folder: &Path, earlier: &Counts) -> anyhow::Result<Vec<Profile>> {
    let (lab, now) = (Lab::read(folder)?, Counts::read(folder)?);
    let of = |(index, domain): (usize, &Domain)| {
        let image = Image::of(folder, &domain.name)
            .with_context(|| format!("{}: {}.img is no image", folder.display(), domain.name))?;
        let blocks = now.since(earlier, index);
        let functions = sum(&blocks, |at| place(&lab.memory, domain, &image, at));
        Ok(Profile { domain: domain.name.clone(), functions })
    };
    lab.domains.iter().enumerate().map(of).collect()
}

/// Returns the name of the code at `at`, and whether a function starts there.
fn place(memory: &Memory, domain: &Domain, image: &Image, at: u64) -> (String, bool) {
    let physical = memory.physical(at);
    if let Some((name, offset)) = image.function(physical) {
        return (name, offset == 0);
    }
    let stub = domain.loaded.iter().any(|&(from, to)| (from..to).contains(&physical));
    let name = match () {
        () if image.contains(physical) => UNNAMED,
        // The first instructions of an emulator are in a ROM below RAM.
        () if stub || at < memory.base => STUB,
        () => PROGRAMS,
    };
    (name.to_owned(), false)
}

/// Sums blocks by function, and sorts the functions by cost.
fn sum(blocks: &[Counted], place: impl Fn(u64) -> (String, bool)) -> Vec<Function> {
    let mut all: HashMap<String, Function> = HashMap::new();
    for block in blocks.iter().filter(|block| block.executions > 0) {
        let (name, is_start) = place(block.block.at);
        let function = all.entry(name).or_default();
        function.instructions += block.instructions();
        function.units += block.units();
        function.calls += if is_start { block.executions } else { 0 };
    }
    let named = all.into_iter().map(|(name, function)| Function { name, ..function });
    let mut functions: Vec<_> = named.collect();
    functions.sort_by(|a, b| b.units.cmp(&a.units).then_with(|| a.name.cmp(&b.name)));
    functions
}

/// Prints the most expensive functions of each domain of the run in `folder` since `earlier`.
/// Writes all of them to a file beside it.
pub fn show(folder: &Path, earlier: &Counts) -> anyhow::Result<()> {
    let profiles = since(folder, earlier)?;
    for profile in &profiles {
        print!("{}", table(profile));
    }
    let path = beside(folder);
    std::fs::write(&path, lines(&profiles)).with_context(|| path.display().to_string())?;
    println!("all functions: {}", path.display());
    Ok(())
}

/// Returns the path of the list of all functions. The folder itself is emptied by the next run.
fn beside(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.profile.tsv"))
}

/// Formats all functions of all domains, a line each, with tabs between the columns.
fn lines(profiles: &[Profile]) -> String {
    let mut text = "domain\tcycles\tinstructions\tcalls\tfunction\n".to_owned();
    for Profile { domain, functions } in profiles {
        for Function { name, calls, instructions, units } in functions {
            let cycles = *units as f64 / UNITS as f64;
            let _ = writeln!(text, "{domain}\t{cycles:.2}\t{instructions}\t{calls}\t{name}");
        }
    }
    text
}

/// Formats the most expensive functions of a domain.
fn table(profile: &Profile) -> String {
    let (all, functions) = (profile.units(), &profile.functions);
    let mut text = format!(
        "profile of {}: {} cycles, {} instructions, {} functions\n{:>7} {:>14} {:>14} {:>10}  {}\n",
        profile.domain,
        all / UNITS,
        profile.instructions(),
        functions.len(),
        "share",
        "cycles",
        "instructions",
        "calls",
        "function",
    );
    for Function { name, calls, instructions, units } in functions.iter().take(SHOWN) {
        let share = 100.0 * *units as f64 / all.max(1) as f64;
        let (cycles, name) = (units / UNITS, shorten(name));
        let calls = if *calls == 0 { "-".to_owned() } else { calls.to_string() };
        let _ = writeln!(text, "{share:>6.2}% {cycles:>14} {instructions:>14} {calls:>10}  {name}");
    }
    text
}

/// Parts of a path that [`shorten`] keeps: the crate, and the last ones.
const LAST: usize = 3;

/// Shortens a function's name: without generic arguments, without the trait that a method belongs
/// to, and without inner modules of long paths.
pub fn shorten(name: &str) -> String {
    let plain = without_arguments(name);
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    match &parts[..] {
        [first, .., _, _, _] if parts.len() > LAST + 1 => {
            format!("{first}::..::{}", parts[parts.len() - LAST..].join("::"))
        }
        _ => parts.join("::"),
    }
}

/// Removes `<...>`, except that `<Type as Trait>` at the start of a path becomes `Type`.
fn without_arguments(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some(at) = rest.find('<') {
        let (before, inside) = rest.split_at(at);
        text += before;
        let end = closing(inside);
        let is_type = text.is_empty() || text.ends_with([' ', '&', '(', ',', '[']);
        if is_type {
            text += &without_arguments(of_type(&inside[1..end]));
        }
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    text + rest
}

/// Returns the offset of the `>` that ends the `<` at the start of `text`, or the end.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // Not that of `->`.
            b'>' if text.as_bytes().get(at.wrapping_sub(1)) != Some(&b'-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Returns `Type` of `Type as Trait`, outside of inner brackets.
fn of_type(text: &str) -> &str {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            b' ' if depth == 0 && text[at..].starts_with(" as ") => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::profile::Block;

    #[test]
    fn names_lose_what_a_reader_does_not_need() {
        for (name, short) in [
            ("memcpy", "memcpy"),
            ("kernel_process::calls::write", "kernel_process::calls::write"),
            ("<fs::core::Files as share::Service>::call", "fs::core::Files::call"),
            ("<alloc::vec::Vec<u8> as core::fmt::Write>::write_str", "alloc::vec::Vec::write_str"),
            ("<alloc::vec::Vec<u8>>::push", "alloc::vec::Vec::push"),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"),
            ("core::iter::zip<fn(u8) -> u16>::next", "core::iter::zip::next"),
            ("a::b::c::D<a::E>::f::{closure#0}", "a::..::D::f::{closure#0}"),
            ("<&a::B<C> as d::E>::f", "&a::B::f"),
            ("broken<", "broken"),
        ] {
            assert_eq!(shorten(name), short, "{name}");
        }
    }

    #[test]
    fn counts_are_those_since_an_earlier_time() {
        let block = |at| Block { at, instructions: 1, units: 64 };
        let counted = |at, executions| Counted { block: block(at), executions, accesses: 2 };
        let early = Counts(vec![vec![counted(0, 5)]]);
        let late = Counts(vec![vec![counted(0, 7), counted(4, 3)]]);
        let first = Counted { block: block(0), executions: 2, accesses: 0 };
        assert_eq!(late.since(&early, 0), [first, counted(4, 3)]);
        assert_eq!(late.since(&Counts::default(), 0), late.0[0], "since the start");
    }

    #[test]
    fn blocks_are_summed_by_function_and_sorted_by_cost() {
        let counted = |at, instructions, units, executions, accesses| Counted {
            block: Block { at, instructions, units },
            executions,
            accesses,
        };
        let blocks = [
            counted(0x10, 2, 128, 5, 0),
            counted(0x14, 1, 64, 5, 7),
            counted(0x20, 9, 576, 100, 0),
            counted(0x24, 9, 576, 0, 0),
        ];
        let place = |at: u64| (if at < 0x20 { "f" } else { "g" }.to_owned(), at == 0x10);
        let functions = sum(&blocks, place);
        let f = Function { name: "f".into(), calls: 5, instructions: 15, units: 967 };
        let g = Function { name: "g".into(), calls: 0, instructions: 900, units: 57_600 };
        assert_eq!(functions, [g, f]);
        let profile = Profile { domain: "main".into(), functions };
        assert_eq!((profile.instructions(), profile.units()), (915, 58_567));
        assert!(table(&profile).starts_with("profile of main: 915 cycles, 915 instructions, 2 "));
        assert!(lines(&[profile]).ends_with("main\t15.11\t15\t5\tf\n"));
    }

    #[test]
    fn the_list_is_beside_the_run_folder() {
        let path = beside(Path::new("target/lab/ping-pong"));
        assert_eq!(path, Path::new("target/lab/ping-pong.profile.tsv"));
    }
}
