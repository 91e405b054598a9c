//! A folder, used by correct and faulty boards.

use super::*;
use std::fs;
use zerocopy::FromBytes;

/// A folder with a file, a directory with a file, links that leave it, and a pipe.
struct Place {
    path: PathBuf,
    folder: Folder,
    _whole: tempfile::TempDir,
}

fn place() -> Place {
    let _whole = tempfile::tempdir().unwrap();
    let path = _whole.path().to_path_buf();
    let inside = path.join("inside");
    fs::create_dir_all(inside.join("sub")).unwrap();
    fs::write(path.join("secret"), "secret").unwrap();
    fs::write(inside.join("file"), "file").unwrap();
    fs::write(inside.join("sub/deep"), "deep").unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("out")).unwrap();
    std::os::unix::fs::symlink("..", inside.join("up")).unwrap();
    let pipe = rustix::fs::CWD;
    rustix::fs::mknodat(pipe, inside.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    Place { folder: Folder::open(&inside).unwrap(), path, _whole }
}

fn job(task: Task, node: u64) -> Job {
    Job { task: task as u16, node, ..Job::default() }
}

impl Place {
    fn inside(&self, name: &str) -> PathBuf {
        self.path.join("inside").join(name)
    }

    fn named(&mut self, job: Job, name: &[u8], rest: &[u8]) -> Said {
        let job = Job { name: name.len() as u16, ..job };
        self.folder.perform(&job, &[name, rest].concat())
    }

    fn find(&mut self, directory: u64, name: &str) -> Result<u64, Errno> {
        let said = self.named(job(Task::Lookup, directory), name.as_bytes(), &[])?;
        Ok(Stat::read_from_bytes(&said.1).unwrap().node)
    }

    fn read(&mut self, node: u64) -> Result<Vec<u8>, Errno> {
        let read = Job { length: 2048, ..job(Task::Read, node) };
        self.named(read, b"", &[]).map(|(_, data)| data)
    }
}

#[test]
fn what_is_there_is_found_read_and_written() {
    let mut place = place();
    let file = place.find(ROOT, "file").unwrap();
    assert_eq!(place.read(file).unwrap(), b"file");
    let write = Job { offset: 4, length: 5, ..job(Task::Write, file) };
    assert_eq!(place.named(write, b"", b" more"), Ok((5, vec![])));
    assert_eq!(fs::read(place.inside("file")).unwrap(), b"file more");
    let sub = place.find(ROOT, "sub").unwrap();
    let deep = place.find(sub, "deep").unwrap();
    let above = place.named(job(Task::Parent, deep), b"", &[]).unwrap().0;
    assert_eq!(above, sub);
    assert_eq!(place.named(job(Task::Parent, sub), b"", &[]).unwrap().0, ROOT);
    // Renaming a directory keeps its contents.
    let rename = Job { second: ROOT, ..job(Task::Rename, ROOT) };
    place.named(rename, b"sub", b"other").unwrap();
    assert_eq!(place.read(deep).unwrap(), b"deep");
    let times =
        Job { flags: given::MODIFIED, modified: 5_000_000_007, ..job(Task::SetTimes, deep) };
    place.named(times, b"", &[]).unwrap();
    let stat = place.named(job(Task::Stat, deep), b"", &[]).unwrap().1;
    assert_eq!(Stat::read_from_bytes(&stat).unwrap().modified, 5_000_000_007);
    let link = Job { second: deep, ..job(Task::Link, ROOT) };
    place.named(link, b"hard", &[]).unwrap();
    assert_eq!(fs::read(place.inside("hard")).unwrap(), b"deep");
    assert!(place.named(job(Task::Space, ROOT), b"", &[]).unwrap().0 > 0);
}

#[test]
fn a_list_comes_in_pieces_and_says_where_it_ends() {
    let mut place = place();
    for at in 0..300 {
        fs::write(place.inside(&format!("file-with-a-long-name-{at:03}")), "").unwrap();
    }
    let (mut names, mut cookie, mut pieces) = (vec![], 0, 0);
    loop {
        let list = Job { offset: cookie, length: DATA as u64, ..job(Task::List, ROOT) };
        let (end, data) = place.named(list, b"", &[]).unwrap();
        let mut rest = &data[..];
        while let Ok((head, behind)) = Dirent::read_from_prefix(rest) {
            let (name, behind) = behind.split_at(head.name as usize);
            names.push(String::from_utf8(name.to_vec()).unwrap());
            (cookie, rest) = (head.next, behind);
        }
        pieces += 1;
        if end != 0 {
            break;
        }
    }
    // The board does not see the pipe.
    assert_eq!((names.len(), names.contains(&"pipe".to_string())), (304, false));
    assert!(names.is_sorted() && pieces > 4);
}

