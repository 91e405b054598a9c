//! Results of expressions in a directory, the order of actions, and rejected expressions.

use super::*;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// A directory that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    /// Creates the files that most tests use.
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("find-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::create_dir(path.join("c")).unwrap();
        for (file, size) in [("readme", 700), ("a/.hidden", 1), ("a/b/Read you", 0), ("c/x", 0)] {
            fs::write(path.join(file), vec![b'x'; size]).unwrap();
        }
        symlink("../a", path.join("c/link")).unwrap();
        symlink("nothing", path.join("c/lost")).unwrap();
        Folder(path)
    }

    /// Runs `find` with `@` replaced by the directory. Returns the output, with started programs in
    /// `<>`, and the exit code. Programs exit with 0, except `false`.
    fn raw(&self, words: &str, room: usize) -> (String, u32) {
        let own = self.0.to_str().unwrap();
        let words: Vec<String> = words.split(' ').map(|word| word.replace('@', own)).collect();
        let plan = Plan::of(&words).unwrap();
        let out = std::cell::RefCell::new(Vec::new());
        let mut begin = |words: &[String]| {
            out.borrow_mut().extend(format!("<{}>\n", words.join("|")).bytes());
            match words[0].as_str() {
                "none" => Err("none: no such file or directory".to_string()),
                name => Ok(name != "false"),
            }
        };
        let code = walk(&plan, Shared(&out), room, &mut begin).unwrap();
        let said = String::from_utf8_lossy(&out.borrow()).replace(own, "@");
        (said, code)
    }

    /// Returns the lines of the output, sorted, joined by blanks.
    fn found(&self, words: &str) -> String {
        let (said, code) = self.raw(words, 4096);
        assert_eq!(code, 0, "{words}: {said}");
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        lines.join(" ")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Shared by the walk and the programs it starts, to show the order of their output.
struct Shared<'a>(&'a std::cell::RefCell<Vec<u8>>);

impl Write for Shared<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_primary_finds_what_it_says() {
    let folder = Folder::new("primaries");
    for (words, expected) in [
        ("@", "@ @/a @/a/.hidden @/a/b @/a/b/Read you @/c @/c/link @/c/lost @/c/x @/readme"),
        ("@/readme @/c/x", "@/c/x @/readme"),
        ("@/a/ -name a", "@/a/"),
        ("@ -name read*", "@/readme"),
        ("@ -iname read*", "@/a/b/Read you @/readme"),
        ("@ -name ?hid*", "@/a/.hidden"),
        ("@ -path @/a/*", "@/a/.hidden @/a/b @/a/b/Read you"),
        ("@ -ipath *READ?YOU", "@/a/b/Read you"),
        ("@ -type d", "@ @/a @/a/b @/c"),
        ("@ -type l,d -path */c*", "@/c @/c/link @/c/lost"),
        ("@ -maxdepth 0", "@"),
        ("@ -maxdepth 1 -mindepth 1", "@/a @/c @/readme"),
        ("@ -name a -prune -o -type f -print", "@/c/x @/readme"),
        ("@ -size 2", "@/readme"),
        ("@ -size -1 -type f", "@/a/b/Read you @/c/x"),
        ("@ -size +699c -size -701c", "@/readme"),
        ("@ -type f -size 1k", "@/a/.hidden @/readme"),
        ("@ -empty", "@/a/b/Read you @/c/x"),
        ("@ ( -name x -o -name a ) -type f", "@/c/x"),
        ("@ -type f ! -name x -a -not -size 0", "@/a/.hidden @/readme"),
        ("@ ! ! -name x", "@/c/x"),
        ("@ -name x -print -o -name a", "@/c/x"),
        ("@ -false -o -true -name x", "@/c/x"),
        ("@ -quit", ""),
        ("-H @/c/link", "@/c/link @/c/link/.hidden @/c/link/b @/c/link/b/Read you"),
        ("@/c/link", "@/c/link"),
        ("-L @/c -type l", "@/c/lost"),
        ("-L @/c -name b", "@/c/link/b"),
        ("-- @ -xdev -name x", "@/c/x"),
    ] {
        assert_eq!(folder.found(words), expected, "{words}");
    }
    assert_eq!(folder.raw("@/a -name b -print0", 99), ("@/a/b\0".to_string(), 0));
}

