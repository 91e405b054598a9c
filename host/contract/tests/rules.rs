//! Each rule of contracts has a file that breaks it, and one exact message.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use contract::{Contract, Type};
use std::path::Path;

/// A good contract. The bad ones differ from it in a line or two.
const GOOD: &str = r#"about = "A test."
start = "idle"
[[message]]
name = "ask"
from = "client"
fields = [{ name = "n", type = "u32" }]
block = "4 KiB"
[[message]]
name = "tell"
from = "server"
endpoints = [{ name = "more", contract = "other.v2", side = "client" }]
[[message]]
name = "leave"
from = "client"
[[state]]
name = "idle"
on.ask = "asked"
on.leave = "over"
[[state]]
name = "asked"
on.tell = "idle"
[[state]]
name = "over"
end = true
"#;

/// The folder that has `other.v2`.
const FOLDER: &str = "tests/contracts/";

fn parse_as(name: &str, text: &str) -> Result<Contract, String> {
    let parsed = Contract::parse(&Path::new(FOLDER).join(name), text);
    parsed.map_err(|wrong| wrong.to_string().replace(FOLDER, ""))
}

fn parse(text: &str) -> Result<Contract, String> {
    parse_as("test.v1.toml", text)
}

/// Returns the message for the good contract with a change.
fn refused(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    match parse(&GOOD.replace(from, to)) {
        Err(wrong) => wrong.strip_prefix("test.v1.toml:").unwrap_or(&wrong).to_string(),
        Ok(_) => panic!("{to} is accepted"),
    }
}

#[test]
fn the_good_contract_and_those_of_the_tree_pass() {
    let good = parse(GOOD).unwrap();
    assert_eq!((good.full_name().as_str(), good.symbol().as_str()), ("test.v1", "test_v1"));
    assert_eq!((good.messages[0].inline, good.messages[0].block), (4, Some(4096)));
    let entries = std::fs::read_dir("../../contracts").unwrap();
    let names: Vec<String> =
        entries.map(|it| Contract::read(&it.unwrap().path()).unwrap().full_name()).collect();
    assert!(names.contains(&"ping.v1".to_string()), "{names:?}");
    Contract::read(Path::new("../../examples/contract.v1.toml")).unwrap();
}

#[test]
fn the_hash_is_of_what_is_sent_and_not_of_descriptions() {
    let hash = |from, to| parse(&GOOD.replace(from, to)).unwrap().hash();
    let good = parse(GOOD).unwrap().hash();
    assert_eq!(hash("A test.", "Another text."), good);
    assert_eq!(hash("\nend", "\nabout = \"the end\"\nend"), good);
    let changes = [
        ("4 KiB", "8 KiB"),
        ("u32", "i32"),
        ("\"n\"", "\"m\""),
        ("\"ask\"\n", "\"pose\"\n"),
        ("\"more\"", "\"less\""),
        ("side = \"client\"", "side = \"server\""),
        ("\"idle\"\non.ask", "\"idle\"\nclose = true\non.ask"),
    ];
    for (from, to) in changes {
        let text = GOOD
            .replace(from, to)
            .replace("on.ask", if to.contains("pose") { "on.pose" } else { "on.ask" });
        assert_ne!(parse(&text).unwrap().hash(), good, "{to}");
    }
    assert_ne!(parse_as("test.v2.toml", GOOD).unwrap().hash(), good, "the version");
}

#[test]
fn both_sides_may_not_send_in_one_state() {
    assert_eq!(
        refused("on.ask = \"asked\"", "on.ask = \"asked\"\non.tell = \"over\""),
        "16: both sides may send in state \"idle\" (\"ask\" is the client's, \"tell\" the \
         server's), so messages could cross: split it into two states"
    );
}

#[test]
fn a_message_leads_to_one_state() {
    assert_eq!(
        refused("on.ask = \"asked\"", "on.ask = \"asked\"\non.ask = \"over\""),
        "18: duplicate key (docs/reference/contracts.md describes the format)"
    );
}

