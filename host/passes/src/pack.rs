//! The last step: removes padding and symbols from the compiler's output.
//!
//! wasmtime writes an ELF file whose code begins and ends at a multiple of 64 KiB, the largest page
//! of any AArch64, and which names each function for debuggers. Kernels have pages of 4 KiB and
//! find names elsewhere. So sections are moved together, code stays in pages of its own (only these
//! become executable), and symbols are removed. Code addresses only itself, relative to the pc,
//! never by an offset in the file.

/// Bytes of a kernel's page.
const PAGE: usize = 4096;

/// The fields of ELF's file header that change, as byte offsets: offset and number of the section
/// headers, and the index of the section with their names.
const FILE_HEADER: usize = 64;
const SECTIONS_AT: usize = 40;
const SECTIONS: usize = 60;
const NAMES: usize = 62;

/// The same for a section header.
const SECTION_HEADER: usize = 64;
const KIND: usize = 4;
const FLAGS: usize = 8;
const OFFSET: usize = 24;
const SIZE: usize = 32;
const ALIGN: usize = 48;

/// Values of a section's type.
const EMPTY: u32 = 0;
const SYMBOLS: u32 = 2;
const STRINGS: u32 = 3;
const EXECUTABLE: u64 = 4;
/// Start of a 64-bit little-endian ELF file.
const MAGIC: &[u8] = b"\x7fELF\x02\x01";

/// Returns `code` packed; `None` if it is not a file as wasmtime writes it.
pub fn packed(code: &[u8]) -> Option<Vec<u8>> {
    if !code.starts_with(MAGIC) {
        return None;
    }
    let table = usize::try_from(u64_at(code, SECTIONS_AT)?).ok()?;
    let count = usize::from(u16_at(code, SECTIONS)?);
    let names = usize::from(u16_at(code, NAMES)?);
    let mut file = code.get(..FILE_HEADER)?.to_vec();
    let mut headers = Vec::new();
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(SECTION_HEADER)?)?;
        let mut header = code.get(at..at.checked_add(SECTION_HEADER)?)?.to_vec();
        let kind = u32_at(&header, KIND)?;
        if kind == SYMBOLS || kind == STRINGS && index != names {
            continue;
        }
        if index == names {
            put(&mut file, NAMES, &u16::try_from(headers.len()).ok()?.to_le_bytes())?;
        }
        if kind != EMPTY {
            move_section(code, &mut header, &mut file)?;
        }
        headers.push(header);
    }
    file.resize(file.len().next_multiple_of(size_of::<u64>()), 0);
    let table = file.len() as u64;
    put(&mut file, SECTIONS_AT, &table.to_le_bytes())?;
    put(&mut file, SECTIONS, &u16::try_from(headers.len()).ok()?.to_le_bytes())?;
    file.extend(headers.into_iter().flatten());
    Some(file)
}

