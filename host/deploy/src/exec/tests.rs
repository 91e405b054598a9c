//! A program's life as seen by the host; the test plays the board.

use super::*;
use abi::host::{Exec, Frame};
use abi::program::{ANY_KERNEL, ARGUMENTS};
use board::Isa;
use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::net::UnixStream;

fn line(arguments: &[&str], env: &[&str]) -> Line {
    let own = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    Line {
        on: None,
        env: own(env),
        dir: vec![],
        listen: vec![],
        manifest: None,
        board: None,
        program: "it".into(),
        arguments: own(arguments),
    }
}

/// Returns the next frame from the host.
fn frame(from: &mut impl Read) -> (Kind, Vec<u8>) {
    let mut head = [0; size_of::<Frame>()];
    from.read_exact(&mut head).unwrap();
    let (kind, bytes) = Frame::read_from_bytes(&head).unwrap().parse().unwrap();
    let mut data = vec![0; bytes];
    from.read_exact(&mut data).unwrap();
    (kind, data)
}

fn answer(to: &mut UnixStream, kind: Kind, data: &[u8]) {
    to.write_all(Frame::new(kind, data.len()).as_bytes()).unwrap();
    to.write_all(data).unwrap();
}

fn exit(kind: u32, status: u32) -> Exit {
    Exit { kind: kind.into(), status: status.into() }
}

/// Runs a program against a board that reads all input, then does what `board` does. Returns the
/// exit code, the output and the errors.
fn played(
    input: &'static [u8],
    board: impl FnOnce(&mut UnixStream) + Send + 'static,
) -> (anyhow::Result<u8>, String, String) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let side = std::thread::spawn(move || {
        let mut reader = std::io::BufReader::new(theirs.try_clone().unwrap());
        let mut hello = String::new();
        reader.read_line(&mut hello).unwrap();
        theirs.write_all(b"OK 1\n").unwrap();
        assert_eq!(frame(&mut reader).0, Kind::Exec);
        let mut echo = vec![];
        while let (Kind::Data, data) = frame(&mut reader) {
            echo.extend(data);
        }
        answer(&mut theirs, Kind::Out, &echo);
        board(&mut theirs);
    });
    let mut stream = Stream::on(ours, "test").unwrap();
    let session = Session::default();
    begin(
        &mut stream,
        (&[], &request(&line(&[], &[]), Some("it"), "it", ANY_KERNEL).unwrap()),
        &Serving::default(),
        &session,
    )
    .unwrap();
    super::input(input, &session);
    let (mut out, mut err) = (vec![], vec![]);
    let code = output(&mut stream, "it", &mut out, &mut err);
    side.join().unwrap();
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn input_goes_there_and_output_comes_back() {
    let (code, out, err) = played(b"to and fro\n", |board| {
        answer(board, Kind::Err, b"warning\n");
        answer(board, Kind::Out, b"more");
        answer(board, Kind::Exit, exit(End::Exit as u32, 3).as_bytes());
    });
    assert_eq!((code.unwrap(), out.as_str(), err.as_str()), (3, "to and fro\nmore", "warning\n"));
}

#[test]
fn a_program_that_did_not_begin_says_why() {
    let (code, ..) = played(b"", |board| answer(board, Kind::Failed, b"no such program"));
    assert!(format!("{:#}", code.unwrap_err()).contains("test: no such program"));
}

#[test]
fn a_board_that_ends_or_talks_nonsense_is_no_success() {
    let (code, ..) = played(b"", |_| {});
    assert!(format!("{:#}", code.unwrap_err()).contains("ended the stream"));
    let (code, ..) = played(b"", |board| answer(board, Kind::Push, b""));
    assert!(code.is_err());
    let (code, ..) = played(b"", |board| answer(board, Kind::Exit, b"short"));
    assert!(code.is_err());
}

#[test]
fn each_end_has_its_exit_code() {
    for (kind, status, code, said) in [
        (End::Exit as u32, 0, 0, ""),
        (End::Exit as u32, 7, 7, ""),
        (End::Exit as u32, 256 + 7, 7, ""),
        (End::Signal as u32, 2, 130, ""),
        (End::Signal as u32, 15, 143, ""),
        (End::Signal as u32, u32::MAX, 255, ""),
        (End::Trap as u32, trap::MEMORY, 134, "outside its memory"),
        (End::Trap as u32, 99, 134, "trap"),
        (End::Lost as u32, 0, 125, "its kernel died"),
        (77, 0, 125, "does not know"),
        (u32::MAX, 0, 125, "does not know"),
    ] {
        let (found, why) = ending(&exit(kind, status));
        assert_eq!(found, code, "{kind} {status}");
        assert!(why.unwrap_or("").contains(said), "{why:?}");
    }
}

#[test]
fn a_request_has_its_name_first() {
    let bytes = request(&line(&["-v", "two words", ""], &["A=1", "B="]), Some("it"), "it", 1);
    let bytes = bytes.unwrap();
    let (head, rest) = Exec::read_from_prefix(&bytes).unwrap();
    assert_eq!(head.kernel.get(), 1);
    let (path, rest) = rest.split_at(head.path.get() as usize);
    let (arguments, environment) = rest.split_at(head.arguments.get() as usize);
    assert_eq!(path, b"/bin/it");
    assert_eq!(arguments, b"it\0-v\0two words\0\0");
    assert_eq!(environment, b"A=1\0B=\0");
    assert_eq!(environment.len(), head.environment.get() as usize);
}

