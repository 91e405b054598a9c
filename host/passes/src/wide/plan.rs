//! Which values of a function are 64 bits wide, and which locals hold such.
//!
//! A value is wanted wide by a comparison, by a branch, and by a local that is wide. What makes it
//! then makes it so, where that costs nothing, or it is extended behind that. A local is wide if
//! that saves more extensions than it asks for. What nobody wants wide is not.

use super::flow::{Flow, NONE, Place};
use wasmparser::{Operator, ValType};

/// Most locals of a function, as engines have agreed; a parameter that is wide takes one more.
const LOCALS: usize = 50_000;
/// How often locals are gone through: whether one is worth it depends on others.
const ROUNDS: usize = 6;

/// Where a value of 32 bits comes from, as RV64 sees it. Others count as plain.
#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    /// To extend it costs an instruction.
    Plain,
    /// It is made in 32 bits, and extended by what makes it.
    Extended,
    /// A constant or a load: made in either width.
    Either,
    /// Out of a local.
    Local(usize),
    /// Of two values, bit by bit, or one of two: as wide as they are.
    OfTwo,
}

/// What becomes of an operator, and of the value that it gives.
#[derive(Clone, Copy)]
pub struct Step {
    pub source: Source,
    /// The value is wanted wide.
    pub is_wide: bool,
    /// It takes wide values: it is written for 64 bits.
    pub takes_wide: bool,
    /// Its condition is wide: a comparison with zero comes before it.
    pub tests: bool,
    /// To extend the value costs an instruction.
    costs: bool,
}

/// What becomes of a function.
pub struct Plan {
    /// By place.
    pub steps: Vec<Step>,
    /// By local: is it wide?
    pub wide: Vec<bool>,
}

/// Decides.
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

/// Of values of 32 bits.
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
    /// By local: extensions that it saves if it is wide, and asks for.
    saved: Vec<u64>,
    asked: Vec<u64>,
    /// Locals are as they stay. Before, each of 32 bits passes for what is wanted of it.
    is_settled: bool,
}

impl Planner<'_, '_> {
    /// Through the function once.
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

    /// What a value of two is made of. (Of a choice, the condition is taken last.)
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

    /// What an operator wants of the values that it takes.
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

    /// A condition is compared with zero, unless it comes of a comparison or so.
    fn condition(&mut self, at: usize, place: &Place<'_>) {
        let last = place.takes[0];
        let is_made = |step: &Step| step.source == Source::Extended;
        if !self.plan.steps.get(last).is_none_or(is_made) {
            self.plan.steps[at].tests = true;
            self.want(last, place.weight);
        }
    }

    /// A value is wanted wide, and those that it is made of, if that costs no more than it does to
    /// extend it.
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

    /// Which locals are worth it; did any become so?
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
