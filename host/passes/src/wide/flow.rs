//! The operators of a function, and for each where the values that it takes come from.
//!
//! wasmparser's validator knows what an operator takes and gives, and where nothing is executed.

use wasmparser::{
    BinaryReaderError, FuncToValidate, FuncValidatorAllocations, FunctionBody, Operator, ValType,
    ValidatorResources,
};

/// No operator.
pub const NONE: usize = usize::MAX;
/// What an operator in no loop counts, and how many times more each loop around it makes that.
pub const ONCE: u64 = 8;
const LOOP: u64 = 8;
/// Loops within loops that count.
const DEEPEST: usize = 8;

/// Most bytes of a function that is looked at: each takes a hundred times as much here.
const LARGEST: usize = 1 << 20;
/// Locals that a function may have beside one for each operator: what is done for each of them is
/// paid for by what the module is long.
const LOCALS: usize = 64;

/// An operator in its place.
pub struct Place<'a> {
    pub operator: Operator<'a>,
    /// Which operators gave the values that it takes, the last value first; more than these are of
    /// no interest.
    pub takes: [usize; 3],
    /// How often it is executed, as loops around it let one guess.
    pub weight: u64,
    /// It never is.
    pub is_dead: bool,
}

/// A function as it flows.
pub struct Flow<'a> {
    pub places: Vec<Place<'a>>,
    /// Types of the locals, parameters first.
    pub locals: Vec<ValType>,
    pub parameters: usize,
}

struct Block {
    /// Values that were on the stack before it.
    height: usize,
    /// Loops around what is in it.
    loops: usize,
    /// It begins where nothing is executed.
    is_dead: bool,
}

/// `Ok(None)`: an operator of it gives several values, or is of the exceptions that were given up;
/// or it is larger than any that a compiler makes.
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
    /// Which operators gave the values.
    stack: Vec<usize>,
    /// Those that are open, the function first.
    blocks: Vec<Block>,
}

impl Walk {
    /// One operator on; `is_over`: behind a branch that is always taken, in the same block.
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

    /// Blocks that begin and end.
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
