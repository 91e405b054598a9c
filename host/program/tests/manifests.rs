//! Manifests: accepted ones, rejected ones with their errors, and the round trip through a sealed
//! image.

use abi::boot::isa;
use abi::platform;
use abi::program::right;
use program::{
    Affinity, Class, Endpoint, Limits, Manifest, Movable, Platforms, Preopen, Refused, Signals, To,
    cache_name, open, seal, source_hash,
};

const FULL: &str = r#"
args = ["-v", "two words"]
preopens = ["/data:rw", "/bin=tools:r"]
grants = ["/etc:r"]
memory = "64 MiB"
class = "light"
platforms = { required = ["aarch64"], preferred = ["weak", "strong"] }
endpoints = [
    { contract = "echo.v1", affinity = -5 },
    { contract = "disk.v12" },
    { contract = "scan.v1", affinity = "self" },
    { name = "service/net", affinity = "positive" },
]
limits = { files = 32, tree_files = 100, tree_processes = 8 }
signals = "all"
movable = true
net = ["connect:*:443", "listen:80"]
listen = ["tcp:80"]

[env]
HOME = "/data"
EMPTY = ""
"#;

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse("it.toml", text).map_err(|e| e.to_string())
}

#[test]
fn all_of_it_is_read() {
    let found = parse(FULL).unwrap();
    let endpoint = |name: &str, affinity| {
        let to = To::Contract { name: name.into(), hash: None };
        Endpoint { to, affinity }
    };
    let preopen = |path: &str, name: &str, write| Preopen {
        path: path.to_string(),
        name: name.to_string(),
        write,
    };
    let wanted = Manifest {
        args: vec!["-v".to_string(), "two words".to_string()],
        env: vec![("EMPTY".into(), "".into()), ("HOME".into(), "/data".into())],
        preopens: Some(vec![preopen("/data", "/data", true), preopen("/bin", "tools", false)]),
        grants: vec![preopen("/etc", "/etc", false)],
        net: Some(vec!["connect:*:443".to_string(), "listen:80".to_string()]),
        listen: vec![80],
        signals: Signals::All,
        memory: 64 << 20,
        class: Class::Light,
        movable: Movable::Anywhere,
        platforms: Platforms { required: platform::AARCH64, preferred: 0x48 },
        endpoints: vec![
            endpoint("echo.v1", Affinity::Value(-5)),
            endpoint("disk.v12", Affinity::Value(0)),
            endpoint("scan.v1", Affinity::Own),
            Endpoint { to: To::Name("service/net".into()), affinity: Affinity::Value(1) },
        ],
        limits: Limits { files: 32, tree_files: 100, tree_processes: 8 },
    };
    assert_eq!(found, wanted);
}

#[test]
fn every_field_may_be_left_out() {
    assert_eq!(parse(""), Ok(Manifest::default()));
    assert_eq!(parse("limits = {}"), Ok(Manifest::default()));
    assert_eq!(parse("preopens = []\nlimits = { files = 3 }").unwrap().preopens, Some(vec![]));
    assert_eq!(parse("net = []").unwrap().net, Some(vec![]));
    assert_eq!(Manifest::default().class, Class::Normal);
    assert_eq!(parse("movable = \"calls\"").unwrap().movable, Movable::Calls);
    assert_eq!(parse("movable = false"), Ok(Manifest::default()));
}

