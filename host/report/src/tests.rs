//! Checks the structure of the page: everything from the records is on it, hostile text is escaped,
//! and areas are energies. There is no golden file, so its appearance may change.

use super::chart;
use super::page::page;
use super::read::{Input, read};
use super::report;
use super::runs::{Report, assemble};
use records::number;
use records::record::{Line, Record, parse};
use std::path::{Path, PathBuf};
use tree::place::Place;

const SAMPLE: &str = include_str!("../../../tests/records/sample.jsonl");
const MANUAL: &str = include_str!("../../../docs/reference/report.md");

fn of(text: &str) -> Report {
    let mut input = Input::default();
    input.take("test.jsonl", text.as_bytes()).expect("text can be read");
    assemble(input)
}

fn page_of(text: &str) -> String {
    page(&of(text)).expect("pictures can be drawn")
}

fn head(run: &str, repetition: u32) -> String {
    format!(r#"{{"kind":"run","run":"{run}","scenario":"s","board":"b","mode":"full","#)
        + &format!(
            r#""model":"0123456789abcdef","costs":"zero","exact":true,"repetition":{repetition}}}"#
        )
}

fn lines(all: &[&str]) -> String {
    all.join("\n")
}

fn value(run: &str, name: &str, value: f64) -> String {
    format!(r#"{{"kind":"value","run":"{run}","name":"{name}","value":{value},"unit":"ns"}}"#)
}

/// A record of a talk: its contract, client, the client's kernel, server, the server's kernel.
fn talk(run: &str, [contract, client, here, server, there]: [&str; 5], sent: u64) -> String {
    format!(r#"{{"kind":"talk","run":"{run}","contract":"{contract}","client":"{client}","#)
        + &format!(r#""client_kernel":"{here}","server":"{server}","server_kernel":"{there}","#)
        + &format!(r#""channels":1,"client_sent":{sent},"client_bytes":{},"#, sent * 1000)
        + &format!(r#""server_sent":{sent},"server_bytes":{}}}"#, sent * 10)
}

/// Returns a number as it appears on the page.
fn shown(number: f64) -> String {
    format!(">{}<", number::full(number))
}

#[test]
fn the_sample_is_complete_on_the_page() {
    let report = of(SAMPLE);
    assert_eq!(report.problems, []);
    assert_eq!(report.records, SAMPLE.lines().count());
    let page = page_of(SAMPLE);
    for setup in &report.setups {
        for row in setup.rows() {
            assert!(page.contains(&row.value.name), "{}", row.value.name);
            assert!(page.contains(&shown(row.median())), "{}", row.value.name);
            if let Some(linux) = row.value.linux {
                assert!(page.contains(&shown(linux)), "{}", row.value.name);
            }
        }
        for run in &setup.runs {
            assert!(page.contains(&run.head.run) && page.contains(&run.head.model));
            for count in &run.counts {
                assert!(page.contains(&format!(">{}<", number::count(count.value))));
            }
            for residency in &run.residency {
                assert!(page.contains(&format!("{} ns", residency.ns)), "{residency:?}");
                assert!(page.contains(&number::energy(residency.uj)), "{residency:?}");
            }
            for talk in &run.talks {
                assert!(page.contains(&talk.contract) && page.contains(&talk.server));
            }
            for violation in &run.violations {
                assert!(page.contains(&violation.text));
            }
        }
    }
    for bench in &report.benches {
        assert!(page.contains(&bench.name) && page.contains(&shown(bench.value)));
    }
}

#[test]
fn the_page_stands_alone_and_comes_out_the_same() {
    let page = page_of(SAMPLE);
    let foreign = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "//cdn", "<script", "<link", "@import", "url(", "<img"] {
        assert!(!foreign.contains(word), "{word}");
    }
    assert_eq!(page, page_of(SAMPLE));
    let shuffled: Vec<&str> = SAMPLE.lines().rev().collect();
    assert_eq!(of(&shuffled.join("\n")).problems, [], "a run's head may come last");
}

#[test]
fn hostile_names_are_text() {
    let evil = r#"<script>alert(1)</script>\"'&"#;
    let all = lines(&[
        &head("E", 1).replace("\"s\"", "\"E\"").replace("\"b\"", "\"E\""),
        r#"{"kind":"value","run":"E","name":"E","value":1,"unit":"E","linux":2,"linux_what":"E"}"#,
        r#"{"kind":"power","run":"E","domain":"E","at_ns":0,"mw":5}"#,
        r#"{"kind":"power","run":"E","domain":"other","at_ns":0,"mw":5}"#,
        r#"{"kind":"residency","run":"E","domain":"E","state":"idle","mhz":1,"ns":10,"uj":1}"#,
        r#"{"kind":"count","run":"E","domain":"E","what":"E","value":12}"#,
        r#"{"kind":"violation","run":"E","domain":"E","text":"E"}"#,
        &talk("E", ["E"; 5], 1),
        r#"{"kind":"end","run":"E","at_ns":10}"#,
        r#"{"name":"E","value":1,"unit":"E","board":"E","config":"E","linux_what":"E"}"#,
        r#"{"kind":"E"}"#,
    ])
    .replace("\"E\"", &format!("\"{evil}\""));
    let report = of(&all);
    assert_eq!((report.records, report.problems.len()), (10, 1));
    let page = page_of(&all);
    assert!(!page.contains("<script"), "{page}");
    assert!(page.matches("&lt;script&gt;alert(1)").count() > 15);
    let tags: Vec<&str> =
        page.split('<').skip(1).map(|t| t.split('>').next().unwrap_or("")).collect();
    assert!(tags.iter().all(|tag| !tag.contains("alert")), "no attribute either");
}

#[test]
fn bad_lines_are_named_and_the_rest_is_reported() {
    let run = head("r", 1);
    let good = value("r", "v", 42.5);
    let all = lines(&[
        &run,
        "nonsense",
        "",
        r#"{"kind":"power","run":"r","domain":"d","at_ns":0,"mw":-1}"#,
        r#"{"kind":"value","run":"absent","name":"v","value":1,"unit":"ns"}"#,
        r#"{"kind":"count","run":"r","domain":"d","what":"x","value":1,"extra":0}"#,
        r#"{"kind":"rum"}"#,
        r#"{"value":1}"#,
        r#"[1]"#,
        &good,
        &run.replace(r#""board":"b""#, r#""board":"c""#),
        &run.replace("0123456789abcdef", "xyz").replace("\"r\"", "\"q\""),
        r#"{"kind":"end","run":"r","at_ns":5}"#,
        r#"{"kind":"end","run":"r","at_ns":6}"#,
        &format!("{{\"name\":\"{}\"}}", "x".repeat(70_000)),
        r#"{"name":"last","value":7,"unit":"s","board":"solo"}"#,
    ]);
    let report = of(&all);
    let places: Vec<usize> = report.problems.iter().map(|p| p.place.line).collect();
    assert_eq!(places, [2, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15]);
    let told: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "test.jsonl:2: not JSON, at column 2");
    assert_eq!(told[1], "test.jsonl:4: mw is -1, it cannot be negative");
    assert_eq!(told[2], "test.jsonl:5: no record of kind \"run\" describes run \"absent\"");
    assert!(told[3].contains("unknown field `extra`"), "{}", told[3]);
    assert_eq!(told[8], "test.jsonl:12: model is \"xyz\", it should be 16 hex digits");
    assert_eq!(told[10], "test.jsonl:15: longer than 65536 bytes");
    let page = page_of(&all);
    assert!(page.contains(">42.5<") && page.contains(">last<"));
    assert!(told.iter().all(|t| page.contains(&t.replace('"', "&quot;"))), "{told:?}");
}

#[test]
fn repetitions_agree_to_the_bit_or_not() {
    let all = lines(&[
        &head("one", 1),
        &head("three", 3),
        &head("two", 2),
        &value("one", "same", 0.1),
        &value("two", "same", 0.1),
        &value("three", "same", 0.1),
        &value("one", "near", 0.3),
        &value("two", "near", 0.30000000000000004),
        &value("three", "near", 0.3),
        &value("two", "rare", 7.0),
    ]);
    let report = of(&all);
    let [setup] = &report.setups[..] else { panic!("repetitions are one setup") };
    assert_eq!(setup.runs.iter().map(|r| r.head.repetition).collect::<Vec<_>>(), [1, 2, 3]);
    let rows = setup.rows();
    let marks: Vec<_> = rows.iter().map(|r| (r.value.name.as_str(), r.identical)).collect();
    assert_eq!(marks, [("same", true), ("near", false), ("rare", false)]);
    assert_eq!(rows[1].sorted, [0.3, 0.3, 0.30000000000000004]);
    assert_eq!((rows[1].median(), setup.identical()), (0.3, Some(false)));
    assert!(page_of(&all).contains("in 1 of 3"));
    let same = all.replace("0.30000000000000004", "0.3");
    let same: Vec<&str> = same.lines().filter(|l| !l.contains("rare")).collect();
    assert_eq!(of(&same.join("\n")).setups[0].identical(), Some(true));
    let longer = format!("{}\n{}", same.join("\n"), r#"{"kind":"end","run":"two","at_ns":1}"#);
    assert_eq!(of(&longer).setups[0].identical(), Some(false), "not only values count");
    assert_eq!(of(&head("alone", 1)).setups[0].identical(), None);
}

#[test]
fn other_costs_or_models_are_no_repetition() {
    let other = head("b", 2).replace("zero", "board");
    assert_eq!(of(&lines(&[&head("a", 1), &other])).setups.len(), 2);
}

/// Returns the area of the polygon in `points`, as SVG writes them, in square pixels.
fn area(points: &str) -> f64 {
    let corners: Vec<(f64, f64)> = points
        .split_whitespace()
        .map(|pair| pair.split_once(',').expect("x,y"))
        .map(|(x, y)| (x.parse().expect("x"), y.parse().expect("y")))
        .collect();
    let next = corners.iter().cycle().skip(1);
    let twice: f64 = corners.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum();
    (twice / 2.0).abs()
}

#[test]
fn drawn_areas_are_energies() {
    let power = |domain: &str, at: u64, mw: f64| {
        format!(r#"{{"kind":"power","run":"r","domain":"{domain}","at_ns":{at},"mw":{mw}}}"#)
    };
    for steps in [20, 20_000] {
        let mut all = vec![head("r", 1)];
        for i in 0..steps {
            all.push(power("main", i * 1000, if i % 4 < 2 { 600.0 } else { 150.0 }));
            all.push(power("shadow", i * 1000 + 300, if i % 5 < 2 { 200.0 } else { 90.0 }));
        }
        all.push(format!(r#"{{"kind":"end","run":"r","at_ns":{}}}"#, steps * 1000));
        let report = of(&all.join("\n"));
        let run = &report.setups[0].runs[0];
        let picture = chart::power(&chart::layers(run), run.length(), 560);
        let picture = picture.expect("it can be drawn").expect("there is power");
        assert_eq!(picture.coarse, steps > 900, "{steps}");
        let shapes = picture.svg.split("<polygon").skip(1);
        let pixels: Vec<f64> = shapes
            .map(|s| s.split("points=\"").nth(1).and_then(|s| s.split('"').next()))
            .map(|points| area(points.expect("a polygon has points")))
            .collect();
        let energies: Vec<f64> =
            run.power.iter().map(|(_, steps)| steps.area(0, run.length())).collect();
        let (drawn, real) = (pixels[0] / pixels[1], energies[0] / energies[1]);
        assert!((drawn / real - 1.0).abs() < 0.02, "{steps} steps: {drawn} for {real}");
        let total = run.drawn_uj().expect("there is power") * 1e6;
        assert!((energies.iter().sum::<f64>() / total - 1.0).abs() < 1e-12);
    }
}

#[test]
fn energies_that_do_not_agree_are_told() {
    let all = |uj: f64| {
        let residency = r#"{"kind":"residency","run":"r","domain":"d","state":"idle","mhz":5,"#;
        let residency = format!(r#"{residency}"ns":1000,"uj":{uj}}}"#);
        lines(&[
            &head("r", 1),
            r#"{"kind":"power","run":"r","domain":"d","at_ns":0,"mw":2000}"#,
            r#"{"kind":"end","run":"r","at_ns":1000}"#,
            &residency,
        ])
    };
    assert!(!page_of(&all(2.0)).contains("The area under the power records"));
    assert!(page_of(&all(2.1)).contains("The area under the power records is 2 \u{b5}J"));
}

#[test]
fn a_run_with_nothing_in_it_is_still_a_run() {
    let page = page_of(&head("lonely", 1));
    assert!(page.contains("lonely") && !page.contains("<svg"));
    let dark = lines(&[
        &head("dark", 1),
        r#"{"kind":"power","run":"dark","domain":"d","at_ns":0,"mw":0}"#,
        r#"{"kind":"residency","run":"dark","domain":"d","state":"off","mhz":0,"ns":0,"uj":0}"#,
        r#"{"kind":"end","run":"dark","at_ns":0}"#,
        r#"{"kind":"value","run":"dark","name":"v","value":1,"unit":"ns","linux":0}"#,
    ]);
    assert!(!page_of(&dark).contains("NaN") && !page_of(&dark).contains("inf"));
}

#[test]
fn violations_come_first_and_equal_ones_together() {
    let text = r#"{"kind":"violation","run":"r","domain":"d","text":"it went wrong"}"#;
    let page = page_of(&lines(&[&head("r", 1), text, text]));
    assert_eq!(page.matches("it went wrong").count(), 1);
    let (bad, run) = (page.find("id=\"violations\""), page.find("id=\"s0\""));
    assert!(bad.expect("violations") < run.expect("the run"));
    assert!(page_of(&head("r", 1)).contains("no violations"));
}

#[test]
fn the_manuals_examples_are_records() {
    let examples: Vec<&str> = MANUAL.lines().filter(|l| l.starts_with('{')).collect();
    let parsed: Vec<Line> =
        examples.iter().map(|l| parse(l).unwrap_or_else(|why| panic!("{l}: {why}"))).collect();
    let benches = parsed.iter().filter(|l| matches!(l, Line::Bench(_))).count();
    let runs = parsed.iter().filter(|l| matches!(l, Line::Record(Record::Run(_)))).count();
    assert_eq!((parsed.len(), runs, benches), (9, 1, 1));
    assert_eq!(of(&examples.join("\n")).problems, []);
}

fn place(target: &Path) -> Place {
    Place {
        root: target.to_path_buf(),
        target: target.to_path_buf(),
        cargo: PathBuf::from("cargo"),
        rustc: None,
        build_std: false,
        linker: None,
    }
}

#[test]
fn without_records_it_says_how_to_make_some() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = place(folder.path());
    let said = |paths: &[PathBuf]| report(&place, paths, None).expect_err("no records").to_string();
    assert!(said(&[]).contains("./pen bench --json >"), "{}", said(&[]));
    std::fs::create_dir(folder.path().join("lab")).expect("a folder");
    assert!(said(&[]).contains("there are no records in"), "{}", said(&[]));
    assert!(said(&[folder.path().join("not-there")]).contains("not-there"));
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn folders_are_searched_and_the_page_lands_in_the_target_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("lab");
    std::fs::create_dir_all(records.join("b/c")).expect("folders");
    std::fs::write(records.join("a.jsonl"), value("r", "v", 42.5)).expect("a file");
    std::fs::write(records.join("b/c/z.jsonl"), head("r", 1)).expect("a file");
    std::fs::write(records.join("b/notes.txt"), "no record").expect("a file");
    assert_eq!(read(std::slice::from_ref(&records)).expect("readable").files.len(), 2);
    report(&place(folder.path()), &[], None).expect("a report");
    let page = std::fs::read_to_string(folder.path().join("report.html")).expect("the page");
    assert!(page.contains(">42.5<"));
    let other = folder.path().join("new/page.html");
    report(&place(folder.path()), &[records], Some(&other)).expect("a report");
    assert!(other.exists());
}

#[test]
fn talks_are_a_drawing_and_a_table_with_the_same_figures() {
    let [store, scan] = [
        ["mail_store.v1", "mail", "main", "mail-store", "main"],
        ["scan.v1", "mail-store", "main", "mail-scan", "shadow"],
    ];
    let end = r#"{"kind":"end","run":"r","at_ns":4000000000}"#;
    let all = [
        head("r", 1),
        talk("r", store, 5),
        talk("r", scan, 11),
        talk("r", store, 7),
        end.to_string(),
    ];
    let page = page_of(&all.join("\n"));
    let drawing = page.split("<svg").nth(1).and_then(|it| it.split("</svg>").next());
    let drawing = drawing.expect("there is a drawing");
    assert_eq!(drawing.matches("<rect").count(), 2 + 3, "kernels and programs");
    assert_eq!(drawing.matches("<path").count(), 2, "talks of the same programs are one");
    for text in [
        "role=\"img\"",
        "3 programs on 2 kernels, with 2 arrows between them",
        ">mail_store.v1<",
        ">from mail-store on main<",
        "> to mail-scan<",
        ">\u{2192} 12 (12 kB)  \u{2190} 12 (120 B)  6/s<",
        ">\u{2192} 11 (11 kB)  \u{2190} 11 (110 B)  5.5/s<",
    ] {
        assert!(drawing.contains(text), "{text}: {drawing}");
    }
    let table = page.split("</svg>").nth(1).expect("there is a table");
    for cell in [">mail-scan<", ">shadow<", ">scan.v1<", ">12\u{2009}000<", ">110<", ">5.5/s<"] {
        assert!(table.contains(cell), "{cell}");
    }
    let turned: Vec<&str> = all.iter().rev().map(String::as_str).collect();
    let figures = |page: &str| page.split("<figure").nth(1).map(str::to_owned);
    assert_eq!(figures(&page_of(&turned.join("\n"))), figures(&page));
}

#[test]
fn a_board_outside_the_lab_has_no_model_and_no_costs() {
    let run = r#"{"kind":"run","run":"b-channels","scenario":"b","board":"b","mode":"board","#;
    let run = format!(r#"{run}"exact":false,"repetition":1}}"#);
    let report = of(&run);
    assert_eq!((report.problems.len(), report.setups.len()), (0, 1));
    assert!(page_of(&run).contains("outside the lab"));
    let of_lab = of(&run.replace(r#""mode":"board""#, r#""mode":"time""#));
    assert!(of_lab.problems[0].reason.starts_with("model is"), "{:?}", of_lab.problems);
    let costless = head("r", 1).replace(r#""costs":"zero","#, "");
    assert!(of(&costless).problems[0].reason.starts_with("costs are missing"));
}