#[test]
fn times_are_those_of_the_last_write() {
    let folder = Folder::new("times");
    let ago = |name: &str, seconds: u64| {
        let file = fs::File::options().write(true).open(folder.0.join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    ago("readme", 90);
    ago("c/x", 86_400 + 3600);
    for (words, expected) in [
        ("@ -type f -mmin 2", "@/readme"),
        ("@ -type f -mmin +1 -mmin -3", "@/readme"),
        ("@ -type f -mmin +2", "@/c/x"),
        ("@ -mtime 1", "@/c/x"),
        ("@ -mtime +0", "@/c/x"),
        ("@ -type f ! -mtime -1", "@/c/x"),
        ("@ -mtime +1", ""),
        ("@ -type f -newer @/readme", "@/a/.hidden @/a/b/Read you"),
        ("@ -type f ! -newer @/readme", "@/c/x @/readme"),
        ("@ -mmin +18446744073709551615", ""),
    ] {
        assert_eq!(folder.found(words), expected, "{words}");
    }
}

#[test]
fn a_directory_comes_first_or_last() {
    let folder = Folder::new("order");
    assert_eq!(folder.raw("@/a -path */a*b", 99).0, "@/a/b\n");
    assert_eq!(folder.raw("@/a/b -depth", 99).0, "@/a/b/Read you\n@/a/b\n");
    assert_eq!(folder.raw("@/a/b", 99).0, "@/a/b\n@/a/b/Read you\n");
    assert_eq!(folder.raw("@/a/b -depth -maxdepth 0", 99).0, "@/a/b\n");
    assert_eq!(folder.raw("@/a/b @ -print -quit", 99).0, "@/a/b\n");
}

#[test]
fn what_is_found_is_deleted_after_what_is_in_it() {
    let folder = Folder::new("delete");
    assert_eq!(folder.found("@/c -delete"), "");
    assert_eq!(folder.found("@ -type f -name readme -print -delete"), "@/readme");
    assert_eq!(folder.found("@"), "@ @/a @/a/.hidden @/a/b @/a/b/Read you");
    assert_eq!(folder.raw("@ -name b -delete -o -name a -delete", 99), (String::new(), 1));
    assert_eq!(folder.found("@/a/b -empty -delete"), "");
    assert_eq!(folder.found("@"), "@ @/a @/a/.hidden");
}

#[test]
fn programs_get_one_path_or_many() {
    let folder = Folder::new("programs");
    let one = "@/c/x -print -exec echo {} x{}y{} + ; -print";
    assert_eq!(folder.found(one), "<echo|@/c/x|x@/c/xy@/c/x|+> @/c/x @/c/x");
    let (said, code) = folder.raw("@/c/x @/readme -exec false {} ; -print", 99);
    assert_eq!((said.as_str(), code), ("<false|@/c/x>\n<false|@/readme>\n", 0));
    let (said, code) = folder.raw("@/c/x @/readme -exec echo a {} + -print", 4096);
    assert_eq!((said.as_str(), code), ("@/c/x\n@/readme\n<echo|a|@/c/x|@/readme>\n", 0));
    // Collected paths are passed to the program even if the walk stops early.
    assert_eq!(folder.raw("@/c/x -exec echo {} + -quit", 4096).0, "<echo|@/c/x>\n");
    assert_eq!(folder.raw("@/c/x -exec false {} +", 4096).1, 1);
    assert_eq!(folder.raw("@/c/x -exec none {} ;", 4096).1, 1);
    assert_eq!(folder.raw("@ -name no -exec none {} +", 4096), (String::new(), 0));
}

#[test]
fn no_program_gets_more_than_there_is_room_for() {
    let folder = Folder::new("room");
    let own = folder.0.to_str().unwrap().len();
    let (said, code) = folder.raw("@/c/x @/c/x @/c/x -exec echo {} +", 5 + 2 * (own + 5));
    assert_eq!((said.as_str(), code), ("<echo|@/c/x|@/c/x>\n<echo|@/c/x>\n", 0));
    assert_eq!(folder.raw("@/c/x -exec echo {} +", own), (String::new(), 1));
}

#[test]
fn what_cannot_be_looked_at_is_said_and_the_rest_found() {
    let folder = Folder::new("errors");
    assert_eq!(folder.raw("@/none @/c/x", 99), ("@/c/x\n".to_string(), 1));
    symlink("..", folder.0.join("a/b/up")).unwrap();
    symlink("self", folder.0.join("c/self")).unwrap();
    let (said, code) = folder.raw("-L @ -name up -o -name Read* -o -name self", 99);
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines.as_slice(), code), (&["@/a/b/Read you", "@/c/link/b/Read you"][..], 1));
    assert_eq!(folder.raw("@ -name self -type l", 99).1, 0);
}