#[test]
fn nothing_leads_out() {
    let mut place = place();
    for name in ["..", ".", "", "sub/deep", "../secret", "a\0b"] {
        assert_eq!(place.find(ROOT, name), Err(Errno::Inval), "{name}");
    }
    // Links are found, as texts.
    let out = place.find(ROOT, "out").unwrap();
    assert_eq!(place.named(job(Task::ReadLink, out), b"", &[]).unwrap().1, b"../secret");
    let write = Job { length: 1, ..job(Task::Write, out) };
    let size = job(Task::SetSize, out);
    for (what, data) in [(job(Task::Read, out), &[][..]), (write, b"x"), (size, &[])] {
        assert_eq!(place.named(what, b"", data), Err(Errno::Inval));
    }
    let up = place.find(ROOT, "up").unwrap();
    assert!(place.find(up, "secret").is_err());
    let make = Job { flags: kind::FILE.into(), ..job(Task::Make, up) };
    assert!(place.named(make, b"new", &[]).is_err());
    assert!(place.named(job(Task::Unlink, up), b"secret", &[]).is_err());
    assert!(place.named(job(Task::List, up), b"", &[]).is_err());
    // A directory that is replaced by a link meanwhile is not followed.
    let sub = place.find(ROOT, "sub").unwrap();
    let deep = place.find(sub, "deep").unwrap();
    fs::rename(place.inside("sub"), place.path.join("sub")).unwrap();
    std::os::unix::fs::symlink("../sub", place.inside("sub")).unwrap();
    assert_eq!(place.read(deep), Err(Errno::Loop));
    assert_eq!(place.find(sub, "deep"), Err(Errno::Noent));
    assert_eq!(fs::read(place.path.join("secret")).unwrap(), b"secret");
    // A pipe is not opened.
    assert_eq!(place.find(ROOT, "pipe"), Err(Errno::Perm));
}

#[test]
fn another_file_of_the_name_is_not_the_same() {
    let mut place = place();
    let file = place.find(ROOT, "file").unwrap();
    fs::write(place.inside("new"), "new").unwrap();
    fs::rename(place.inside("new"), place.inside("file")).unwrap();
    assert_eq!(place.read(file), Err(Errno::Noent));
    let again = place.find(ROOT, "file").unwrap();
    assert_eq!(place.read(again).unwrap(), b"new");
    assert_eq!(place.read(again + 1000), Err(Errno::Noent));
    fs::remove_dir_all(place.path.join("inside")).unwrap();
    assert_eq!(place.find(ROOT, "file"), Err(Errno::Noent));
}

#[test]
fn nonsense_is_an_error() {
    let mut place = place();
    let mut state = 3u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (state >> 20) % below
    };
    let file = place.find(ROOT, "file").unwrap();
    for _ in 0..5000 {
        let mut bytes = vec![0; size_of::<Job>() + random(40) as usize];
        bytes.iter_mut().for_each(|byte| *byte = random(256) as u8);
        let (mut job, bulk) = Job::read_from_prefix(&bytes).unwrap();
        job.task = random(20) as u16;
        job.name = random(20) as u16;
        job.node = [ROOT, file, job.node][random(3) as usize];
        job.length = random(1 << 20);
        job.offset >>= random(64);
        // Any answer is acceptable.
        let _ = place.folder.perform(&job, bulk);
    }
    assert_eq!(fs::read(place.path.join("secret")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&place.path).unwrap().count(), 2);
}

impl Place {
    fn make(&mut self, directory: u64, kind: u8, name: &str, text: &str) -> Result<(), Errno> {
        let make = Job { flags: kind.into(), ..job(Task::Make, directory) };
        self.named(make, name.as_bytes(), text.as_bytes()).map(|_| ())
    }

    fn rename(&mut self, from: u64, old: &str, to: u64, new: &str) -> Result<(), Errno> {
        let rename = Job { second: to, ..job(Task::Rename, from) };
        self.named(rename, old.as_bytes(), new.as_bytes()).map(|_| ())
    }
}

