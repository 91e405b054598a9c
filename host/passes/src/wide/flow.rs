//! The operators of a function, and the sources of their operands.
//!
//! wasmparser's validator provides how many operands an operator pops and pushes, and which code is
//! unreachable.

use wasmparser::{
    BinaryReaderError, FuncToValidate, FuncValidatorAllocations, FunctionBody, Operator, ValType,
    ValidatorResources,
};

/// No operator.
pub const NONE: usize = usize::MAX;
/// Weight of an operator outside of loops, and the factor for each enclosing loop.
pub const ONCE: u64 = 8;
const LOOP: u64 = 8;
/// Maximum nesting of loops that affects the weight.
const DEEPEST: usize = 8;

/// Maximum size of a function that is analysed, in bytes: the analysis takes a hundred times as
/// much memory.
const LARGEST: usize = 1 << 20;
/// Number of locals that a function may have in addition to one per operator, so that the cost is
/// bounded by the length of the module.
const LOCALS: usize = 64;

/// An operator in its context.
pub struct Place<'a> {
    pub operator: Operator<'a>,
    /// The operators that produce its operands, the last operand first; more than these are
    /// ignored.
    pub takes: [usize; 3],
    /// Estimated frequency, from the enclosing loops.
    pub weight: u64,
    /// It is unreachable.
    pub is_dead: bool,
}

/// The data flow of a function.
pub struct Flow<'a> {
    pub places: Vec<Place<'a>>,
    /// Types of the locals, parameters first.
    pub locals: Vec<ValType>,
    pub parameters: usize,
}

struct Block {
    /// Number of values on the stack at its start.
    height: usize,
    /// Number of enclosing loops.
    loops: usize,
    /// It starts unreachable.
    is_dead: bool,
}

/// Analyses a function. `Ok(None)`: one of its operators produces several values or belongs to the
/// legacy exceptions; or it is larger than any that a compiler generates.
pub fn of<'a>(
    function: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'a>,
) -> Result<Option<Flow<'a>>, BinaryReaderError> {
    if body.as_bytes().len() > LARGEST {
        return Ok(None);
    }
    let mut validator = function.into_validator(FuncValidatorAllocations::default());
    let parameters = validator.len_locals() as usize;
    validator.read_locals(&mut body.get_binary_reader())?;
    let mut flow = Flow { places: vec![], locals: vec![], parameters };
    let mut walk = Walk::default();
    walk.blocks.push(Block { height: 0, loops: 0, is_dead: false });
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let (operator, offset) = reader.read_with_offset()?;
        let arity = operator.operator_arity(&validator);
        let is_over = validator.get_control_frame(0).is_some_and(|frame| frame.unreachable);
        validator.op(offset, &operator)?;
        let Some((takes, gives)) = arity.filter(|(_, gives)| *gives <= 1) else {
            return Ok(None);
        };
        if is_old(&operator) {
            return Ok(None);
        }
        let place = walk.step(flow.places.len(), operator, (takes as usize, gives == 1), is_over);
        flow.places.push(place);
    }
    if validator.len_locals() as usize > LOCALS + flow.places.len() {
        return Ok(None);
    }
    let locals = (0..validator.len_locals()).filter_map(|at| validator.get_local_type(at));
    flow.locals = locals.collect();
    Ok(Some(flow))
}

fn is_old(operator: &Operator<'_>) -> bool {
    use Operator::{Catch, CatchAll, Delegate, Rethrow, Try};
    matches!(operator, Try { .. } | Catch { .. } | CatchAll | Delegate { .. } | Rethrow { .. })
}

#[derive(Default)]
struct Walk {
    /// The operators that produced the values on the stack.
    stack: Vec<usize>,
    /// Open blocks, the function first.
    blocks: Vec<Block>,
}

impl Walk {
    /// Processes one operator. `is_over`: it follows a branch that is always taken, in the same
    /// block.
    fn step<'a>(
        &mut self,
        at: usize,
        operator: Operator<'a>,
        (takes, gives): (usize, bool),
        is_over: bool,
    ) -> Place<'a> {
        let loops = self.blocks.last().map_or(0, |block| block.loops).min(DEEPEST);
        let weight = ONCE * LOOP.pow(loops as u32);
        let around = self.blocks.last().is_some_and(|block| block.is_dead);
        let closes = matches!(operator, Operator::End | Operator::Else);
        let mut place =
            Place { operator, takes: [NONE; 3], weight, is_dead: around || is_over && !closes };
        if !place.is_dead && !is_over {
            let below = self.stack.len().saturating_sub(takes);
            for (take, from) in place.takes.iter_mut().zip(self.stack.drain(below..).rev()) {
                *take = from;
            }
        }
        self.follow(&place);
        if gives && !place.is_dead {
            self.stack.push(at);
        }
        place
    }

    /// Opens and closes blocks.
    fn follow(&mut self, place: &Place<'_>) {
        use Operator::{Block as Plain, Else, End, If, Loop, TryTable};
        let height = self.stack.len();
        let around = self.blocks.last().map_or(0, |block| block.loops);
        let loops = around + usize::from(matches!(place.operator, Loop { .. }));
        match place.operator {
            Plain { .. } | Loop { .. } | If { .. } | TryTable { .. } => {
                self.blocks.push(Block { height, loops, is_dead: place.is_dead });
            }
            Else => self.stack.truncate(self.blocks.last().map_or(0, |block| block.height)),
            End => self.stack.truncate(self.blocks.pop().map_or(0, |block| block.height)),
            _ => {}
        }
    }
}
