//! The hint at a terminal when a command failed while a file system is full: which one, and what to
//! do. Most programs only print "no space left on device".

/// Free space in bytes below which a file system counts as full.
const LITTLE: u64 = 64 << 10;

/// Returns a hint for the full file systems among lines of `WHAT WHERE KIND OPTIONS BYTES FREE`;
/// empty if there is none.
pub fn remark(mounts: &str) -> String {
    let full = |line: &str| -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, place, "ext2" | "ramfs", "rw", bytes, free] = words[..] else { return None };
        let (bytes, free) = (bytes.parse::<u64>().ok()?, free.parse::<u64>().ok()?);
        // Small file systems in memory belong to the system.
        let is_full = free < LITTLE && bytes > 16 * LITTLE;
        let (used, all) = (bytes.saturating_sub(free) >> 20, bytes >> 20);
        is_full.then(|| {
            format!(
                "sh: {what} at {place} is full ({used} of {all} MiB used): remove files there; \
                 `du` and `df` show what is used\n"
            )
        })
    };
    mounts.lines().filter_map(full).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_file_system_is_named() {
        let mounts = "disk / ext2 rw 1073741824 4096\nproc /proc ramfs rw 65536 0\n\
                      main /proc/main procfs rw 0 0\nother /mnt ext2 ro 1073741824 0\n";
        let said = "sh: disk at / is full (1023 of 1024 MiB used): remove files there; \
                    `du` and `df` show what is used\n";
        assert_eq!(remark(mounts), said);
        assert_eq!(remark("disk / ext2 rw 1073741824 65536\n"), "");
        assert_eq!(remark(""), "");
    }
}
