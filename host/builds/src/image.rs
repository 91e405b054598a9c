//! Converts a kernel's ELF file to a staged image: a header, flat bytes relocated to the domain's
//! load address, and the symbol table (docs/decisions/003).
//!
//! Only relative relocations are supported; any other kind is an error.

use abi::boot::{self, ImageHeader, Symbol};
use board::{Board, Domain, Isa};
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};
use std::collections::BTreeMap;
use thiserror::Error;
use zerocopy::IntoBytes;

/// Why an ELF file cannot be staged.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Not a 64-bit ELF file, or corrupt.
    #[error("the kernel is not a valid ELF file: {0}")]
    Elf(#[from] object::Error),
    /// Built for another machine.
    #[error("the kernel is for machine {found}, the domain is {wanted}")]
    Machine {
        /// e_machine.
        found: u16,
        /// Name of the ISA.
        wanted: &'static str,
    },
    /// Linked without -pie.
    #[error("the kernel is not position-independent (ET_DYN): were its link arguments lost?")]
    NotPie,
    /// A relocation that staging cannot apply.
    #[error("relocation of type {kind} at {at:#x}: only relative ones can be applied")]
    Relocation {
        /// r_type.
        kind: u32,
        /// Its address.
        at: u64,
    },
    /// A compressed or addend-less table.
    #[error("section {0} holds relocations of a kind that staging does not know")]
    Table(String),
    /// Segments or relocations outside the file part.
    #[error("the kernel's segment or relocation at {0:#x} lies outside its image")]
    Outside(u64),
    /// It is too large.
    #[error("the image needs {need:#x} bytes of {what}, the board gives it {have:#x}")]
    TooLarge {
        /// The part that is too large.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes available.
        have: u64,
    },
}

type Header = FileHeader64<LE>;

/// Page size of a kernel.
const PAGE: u64 = 4096;

/// Returns the staged image of `domain`'s kernel.
pub fn stage(elf: &[u8], board: &Board, domain: &Domain) -> Result<Vec<u8>, ImageError> {
    let header = Header::parse(elf)?;
    check(header, domain)?;
    let (mut image, memory_size) = flatten(header, elf, domain.image.size)?;
    let (code_size, constant_size) = constants(header, elf)?;
    let sections = header.sections(LE, elf)?;
    relocate(&sections, elf, domain, &mut image)?;
    let (symbols, names) = symbols(&sections, elf, memory_size)?;

    let symbols_at = (boot::IMAGE_OFFSET + image.len() as u64).next_multiple_of(16);
    let head = ImageHeader {
        magic: boot::IMAGE_MAGIC,
        version: boot::VERSION,
        isa: domain.isa.number(),
        load_pa: domain.image.base,
        image_size: image.len() as u64,
        memory_size,
        code_size,
        constant_size,
        entry_pa: domain.image.base + header.e_entry(LE),
        blob_pa: board.layout.blob,
        symbols: symbols_at,
        symbol_count: symbols.len() as u32,
        names_size: names.len() as u32,
        checksum: boot::fnv(boot::FNV_START, &image),
    };
    let mut staged = head.as_bytes().to_vec();
    staged.resize(boot::IMAGE_OFFSET as usize, 0);
    staged.extend_from_slice(&image);
    staged.resize(symbols_at as usize, 0);
    staged.extend_from_slice(symbols.as_slice().as_bytes());
    staged.extend_from_slice(&names);
    fits("staging memory", staged.len() as u64, domain.staging.size)?;
    Ok(staged)
}

fn fits(what: &'static str, need: u64, have: u64) -> Result<(), ImageError> {
    if need <= have { Ok(()) } else { Err(ImageError::TooLarge { what, need, have }) }
}

fn check(header: &Header, domain: &Domain) -> Result<(), ImageError> {
    let machine = match domain.isa {
        Isa::Aarch64 => elf::EM_AARCH64,
        Isa::Riscv64 => elf::EM_RISCV,
    };
    let found = header.e_machine(LE);
    if found != machine {
        return Err(ImageError::Machine { found: found.0, wanted: domain.isa.name() });
    }
    if header.e_type(LE) != elf::ET_DYN {
        return Err(ImageError::NotPie);
    }
    Ok(())
}

