//! Removes custom sections from modules (names, producers), so that all programs are compiled in
//! one way, and share what they have in common.

/// What a module begins with, its version included.
const HEAD: usize = 8;
/// The number of custom sections.
const CUSTOM: u8 = 0;

/// The same module without them; `None`: it is none.
pub fn without_custom(wasm: &[u8]) -> Option<Vec<u8>> {
    let (head, mut rest) = wasm.split_at_checked(HEAD)?;
    let mut kept = head.to_vec();
    while let Some((&kind, behind)) = rest.split_first() {
        let (bytes, content) = number(behind)?;
        let (_, next) = content.split_at_checked(bytes)?;
        let section = rest.get(..rest.len() - next.len())?;
        if kind != CUSTOM {
            kept.extend_from_slice(section);
        }
        rest = next;
    }
    Some(kept)
}

/// Reads a number of seven bits a byte; returns it and the rest.
fn number(mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let (&byte, behind) = bytes.split_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        bytes = behind;
        if byte & 0x80 == 0 {
            return Some((usize::try_from(number).ok()?, bytes));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"\0asm\x01\0\0\0";

    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut made = HEAD.to_vec();
        for (kind, content) in sections {
            // In two bytes, as linkers write it.
            made.extend([*kind, content.len() as u8 | 0x80, 0]);
            made.extend_from_slice(content);
        }
        made
    }

    #[test]
    fn only_custom_sections_go() {
        let (types, names) = ((1, &b"types"[..]), (0, &b"\x04name and more"[..]));
        let whole = module(&[names, types, (10, b""), names]);
        assert_eq!(without_custom(&whole), Some(module(&[types, (10, b"")])));
        assert_eq!(without_custom(HEAD), Some(HEAD.to_vec()));
    }

    #[test]
    fn what_is_no_module_stays() {
        let whole = module(&[(1, b"types")]);
        for wrong in
            [&b"no"[..], &whole[..whole.len() - 1], &whole[..9], &[HEAD, &[0xff; 9]].concat()]
        {
            assert_eq!(without_custom(wrong), None);
        }
    }
}
