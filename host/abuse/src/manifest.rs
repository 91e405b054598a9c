//! Manifests of programs. The input is the text. Rules:
//! - nothing panics;
//! - an error names a line of the text, and says something;
//! - a manifest that is accepted parses to the same when it is printed;
//! - the image sealed with it gives a kernel what it says.

use crate::{Target, mutate};
use abi::boot::isa;
use abi::platform;
use base::prng::Prng;
use program::{
    Affinity, Class, Limits, Manifest, ManifestError, Opened, Platforms, Preopen, Reason, Signals,
    To,
};
use toml::{Table, Value};

pub const TARGET: Target = Target {
    name: "manifest",
    about: "manifests of programs",
    daily: 4000,
    nightly: 200_000,
    run: |bytes| judge(bytes, Manifest::parse),
    seed,
    outcomes: || {
        vec![
            (0, "accepted"),
            (2, "syntax"),
            (3, "unknown field"),
            (4, "missing field"),
            (5, "value"),
            (6, "twice"),
        ]
    },
};

/// Bytes of a text that is read.
const LONGEST: usize = 1 << 16;

const VALID: &str = r#"args = ["-v", "/data"]
class = "light"
memory = "64 MiB"
signals = "all"
preopens = ["/data:rw", "/bin=tools:r"]
net = ["connect:*:443", "listen:80"]
listen = ["tcp:80", "tcp:443"]
grants = ["/etc=config:r"]
endpoints = [{ contract = "b_c.v9", affinity = -100 }, { name = "service/net", affinity = 5 }]
platforms = { required = ["riscv64"], preferred = ["weak", "aarch64"] }
[limits]
files = 32
tree_files = 300
tree_processes = 20
[env]
HOME = "/data"
"A B" = "two words"
"#;
const WORDS: &[&str] = &[
    "\"normal\"",
    "\"own\"",
    "\"\\u0000\"",
    "[]",
    "{}",
    "[\"/x:rw\", \"/y=/x:r\"]",
    "[\"/data:r\", \"/data:rw\"]",
    "[\"/..:r\"]",
    "{ files = 3 }",
    "{ files = 1025 }",
    "{ tree_files = 9000 }",
    "{ tree_processes = 0 }",
    "true",
    "1.5",
    "1979-05-27",
    "{ contract = \"x.v1\" }",
    "[{ contract = \"x.v1\", affinity = \"self\" }]",
    "[{ name = \"a/b\", affinity = 3 }]",
    "[{ affinity = 3 }]",
    "\"positive\"",
    "\"strong\"",
    "{ required = [\"weak\"] }",
    "[{ affinity = 1 }]",
    "\"4 GiB\"",
    "\"5 GiB\"",
    "\"\"",
    "\"é\"",
    "[env]",
    "[[endpoints]]",
    "contract = \"c.v1\"",
    "\"=\"",
    "ends = \"\"",
    "'''",
    "\\",
    "18446744073709551615 GiB",
    "\"18446744073709551615 KiB\"",
];

type Parse = fn(&str, &str) -> Result<Manifest, ManifestError>;

fn judge(bytes: &[u8], parse: Parse) -> u64 {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    match parse("it.toml", &text) {
        Ok(manifest) => {
            let again = parse("printed.toml", &printed(&manifest));
            assert_eq!(again.as_ref(), Ok(&manifest), "it was printed as another one");
            sealed(&manifest);
            1
        }
        Err(error) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&error.line), "{error}: there are {lines} lines");
            assert!(!error.reason.to_string().is_empty());
            1 << reason(&error.reason)
        }
    }
}

fn reason(reason: &Reason) -> u32 {
    match reason {
        Reason::Unreadable(_) => 1,
        Reason::Syntax(_) => 2,
        Reason::Unknown { .. } => 3,
        Reason::Missing { .. } => 4,
        Reason::Value { .. } => 5,
        Reason::Twice { .. } => 6,
        Reason::Large { .. } => 7,
    }
}