/// Returns a stub as raw bytes, its bss included, for an emulator that loads it at any address.
pub fn raw_stub(elf: &[u8]) -> Result<Vec<u8>, ImageError> {
    let header = Header::parse(elf)?;
    let loads = || {
        let segments = header.program_headers(LE, elf).into_iter().flatten();
        segments.filter(|segment| segment.p_type(LE) == elf::PT_LOAD)
    };
    let base = loads().map(|segment| segment.p_vaddr(LE)).min().unwrap_or(0);
    let mut raw = Vec::new();
    for segment in loads() {
        let at = segment.p_vaddr(LE);
        let bytes = segment.data(LE, elf).map_err(|()| ImageError::Outside(at))?;
        let end = (at - base).saturating_add(segment.p_memsz(LE));
        fits("memory before its table", end, boot::STUB_TABLE)?;
        raw.resize(raw.len().max(end as usize), 0);
        let from = (at - base) as usize;
        let to = raw.get_mut(from..from + bytes.len()).ok_or(ImageError::Outside(at))?;
        to.copy_from_slice(bytes);
    }
    Ok(raw)
}

/// Returns the file part as flat bytes, and the size in memory with bss; both are multiples of 16.
fn flatten(header: &Header, elf: &[u8], most: u64) -> Result<(Vec<u8>, u64), ImageError> {
    let (mut image, mut memory) = (Vec::new(), 0u64);
    for segment in header.program_headers(LE, elf)? {
        if segment.p_type(LE) != elf::PT_LOAD {
            continue;
        }
        let at = segment.p_vaddr(LE);
        let bytes = segment.data(LE, elf).map_err(|()| ImageError::Outside(at))?;
        let end = at.checked_add(segment.p_memsz(LE)).ok_or(ImageError::Outside(at))?;
        fits("local memory (image_max)", end, most)?;
        let file_end = at as usize + bytes.len();
        if file_end as u64 > end {
            return Err(ImageError::Outside(at));
        }
        if image.len() < file_end {
            image.resize(file_end, 0);
        }
        image[at as usize..file_end].copy_from_slice(bytes);
        memory = memory.max(end);
    }
    image.resize(image.len().next_multiple_of(16), 0);
    Ok((image, memory.next_multiple_of(16)))
}

/// Returns the size of the code, and of code and constants: whole pages from the image's first byte
/// to the first writable section.
fn constants(header: &Header, elf: &[u8]) -> Result<(u64, u64), ImageError> {
    let (mut code, mut all, mut first_writable) = (0, 0, u64::MAX);
    for segment in header.program_headers(LE, elf)? {
        let (at, flags) = (segment.p_vaddr(LE), segment.p_flags(LE).0);
        let end = at.checked_add(segment.p_memsz(LE)).ok_or(ImageError::Outside(at))?;
        let end = end.checked_next_multiple_of(PAGE).ok_or(ImageError::Outside(at))?;
        match (segment.p_type(LE) == elf::PT_LOAD, flags & elf::PF_W.0 != 0) {
            (false, _) => {}
            (true, true) => first_writable = first_writable.min(at),
            (true, false) if flags & elf::PF_X.0 != 0 => code = code.max(end),
            (true, false) => all = all.max(end),
        }
    }
    let all = all.max(code);
    Ok(if all <= first_writable { (code, all) } else { (0, 0) })
}