#[test]
fn a_name_that_is_no_text_is_shown_and_given_to_nobody() {
    let folder = Folder::new("names");
    let path = folder.0.join(OsString::from_vec(b"\xff".to_vec()));
    // The tests use WASI's file names, which are UTF-8.
    let about = about(folder.0.to_str().unwrap(), false).unwrap();
    let entry = Entry { path, depth: 1, about };
    let plan = Plan::of(&["-exec".into(), "echo".into(), "{}".into(), ";".into()]).unwrap();
    let (mut begin, mut out) = (|_: &[String]| Ok(true), Vec::new());
    let (out, begin, held) = (&mut out, &mut begin as Begin<'_>, Vec::new());
    let (now, room, pruned, failed) = (0, 99, false, false);
    let mut walk = Walk { plan: &plan, out, now, room, begin, held, pruned, failed };
    assert!(matches!(walk.holds(&plan.expression, &entry), Ok(false)));
    assert!(matches!(walk.holds(&Node::Print(0), &entry), Ok(true)));
    assert!(walk.failed && walk.out.ends_with(b"/\xff\0"));
}

#[test]
fn deep_trees_end() {
    let folder = Folder::new("deep");
    let mut path = folder.0.join("deep");
    for _ in 0..DEPTH + 3 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    let (said, code) = folder.raw("@/deep", 99);
    assert_eq!((said.lines().count(), code), (DEPTH + 1, 1));
}

#[test]
fn nobody_reads() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let plan = Plan::of(&[]).unwrap();
    assert_eq!(walk(&plan, Closed, 99, &mut |_| Ok(true)), Ok(NOBODY_READS));
}

#[test]
fn expressions_that_make_no_sense_are_refused() {
    for (words, expected) in [
        ("-foo", "-foo: no such primary"),
        ("-perm 644", "-perm: files have no permissions and no owners here"),
        ("-name", "-name requires a value"),
        ("-name a b", "b: paths belong before the expression"),
        ("( -name x", "( without its )"),
        ("-name x )", ") without its ("),
        (")", "): nothing before it"),
        ("-o -name x", "-o: nothing before it"),
        ("-name x -o", "-o: nothing after it"),
        ("-name x -o -a", "-a after -o: nothing in between"),
        ("( )", ") after (: nothing in between"),
        ("!", "!: nothing after it"),
        ("-exec", "-exec: no ; and no {} + at its end"),
        ("-exec echo +", "-exec: no ; and no {} + at its end"),
        ("-exec ;", "-exec: which program?"),
        ("-exec {} +", "-exec: which program?"),
        ("-exec echo {} {} +", "-exec: one {} only before a +"),
        ("-size 1x", "-size 1x: not a number"),
        ("-size c", "-size : not a number"),
        ("-size +", "-size +: not a number"),
        ("-mtime ++1", "-mtime ++1: not a number"),
        ("-mmin \u{e4}", "-mmin \u{e4}: not a number"),
        ("-maxdepth -1", "-maxdepth -1: not a number"),
        ("-type q", "-type q: one of f d l c b p, or some with commas"),
        ("-newer /none", "-newer /none: no such file or directory"),
    ] {
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        assert_eq!(Plan::of(&words).map(|_| ()), Err(expected.to_string()));
    }
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<String>>();
    assert!(Plan::of(&words("-prune -delete")).is_err());
    assert!(Plan::of(&words("-depth -prune -delete")).is_ok());
    assert!(Plan::of(&words(&"( ".repeat(65))).is_err_and(|why| why.starts_with("too many")));
    assert!(Plan::of(&vec!["!".to_string(); 100_000]).is_err());
}