/// Each error names the line, the field and the allowed values.
#[test]
fn refusals_say_where_what_and_what_instead() {
    let size = "a size such as \"64 MiB\"";
    for (text, wanted) in [
        ("\narg = []", &["it.toml:2: ", "no field \"arg\"", "args, class, endpoints, env"][..]),
        ("movable = \"yes\"", &["\"movable\" is \"yes\"", "true, false, or \"calls\""]),
        ("args = \"-v\"", &["it.toml:1: ", "\"args\" is \"-v\"", "a list of texts"]),
        ("args = [\"-v\",\n3]", &["it.toml:2: ", "\"args[1]\" is 3", "a list of texts"]),
        ("args = [\"a\\u0000\"]", &["\"args[0]\"", "without NUL"]),
        ("[env]\nA = 1", &["it.toml:2: ", "\"env.A\" is 1", "texts"]),
        ("[env]\n\"A=B\" = \"\"", &["it.toml:2: ", "no '='"]),
        ("env = [\"A=1\"]", &["\"env\" is a list", "HOME = "]),
        ("preopens = [\"/data\"]", &["\"preopens[0]\" is \"/data\"", "RIGHTS is r or rw"]),
        ("preopens = [\"/data:x\"]", &["\"/data:x\"", "r or rw"]),
        ("preopens = [\"data:r\"]", &["begins with '/'"]),
        ("preopens = [\"/a/../b:r\"]", &["no '..'"]),
        ("preopens = [\"/a=:r\"]", &["PATH=NAME:RIGHTS"]),
        ("preopens = [\"/a:r\", \"/b=/a:rw\"]", &["\"preopens\" has the name \"/a\" twice"]),
        ("grants = [\"/etc\"]", &["\"grants[0]\" is \"/etc\"", "RIGHTS is r or rw"]),
        ("preopens = [\"/a:r\"]\ngrants = [\"/a:rw\"]", &["\"grants\" has the name \"/a\" twice"]),
        ("memory = 64", &["\"memory\" is 64", size]),
        ("memory = \"64MB\"", &["\"memory\" is \"64MB\"", size]),
        ("memory = \"1 KiB\"", &["a multiple of 64 KiB"]),
        ("memory = \"5 GiB\"", &["4 GiB at most"]),
        ("memory = \"99999999999 GiB\"", &["4 GiB at most"]),
        ("class = \"heavy\"", &["\"class\" is \"heavy\"", "\"normal\"", "\"light\""]),
        ("class = 2020-01-01", &["\"class\" is a time"]),
        ("endpoints = [{ affinity = 5 }]", &["\"endpoints[0].contract\" is missing", "ping.v1"]),
        ("endpoints = [{ contract = \"A.v1\" }]", &["\"endpoints[0].contract\" is \"A.v1\""]),
        ("endpoints = [{ contract = \"a\" }]", &["is \"a\"", "with its version"]),
        ("endpoints = [{ contract = \"a.v01\" }]", &["is \"a.v01\"", "with its version"]),
        ("endpoints = [{ contract = \"a.v1\", affinity = 101 }]", &["is 101", "-100 to 100"]),
        (
            "endpoints = [\n{ contract = \"a.v1\", affinity = \"near\" }]",
            &["it.toml:2: ", "\"endpoints[0].affinity\" is \"near\"", "\"positive\" (near"],
        ),
        ("endpoints = [{ contract = \"a.v1\", near = 1 }]", &["no field \"endpoints[0].near\""]),
        (
            "endpoints = [{ contract = \"a.v1\" }, { contract = \"a.v1\" }]",
            &["\"endpoints\" has the contract \"a.v1\" twice"],
        ),
        ("endpoints = [{ name = \"a/b\" }, { name = \"a/b\" }]", &["has the name \"a/b\" twice"]),
        ("endpoints = [{ name = \"/name/a\" }]", &["\"endpoints[0].name\" is \"/name/a\""]),
        (
            "endpoints = [{ name = \"a\", contract = \"a.v1\" }]",
            &["\"endpoints[0].contract\" is \"a.v1\"", "one of them"],
        ),
        (
            "endpoints = [{ name = \"a\", affinity = \"self\" }]",
            &["\"endpoints[0].affinity\" is \"self\"", "for contracts"],
        ),
        ("platforms = [\"weak\"]", &["\"platforms\" is a list", "{ required = [\"aarch64\"]"]),
        ("platforms = { needed = [] }", &["no field \"platforms.needed\"; there are: preferred"]),
        (
            "platforms = { required = [\n\"x86\"] }",
            &["it.toml:2: ", "\"platforms.required[0]\" is \"x86\"", "\"riscv64\", \"strong\""],
        ),
        ("platforms = { preferred = \"weak\" }", &["\"platforms.preferred\" is \"weak\""]),
        (
            "platforms = { preferred = [\"weak\", \"weak\"] }",
            &["\"platforms.preferred\" has weak twice"],
        ),
        (
            "platforms = { required = [\"aarch64\", \"riscv64\"] }",
            &[
                "\"platforms.required\" is a list",
                "a kernel must have all of them, and has one ISA",
            ],
        ),
        ("limits = { file = 3 }", &["no field \"limits.file\"; there are: files, tree_files"]),
        ("limits = { files = 3 }", &["\"limits.files\" is 3", "`/` where none are named"]),
        ("preopens = [\"/a:r\", \"/b:r\"]\nlimits = { files = 4 }", &["is 4", "room for"]),
        ("net = [\"bind:80\"]", &["\"net[0]\"", "\"bind:80\"", "connect:HOST:PORT"]),
        ("net = [\"connect:*\"]", &["connect:HOST:PORT"]),
        ("listen = [\"udp:80\"]", &["\"listen[0]\"", "tcp:PORT"]),
        ("signals = \"none\"", &["\"signals\" is \"none\"", "\"own\"", "\"all\""]),
        ("limits = { tree_files = 4 }", &["is 4", "one more than", "8192"]),
        ("limits = { tree_files = 8193 }", &["is 8193", "8192"]),
        ("limits = { tree_processes = 0 }", &["is 0", "1 (itself) to 128"]),
        ("limits = { tree_processes = 129 }", &["is 129", "1 (itself) to 128"]),
        ("limits = 3", &["\"limits\" is 3", "{ files = 32, tree_processes = 8 }"]),
        ("args = [", &["it.toml:1: "]),
    ] {
        let why = parse(text).unwrap_err();
        for part in wanted {
            assert!(why.contains(part), "{text:?} gave: {why}; {part:?} is missing");
        }
    }
}

