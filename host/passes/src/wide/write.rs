//! Generates a function according to its plan.

use super::flow::{Flow, Place};
use super::plan::{Plan, Source, Step};
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{Function, Instruction, ValType};
use wasmparser::Operator;

type Result<T> = std::result::Result<T, Error<Infallible>>;

/// Returns the new function.
pub fn function(
    by: &mut impl Reencode<Error = Infallible>,
    flow: &Flow<'_>,
    plan: &Plan,
) -> Result<Function> {
    let mut types = Vec::with_capacity(flow.locals.len());
    for (local, kind) in flow.locals.iter().enumerate() {
        types.push(if plan.wide[local] { ValType::I64 } else { by.val_type(*kind)? });
    }
    types.drain(..flow.parameters);
    // Parameters arrive in their original type: a wide one gets an additional local after all
    // others.
    let mut homes: Vec<u32> = (0..flow.locals.len() as u32).collect();
    let parameters: Vec<usize> = (0..flow.parameters).filter(|at| plan.wide[*at]).collect();
    for parameter in &parameters {
        homes[*parameter] = (flow.parameters + types.len()) as u32;
        types.push(ValType::I64);
    }
    let mut function = Function::new_with_locals_types(types);
    for parameter in parameters {
        function.instruction(&Instruction::LocalGet(parameter as u32));
        function.instruction(&Instruction::I64ExtendI32S);
        function.instruction(&Instruction::LocalSet(homes[parameter]));
    }
    let places = flow.places.iter().zip(&plan.steps).filter(|(place, _)| !place.is_dead);
    for (place, step) in places {
        if step.tests {
            function.instruction(&Instruction::I64Const(0)).instruction(&Instruction::I64Ne);
        }
        if let Some(instruction) = instruction(by, place, step, &homes)? {
            function.instruction(&instruction);
        }
        match (holds_wide(step, plan), step.is_wide) {
            (false, true) => function.instruction(&Instruction::I64ExtendI32S),
            (true, false) => function.instruction(&Instruction::I32WrapI64),
            _ => &mut function,
        };
    }
    Ok(function)
}

/// Returns whether the operator's result is already 64 bits wide.
fn holds_wide(step: &Step, plan: &Plan) -> bool {
    match step.source {
        Source::Local(local) => plan.wide[local],
        Source::Either => step.is_wide,
        Source::OfTwo => step.takes_wide,
        Source::Plain | Source::Extended => false,
    }
}

/// Returns the new operator; `None` if it is removed.
fn instruction<'a>(
    by: &mut impl Reencode<Error = Infallible>,
    place: &Place<'a>,
    step: &Step,
    homes: &[u32],
) -> Result<Option<Instruction<'a>>> {
    let home = |local: u32| homes.get(local as usize).copied().unwrap_or(local);
    Ok(Some(match place.operator {
        Operator::LocalGet { local_index } => Instruction::LocalGet(home(local_index)),
        Operator::LocalSet { local_index } => Instruction::LocalSet(home(local_index)),
        Operator::LocalTee { local_index } => Instruction::LocalTee(home(local_index)),
        Operator::I64ExtendI32S if step.takes_wide => return Ok(None),
        ref operator if step.takes_wide || step.source == Source::Either && step.is_wide => {
            match in_64_bits(by, operator)? {
                Some(instruction) => instruction,
                None => by.instruction(operator.clone())?,
            }
        }
        ref operator => by.instruction(operator.clone())?,
    }))
}

/// Returns the 64-bit version of an operator; `None` if it is the same (`select`).
fn in_64_bits(
    by: &mut impl Reencode<Error = Infallible>,
    operator: &Operator<'_>,
) -> Result<Option<Instruction<'static>>> {
    Ok(Some(match *operator {
        Operator::I32Const { value } => Instruction::I64Const(value.into()),
        Operator::I32Load { memarg } => Instruction::I64Load32S(by.mem_arg(memarg)?),
        Operator::I32Load8S { memarg } => Instruction::I64Load8S(by.mem_arg(memarg)?),
        Operator::I32Load8U { memarg } => Instruction::I64Load8U(by.mem_arg(memarg)?),
        Operator::I32Load16S { memarg } => Instruction::I64Load16S(by.mem_arg(memarg)?),
        Operator::I32Load16U { memarg } => Instruction::I64Load16U(by.mem_arg(memarg)?),
        Operator::I32AtomicLoad8U { memarg } => Instruction::I64AtomicLoad8U(by.mem_arg(memarg)?),
        Operator::I32AtomicLoad16U { memarg } => Instruction::I64AtomicLoad16U(by.mem_arg(memarg)?),
        Operator::I32And => Instruction::I64And,
        Operator::I32Or => Instruction::I64Or,
        Operator::I32Xor => Instruction::I64Xor,
        Operator::I32Eqz => Instruction::I64Eqz,
        Operator::I32Eq => Instruction::I64Eq,
        Operator::I32Ne => Instruction::I64Ne,
        Operator::I32LtS => Instruction::I64LtS,
        Operator::I32LtU => Instruction::I64LtU,
        Operator::I32GtS => Instruction::I64GtS,
        Operator::I32GtU => Instruction::I64GtU,
        Operator::I32LeS => Instruction::I64LeS,
        Operator::I32LeU => Instruction::I64LeU,
        Operator::I32GeS => Instruction::I64GeS,
        Operator::I32GeU => Instruction::I64GeU,
        _ => return Ok(None),
    }))
}
