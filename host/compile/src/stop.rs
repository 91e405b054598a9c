//! The way out of a loop: each module gets one more function, whose only instruction traps.
//!
//! A program that is to be stopped while it computes goes on there, as if it had called it, and
//! ends by that trap (`kernel/engine`). So its loops need not ask whether they may go on. The
//! function comes last: no number of the module's own changes, and nothing of the module leads to
//! it.

/// Magic number and version.
const HEAD: usize = 8;
/// Sections that the function needs.
const TYPE: u8 = 1;
const FUNCTION: u8 = 3;
const CODE: u8 = 10;
/// What it adds to them: `() -> ()`; and no locals, `unreachable`, `end`.
const SIGNATURE: &[u8] = &[0x60, 0, 0];
const BODY: &[u8] = &[3, 0, 0x00, 0x0b];
/// All sections but custom ones, in their order.
const ORDER: [u8; 13] = [1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11];

/// `wasm` with that function. `None`: it is no module, as the compiler will say.
pub fn with_way_out(wasm: &[u8]) -> Option<Vec<u8>> {
    let (head, mut rest) = wasm.split_at_checked(HEAD)?;
    let mut made = head.to_vec();
    let mut wanted = [TYPE, FUNCTION, CODE].into_iter().peekable();
    let mut types = 0;
    while !rest.is_empty() {
        let (id, body, behind) = section(rest)?;
        // A section that the module has none of comes before the first one that follows it.
        while let Some(missing) = wanted.next_if(|&next| comes_before(next, id)) {
            put(&mut made, missing, &grown(missing, &[0], &mut types)?);
        }
        match wanted.next_if_eq(&id) {
            Some(_) => put(&mut made, id, &grown(id, body, &mut types)?),
            None => made.extend_from_slice(&rest[..rest.len() - behind.len()]),
        }
        rest = behind;
    }
    for missing in wanted {
        put(&mut made, missing, &grown(missing, &[0], &mut types)?);
    }
    Some(made)
}

/// Must section `one` come before `other`? Custom ones (0) may be anywhere.
fn comes_before(one: u8, other: u8) -> bool {
    let place = |id| ORDER.iter().position(|&known| known == id);
    matches!((place(one), place(other)), (Some(one), Some(other)) if one < other)
}

/// The first section: its number, what it holds, what follows it.
fn section(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&id, rest) = bytes.split_first()?;
    let (length, rest) = number(rest)?;
    let (body, behind) = rest.split_at_checked(length as usize)?;
    Some((id, body, behind))
}

/// A list with one entry more. `types`: how many there were, once that section has been seen.
fn grown(id: u8, body: &[u8], types: &mut u32) -> Option<Vec<u8>> {
    let (count, entries) = number(body)?;
    let mut made = encoded(count.checked_add(1)?);
    made.extend_from_slice(entries);
    match id {
        TYPE => {
            *types = count;
            made.extend_from_slice(SIGNATURE);
        }
        FUNCTION => made.extend(encoded(*types)),
        _ => made.extend_from_slice(BODY),
    }
    Some(made)
}

fn put(made: &mut Vec<u8>, id: u8, body: &[u8]) {
    made.push(id);
    made.extend(encoded(u32::try_from(body.len()).unwrap_or(u32::MAX)));
    made.extend_from_slice(body);
}

/// LEB128, and what follows it.
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, &bytes[at + 1..]));
        }
    }
    None
}

fn encoded(mut value: u32) -> Vec<u8> {
    let mut bytes = vec![];
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";
    /// The sections alone of the function.
    const ALONE: &[u8] = b"\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x05\x01\x03\0\0\x0b";

    #[test]
    fn a_module_without_functions_gets_all_three_sections() {
        assert_eq!(with_way_out(EMPTY).unwrap(), [EMPTY, ALONE].concat());
        // A custom section and a memory: each where it may be.
        let memory = [EMPTY, b"\0\x02\x01x\x05\x03\x01\0\x01"].concat();
        let made = with_way_out(&memory).unwrap();
        let parts: [&[u8]; 5] =
            [EMPTY, b"\0\x02\x01x", &ALONE[..10], b"\x05\x03\x01\0\x01", &ALONE[10..]];
        assert_eq!(made, parts.concat());
    }

    #[test]
    fn it_comes_last() {
        let one = [EMPTY, b"\x01\x05\x01\x60\x01\x7f\0\x03\x02\x01\0\x0a\x04\x01\x02\0\x0b"];
        let parts: [&[u8]; 4] = [
            EMPTY,
            b"\x01\x08\x02\x60\x01\x7f\0\x60\0\0",
            b"\x03\x03\x02\0\x01",
            b"\x0a\x08\x02\x02\0\x0b\x03\0\0\x0b",
        ];
        assert_eq!(with_way_out(&one.concat()).unwrap(), parts.concat());
    }

    #[test]
    fn nonsense_is_left_to_the_compiler() {
        for bad in
            [&b"\0asm"[..], b"\0asm\x01\0\0\0\x01", b"\0asm\x01\0\0\0\x01\x80\x80\x80\x80\x80\0"]
        {
            assert_eq!(with_way_out(bad), None);
        }
    }
}
