//! The table of docs/reference/records.md that compares lines about placement in manifests with
//! those of Helios' figure 4, against the manifests of apps/corpus.toml.

use std::collections::BTreeMap;

const CORPUS: &str = include_str!("../../../apps/corpus.toml");
const PAGE: &str = include_str!("../../../docs/reference/records.md");
/// The heading above the table.
const HEADING: &str = "### Lines of manifests\n";
/// Its columns: programs of Helios, their lines, programs here, their lines.
const COLUMNS: usize = 4;

/// Returns the lines about placement in the manifest of each program that has some.
fn lines(corpus: &toml::Table) -> BTreeMap<String, usize> {
    let apps = corpus["app"].as_array().expect("a list of programs");
    let lines_of = |app: &toml::Value| -> Option<usize> {
        let manifest = app.get("manifest")?.as_table()?;
        let count = |(key, value): (&String, &toml::Value)| match key.as_str() {
            "endpoints" => value.as_array().map_or(0, Vec::len),
            "platforms" => value.as_table().map_or(0, toml::Table::len),
            "class" => 1,
            _ => 0,
        };
        Some(manifest.iter().map(count).sum()).filter(|sum| *sum > 0)
    };
    let named = |app: &toml::Value| Some((app["name"].as_str()?.to_string(), lines_of(app)?));
    apps.iter().filter_map(named).collect()
}

/// Returns the rows of the table, as cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let (_, section) = page.split_once(HEADING).expect("the heading of the table");
    let table = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns what is between backticks.
fn programs(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_has_the_lines_of_the_manifests() {
    let corpus: toml::Table = CORPUS.parse().unwrap();
    let names: Vec<&str> =
        corpus["app"].as_array().unwrap().iter().filter_map(|app| app["name"].as_str()).collect();
    let mut left = lines(&corpus);
    let rows = rows(PAGE);
    assert_eq!(rows.len(), 7, "the rows of Helios' figure 4");
    for row in rows {
        let [what, theirs, here, ours] = row[..] else {
            panic!("{row:?} has not {COLUMNS} columns");
        };
        let (theirs, ours): (usize, usize) = (theirs.parse().unwrap(), ours.parse().unwrap());
        let counted: usize = programs(here)
            .into_iter()
            .map(|name| {
                assert!(names.contains(&name), "{what}: {name} is no program of apps/corpus.toml");
                left.remove(name).unwrap_or(0)
            })
            .sum();
        assert_eq!(counted, ours, "{what}: lines in the manifests of {here}");
        assert!(ours <= theirs, "{what}: more lines than in Helios");
    }
    assert!(left.is_empty(), "not in the table: {left:?}");
}