#[test]
fn too_much_is_refused() {
    let many = format!("args = [{}]", "\"a\",".repeat(65));
    assert!(parse(&many).unwrap_err().contains("at most 64"));
    let long = format!("args = [\"{}\"]", "a".repeat(9000));
    assert!(parse(&long).unwrap_err().contains("9001 bytes together; at most 8192"));
}

#[test]
fn a_manifest_and_code_go_through_an_image() {
    let (key, code) = ([3; 32], vec![0x5a; 5000]);
    let mut manifest = parse(FULL).unwrap();
    manifest.resolve(|name| Ok::<_, ()>([name.len() as u8; 16])).unwrap();
    let hash = source_hash(b"\0asm");
    let file = seal(&code, &manifest, isa::RISCV64, hash, &key).unwrap();
    let found = open(&file, isa::RISCV64, &key).unwrap();
    assert_eq!(found.args, ["-v", "two words"]);
    assert_eq!(found.env, ["EMPTY=", "HOME=/data"]);
    let of = |path: &str, name: &str, write| (path.to_string(), name.to_string(), write, false);
    let (path, name, ..) = of("/etc", "/etc", false);
    let directories =
        [of("/data", "/data", true), of("/bin", "tools", false), (path, name, false, true)];
    assert_eq!(found.preopens, directories);
    assert_eq!(found.endpoints, manifest.endpoints);
    assert_eq!(found.platforms, manifest.platforms);
    assert_eq!((found.memory, found.files), (64 << 20, 32));
    assert_eq!((found.tree_files, found.tree_processes), (100, 8));
    assert_eq!(found.rights, right::SIGNALS, "directories that it names, and not the root");
    assert_eq!((found.class, found.source), (abi::program::class::LIGHT, hash));
    assert_eq!(found.code, code);
    assert_eq!(open(&file, isa::AARCH64, &key), Err(Refused::Isa));
    assert_eq!(open(&file, isa::RISCV64, &[4; 32]), Err(Refused::Seal));
}

#[test]
fn contracts_are_looked_up_by_name() {
    let text = "endpoints = [{ contract = \"a.v1\" }, { contract = \"storage_access.v2\" }]";
    let mut manifest = parse(text).unwrap();
    let why = manifest.resolve(|name| match name {
        "a.v1" => Ok([1; 16]),
        other => Err(other.to_string()),
    });
    assert_eq!(why, Err("storage_access.v2".to_string()));
    let words = "endpoints = [{ contract = \"a.v1\", affinity = \"positive\" }, \
                 { contract = \"b.v1\", affinity = \"negative\" }]";
    let found = parse(words).unwrap().endpoints.iter().map(|it| it.affinity).collect::<Vec<_>>();
    assert_eq!(found, [Affinity::Value(1), Affinity::Value(-1)]);
}

/// Even with the hashes that are not known yet.
#[test]
fn what_is_accepted_fits_an_image() {
    let one = |n: usize| format!("{{ contract = \"a{n:030}.v60000\" }},");
    let endpoints: String = (0..64).map(one).collect();
    let args = |bytes| format!("args = [\"{}\"]\nendpoints = [{endpoints}]", "a".repeat(bytes));
    let each = "0 ".len() + 31 + ".v60000".len() + " \0".len() + 32;
    let room = abi::program::IMAGE_STRINGS - 64 * each - 1;
    let mut most = parse(&args(room)).unwrap();
    most.resolve(|_| Ok::<_, ()>([0xff; 16])).unwrap();
    assert!(seal(b"code", &most, isa::RISCV64, [0; 32], &[3; 32]).is_ok());
    assert!(parse(&args(room + 1)).unwrap_err().contains("at most 8192"));
}

#[test]
fn kept_code_has_a_name_of_its_own() {
    let name = cache_name(b"\0asm", "aarch64", "it");
    assert_eq!(name, cache_name(b"\0asm", "aarch64", "it"));
    assert_eq!(name.len(), 64);
    assert_ne!(name, cache_name(b"\0asm", "riscv64", "it"));
    assert_ne!(name, cache_name(b"\0asn", "aarch64", "it"));
    assert_ne!(name, cache_name(b"\0asm", "aarch64", "another"));
}