#[test]
fn states_are_reachable_and_messages_used() {
    assert_eq!(
        refused("on.leave = \"over\"\n", ""),
        "22: no conversation reaches state \"over\": let a message lead to it \
         (on.MESSAGE = \"over\"), or remove it"
    );
    assert_eq!(
        refused(
            "[[state]]\nname = \"idle\"",
            "[[message]]\nname = \"nod\"\nfrom = \"client\"\n[[state]]\nname = \"idle\""
        ),
        "16: no state allows message \"nod\": add it to a state (on.nod = \"STATE\") or remove it"
    );
}

#[test]
fn ends_are_marked_and_reached_or_explained() {
    assert_eq!(
        refused("on.tell = \"idle\"", ""),
        "20: state \"asked\" allows no message: add one (on.MESSAGE = \"STATE\"), or write \
         `end = true`"
    );
    assert_eq!(
        refused("on.tell = \"idle\"", "on.tell = \"idle\"\nend = true"),
        "20: state \"asked\" is an end, but allows messages: remove them, or `end = true`"
    );
    assert_eq!(
        refused("end = true", "end = true\nclose = true"),
        "23: state \"over\" is an end, where both sides may close the channel: remove `close`"
    );
    assert_eq!(
        refused("end = true", "on.leave = \"idle\""),
        "16: no end can be reached from state \"idle\": add a message that leads to one, or say \
         why there is none (perpetual = \"...\")"
    );
    assert_eq!(
        refused("on.tell = \"idle\"", "on.tell = \"idle\"\nperpetual = \"why not\""),
        "20: an end can be reached from state \"asked\": remove `perpetual`"
    );
    assert!(
        refused("end = true", "on.leave = \"idle\"\nperpetual = \" \"").contains("say why"),
        "an empty reason is none"
    );
}

#[test]
fn no_side_sends_forever() {
    assert_eq!(
        refused("on.leave = \"over\"", "on.leave = \"idle\""),
        "23: no conversation reaches state \"over\": let a message lead to it \
         (on.MESSAGE = \"over\"), or remove it"
    );
    assert_eq!(
        refused(
            "on.tell = \"idle\"",
            "on.ask = \"idle\"\non.leave = \"last\"\n[[state]]\nname = \"last\"\non.tell = \"over\""
        ),
        "16: the client can send forever without an answer (idle -ask-> asked -ask-> idle), so no \
         queue would be long enough: let the server answer on the way"
    );
    assert_eq!(
        refused("on.ask = \"asked\"", "on.ask = \"idle\"").split(": let").next(),
        Some("20: no conversation reaches state \"asked\"")
    );
}

#[test]
fn what_is_named_exists_once() {
    let known = "define it, or use one of: idle, asked, over";
    assert_eq!(
        refused("start = \"idle\"", "start = \"off\""),
        format!("2: there is no state \"off\": {known}")
    );
    assert_eq!(
        refused("on.ask = \"asked\"", "on.ask = \"off\""),
        format!("17: there is no state \"off\": {known}")
    );
    assert_eq!(
        refused("on.ask = \"asked\"", "on.nod = \"asked\""),
        "17: there is no message \"nod\": define it, or use one of: ask, tell, leave"
    );
    assert_eq!(
        refused("\"over\"\nend", "\"idle\"\nend"),
        "23: there are two states named \"idle\": rename one of them"
    );
    assert_eq!(
        refused("\"leave\"\nfrom", "\"ask\"\nfrom"),
        "13: there are two messages named \"ask\": rename one of them"
    );
    let two = refused("\"u32\" }", "\"u32\" }, { name = \"n\", type = \"u8\" }");
    assert_eq!(two, "6: there are two fields named \"n\": rename one of them");
    let length = refused(
        "type = \"u32\" }",
        "type = \"bytes[4]\" }, { name = \"n_length\", type = \"u8\" }",
    );
    assert_eq!(
        length,
        "6: \"n_length\" is what the length of another field is called in C: rename one of the two"
    );
}

#[test]
fn names_are_identifiers() {
    assert_eq!(
        refused("name = \"n\"", "name = \"Größe\""),
        "6: \"Größe\" is not a valid field name: use at most 31 of a-z, 0-9 and '_', in words that \
         begin with a letter"
    );
    assert_eq!(
        refused("name = \"n\"", "name = \"type\""),
        "6: \"type\" is a word of Rust, C or the generated code: rename the field"
    );
    for name in ["test.toml", "Test.v1.toml", "int.v1.toml", "test.v1", "test.v0.toml"] {
        assert_eq!(
            Contract::parse(Path::new(name), GOOD).unwrap_err().to_string(),
            format!(
                "{name}:1: \"{name}\" is not the file of a contract: call it NAME.vN.toml, where \
                 NAME has at most 31 of a-z, 0-9 and '_', in words that begin with a letter, and \
                 is no keyword of Rust or C, and N is a number from 1 to 65535"
            )
        );
    }
}

