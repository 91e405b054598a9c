//! Valid images, made by `mke2fs` from a folder, and the places where damage is interesting.

use crate::bytes::Bytes;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Paths that exist in every image, and a few that do not.
pub const PATHS: [&[u8]; 12] = [
    b"d",
    b"d/e",
    b"d/e/f",
    b"big",
    b"sparse",
    b"link",
    b"long",
    b"many",
    b"many/name-7",
    b"lost+found",
    b"nothing",
    b"d/file",
];

/// A file of one byte again and again, which is in no other file: its name, the byte, its length.
pub const FILLED: (&[u8], u8, usize) = (b"big", 3, 400_000);

/// A valid image.
pub struct Base {
    pub block: usize,
    pub bytes: Vec<u8>,
    /// Blocks that hold something.
    used: Vec<usize>,
    /// Blocks that are free, and those that hold nothing but [`FILLED`].
    free: Vec<usize>,
    filled: Vec<usize>,
    /// Offset of the first table of inodes.
    inodes: usize,
}

/// Blocks of an image. A journal takes 1,024 of them, and makes it writable.
const BLOCKS: usize = 3072;

/// One for each size of a block.
pub static ALL: LazyLock<[Base; 3]> = LazyLock::new(|| [1024, 2048, 4096].map(Base::new));

/// Makes the files of an image.
fn fill(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{FileExt, symlink};
    std::fs::create_dir_all(folder.join("d/e/f"))?;
    std::fs::create_dir(folder.join("many"))?;
    for number in 0..60 {
        std::fs::write(folder.join(format!("many/name-{number}")), vec![1; number * 7])?;
    }
    std::fs::write(folder.join("d/file"), vec![2; 5000])?;
    std::fs::write(folder.join("big"), vec![FILLED.1; FILLED.2])?;
    // Through one, two and three levels of pointers.
    let sparse = std::fs::File::create(folder.join("sparse"))?;
    for offset in [0, 20_000, 300_000, 70_000_000] {
        sparse.write_all_at(b"some data", offset)?;
    }
    symlink("d/e", folder.join("link"))?;
    symlink("l".repeat(200), folder.join("long"))
}

impl Base {
    fn new(block: usize) -> Base {
        let folder = tempfile::tempdir().unwrap();
        let (files, path) = (folder.path().join("files"), folder.path().join("image"));
        fill(&files).unwrap();
        let places = ["/sbin/mke2fs", "/usr/sbin/mke2fs"].map(Path::new);
        let tool = places.into_iter().find(|path| path.exists()).unwrap_or("mke2fs".as_ref());
        let mut command = Command::new(tool);
        command.args(["-q", "-F", "-t", "ext2", "-j", "-N", "512", "-b", &block.to_string(), "-d"]);
        command.arg(&files).arg(&path).arg(format!("{}k", BLOCKS * block / 1024));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let made = command.status().expect("mke2fs of the package e2fsprogs");
        assert!(made.success());
        let bytes = std::fs::read(path).unwrap();
        let holds = |at: &usize| bytes[at * block..][..block].iter().any(|byte| *byte != 0);
        let used = (0..bytes.len() / block).filter(holds).collect();
        let is_filled = |at: &usize| bytes[at * block..][..block].iter().all(|it| *it == FILLED.1);
        let filled: Vec<usize> = (0..bytes.len() / block).filter(is_filled).collect();
        let groups = if block == 1024 { 2048 } else { block };
        let word = |at: usize| u32::from_le_bytes(bytes[at..][..4].try_into().unwrap()) as usize;
        // All blocks are of one group, whose bitmap begins with the block of the superblock.
        let (bitmap, first) = (word(groups) * block, usize::from(block == 1024));
        let is_free = |at: &usize| bytes[bitmap + (at - first) / 8] >> ((at - first) % 8) & 1 == 0;
        let free: Vec<usize> = (first..bytes.len() / block).filter(is_free).collect();
        assert!(!free.is_empty() && !filled.is_empty(), "there is room, and the file");
        Base { block, used, free, filled, inodes: word(groups + 8) * block, bytes }
    }

    /// Changes what damages nothing: free blocks get junk, and a byte of [`FILLED`] becomes
    /// another one. Returns that byte's place in its block, and the byte.
    pub fn litter(&self, image: &mut [u8], input: &mut Bytes<'_>) -> (usize, u8) {
        let junk = input.byte() | 0x80;
        for block in &self.free {
            image[block * self.block..][..self.block].fill(junk);
        }
        let (at, value) = (input.below(self.block), FILLED.1 ^ (input.byte() | 1));
        image[self.filled[input.below(self.filled.len())] * self.block + at] = value;
        (at, value)
    }

    /// Damages one place of an image: a number becomes another one, a block becomes a copy of
    /// another one or all ones.
    pub fn damage(&self, image: &mut [u8], input: &mut Bytes<'_>) {
        let block = self.used[input.below(self.used.len())] * self.block;
        let groups = if self.block == 1024 { 2048 } else { self.block };
        let at = match input.below(8) {
            0 => 1024 + 4 * input.below(52),
            1 => groups + 2 * input.below(48),
            // A field of one of the first inodes.
            2..5 => self.inodes + 256 * input.below(40) + 4 * input.below(32),
            5 => block + 4 * input.below(16),
            6 => block + input.below(self.block),
            _ => return self.damage_block(image, block, input),
        };
        let bytes = input.number(32) as u32;
        let (width, bytes) = ([4, 2, 1][input.below(3)], bytes.to_le_bytes());
        let end = image.len().min(at + width);
        image[at..end].copy_from_slice(&bytes[..end - at]);
    }

    fn damage_block(&self, image: &mut [u8], at: usize, input: &mut Bytes<'_>) {
        let other = self.used[input.below(self.used.len())] * self.block;
        match input.below(3) {
            0 => image[at..][..self.block].fill(0xff),
            1 => image.copy_within(other..other + self.block, at),
            _ => {
                // Pointers to itself and to its neighbours, but not in the superblock.
                let number = (at.max(4096) / self.block) as u32;
                for word in image[at.max(4096)..][..self.block].chunks_exact_mut(4) {
                    word.copy_from_slice(&(number + u32::from(input.byte() % 3)).to_le_bytes());
                }
            }
        }
    }
}
