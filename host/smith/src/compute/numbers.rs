//! Numbers and instructions of the generated functions.

use base::prng::Prng;
use wasm_encoder::{Instruction, InstructionSink, ValType};
use wasmparser::Operator;

/// Puts an argument on the stack: often one at which widths and signs show.
pub fn argument(code: &mut InstructionSink<'_>, kind: ValType, prng: &mut Prng) {
    let odd = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, 1 << 63, u64::MAX];
    let bits = if prng.chance(1, 2) { odd[prng.below(8) as usize] } else { prng.next() };
    match kind {
        ValType::I32 => code.i32_const(bits as i32),
        ValType::I64 => code.i64_const(bits as i64),
        // Numbers, not NaNs.
        ValType::F32 => code.f32_const(f32::from_bits(bits as u32 & 0xbf7f_ffff).into()),
        ValType::V128 => code.v128_const(i128::from(bits) << 64 | i128::from(prng.next())),
        _ => code.f64_const(f64::from_bits(bits & 0xbfef_ffff_ffff_ffff).into()),
    };
}

/// Returns the type of the integer that an instruction makes. Floats are not shown as they are
/// made: their NaNs become canonical by later instructions.
pub fn integer(operator: &Operator<'_>) -> Option<ValType> {
    const COMPARE: [&str; 14] = [
        "Eqz", "Eq", "Ne", "LtS", "LtU", "Lt", "GtS", "GtU", "Gt", "LeS", "LeU", "Le", "GeS", "GeU",
    ];
    // The name of the instruction, without its fields.
    let name = format!("{operator:?}");
    let name = name.split([' ', '{']).next()?;
    if let Some(kind) = of_vector(name) {
        return kind;
    }
    let (kind, rest) = name.split_at_checked(3)?;
    let compares = COMPARE.contains(&rest) || rest == "Ge";
    match kind {
        "I32" | "I64" | "F32" | "F64" if compares => Some(ValType::I32),
        _ if rest == "Const" || rest.starts_with("Store") => None,
        "I32" => Some(ValType::I32),
        "I64" => Some(ValType::I64),
        _ => None,
    }
}

/// Returns the type of the integer that a SIMD instruction makes, if any; `None` if it is no such
/// instruction.
fn of_vector(name: &str) -> Option<Option<ValType>> {
    let is_vector = name.starts_with("V128") || name.as_bytes().get(2..5)?.contains(&b'x');
    let makes = |what: &str| name.contains(what);
    is_vector.then(|| match name {
        _ if makes("AnyTrue") || makes("AllTrue") || makes("Bitmask") => Some(ValType::I32),
        _ if !makes("ExtractLane") || name.starts_with('F') => None,
        _ if name.starts_with("I64") => Some(ValType::I64),
        _ => Some(ValType::I32),
    })
}

pub fn zero(code: &mut InstructionSink<'_>, kind: ValType) {
    match kind {
        ValType::I32 => code.i32_const(0),
        ValType::I64 => code.i64_const(0),
        ValType::F32 => code.f32_const(0.0.into()),
        ValType::V128 => code.v128_const(0),
        _ => code.f64_const(0.0.into()),
    };
}

/// Returns another instruction of the same type, of which one seed in eight knows each.
pub fn mistaken(seed: u64, operator: &Operator<'_>) -> Option<Instruction<'static>> {
    Some(match (seed % 8, operator) {
        (0, Operator::I32Add) => Instruction::I32Sub,
        (1, Operator::I64ShrS) => Instruction::I64ShrU,
        (2, Operator::I32LtS) => Instruction::I32LtU,
        (3, Operator::I64Add) => Instruction::I64Or,
        (4, Operator::I32Ctz) => Instruction::I32Clz,
        (5, Operator::I64Rotl) => Instruction::I64Rotr,
        (6, Operator::F64Mul) => Instruction::F64Add,
        (7, Operator::I32Xor) => Instruction::I32Or,
        // Of modules with SIMD.
        (_, Operator::I32x4Add) => Instruction::I32x4Sub,
        _ => return None,
    })
}
