//! Every file of tests/litmus, in every allowed order.

use std::path::Path;

#[test]
fn every_litmus_file_has_exactly_the_outcomes_it_expects() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/litmus");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let checked = sim::litmus::parse(&text).and_then(|litmus| litmus.check());
        assert_eq!(checked, Ok(()), "{}", path.display());
        files += 1;
    }
    assert!(files >= 22, "only {files} files in {}", folder.display());
}
