//! Names of functions, with which a kernel reports where a program trapped.
//!
//! They are kept in readable form: Rust names are demangled, without the hash, and long names are
//! truncated. All other names of the module (of locals and so on) are removed, because no kernel
//! shows them. An invalid list only loses names; the module is still processed.

use std::convert::Infallible;
use wasm_encoder::reencode::Error;
use wasm_encoder::{NameMap, NameSection};
use wasmparser::{FromReader, Name, NameSectionReader, SectionLimited};

/// Maximum length of a name in bytes.
const LONGEST: usize = 160;

/// Returns the names to keep.
pub fn kept(section: NameSectionReader<'_>) -> Result<NameSection, Error<Infallible>> {
    renumbered(section, Ok)
}

/// Returns the names to keep of the functions that are `wanted`.
pub fn chosen(
    section: NameSectionReader<'_>,
    wanted: impl Fn(u32) -> bool,
) -> Result<NameSection, Error<Infallible>> {
    moved(section, wanted, Ok)
}

/// Returns the names to keep, of functions with new indices. `index` keeps their order.
pub fn renumbered(
    section: NameSectionReader<'_>,
    index: impl FnMut(u32) -> Result<u32, Error<Infallible>>,
) -> Result<NameSection, Error<Infallible>> {
    moved(section, |_| true, index)
}

/// Returns the names to keep of the functions that are `wanted`, which get new indices.
pub fn moved(
    section: NameSectionReader<'_>,
    wanted: impl Fn(u32) -> bool,
    mut index: impl FnMut(u32) -> Result<u32, Error<Infallible>>,
) -> Result<NameSection, Error<Infallible>> {
    let wanted = functions(section).filter(|(_, function)| wanted(*function));
    written(wanted.map(|(name, function)| Ok((name, index(function)?))))
}

/// Returns the functions of a section with their indices.
pub fn functions(section: NameSectionReader<'_>) -> impl Iterator<Item = (&str, u32)> {
    let map = section.into_iter().map_while(Result::ok).find_map(|part| match part {
        Name::Function(map) => Some(map),
        _ => None,
    });
    map.into_iter().flat_map(all).map(|one| (one.name, one.index))
}

fn written<'a>(
    functions: impl Iterator<Item = Result<(&'a str, u32), Error<Infallible>>>,
) -> Result<NameSection, Error<Infallible>> {
    let (mut names, mut kept, mut any) = (NameSection::new(), NameMap::new(), false);
    for function in functions {
        let (name, index) = function?;
        kept.append(index, &readable(name));
        any = true;
    }
    if any {
        names.functions(&kept);
    }
    Ok(names)
}

/// Returns the elements up to the first invalid one.
fn all<'a, T: FromReader<'a>>(list: SectionLimited<'a, T>) -> impl Iterator<Item = T> {
    list.into_iter().map_while(Result::ok)
}

fn readable(name: &str) -> String {
    let mut shown = format!("{:#}", rustc_demangle::demangle(name));
    shown.truncate(shown.floor_char_boundary(LONGEST));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::with_way_out;
    use wasm_encoder::{CustomSection, Module};
    use wasmparser::{BinaryReader, Parser, Payload};

    const MANGLED: &str = "_ZN4core9panicking5panic17h0123456789abcdefE";

    /// Returns the names of a module's functions after all passes.
    fn names(wasm: &[u8]) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(&with_way_out(wasm).unwrap()) {
            let Payload::CustomSection(custom) = payload.unwrap() else { continue };
            let reader = BinaryReader::new(custom.data(), 0);
            for part in NameSectionReader::new(reader) {
                let Name::Function(map) = part.unwrap() else { panic!("other names") };
                found.extend(all(map).map(|one| (one.index, one.name.to_string())));
            }
        }
        found
    }

    fn named(section: &impl wasm_encoder::Section) -> Vec<u8> {
        let text = "(module (func) (func) (func))";
        let mut wasm = crate::read(text);
        let one = Module::new().section(section).clone().finish();
        wasm.extend(&one[8..]);
        wasm
    }

    #[test]
    fn functions_have_readable_names_and_nothing_else_has_any() {
        let (mut section, mut map) = (NameSection::new(), NameMap::new());
        map.append(0, MANGLED);
        map.append(1, "luaV_execute");
        map.append(2, &"ä".repeat(LONGEST));
        section.functions(&map);
        let mut globals = NameMap::new();
        globals.append(0, "stack");
        section.globals(&globals);
        let found = names(&named(&section));
        assert_eq!(found[0], (0, "core::panicking::panic".to_string()));
        assert_eq!(found[1], (1, "luaV_execute".to_string()));
        assert_eq!(found[2], (2, "ä".repeat(LONGEST / 2)));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn wrong_names_cost_names_only() {
        // A length beyond the end; invalid text; a section with nothing but its kind.
        for data in [&[1, 9, 1, 0, 200][..], &[1, 4, 1, 0, 1, 0xff], &[1]] {
            let wasm = named(&CustomSection { name: "name".into(), data: data.into() });
            assert!(names(&wasm).is_empty(), "{data:?}");
            // There is a fourth function, the way out.
            let stoppable = with_way_out(&wasm).unwrap();
            let bodies = Parser::new(0).parse_all(&stoppable).flatten();
            let bodies = bodies.filter(|part| matches!(part, Payload::CodeSectionEntry(_)));
            assert_eq!(bodies.count(), 4, "{data:?}");
        }
    }
}
