//! Values that satisfy a formula, by batsat: MiniSat's algorithm, in Rust.

use crate::dimacs::Formula;
use batsat::{BasicSolver, Lit, SolverInterface, lbool};

/// Returns a literal for each variable, all of which together satisfy the formula; `None` if no
/// values do. The same formula always has the same answer.
pub fn solve(formula: &Formula) -> Option<Vec<i32>> {
    let mut solver = BasicSolver::default();
    let mut literals: Vec<Lit> = Vec::new();
    for clause in formula.clauses() {
        literals.clear();
        for literal in clause {
            // The literals of a formula are not 0.
            let variable = solver.var_of_int(literal.unsigned_abs().saturating_sub(1));
            literals.push(Lit::new(variable, *literal > 0));
        }
        solver.add_clause_reuse(&mut literals);
    }
    if solver.solve_limited(&[]) != lbool::TRUE {
        return None;
    }
    // Variables that are in no clause have any value.
    let model = solver.get_model().iter().map(|value| *value == lbool::TRUE);
    let values = model.chain(std::iter::repeat(false));
    let literal = |(number, value): (i32, bool)| if value { number } else { -number };
    Some((1..=formula.variables()).zip(values).map(literal).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Option<Vec<i32>> {
        solve(&Formula::read(text.as_bytes()).expect("a formula"))
    }

    /// Each of `pigeons` is in one of `pigeons - 1` holes, and no two in the same.
    fn pigeons(pigeons: i32) -> String {
        let holes = pigeons - 1;
        let at = |pigeon: i32, hole: i32| pigeon * holes + hole + 1;
        let mut lines = Vec::new();
        for pigeon in 0..pigeons {
            let some: String = (0..holes).map(|hole| format!("{} ", at(pigeon, hole))).collect();
            lines.push(format!("{some}0"));
            for (other, hole) in (0..pigeon).flat_map(|o| (0..holes).map(move |h| (o, h))) {
                lines.push(format!("-{} -{} 0", at(pigeon, hole), at(other, hole)));
            }
        }
        format!("p cnf {} {}\n{}\n", pigeons * holes, lines.len(), lines.join("\n"))
    }

    #[test]
    fn the_values_satisfy_each_clause() {
        assert_eq!(answer("p cnf 3 3\n1 -2 0\n2 3 0\n-3 0\n"), Some(vec![1, 2, -3]));
    }

    #[test]
    fn a_contradiction_has_no_values() {
        assert_eq!(answer("p cnf 1 2\n1 0 -1 0\n"), None);
        assert_eq!(answer("p cnf 1 1\n0\n"), None, "an empty clause");
        assert_eq!(answer(&pigeons(6)), None);
    }

    #[test]
    fn variables_without_clauses_have_values_too() {
        assert_eq!(answer("p cnf 3 1\n2 0\n").map(|values| values.len()), Some(3));
        assert_eq!(answer("p cnf 2 0\n"), Some(vec![-1, -2]));
    }
}
