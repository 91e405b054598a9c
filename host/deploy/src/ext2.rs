//! Tools of e2fsprogs, which create and check the file systems on disks of boards.

use anyhow::{Context, bail};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Runs a tool on an image. Returns its output if its exit code is at most `worst`. The tools may
/// not be in the user's PATH.
pub fn tool(name: &str, arguments: &[&str], image: &Path, worst: i32) -> anyhow::Result<Vec<u8>> {
    run(name, arguments, image, worst).map(|(_, output)| output)
}

/// Does the same, and returns the exit code too.
fn run(name: &str, arguments: &[&str], image: &Path, worst: i32) -> anyhow::Result<(i32, Vec<u8>)> {
    let places = ["/sbin", "/usr/sbin", "/usr/local/sbin"].map(|it| Path::new(it).join(name));
    let program = places.into_iter().find(|path| path.exists()).unwrap_or_else(|| name.into());
    let output = Command::new(&program).env("LC_ALL", "C").args(arguments).arg(image).output();
    let output = output.with_context(|| program.display().to_string())?;
    match output.status.code() {
        Some(code) if code <= worst => Ok((code, output.stdout)),
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

/// Features that the kernels' ext2 can write (`fs::ext2`): file types in directory entries and a
/// journal to replay, sparse copies of the superblock and large files.
const SUPPORTED: (u32, u32) = (2 | 4, 1 | 2);
/// The compatible feature that says that there is a journal.
const HAS_JOURNAL: u32 = 4;

/// What the superblock of an image says.
pub struct Superblock {
    /// Size of a block: 2 to the power of this, in KiB.
    log_block: u32,
    state: u16,
    /// 0: features are ignored.
    revision: u32,
    compatible: u32,
    incompatible: u32,
    read_only: u32,
}

impl Superblock {
    /// Reads it. An image without an ext2, ext3 or ext4 has none.
    pub fn read(image: &Path) -> Option<Superblock> {
        let mut bytes = [0; 104];
        File::open(image).and_then(|file| file.read_exact_at(&mut bytes, 1024)).ok()?;
        let get16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let get32 = |at: usize| u32::from(get16(at)) | u32::from(get16(at + 2)) << 16;
        (get16(56) == 0xef53).then(|| Superblock {
            log_block: get32(24),
            state: get16(58),
            revision: get32(76),
            compatible: get32(92),
            incompatible: get32(96),
            read_only: get32(100),
        })
    }

    /// Returns whether kernels could write the file system, if it had no errors and a journal.
    pub fn is_supported(&self) -> bool {
        let unknown = (self.incompatible & !SUPPORTED.0) | (self.read_only & !SUPPORTED.1);
        self.log_block <= 2 && (self.revision == 0 || unknown == 0)
    }

    /// Returns whether they can write it as it is.
    pub fn is_writable(&self) -> bool {
        self.is_supported() && self.state == 1 && self.has_journal()
    }

    /// Returns whether there is a journal that kernels use.
    fn has_journal(&self) -> bool {
        self.revision > 0 && self.compatible & HAS_JOURNAL != 0
    }
}

/// Repairs what `e2fsck` repairs without questions. Returns whether it changed anything.
pub fn repair(image: &Path) -> anyhow::Result<bool> {
    run("e2fsck", &["-p"], image, 1).map(|(code, _)| code == 1)
}

/// Adds a journal to a file system without one, as [`make`] does since there are journals. The file
/// system must be clean. Returns whether it had none.
pub fn add_journal(image: &Path) -> anyhow::Result<bool> {
    let Some(found) = Superblock::read(image).filter(|found| !found.has_journal()) else {
        return Ok(false);
    };
    // A feature that needs revision 1 makes tune2fs change the revision.
    let old: &[&str] = if found.revision == 0 { &["-O", "large_file"] } else { &[] };
    // Without room for one of the usual size, the smallest: 1,024 blocks.
    let least = ["-J".to_string(), format!("size={}", 1 << found.log_block.min(2))];
    let least = least.each_ref().map(String::as_str);
    tool("tune2fs", &[old, &["-j"]].concat(), image, 0)
        .or_else(|_| tool("tune2fs", &[old, &least].concat(), image, 0))
        .map(|_| true)
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
