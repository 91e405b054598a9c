//! The pages in `docs/reference/contracts` are what the generator makes of the contracts now, and
//! drawings are complete.
//!
//! After a change, for each: `./pen contract draw contracts/NAME.vN.toml -o PAGE`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use contract::{Contract, drawing, page};
use std::path::Path;

const PAGES: &str = "../../docs/reference/contracts";

#[test]
fn pages_are_up_to_date() {
    let mut count = 0;
    for entry in std::fs::read_dir(PAGES).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        let source = format!("contracts/{name}.toml");
        let contract = Contract::read(&Path::new("../..").join(&source)).unwrap();
        let advice = format!("draw it again: `./pen contract draw {source} -o {}`", path.display());
        let text = page(&contract, &source, &format!("{name}.svg"));
        assert!(std::fs::read_to_string(&path).unwrap() == text, "{advice}");
        let svg = std::fs::read_to_string(path.with_extension("svg")).unwrap();
        assert!(svg == drawing(&contract), "{advice}");
        count += 1;
    }
    assert!(count >= 3, "{count} pages");
}

#[test]
fn a_drawing_names_each_state_once_and_each_transition() {
    let contract = Contract::read(Path::new("../../contracts/storage.v1.toml")).unwrap();
    let svg = drawing(&contract);
    for state in &contract.states {
        assert_eq!(svg.matches(&format!(">{}</text>", state.name)).count(), 1, "{}", state.name);
    }
    for (index, message) in contract.messages.iter().enumerate() {
        let uses = contract.states.iter().flat_map(|state| &state.transitions);
        let uses = uses.filter(|transition| transition.0 == index).count();
        let drawn = svg.matches(&format!(">{}</text>", message.name)).count();
        assert_eq!(drawn, uses, "{}", message.name);
    }
    let opened = svg.matches('<').count();
    let closed = svg.matches("/>").count() + 2 * svg.matches("</").count();
    assert_eq!(opened, closed, "every element is closed");
}