#[test]
fn no_link_that_leads_out_is_made() {
    let mut place = place();
    let sub = place.find(ROOT, "sub").unwrap();
    for text in ["/", "/etc/passwd", "..", "../secret", "./../x", "sub/..", "a/../b", "sub/../../x"]
    {
        assert_eq!(place.make(ROOT, kind::LINK, "link", text), Err(Errno::Perm), "{text}");
    }
    for text in ["../..", "../../secret", "deep/..", "../sub/../.."] {
        assert_eq!(place.make(sub, kind::LINK, "link", text), Err(Errno::Perm), "{text}");
    }
    assert!(fs::symlink_metadata(place.inside("link")).is_err());
    for (at, text) in ["sub/deep", "missing", ".", "./sub//deep", "sub/", "..."].iter().enumerate()
    {
        place.make(ROOT, kind::LINK, &format!("good{at}"), text).unwrap();
    }
    for (at, text) in ["..", "../file", ".././../sub"].iter().enumerate().take(2) {
        place.make(sub, kind::LINK, &format!("good{at}"), text).unwrap();
    }
    assert_eq!(fs::read(place.inside("sub/good1")).unwrap(), b"file");
    // A text that is no link is none of its business.
    place.make(ROOT, kind::FILE, "plain", "../x").unwrap();
}

#[test]
fn no_link_is_moved_or_linked_so_that_it_leads_out() {
    let mut place = place();
    let sub = place.find(ROOT, "sub").unwrap();
    place.make(sub, kind::LINK, "up", "../file").unwrap();
    assert_eq!(place.rename(sub, "up", ROOT, "up2"), Err(Errno::Perm));
    place.rename(sub, "up", sub, "again").unwrap();
    let again = place.find(sub, "again").unwrap();
    let link = Job { second: again, ..job(Task::Link, ROOT) };
    assert_eq!(place.named(link, b"hard", &[]), Err(Errno::Perm));
    let link = Job { second: again, ..job(Task::Link, sub) };
    place.named(link, b"hard", &[]).unwrap();
    // With a directory around it.
    place.make(sub, kind::DIRECTORY, "one", "").unwrap();
    let one = place.find(sub, "one").unwrap();
    place.make(one, kind::DIRECTORY, "two", "").unwrap();
    let two = place.find(one, "two").unwrap();
    place.make(two, kind::LINK, "up", "../../x").unwrap();
    place.rename(sub, "one", ROOT, "one").unwrap();
    assert_eq!(place.rename(one, "two", ROOT, "two"), Err(Errno::Perm));
    place.make(two, kind::LINK, "higher", "../../x").unwrap();
    assert_eq!(place.make(two, kind::LINK, "highest", "../../../x"), Err(Errno::Perm));
    place.rename(ROOT, "one", sub, "one").unwrap();
    // Those of the host stay, and are not moved.
    assert_eq!(place.rename(ROOT, "out", sub, "in"), Ok(()), "it leads to inside/secret there");
    assert_eq!(place.rename(ROOT, "up", ROOT, "other"), Err(Errno::Perm));
    assert_eq!(place.named(job(Task::Unlink, ROOT), b"up", &[]), Ok((0, vec![])));
}

/// Random links, moves and hard links: nothing in the folder leads to the file outside.
#[test]
fn random_links_lead_nowhere_outside() {
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (state >> 33) as usize % below
    };
    let (mut made, mut refused) = (0, 0);
    for _ in 0..40 {
        let mut place = place();
        fs::remove_file(place.inside("out")).unwrap();
        fs::remove_file(place.inside("up")).unwrap();
        let mut directories = vec![ROOT, place.find(ROOT, "sub").unwrap()];
        for _ in 0..150 {
            let (one, other) =
                (directories[random(directories.len())], directories[random(directories.len())]);
            let names = ["a", "b", "c", "d"];
            let (old, new) = (names[random(4)], names[random(4)]);
            let done = match random(4) {
                0 => {
                    let parts = ["..", "a", "b", "c", "..", "secret", "."];
                    let text: Vec<_> = (0..1 + random(4)).map(|_| parts[random(7)]).collect();
                    place.make(one, kind::LINK, new, &text.join("/"))
                }
                1 => place.make(one, kind::DIRECTORY, new, "").map(|()| {
                    directories.push(place.find(one, new).unwrap());
                }),
                2 => place.rename(one, old, other, new),
                _ => place.find(one, old).and_then(|node| {
                    let link = Job { second: node, ..job(Task::Link, other) };
                    place.named(link, new.as_bytes(), &[]).map(|_| ())
                }),
            };
            made += u32::from(done.is_ok());
            refused += u32::from(done == Err(Errno::Perm));
        }
        let inside = place.path.join("inside").canonicalize().unwrap();
        let mut left = vec![inside.clone()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if let Ok(real) = path.canonicalize() {
                    assert!(real.starts_with(&inside), "{} is {}", path.display(), real.display());
                }
                if path.symlink_metadata().unwrap().is_dir() {
                    left.push(path);
                }
            }
        }
    }
    assert!(made > 1000 && refused > 200, "{made} made, {refused} refused");
}