#[test]
fn messages_have_limits() {
    assert_eq!(
        refused("u32", "u128"),
        "6: \"u128\" is not a field type: use u8, u16, u32, u64, i8, i16, i32, i64, u8[N] (N \
         bytes) or bytes[N] (0 to N bytes)"
    );
    for bad in ["u8[]", "u8[0]", "u8[01]", "u16[4]", "bytes", "bytes[70000]", "u8[4", "", "f32"] {
        assert_eq!(Type::parse(bad), None, "{bad}");
    }
    assert_eq!(
        refused("u32", "u8[2049]"),
        "4: message \"ask\" has 2049 inline bytes, 2048 are the most: move what is long to a block"
    );
    for bad in ["17 MiB", "0 B", "4KiB", "4 KB", "-1 B", "+1 B", "01 B", "5000 MiB"] {
        assert_eq!(
            refused("4 KiB", bad),
            format!(
                "7: \"{bad}\" is not a valid block length: write \"N B\", \"N KiB\" or \"N MiB\", \
                 from 1 B to 16 MiB"
            )
        );
    }
    let endpoint = "{ name = \"more\", contract = \"other.v2\", side = \"client\" }";
    let three: Vec<String> =
        (0..3).map(|at| endpoint.replace("more", &format!("more{at}"))).collect();
    assert_eq!(
        refused(endpoint, &three.join(", ")),
        "9: message \"tell\" carries more than 2 endpoints: send them in several messages"
    );
}

#[test]
fn there_are_one_to_64_states_and_messages() {
    assert_eq!(
        parse("about = \"\"\nstart = \"a\"").unwrap_err(),
        "test.v1.toml:1: there are 0 messages: write 1 to 64"
    );
    let chain = |count: usize| {
        let mut text = "about = \"\"\nstart = \"s0\"\n".to_string();
        for side in ["client", "server"] {
            text += &format!("[[message]]\nname = \"{side}\"\nfrom = \"{side}\"\n");
        }
        for state in 0..count - 1 {
            let side = ["client", "server"][state % 2];
            text += &format!("[[state]]\nname = \"s{state}\"\non.{side} = \"s{}\"\n", state + 1);
        }
        text + &format!("[[state]]\nname = \"s{}\"\nend = true\n", count - 1)
    };
    assert_eq!(parse(&chain(64)).unwrap().states.len(), 64);
    assert_eq!(
        parse(&chain(65)).unwrap_err(),
        "test.v1.toml:1: there are 65 states: write 1 to 64"
    );
}

#[test]
fn keys_are_known_and_complete() {
    let unknown = refused("about", "aboot");
    assert!(
        unknown.starts_with("1: unknown field `aboot`, expected one of `about`, `start`"),
        "{unknown}"
    );
    assert_eq!(
        refused("start = \"idle\"\n", ""),
        "1: missing field `start` (docs/reference/contracts.md describes the format)"
    );
    assert_eq!(
        refused("\"tell\"\nfrom = \"server\"", "\"tell\"\nfrom = \"both\""),
        "10: unknown variant `both`, expected `client` or `server` (docs/reference/contracts.md \
         describes the format)"
    );
    let missing = Contract::read(Path::new("none.v1.toml")).unwrap_err().to_string();
    assert!(
        missing.starts_with("none.v1.toml:1: cannot read the contract: No such file")
            && missing.ends_with(
                "; name a file NAME.vN.toml, or make one with `./pen new contract NAME`"
            ),
        "{missing}"
    );
}

