//! Each contract of the tree has its page in `docs/reference/contracts`, which is what the
//! generator makes of it now; and drawings are complete.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use contract::{Contract, drawing, page};
use std::collections::BTreeSet;
use std::path::Path;

const PAGES: &str = "docs/reference/contracts";

/// Returns the names of the files in a folder of the tree.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(Path::new("../..").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn each_contract_has_an_up_to_date_page_and_drawing() {
    let mut expected = BTreeSet::new();
    for file in names("contracts") {
        let source = format!("contracts/{file}");
        let contract = Contract::read(&Path::new("../..").join(&source)).unwrap();
        let name = contract.full_name();
        let (markdown, svg) = (format!("{name}.md"), format!("{name}.svg"));
        let text = page(&contract, &source, &svg);
        for (file, content) in [(markdown, text), (svg, drawing(&contract))] {
            let stored = std::fs::read_to_string(Path::new("../..").join(PAGES).join(&file));
            assert!(
                stored.is_ok_and(|stored| stored == content),
                "{PAGES}/{file} is missing or old: \
                 `./pen contract draw {source} -o {PAGES}/{name}.md`"
            );
            expected.insert(file);
        }
    }
    assert_eq!(names(PAGES), expected, "remove what belongs to no contract");
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
