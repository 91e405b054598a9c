//! Decides which values of a function are 64 bits wide, and which locals hold such values.
//!
//! A comparison, a branch, and a wide local want their operands wide. The operator that produces
//! such an operand then produces it wide, if that is free; otherwise an extension follows. A local
//! is wide if that saves more extensions than it causes. All other values are not wide.

use super::flow::{Flow, NONE, Place};
use wasmparser::{Operator, ValType};

/// Maximum locals of a function, as agreed among engines; a wide parameter takes one more.
const LOCALS: usize = 50_000;
/// Number of passes over the locals, whose benefits depend on each other.
const ROUNDS: usize = 6;

/// The source of a 32-bit value on RV64. Other values count as plain.
#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    /// Extending it costs an instruction.
    Plain,
    /// A 32-bit operation whose instruction also extends the result.
    Extended,
    /// A constant or a load, free in either width.
    Either,
    /// Read from a local.
    Local(usize),
    /// A bitwise operation on two values, or a choice of one: as wide as its operands.
    OfTwo,
}

/// The decision for an operator and its result.
#[derive(Clone, Copy)]
pub struct Step {
    pub source: Source,
    /// The result is wanted wide.
    pub is_wide: bool,
    /// Its operands are wide: it becomes a 64-bit operator.
    pub takes_wide: bool,
    /// Its condition is wide: a comparison with zero is inserted.
    pub tests: bool,
    /// Extending the result costs an instruction.
    costs: bool,
}

/// The decisions for a function.
pub struct Plan {
    /// By operator.
    pub steps: Vec<Step>,
    /// By local: whether it is wide.
    pub wide: Vec<bool>,
}

/// Makes the decisions.
pub fn of(flow: &Flow<'_>) -> Plan {
    let locals = flow.locals.len();
    let steps = flow.places.iter().map(|place| Step::new(source(&place.operator))).collect();
    let mut planner = Planner {
        flow,
        plan: Plan { steps, wide: vec![false; locals] },
        saved: vec![0; locals],
        asked: vec![0; locals],
        is_settled: false,
    };
    let rounds = if locals + flow.parameters > LOCALS { 0 } else { ROUNDS };
    for _ in 0..rounds {
        planner.walk();
        if !planner.learn() {
            break;
        }
    }
    planner.is_settled = true;
    planner.walk();
    planner.plan
}

impl Step {
    fn new(source: Source) -> Step {
        Step { source, is_wide: false, takes_wide: false, tests: false, costs: true }
    }
}

fn source(operator: &Operator<'_>) -> Source {
    use Operator::*;
    match operator {
        I32Const { .. } | I32Load { .. } | I32Load8S { .. } | I32Load8U { .. } => Source::Either,
        I32Load16S { .. } | I32Load16U { .. } => Source::Either,
        I32AtomicLoad8U { .. } | I32AtomicLoad16U { .. } => Source::Either,
        LocalGet { local_index } | LocalTee { local_index } => Source::Local(*local_index as usize),
        I32And | I32Or | I32Xor | Select => Source::OfTwo,
        I32Add | I32Sub | I32Shl | I32ShrS | I32ShrU | I32Extend8S | I32Extend16S => {
            Source::Extended
        }
        operator if compares(operator) => Source::Extended,
        I64Eqz | I64Eq | I64Ne | I64LtS | I64LtU | I64GtS | I64GtU | I64LeS | I64LeU | I64GeS
        | I64GeU | F32Eq | F32Ne | F32Lt | F32Gt | F32Le | F32Ge | F64Eq | F64Ne | F64Lt
        | F64Gt | F64Le | F64Ge => Source::Extended,
        _ => Source::Plain,
    }
}

/// Returns whether it compares 32-bit values.
fn compares(operator: &Operator<'_>) -> bool {
    use Operator::*;
    matches!(
        operator,
        I32Eqz
            | I32Eq
            | I32Ne
            | I32LtS
            | I32LtU
            | I32GtS
            | I32GtU
            | I32LeS
            | I32LeU
            | I32GeS
            | I32GeU
    )
}