/// Returns the text of a manifest.
fn printed(manifest: &Manifest) -> String {
    let texts =
        |all: &mut dyn Iterator<Item = String>| Value::Array(all.map(Value::String).collect());
    let mut table = Table::new();
    let mut put = |name: &str, value: Value| drop(table.insert(name.to_string(), value));
    put("args", texts(&mut manifest.args.iter().cloned()));
    let env = manifest.env.iter().map(|(name, value)| (name.clone(), value.clone().into()));
    put("env", Value::Table(env.collect()));
    let directory =
        |it: &Preopen| format!("{}={}:{}", it.path, it.name, if it.write { "rw" } else { "r" });
    if let Some(all) = &manifest.preopens {
        put("preopens", texts(&mut all.iter().map(directory)));
    }
    if let Some(rules) = &manifest.net {
        put("net", texts(&mut rules.iter().cloned()));
    }
    put("listen", texts(&mut manifest.listen.iter().map(|port| format!("tcp:{port}"))));
    put("grants", texts(&mut manifest.grants.iter().map(directory)));
    put("signals", (if manifest.signals == Signals::All { "all" } else { "own" }).into());
    put("class", (if manifest.class == Class::Light { "light" } else { "normal" }).into());
    if manifest.memory != 0 {
        put("memory", format!("{} KiB", manifest.memory >> 10).into());
    }
    let Limits { files, tree_processes, tree_files } = manifest.limits;
    let limits = [
        ("files", files),
        ("tree_processes", tree_processes.into()),
        ("tree_files", tree_files.into()),
    ];
    let set = limits.into_iter().filter(|(_, limit)| *limit != 0);
    put("limits", Value::Table(set.map(|(name, limit)| (name.into(), limit.into())).collect()));
    let endpoints = manifest.endpoints.iter().map(|it| {
        let (field, name) = match &it.to {
            To::Contract { name, .. } => ("contract", name),
            To::Name(name) => ("name", name),
        };
        let affinity = match it.affinity {
            Affinity::Value(value) => value.into(),
            Affinity::Own => "self".into(),
        };
        Value::Table(Table::from_iter([
            (field.to_string(), name.clone().into()),
            ("affinity".into(), affinity),
        ]))
    });
    put("endpoints", Value::Array(endpoints.collect()));
    let Platforms { required, preferred } = manifest.platforms;
    let preferred = platform::unpack(preferred).flat_map(platform::names);
    let platforms = [
        ("required".to_string(), texts(&mut platform::names(required).map(str::to_string))),
        ("preferred".to_string(), texts(&mut preferred.map(str::to_string))),
    ];
    put("platforms", Value::Table(platforms.into_iter().collect()));
    toml::to_string(&table).expect("it can be printed")
}

/// Checks that a kernel finds in the image what the manifest says.
fn sealed(manifest: &Manifest) {
    let (key, isa) = ([3; program::KEY], isa::RISCV64);
    let file = program::seal(b"code", manifest, isa, [1; 32], &key).expect("it can be sealed");
    let image = program::open(&file, isa, &key).expect("it is accepted");
    let Opened { args, env, preopens, endpoints, platforms, memory, class, .. } = image;
    let Opened { files, tree_processes, tree_files, net, listen, .. } = image;
    assert_eq!((listen, platforms), (manifest.listen.clone(), manifest.platforms.clone()));
    assert_eq!(net, manifest.net.clone().unwrap_or_default());
    assert_eq!((args, endpoints), (manifest.args.clone(), manifest.endpoints.clone()));
    let variables = manifest.env.iter().map(|(name, value)| format!("{name}={value}"));
    assert_eq!(env, variables.collect::<Vec<_>>());
    let named = manifest.preopens.iter().flatten().map(|it| (it, false));
    let granted = manifest.grants.iter().map(|it| (it, true));
    let opened = named.chain(granted);
    let opened = opened.map(|(it, grant)| (it.path.clone(), it.name.clone(), it.write, grant));
    assert_eq!(preopens, opened.collect::<Vec<_>>());
    assert_eq!(memory, manifest.memory);
    assert_eq!(Limits { files, tree_processes, tree_files }, manifest.limits);
    assert_eq!(class, manifest.class.number());
}

fn seed(seed: u64) -> Vec<u8> {
    mutate::text(&mut Prng::new(seed), VALID, WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser that loses a digit of a size, and one that blames a line too far down.
    #[test]
    fn parsers_with_a_mistake_are_found() {
        let smaller: Parse = |file, text| {
            let mut manifest = Manifest::parse(file, text)?;
            manifest.memory &= !(1 << 16);
            manifest.memory |= u64::from(file == "it.toml") << 16;
            Ok(manifest)
        };
        let below: Parse = |file, text| {
            Manifest::parse(file, text).map_err(|error| ManifestError { line: 99, ..error })
        };
        for parse in [smaller, below] {
            let found = (0..50)
                .any(|number| std::panic::catch_unwind(|| judge(&seed(number), parse)).is_err());
            assert!(found);
        }
    }
}
