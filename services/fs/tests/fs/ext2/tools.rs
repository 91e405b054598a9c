//! Disk images, and the tools of e2fsprogs that create and check them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub struct Image {
    folder: tempfile::TempDir,
}

fn tool(name: &str) -> Command {
    let found = ["/sbin", "/usr/sbin", "/usr/local/sbin"]
        .map(|folder| Path::new(folder).join(name))
        .into_iter()
        .find(|path| path.exists());
    Command::new(found.unwrap_or_else(|| name.into()))
}

fn run(mut command: Command) -> Output {
    command.env("LC_ALL", "C").output().unwrap_or_else(|error| {
        panic!("{error}: {:?} of the package e2fsprogs", command.get_program())
    })
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

impl Image {
    pub fn of(bytes: &[u8]) -> Image {
        let image = Image { folder: tempfile::tempdir().unwrap() };
        std::fs::write(image.path(), bytes).unwrap();
        image
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    /// Runs `e2fsck` with these options. Returns its exit code and output.
    pub fn check(&self, options: &str) -> (i32, String) {
        let mut command = tool("e2fsck");
        command.args(options.split(' ')).arg(self.path());
        let output = run(command);
        (output.status.code().unwrap_or(99), text(&output))
    }

    /// Returns the output of a `debugfs` request.
    pub fn debugfs(&self, request: &str) -> Vec<u8> {
        let mut command = tool("debugfs");
        command.args(["-w", "-R", request]).arg(self.path());
        run(command).stdout
    }
}

/// The option for no journal.
pub const NONE: &str = "^has_journal";

/// Creates a file system of so many KiB, at least 2,048 blocks, with `mke2fs`.
pub fn make(block: usize, kib: u64, options: &[&str]) -> Vec<u8> {
    let image = Image::of(&[]);
    let mut command = tool("mke2fs");
    command.args(["-q", "-F", "-t", "ext2", "-j", "-b", &block.to_string()]).args(options);
    command.arg(image.path()).arg(format!("{kib}k"));
    let output = run(command);
    assert!(output.status.success(), "{}", text(&output));
    let bytes = image.bytes();
    assert!(bytes[1024 + 92] & 4 != 0 || options.contains(&NONE), "no journal: {}", text(&output));
    bytes
}

/// Checks that `e2fsck` finds nothing.
pub fn assert_clean(bytes: &[u8], what: &str) -> Image {
    let image = Image::of(bytes);
    let (code, said) = image.check("-fn");
    assert_eq!(code, 0, "{what}: {said}");
    image
}
