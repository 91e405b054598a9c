//! Tools of e2fsprogs, which create and check the file systems on disks of boards.

use anyhow::{Context, bail};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Runs a tool on an image. Returns its output if its exit code is at most `worst`. The tools may
/// not be in the user's PATH.
pub fn tool(name: &str, arguments: &[&str], image: &Path, worst: i32) -> anyhow::Result<Vec<u8>> {
    let places = ["/sbin", "/usr/sbin", "/usr/local/sbin"].map(|it| Path::new(it).join(name));
    let program = places.into_iter().find(|path| path.exists()).unwrap_or_else(|| name.into());
    let output = Command::new(&program).env("LC_ALL", "C").args(arguments).arg(image).output();
    let output = output.with_context(|| program.display().to_string())?;
    match output.status.code() {
        Some(code) if code <= worst => Ok(output.stdout),
        code => {
            let said = [output.stdout, output.stderr].concat();
            bail!("{name} ended with {code:?}: {}", String::from_utf8_lossy(&said))
        }
    }
}

/// Options of `mke2fs` for a file system that kernels can write: with a journal. It needs 2,048
/// blocks.
pub const MAKE: [&str; 5] = ["-q", "-F", "-t", "ext2", "-j"];
/// The largest blocks, and the most inodes that we make beside them. The file service has 8 MiB in
/// all, and needs memory for each inode and most of it for blocks of that size
/// (`fs::ext2::memory`).
const LARGEST: (u64, u64) = (4096, 8192);
/// Bytes of a disk for which `mke2fs` makes an inode, below 512 MiB.
const INODE: u64 = 4096;

/// Returns the options of `mke2fs` for the blocks of an image and for its inodes.
fn sizes(image: &Path, block: u64) -> anyhow::Result<Vec<String>> {
    let about = std::fs::metadata(image).with_context(|| image.display().to_string())?;
    let mut options = vec!["-b".to_string(), block.to_string()];
    let ratio = about.len().div_ceil(LARGEST.1);
    if block >= LARGEST.0 && ratio > INODE {
        options.extend(["-i".to_string(), ratio.to_string()]);
    }
    Ok(options)
}

/// Offset of the superblock's compatible features, and the one that says that there is a journal.
const HAS_JOURNAL: (u64, u8) = (1024 + 92, 4);

/// Adds a journal to a file system without one, as [`make`] does since there are journals. The file
/// system must be clean.
pub fn add_journal(image: &Path) -> anyhow::Result<()> {
    let mut features = [0];
    let file = File::open(image).with_context(|| image.display().to_string())?;
    file.read_exact_at(&mut features, HAS_JOURNAL.0)?;
    if features[0] & HAS_JOURNAL.1 == 0 {
        tool("tune2fs", &["-j"], image, 0)?;
    }
    Ok(())
}

/// Creates a file system with the contents of `folder`, in an image of `bytes` bytes.
pub fn make(image: &Path, block: u64, folder: &Path, bytes: Option<u64>) -> anyhow::Result<()> {
    if let Some(bytes) = bytes {
        let file = std::fs::File::create(image).with_context(|| image.display().to_string())?;
        file.set_len(bytes)?;
    }
    let (sizes, folder) = (sizes(image, block)?, folder.display().to_string());
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let own = ["-E", "root_owner=0:0", "-d", &folder];
    tool("mke2fs", &[&MAKE[..], &sizes, &own].concat(), image, 0).map(|_| ())
}

/// Creates an image of `bytes` bytes with an empty file system.
pub fn make_empty(image: &Path, block: u64, bytes: u64) -> anyhow::Result<()> {
    let file = File::create(image).with_context(|| image.display().to_string())?;
    file.set_len(bytes)?;
    let sizes = sizes(image, block)?;
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    tool("mke2fs", &[&MAKE[..], &sizes].concat(), image, 0).map(|_| ())
}

/// Returns the contents of a file.
pub fn content(image: &Path, path: &str) -> anyhow::Result<Vec<u8>> {
    tool("debugfs", &["-R", &format!("cat {path}")], image, 0)
}

/// Runs commands of debugfs that change the image.
pub fn change(image: &Path, commands: &[String]) -> anyhow::Result<()> {
    let script = image.with_extension("commands");
    std::fs::write(&script, commands.join("\n") + "\n").context(script.display().to_string())?;
    let done = tool("debugfs", &["-w", "-f", &script.display().to_string()], image, 0);
    std::fs::remove_file(&script).context(script.display().to_string())?;
    done.map(|_| ())
}