/// A folder of contracts, each of which carries endpoints of others.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes the contract `name`, which carries two endpoints of each one in `carried`.
    fn write(&self, name: &str, carried: &[&str]) {
        let message = |(at, carried): (usize, &&str)| {
            let endpoint =
                |name| format!(r#"{{ name = "{name}", contract = "{carried}", side = "client" }}"#);
            let endpoints = ["a", "b"].map(endpoint).join(", ");
            let head = format!("[[message]]\nname = \"carry{at}\"\nfrom = \"server\"\n");
            head + &format!("endpoints = [{endpoints}]\n")
        };
        let own = GOOD.lines().find(|line| line.starts_with("endpoints")).unwrap();
        let messages: String = carried.iter().enumerate().map(message).collect();
        let allowed: String =
            (0..carried.len()).map(|at| format!("on.carry{at} = \"idle\"\n")).collect();
        let text = GOOD.replace(&format!("{own}\n"), "");
        let text = text.replacen("[[state]]", &(messages + "[[state]]"), 1);
        let text = text.replace("on.tell", &(allowed + "on.tell"));
        std::fs::write(self.0.path().join(format!("{name}.toml")), text).unwrap();
    }

    fn read(&self, name: &str) -> Result<Contract, String> {
        let wrong = Contract::read(&self.0.path().join(format!("{name}.toml")));
        wrong.map_err(|it| it.to_string().replace(&format!("{}/", self.0.path().display()), ""))
    }
}

#[test]
fn carried_contracts_exist_and_do_not_carry_each_other() {
    let folder = Folder::new();
    folder.write("one.v1", &["two.v1"]);
    folder.write("two.v1", &[]);
    let before = folder.read("one.v1").unwrap().hash();
    folder.write("three.v1", &[]);
    folder.write("two.v1", &["three.v1"]);
    assert_ne!(folder.read("one.v1").unwrap().hash(), before, "a hash covers carried contracts");

    folder.write("two.v1", &["one.v1"]);
    assert_eq!(
        folder.read("one.v1").unwrap_err(),
        "two.v1.toml:17: contracts carry endpoints of each other (one.v1 -> two.v1 -> one.v1), and \
         ends that are queued in each other could never be freed: carry the endpoint in one \
         direction only"
    );
    folder.write("two.v1", &["two.v1"]);
    let own = "two.v1.toml:17: two.v1 carries an endpoint of its own kind, and ends that are \
               queued in each other could never be freed: carry it by a message of another \
               contract";
    assert_eq!(folder.read("two.v1").unwrap_err(), own);
    assert_eq!(folder.read("one.v1").unwrap_err(), own, "also where it is carried");
    folder.write("two.v1", &["four.v1"]);
    assert_eq!(
        folder.read("one.v1").unwrap_err(),
        "two.v1.toml:17: there is no contract \"four.v1\": define it, or use one of: one.v1, \
         three.v1, two.v1"
    );
    folder.write("two.v1", &["two"]);
    assert_eq!(
        folder.read("two.v1").unwrap_err(),
        "two.v1.toml:17: \"two\" is not the name of a contract: write NAME.vN, its file name \
         without .toml"
    );
}

/// Each contract carries 4 endpoints of the two before it. If a file were read for each endpoint,
/// the last contract would need thousands of readings.
#[test]
fn a_level_is_one_more_than_the_highest_carried_one_and_at_most_7() {
    let folder = Folder::new();
    let names: Vec<String> = (0..9).map(|level| format!("level{level}.v1")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (level, name) in names.iter().enumerate() {
        folder.write(name, &names[level.saturating_sub(2)..level]);
    }
    for (level, name) in names[..8].iter().enumerate() {
        let contract = folder.read(name).unwrap();
        assert_eq!(usize::from(contract.automaton.level()), level);
        let shown = contract::summary(&contract).contains(&format!("; level {level};"));
        assert_eq!(shown, level > 0);
    }
    assert_eq!(
        folder.read(names[8]).unwrap_err(),
        "level8.v1.toml:21: level8.v1 would have a level above 7, because more than 8 contracts in \
         a row each carry an endpoint of the next: make the row shorter"
    );
}

/// The row is too long before the levels of its contracts are known.
#[test]
fn a_long_row_of_contracts_is_not_read_to_its_end() {
    let folder = Folder::new();
    for at in 0..20 {
        folder.write(&format!("c{at}.v1"), &[&format!("c{}.v1", at + 1)]);
    }
    let wrong = folder.read("c0.v1").unwrap_err();
    assert!(wrong.starts_with("c7.v1.toml:17: c0.v1 would have a level above 7,"), "{wrong}");
}