/// Appends the section of `header` to `file`, and updates the header.
fn move_section(code: &[u8], header: &mut [u8], file: &mut Vec<u8>) -> Option<()> {
    let offset = usize::try_from(u64_at(header, OFFSET)?).ok()?;
    let size = usize::try_from(u64_at(header, SIZE)?).ok()?;
    let mut data = code.get(offset..offset.checked_add(size)?)?;
    let is_code = u64_at(header, FLAGS)? & EXECUTABLE != 0;
    let mut align = usize::try_from(u64_at(header, ALIGN)?).ok()?.clamp(1, PAGE);
    if is_code {
        // The section was padded to 64 KiB at its end, too: pages of zeros are removed.
        let used = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        data = data.get(..used.next_multiple_of(PAGE).min(size))?;
        align = PAGE;
    }
    file.resize(file.len().next_multiple_of(align), 0);
    put(header, OFFSET, &(file.len() as u64).to_le_bytes())?;
    put(header, SIZE, &(data.len() as u64).to_le_bytes())?;
    put(header, ALIGN, &(align as u64).to_le_bytes())?;
    file.extend_from_slice(data);
    if is_code {
        file.resize(file.len().next_multiple_of(PAGE), 0);
    }
    Some(())
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes.get_mut(at..at + value.len())?.copy_from_slice(value);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 64 << 10;

    /// Type, flags, alignment, contents.
    type Section<'a> = (u32, u64, usize, &'a [u8]);

    /// Returns a file with these sections after the empty one, laid out as by an object writer.
    fn elf(sections: &[Section<'_>], names: u16) -> Vec<u8> {
        let mut file = vec![0; FILE_HEADER];
        file[..MAGIC.len()].copy_from_slice(MAGIC);
        let mut headers = vec![0; SECTION_HEADER];
        for &(kind, flags, align, data) in sections {
            file.resize(file.len().next_multiple_of(align), 0);
            let mut header = vec![0; SECTION_HEADER];
            put(&mut header, KIND, &kind.to_le_bytes()).unwrap();
            put(&mut header, FLAGS, &flags.to_le_bytes()).unwrap();
            put(&mut header, OFFSET, &(file.len() as u64).to_le_bytes()).unwrap();
            put(&mut header, SIZE, &(data.len() as u64).to_le_bytes()).unwrap();
            put(&mut header, ALIGN, &(align as u64).to_le_bytes()).unwrap();
            headers.extend(header);
            file.extend_from_slice(data);
        }
        let table = (file.len() as u64).to_le_bytes();
        put(&mut file, SECTIONS_AT, &table).unwrap();
        put(&mut file, SECTIONS, &(sections.len() as u16 + 1).to_le_bytes()).unwrap();
        put(&mut file, NAMES, &names.to_le_bytes()).unwrap();
        file.extend(headers);
        file
    }

    /// Returns offset and contents of each section.
    fn read(file: &[u8]) -> Vec<(usize, &[u8])> {
        let table = u64_at(file, SECTIONS_AT).unwrap() as usize;
        let each = (0..usize::from(u16_at(file, SECTIONS).unwrap())).map(|index| {
            let header = &file[table + index * SECTION_HEADER..][..SECTION_HEADER];
            let at = u64_at(header, OFFSET).unwrap() as usize;
            (at, &file[at..at + u64_at(header, SIZE).unwrap() as usize])
        });
        each.collect()
    }

    fn code(used: usize) -> Vec<u8> {
        let mut code = vec![0; used.next_multiple_of(LARGE)];
        code[..used].fill(0x13);
        code
    }

    #[test]
    fn code_has_pages_of_its_own_and_symbols_go() {
        let text = code(PAGE + 1);
        let sections: &[Section<'_>] = &[
            (1, 0, 1, b"engine"),
            (1, EXECUTABLE, LARGE, &text),
            (1, 2, LARGE, b"data"),
            (SYMBOLS, 0, 8, &[7; 240]),
            (STRINGS, 0, 1, &[8; 100]),
            (STRINGS, 0, 1, b"names"),
        ];
        let packed = packed(&elf(sections, 6)).unwrap();
        let found = read(&packed);
        assert_eq!(found.len(), 5);
        assert_eq!(found[1], (FILE_HEADER, &b"engine"[..]));
        assert_eq!(found[2], (PAGE, &text[..2 * PAGE]));
        assert_eq!(found[3], (3 * PAGE, &b"data"[..]));
        assert_eq!(u16_at(&packed, NAMES), Some(4));
        assert_eq!(found[4].1, b"names");
        assert!(packed.len() < 4 * PAGE);
    }

    #[test]
    fn what_is_packed_stays() {
        let text = code(3);
        let once = packed(&elf(&[(1, EXECUTABLE, LARGE, &text), (STRINGS, 0, 1, b"n")], 2));
        assert_eq!(packed(once.as_deref().unwrap()), once);
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        let whole = elf(&[(1, EXECUTABLE, LARGE, &code(3)), (STRINGS, 0, 1, b"n")], 2);
        for length in [0, 3, FILE_HEADER, whole.len() - 1] {
            assert_eq!(packed(&whole[..length]), None, "{length}");
        }
        let mut other = whole;
        other[4] = 1;
        assert_eq!(packed(&other), None);
    }
}