struct Planner<'f, 'a> {
    flow: &'f Flow<'a>,
    plan: Plan,
    /// By local: the extensions that a wide one saves; in `asked`, those that it causes.
    saved: Vec<u64>,
    asked: Vec<u64>,
    /// The locals are final. Before that, a 32-bit local counts as whatever is wanted of it.
    is_settled: bool,
}

impl Planner<'_, '_> {
    /// Visits all operators once.
    fn walk(&mut self) {
        self.saved.fill(0);
        self.asked.fill(0);
        for (at, place) in self.flow.places.iter().enumerate().filter(|(_, p)| !p.is_dead) {
            let source = self.plan.steps[at].source;
            self.plan.steps[at] = Step::new(source);
            self.plan.steps[at].costs = self.costs(source, &place.takes);
            self.takes(at, place);
        }
    }

    fn costs(&self, source: Source, takes: &[usize; 3]) -> bool {
        match source {
            Source::Plain => true,
            Source::Extended | Source::Either => false,
            Source::Local(local) => !self.is_wide(local),
            Source::OfTwo => self.parts(takes).iter().any(|part| self.is_costly(*part)),
        }
    }

    /// Returns the operands of an operation on two values. (The condition of a `select` is the last
    /// one.)
    fn parts(&self, takes: &[usize; 3]) -> [usize; 2] {
        match takes[2] {
            NONE => [takes[0], takes[1]],
            last => [takes[1], last],
        }
    }

    fn is_costly(&self, at: usize) -> bool {
        self.plan.steps.get(at).is_none_or(|step| step.costs)
    }

    fn is_wide(&self, local: usize) -> bool {
        self.plan.wide[local] || !self.is_settled && self.flow.locals[local] == ValType::I32
    }

    /// Decides what an operator wants of its operands.
    fn takes(&mut self, at: usize, place: &Place<'_>) {
        use Operator::*;
        let last = place.takes[0];
        match place.operator {
            ref operator if compares(operator) => {
                self.plan.steps[at].takes_wide = true;
                self.want(last, place.weight);
                if place.takes[1] != NONE {
                    self.want(place.takes[1], place.weight);
                }
            }
            If { .. } | BrIf { .. } | Select => self.condition(at, place),
            LocalSet { local_index } | LocalTee { local_index } => {
                let local = local_index as usize;
                if self.is_costly(last) {
                    self.asked[local] += place.weight;
                }
                if self.plan.wide[local] {
                    self.want(last, place.weight);
                }
            }
            I64ExtendI32S if !self.is_costly(last) => {
                self.plan.steps[at].takes_wide = true;
                self.want(last, place.weight);
            }
            _ => {}
        }
    }

    /// A condition is compared with zero, unless it comes from a comparison or a similar operator.
    fn condition(&mut self, at: usize, place: &Place<'_>) {
        let last = place.takes[0];
        let is_made = |step: &Step| step.source == Source::Extended;
        if !self.plan.steps.get(last).is_none_or(is_made) {
            self.plan.steps[at].tests = true;
            self.want(last, place.weight);
        }
    }

    /// Marks a value as wanted wide, together with its operands if that costs no more than
    /// extending it.
    fn want(&mut self, at: usize, weight: u64) {
        let mut wanted = vec![(at, weight)];
        while let Some((at, weight)) = wanted.pop() {
            let Some(place) = self.flow.places.get(at) else { continue };
            self.plan.steps[at].is_wide = true;
            match self.plan.steps[at].source {
                Source::Local(local) => self.saved[local] += weight,
                Source::OfTwo => {
                    let parts = self.parts(&place.takes);
                    if parts.iter().filter(|part| self.is_costly(**part)).count() <= 1 {
                        self.plan.steps[at].takes_wide = true;
                        wanted.extend(parts.map(|part| (part, weight / 2)));
                    }
                }
                _ => {}
            }
        }
    }

    /// Decides which locals become wide. Returns whether any did.
    fn learn(&mut self) -> bool {
        let mut learnt = false;
        for (local, wide) in self.plan.wide.iter_mut().enumerate() {
            let entry = if local < self.flow.parameters { super::flow::ONCE } else { 0 };
            let is_narrow = self.flow.locals[local] == ValType::I32;
            if !*wide && is_narrow && self.saved[local] > self.asked[local] + entry {
                *wide = true;
                learnt = true;
            }
        }
        learnt
    }
}
