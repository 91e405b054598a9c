//! The exact output of `ls` for a directory.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

/// A directory that is removed when dropped.
struct Folder(PathBuf);

/// 24 November 2026, 14:00.
const NOW: u64 = 1_795_528_800;

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ls-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("sub/deep")).unwrap();
        for (at, (file, size)) in
            [("b", 3000), ("a.txt", 5), (".hidden", 1), ("sub/x.aarch64", 7)].iter().enumerate()
        {
            fs::write(path.join(file), vec![b'x'; *size]).unwrap();
            let file = fs::File::options().write(true).open(path.join(file)).unwrap();
            let time = UNIX_EPOCH + Duration::from_secs(NOW - 3600 * (at as u64 + 1));
            file.set_modified(time).unwrap();
        }
        symlink("a.txt", path.join("link")).unwrap();
        symlink("sub", path.join("way")).unwrap();
        symlink("none", path.join("lost")).unwrap();
        Folder(path)
    }

    /// Runs `ls` with `@` replaced by the directory.
    fn told(&self, words: &str, form: Form) -> (String, Listed) {
        let own = self.0.to_str().unwrap();
        let words: Vec<String> = words.split(' ').map(|word| word.replace('@', own)).collect();
        let mut plan = Plan::of(&words, form).unwrap();
        plan.look.now = NOW;
        let mut said = String::new();
        let listed = list(&plan, &mut |text| {
            said.push_str(text);
            Ok(0)
        });
        let mut listed = listed.unwrap();
        listed.errors.iter_mut().for_each(|why| *why = why.replace(own, "@"));
        (said.replace(own, "@"), listed)
    }

    fn says(&self, words: &str) -> String {
        let (said, listed) = self.told(words, Form::Lines);
        assert_eq!(listed, Listed::default(), "{words}");
        said
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn names_come_in_order_and_hidden_ones_when_asked_for() {
    let folder = Folder::new("names");
    assert_eq!(folder.says("@"), "a.txt\nb\nlink\nlost\nsub\nway\n");
    assert_eq!(folder.says("-r @"), "way\nsub\nlost\nlink\nb\na.txt\n");
    assert_eq!(folder.says("-A @"), ".hidden\na.txt\nb\nlink\nlost\nsub\nway\n");
    assert_eq!(folder.says("-a @"), ".\n..\n.hidden\na.txt\nb\nlink\nlost\nsub\nway\n");
    assert_eq!(folder.says("-d @ @/sub"), "@\n@/sub\n");
    assert_eq!(folder.says("-F @"), "a.txt\nb\nlink@\nlost@\nsub/\nway@\n");
    assert_eq!(folder.says("-p @"), "a.txt\nb\nlink\nlost\nsub/\nway\n");
    assert_eq!(folder.says("-1 -- @/b"), "@/b\n");
    assert_eq!(folder.says("--all --color=auto @/sub"), ".\n..\ndeep\nx.aarch64\n");
}

#[test]
fn time_and_size_come_first_when_asked_for() {
    let folder = Folder::new("order");
    assert_eq!(folder.says("-t @/a.txt @/.hidden @/b"), "@/b\n@/a.txt\n@/.hidden\n");
    assert_eq!(folder.says("-tr @/a.txt @/.hidden @/b"), "@/.hidden\n@/a.txt\n@/b\n");
    assert_eq!(folder.says("-S @/.hidden @/a.txt @/b"), "@/b\n@/a.txt\n@/.hidden\n");
}

#[test]
fn a_long_list_has_mode_links_owner_size_and_time() {
    let folder = Folder::new("long");
    assert_eq!(
        folder.says("-l @/b @/a.txt @/sub/x.aarch64"),
        "-rw-r--r-- 1 root root    5 Nov 24 12:00 @/a.txt\n\
         -rw-r--r-- 1 root root 3000 Nov 24 13:00 @/b\n\
         -rwxr-xr-x 1 root root    7 Nov 24 10:00 @/sub/x.aarch64\n"
    );
    let link = folder.says("-l @/link");
    assert!(link.starts_with("lrwxrwxrwx 1 root root 5 "), "{link}");
    assert!(link.ends_with(" @/link -> a.txt\n"), "{link}");
    assert_eq!(folder.says("-lhg @/b"), "-rw-r--r-- 1 root 3.0K Nov 24 13:00 @/b\n");
    assert_eq!(folder.says("-n @/b"), "-rw-r--r-- 1 0 0 3000 Nov 24 13:00 @/b\n");
    let whole = folder.says("-l @/sub");
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines[0].starts_with("total ") && lines.len() == 3, "{whole}");
    assert!(lines[1].starts_with("drwxr-xr-x 2 root root"), "{whole}");
}

#[test]
fn folders_have_titles_when_there_are_several() {
    let folder = Folder::new("titles");
    let expected = "@/b\n\n@/sub:\ndeep\nx.aarch64\n\n@/sub/deep:\n";
    assert_eq!(folder.says("@/sub/deep @/sub @/b"), expected);
    let expected = "@:\na.txt\nb\nlink\nlost\nsub\nway\n\n@/sub:\ndeep\nx.aarch64\n\n@/sub/deep:\n";
    assert_eq!(folder.says("-R @"), expected);
    assert_eq!(folder.says("@/way"), "deep\nx.aarch64\n", "a link that was named is followed");
    assert_eq!(folder.says("-d @/way"), "@/way\n");
}

#[test]
fn terminals_get_columns() {
    let folder = Folder::new("columns");
    let (said, _) = folder.told("@", Form::Columns);
    assert_eq!(said, "a.txt  b  link  lost  sub  way\n");
}

#[test]
fn what_is_not_there_is_told_and_the_rest_is_listed() {
    let folder = Folder::new("missing");
    let (said, listed) = folder.told("@/b @/none", Form::Lines);
    assert_eq!(said, "@/b\n");
    let why = "cannot access '@/none': no such file or directory".to_string();
    assert_eq!(listed, Listed { code: 2, errors: vec![why] });
    for bad in ["-z", "--nothing", "-lz"] {
        let why = Plan::of(&[bad.to_string()], Form::Lines).unwrap_err();
        assert!(why.ends_with("no such option"), "{why}");
    }
}
