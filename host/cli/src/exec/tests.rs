//! A program's life as the host sees it, against a board that a test plays.

use super::*;
use abi::host::Frame;
use std::io::BufRead;
use std::os::unix::net::UnixStream;

fn line(arguments: &[&str], env: &[&str]) -> Line {
    let own = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    Line {
        on: None,
        env: own(env),
        dir: vec![],
        manifest: None,
        board: None,
        program: "it".to_string(),
        arguments: own(arguments),
    }
}

/// The next frame that the host sent.
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

/// Code, output and errors of a program that reads all of its input and then does what `board`
/// says; the board answers a text of what it was sent.
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
        &request(&line(&[], &[]), ("it", "it"), ANY_KERNEL).unwrap(),
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
    let bytes = request(&line(&["-v", "two words", ""], &["A=1", "B="]), ("it", "it"), 1).unwrap();
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
        format!("{:#}", request(&line(arguments, env), ("it", "it"), ANY_KERNEL).unwrap_err())
    };
    assert!(refused(&[&"a".repeat(5000)], &[]).contains("at most 4073 go through"));
    assert!(refused(&[], &["A"]).contains("NAME=VALUE"));
    assert!(refused(&[], &["=A"]).contains("NAME=VALUE"));
    assert!(refused(&["a\0b"], &[]).contains("NUL"));
    let fits = "a".repeat(LARGEST - 16 - "/bin/it".len() - "it\0".len() - 1);
    let request = request(&line(&[&fits], &[]), ("it", "it"), ANY_KERNEL);
    assert_eq!(request.unwrap().len(), LARGEST);
}

#[test]
fn folders_that_cannot_be_are_told_before() {
    let folder = std::env::temp_dir().display().to_string();
    let refused = |lines: &[&str]| {
        let lines: Vec<String> = lines.iter().map(|line| line.replace("HERE", &folder)).collect();
        format!("{:#}", Folders::open(&lines).unwrap_err())
    };
    for line in ["HERE", "", ":", ":/guest"] {
        assert!(refused(&[line]).contains("write HOST:GUEST"), "{line}");
    }
    for line in ["HERE:", "HERE:guest", "HERE:./guest"] {
        assert!(refused(&[line]).contains("is to begin with /"), "{line}");
    }
    for line in ["HERE:/", "HERE:/guest/", "HERE:/a//b", "HERE:/a/../b", "HERE:/."] {
        assert!(refused(&[line]).contains("no . or .."), "{line}");
    }
    let missing = refused(&["HERE/no-such-folder:/guest"]);
    assert!(missing.contains("no-such-folder: No such file"), "{missing}");
    assert!(refused(&["Cargo.toml:/guest"]).contains("Not a directory"));
    assert!(refused(&["HERE:/one", "HERE:/one"]).contains("another folder /one"));
    assert!(refused(&["HERE:/one"; 9]).contains("at most 8"));
    assert!(Folders::open(&[format!("{folder}:/a/b"), format!("{folder}:/c")]).is_ok());
}