#[test]
fn what_does_not_go_through_is_told_before() {
    let refused = |arguments: &[&str], env: &[&str]| {
        format!("{:#}", request(&line(arguments, env), None, "it", ANY_KERNEL).unwrap_err())
    };
    let long = "a".repeat(ARGUMENTS - "it\0".len());
    assert!(
        refused(&[&long], &[]).contains("131073 bytes together, and a process has at most 131072")
    );
    assert!(refused(&[], &["A"]).contains("NAME=VALUE"));
    assert!(refused(&[], &["=A"]).contains("NAME=VALUE"));
    assert!(refused(&["a\0b"], &[]).contains("NUL"));
    let bytes = request(&line(&[&long[1..]], &[]), None, "it", ANY_KERNEL).unwrap();
    assert_eq!(bytes.len(), size_of::<Exec>() + ARGUMENTS);
}

#[test]
fn images_and_long_requests_go_in_pieces() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let long = "a".repeat(2 * LARGEST);
    let whole = request(&line(&[&long], &[]), None, "it", ANY_KERNEL).unwrap();
    let expected = whole.clone();
    let side = std::thread::spawn(move || {
        let mut reader = std::io::BufReader::new(theirs.try_clone().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        (&theirs).write_all(b"OK 1\n").unwrap();
        assert_eq!(frame(&mut reader), (Kind::Image, b"riscv64".to_vec()));
        let (first, second) = (frame(&mut reader), frame(&mut reader));
        assert_eq!((first.0, first.1.len()), (Kind::Data, LARGEST));
        assert_eq!((second.0, second.1.len()), (Kind::Data, 5));
        assert_eq!(frame(&mut reader).0, Kind::End);
        let (kind, mut found) = frame(&mut reader);
        assert_eq!(kind, Kind::Exec);
        while found.len() < expected.len() {
            let (kind, data) = frame(&mut reader);
            assert_eq!(kind, Kind::Data);
            found.extend(data);
        }
        assert_eq!(found, expected);
    });
    let mut stream = Stream::on(ours, "test").unwrap();
    let images = [(Isa::Riscv64, vec![7; LARGEST + 5])];
    let serving = Serving::default();
    begin(&mut stream, (&images, &whole), &serving, &Session::default()).unwrap();
    side.join().unwrap();
}

#[test]
fn any_file_is_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}.v1 ä", "long ".repeat(20));
    for name in ["plain.wasm", "g++.wat", "none", &long, ".wasm", "-x.wasm"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "").unwrap();
        let found = Program::of(path.as_os_str()).unwrap();
        assert!(matches!(found, Program::File(_)), "{name}");
        let stem = if name == long { "long ".repeat(20) } else { found.name() };
        assert_eq!(found.name(), stem);
    }
    let refused = |name: &str| format!("{:#}", Program::of(OsStr::new(name)).unwrap_err());
    assert!(refused("none.wasm").contains("none.wasm: no such file"));
    assert!(refused("./none").contains("no such file"));
    assert!(refused(&folder.path().display().to_string()).contains("a directory"));
    assert!(refused("a b").contains("cannot be a program's name"));
    assert_eq!(Program::of(OsStr::new("ls")).unwrap().name(), "ls");
}

#[test]
fn folders_that_cannot_be_are_told_before() {
    let folder = std::env::temp_dir().display().to_string();
    let refused = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| line.replace("HERE", &folder)).collect();
        format!("{:#}", Folders::open(&lines).unwrap_err())
    };
    for line in ["", ":", "::", ":/guest", "::/guest"] {
        assert!(refused(&[line]).contains("write HOST, HOST::GUEST or HOST:GUEST"), "{line}");
    }
    for line in ["HERE:", "HERE::"] {
        assert!(refused(&[line]).contains("is empty"), "{line}");
    }
    for line in ["HERE:/a/../b", "HERE::.."] {
        assert!(refused(&[line]).contains("must not have \"..\""), "{line}");
    }
    let missing = refused(&["HERE/no-such-folder:/guest"]);
    assert!(missing.contains("no-such-folder: No such file"), "{missing}");
    assert!(refused(&["Cargo.toml:/guest"]).contains("Not a directory"));
    assert!(refused(&["HERE:/one", "HERE:/one"]).contains("/one is the path of another folder"));
    assert!(refused(&["HERE:/one"; 9]).contains("at most 8"));
    assert!(refused(&["HERE:/one", "HERE::one/."]).contains("/one is the path of another folder"));
    assert!(refused(&[".", "HERE:/"]).contains("/ is the path of another folder"));
    let names = |lines: &[String]| Folders::open(lines).unwrap().names().join(" ");
    let all = ["HERE:/a/b", "HERE::/c//d/", "HERE::guest", "HERE", ".", ".."];
    let all = all.map(|line| line.replace("HERE", &folder));
    assert_eq!(names(&all), format!("/a/b /c/d /guest {folder} / /.."));
}
