//! What compilers say about generated code: good code compiles without a warning in Rust and C, a
//! wrong order does not compile, and C's layouts are Rust's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod every;
mod random;

use contract::Contract;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder with sources, and what compilers make of them.
struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// Contains the SDK as the crate `penumbra`.
    fn new() -> Self {
        let workshop = Self { folder: tempfile::tempdir().unwrap() };
        let sdk = Path::new("../../sdk/rust/src/lib.rs").canonicalize().unwrap();
        let built = workshop.compile("penumbra", &sdk);
        assert!(built.status.success(), "{}", text(&built));
        workshop
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Compiles a library.
    fn rust(&self, name: &str, source: &str) -> Output {
        self.compile(name, &self.write(&format!("{name}.rs"), source))
    }

    fn compile(&self, name: &str, path: &Path) -> Output {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--edition", "2024", "--crate-type", "rlib", "-D", "warnings", "-L", "."]);
        command.args(["--crate-name", name]);
        command.args(["--extern", "penumbra"].iter().filter(|_| name != "penumbra"));
        command.arg(path).current_dir(self.folder.path()).output().unwrap()
    }

    /// Compiles and runs a program in C.
    fn c(&self, source: &str) -> String {
        let path = self.write("main.c", source);
        let program = self.folder.path().join("main");
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(path);
        let built = command.output().unwrap();
        assert!(built.status.success(), "{}", text(&built));
        let ran = Command::new(program).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the contracts of the tree and of these tests, and some random ones.
fn contracts() -> Vec<Contract> {
    let files = ["../../contracts", "tests/contracts"]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let mut all: Vec<Contract> = files.map(|file| Contract::read(&file).unwrap()).collect();
    for seed in 0..8 {
        let path = format!("tests/contracts/random.v{}.toml", seed + 1);
        all.push(Contract::parse(Path::new(&path), &random::contract(seed)).unwrap());
    }
    all
}

#[test]
fn generated_rust_compiles_without_warnings() {
    let workshop = Workshop::new();
    let mut source = "#![no_std]\n#![forbid(unsafe_code, missing_docs)]\n//! All.\n".to_string();
    for contract in contracts() {
        let name = contract.symbol();
        let path = workshop.write(&format!("{name}_source.rs"), &contract::module(&contract, ""));
        source += &format!("#[path = {path:?}]\npub mod {name};\n");
    }
    let built = workshop.rust("all", &source);
    assert!(built.status.success(), "{}", text(&built));
}

/// A client of ping.v1, in whose function a body is put.
const PROBE: &str = r#"#![no_std]
#[path = "ping_v1.rs"]
pub mod ping_v1;
use penumbra::channel::*;
use ping_v1::{client, message, server};
pub fn talk<T: Transport>(transport: T) -> Result<(), Error> {
    let ping = message::Ping { sequence: 1 };
    BODY
    Ok(())
}
pub fn serve<T: Transport>(transport: T) {
    server::start(transport).receive().ok();
}
"#;

#[test]
fn a_wrong_order_does_not_compile() {
    let workshop = Workshop::new();
    let code = contract::module(&contracts_ping(), "");
    workshop.write("ping_v1.rs", &code);
    let compile = |name: &str, body: &str| {
        let source = PROBE.replace("BODY", body);
        let output = workshop.rust(name, &source);
        (output.status.success(), text(&output))
    };
    let (compiles, errors) = compile(
        "good",
        "    let asked = client::start(transport).send_ping(&ping)?;\n\
         \x20   let client::received::Asked::Pong { next, .. } = asked.receive()?;\n\
         \x20   let client::received::Asked::Pong { next, .. } = next.call_ping(&ping)?;\n\
         \x20   next.send_bye(&message::Bye {})?.close();",
    );
    assert!(compiles, "{errors}");
    for (name, error, body) in [
        ("twice", "E0599", "client::start(transport).send_ping(&ping)?.send_ping(&ping)?;"),
        ("answered", "E0599", "client::start(transport).call_bye(&message::Bye {})?;"),
        ("early", "E0599", "client::start(transport).receive()?;"),
        ("closes", "E0599", "client::start(transport).send_ping(&ping)?.close();"),
        ("side", "E0599", "server::start(transport).send_ping(&ping)?;"),
        (
            "again",
            "E0382",
            "let idle = client::start(transport);\n    let _asked = idle.send_ping(&ping)?;\n\
             \x20   idle.close();",
        ),
        ("message", "E0308", "client::start(transport).send_bye(&ping)?.close();"),
        ("ignored", "unused", "client::start(transport).send_ping(&ping)?;"),
        ("dropped", "unused", "client::start(transport).send_ping(&ping)?.receive()?;"),
    ] {
        let (compiles, errors) = compile(name, body);
        assert!(!compiles && errors.contains(error), "{name}: {errors}");
    }
}

fn contracts_ping() -> Contract {
    Contract::read(Path::new("../../contracts/ping.v1.toml")).unwrap()
}

#[test]
fn all_headers_compile_together_without_warnings() {
    let workshop = Workshop::new();
    let mut source = String::new();
    for contract in contracts() {
        let name = format!("{}.h", contract.symbol());
        workshop.write(&name, &contract::header(&contract, ""));
        source += &format!("#include \"{name}\"\n#include \"{name}\"\n");
    }
    assert_eq!(workshop.c(&(source + "int main(void) { return 0; }\n")), "");
}

/// The functions that send and receive are for WASI; here, they are compiled only.
#[test]
fn all_calls_compile_together_without_warnings() {
    let workshop = Workshop::new();
    let mut source = "#include <penumbra_channel.h>\n".to_string();
    for contract in contracts() {
        let name = format!("{}.h", contract.symbol());
        workshop.write(&name, &contract::header(&contract, ""));
        source += &format!("#include \"{name}\"\n#include \"{name}\"\n");
    }
    source += "int answer(uint32_t end, struct ping_v1_received *reply);\n\
               int answer(uint32_t end, struct ping_v1_received *reply)\n{\n\
               \x20   const struct ping_v1_ping ping = {.sequence = 1};\n\
               \x20   return ping_v1_ping_call(end, &ping, reply);\n}\n";
    let path = workshop.write("calls.c", &source);
    let sdk = Path::new("../../sdk/c").canonicalize().unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-attributes", "-c", "-o", "calls.o"]);
    let built = cc.arg("-I").arg(sdk).arg(path).current_dir(workshop.folder.path()).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", text(&built));
}

/// Descriptions are text, whatever is in them.
#[test]
fn descriptions_do_not_become_code() {
    let about = r"x ///y [z] */ int a; /* *\\\n/ int b; /*\n#error c\n.";
    let file = random::contract(1).replace("\"Random.\"", &format!("\"{about}\""));
    let file = file.replace("[[state]]\n", &format!("[[state]]\nabout = \"{about}\"\n"));
    let file = file.replace("[[message]]\n", &format!("[[message]]\nabout = \"{about}\"\n"));
    let file = file.replace("{ name", &format!("{{ about = \"{about}\", name"));
    let path = Path::new("tests/contracts/random.v1.toml");
    let contract = Contract::parse(path, &file).unwrap();
    let workshop = Workshop::new();
    workshop.write("random.h", &contract::header(&contract, "*/ int d; /*"));
    let probe = "#include \"random.h\"\nstatic char a, b, d;\n\
                 int main(void) { return a + b + d; }\n";
    assert_eq!(workshop.c(probe), "");
    let built =
        workshop.rust("random", &format!("#![no_std]\n{}", contract::module(&contract, "")));
    assert!(built.status.success(), "{}", text(&built));
}

/// The message that has everything, made in C and in Rust, and read again in C.
#[test]
fn c_and_rust_have_one_layout() {
    let contract = Contract::read(Path::new("tests/contracts/every.v1.toml")).unwrap();
    let workshop = Workshop::new();
    workshop.write("every.h", &contract::header(&contract, ""));
    let printed = workshop.c(r#"
#include "every.h"
#include <stdio.h>

int main(void)
{
    struct every_v1_all all = {
        .tiny = -2, .medium = 0x1234, .name_length = 3, .name = "abc", .large = -3,
        .key = { 7, 8, 9 }, .small = 0x87654321, .flag = 1, .change = -300,
        .sum = UINT64_MAX - 1, .error = INT32_MIN,
    };
    struct every_v1_all read;
    uint8_t bytes[EVERY_V1_BYTES_ALL];
    if (!every_v1_all_encode(&all, bytes))
        return 1;
    if (!every_v1_all_decode(&read, bytes, sizeof(bytes)) || memcmp(&all, &read, sizeof(all)))
        return 2;
    if (every_v1_all_decode(&read, bytes, sizeof(bytes) - 1))
        return 3;
    for (size_t i = 0; i < sizeof(bytes); i++)
        printf("%02x", bytes[i]);
    bytes[4] = 6;
    if (every_v1_all_decode(&read, bytes, sizeof(bytes)))
        return 4;
    all.name_length = 6;
    if (every_v1_all_encode(&all, bytes))
        return 5;
    printf(" %d %d", EVERY_V1_TAG_SECOND, EVERY_V1_STATE_OVER);
    return 0;
}
"#);
    let bytes: String = every::all().encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(printed, format!("{bytes} 2 3"));
}