/// Writes VA_OFFSET + load address + addend at each relative relocation.
fn relocate(
    sections: &SectionTable<'_, Header>,
    elf: &[u8],
    domain: &Domain,
    image: &mut [u8],
) -> Result<(), ImageError> {
    let relative = match domain.isa {
        Isa::Aarch64 => elf::R_AARCH64_RELATIVE,
        Isa::Riscv64 => elf::R_RISCV_RELATIVE,
    };
    let base = boot::VA_OFFSET.wrapping_add(domain.image.base);
    for section in sections.iter() {
        if section.sh_flags(LE).0 & elf::SHF_ALLOC.0 == 0 {
            continue;
        }
        if matches!(section.sh_type(LE), elf::SHT_REL | elf::SHT_RELR) {
            let name = sections.section_name(LE, section)?;
            return Err(ImageError::Table(String::from_utf8_lossy(name).into_owned()));
        }
        let Some((entries, _)) = section.rela(LE, elf)? else { continue };
        for entry in entries {
            let (at, kind) = (entry.r_offset(LE), entry.r_type(LE, false));
            if kind != relative {
                return Err(ImageError::Relocation { kind: kind.0, at });
            }
            let word = usize::try_from(at)
                .ok()
                .and_then(|at| image.get_mut(at..at.checked_add(8)?))
                .ok_or(ImageError::Outside(at))?;
            let value = base.wrapping_add_signed(entry.r_addend(LE));
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
    Ok(())
}

/// Returns functions by address, and their concatenated names. A function may have several names:
/// identical functions are merged.
fn symbols(
    sections: &SectionTable<'_, Header>,
    elf: &[u8],
    memory: u64,
) -> Result<(Vec<Symbol>, Vec<u8>), ImageError> {
    let table = sections.symbols(LE, elf, elf::SHT_SYMTAB)?;
    let mut functions: Vec<(u64, u64, &[u8])> = Vec::new();
    for symbol in table.iter() {
        let at = symbol.st_value(LE);
        if symbol.st_type() == elf::STT_FUNC
            && symbol.is_definition(LE, table.strings())
            && at < memory
        {
            functions.push((at, symbol.st_size(LE), symbol.name(LE, table.strings())?));
        }
    }
    functions.sort();
    let (mut list, mut names) = (Vec::with_capacity(functions.len()), Vec::new());
    for (i, &(at, size, name)) in functions.iter().enumerate() {
        let next = functions[i..].iter().map(|f| f.0).find(|&next| next > at).unwrap_or(at);
        list.push(Symbol {
            address: at as u32,
            // An assembly function without .size reaches to the next function.
            size: if size == 0 { next - at } else { size } as u32,
            name: names.len() as u32,
            name_size: name.len() as u32,
        });
        names.extend_from_slice(name);
    }
    Ok((list, names))
}

/// Returns the address of a symbol, relative to the load address.
pub fn symbol(elf: &[u8], name: &str) -> Result<Option<u64>, ImageError> {
    let header = Header::parse(elf)?;
    let sections = header.sections(LE, elf)?;
    let table = sections.symbols(LE, elf, elf::SHT_SYMTAB)?;
    for symbol in table.iter() {
        if symbol.name(LE, table.strings())? == name.as_bytes() {
            return Ok(Some(symbol.st_value(LE)));
        }
    }
    Ok(None)
}

/// Returns items with names in the source, with relative addresses: functions (their first byte)
/// and statics. Literals and vtables have only compiler-generated names.
pub fn named(elf: &[u8]) -> Result<Vec<(u64, String)>, ImageError> {
    let sections = Header::parse(elf)?.sections(LE, elf)?;
    let table = sections.symbols(LE, elf, elf::SHT_SYMTAB)?;
    let mut all = Vec::new();
    for symbol in table.iter().filter(|symbol| symbol.is_definition(LE, table.strings())) {
        if !matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_OBJECT) {
            continue;
        }
        let name = String::from_utf8_lossy(symbol.name(LE, table.strings())?).into_owned();
        if !name.starts_with(".L") && !name.starts_with("anon.") {
            all.push((symbol.st_value(LE), name));
        }
    }
    Ok(all)
}

/// A function of a kernel.
#[derive(Clone, Debug)]
pub struct Function {
    /// Address of its first byte, relative to the load address.
    pub start: u64,
    /// Its machine code.
    pub code: Vec<u8>,
    /// Its name, without the compiler's disambiguators.
    pub name: String,
}

/// A kernel's functions, and the addresses stored in its data.
#[derive(Debug)]
pub struct Code {
    /// By address; a function with several names occurs once.
    pub functions: Vec<Function>,
    /// Location and value of each stored address.
    pub pointers: BTreeMap<u64, u64>,
}

/// Extracts them from a kernel.
pub fn code(elf: &[u8]) -> Result<Code, ImageError> {
    Ok(Code { functions: functions(elf)?, pointers: pointers(elf)? })
}

fn pointers(elf: &[u8]) -> Result<BTreeMap<u64, u64>, ImageError> {
    let sections = Header::parse(elf)?.sections(LE, elf)?;
    let mut all = BTreeMap::new();
    for section in sections.iter() {
        if let Some((entries, _)) = section.rela(LE, elf)? {
            let one = |it: &elf::Rela64<LE>| (it.r_offset(LE), it.r_addend(LE) as u64);
            all.extend(entries.iter().map(one));
        }
    }
    Ok(all)
}

fn functions(elf: &[u8]) -> Result<Vec<Function>, ImageError> {
    let sections = Header::parse(elf)?.sections(LE, elf)?;
    let table = sections.symbols(LE, elf, elf::SHT_SYMTAB)?;
    let mut all = Vec::new();
    for (number, symbol) in table.enumerate().filter(|(_, it)| it.st_type() == elf::STT_FUNC) {
        let Some(index) = table.symbol_section(LE, symbol, number)? else { continue };
        let section = sections.section(index)?;
        let (start, size) = (symbol.st_value(LE), symbol.st_size(LE) as usize);
        let from = start.wrapping_sub(section.sh_addr(LE)) as usize;
        let Some(code) = section.data(LE, elf)?.get(from..from.saturating_add(size)) else {
            continue;
        };
        let name = String::from_utf8_lossy(symbol.name(LE, table.strings())?).into_owned();
        let name = format!("{:#}", rustc_demangle::demangle(&name));
        all.push(Function { start, code: code.to_vec(), name });
    }
    all.sort_by(|a, b| (a.start, b.code.len()).cmp(&(b.start, a.code.len())));
    all.dedup_by_key(|it| it.start);
    Ok(all)
}

#[cfg(test)]
mod tests;
